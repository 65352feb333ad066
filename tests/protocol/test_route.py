"""Routing on its borders: every weight alone and in pairs, cues inside words, accents, plurals, order of judgement."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.request import Binding, InputPart, Question, Request, new_request
from duly.protocol.plan.route import CUES, THRESHOLD, WEIGHTS, choose, has_cue, weigh
from duly.protocol.wire.errors import RequestError
from duly.protocol.wire.limits import REQUEST_PARTS_MAX, REQUEST_TEXT_BYTES_MAX

QUIET = AgentSpec(name="a", version="1", mission="Answers.", tools=["t.a"])
PLAIN = Request(text="Why?")
MATCH = Binding(playbook="p")
QUESTION = Question(parameter="month", text="Which?")


def counted(request: Request = PLAIN, **agent: Any) -> set[str]:
    return {weight.name for weight in weigh(request, QUIET.model_copy(update=agent)) if weight.counted}


def parts(count: int) -> list[InputPart]:
    return [InputPart(name=f"p{n}", value=n) for n in range(count)]


def test_the_weights_are_these():
    assert dict(WEIGHTS) == {
        "step_budget": 30,
        "input_parts": 20,
        "tools": 20,
        "text_length": 10,
        "mission_cue": 10,
    }
    assert THRESHOLD == 40


@pytest.mark.parametrize(("steps", "counts"), [(0, False), (15, False), (16, True), (1_000, True)])
def test_step_budget(steps: int, counts: bool):
    assert ("step_budget" in counted(budget={"steps": steps})) == counts


def test_a_silent_agent_adds_nothing():
    assert counted() == set() and "step_budget" not in counted(budget={})


@pytest.mark.parametrize(("more", "counts"), [(0, False), (2, False), (3, True), (9, True)])
def test_input_parts_the_text_is_one(more: int, counts: bool):
    assert ("input_parts" in counted(Request(text="Why?", parts=parts(more)))) == counts


@pytest.mark.parametrize(("count", "counts"), [(0, False), (4, False), (5, True)])
def test_tools(count: int, counts: bool):
    assert ("tools" in counted(tools=[f"t.{n}" for n in range(count)])) == counts


@pytest.mark.parametrize("letter", ["x", "é", "日", "\U0001f600"])
@pytest.mark.parametrize(("length", "counts"), [(500, False), (501, True)])
def test_text_length_in_code_points(letter: str, length: int, counts: bool):
    assert ("text_length" in counted(Request(text=letter * length))) == counts


@pytest.mark.parametrize(
    "text",
    [
        *CUES,
        *(cue + "s" for cue in CUES),
        *(cue.upper() for cue in CUES),
        "Étapes",
        "étape",
        "E\u0301tapes",
        "step1",
        "1step",
        "my_plan",
        "plan-b",
        "(pipeline)",
        "two-step",
        "STEPS.",
        "pla\u0301n",
        "ｐｌａｎ",
        "the plan",
        "pipelines,workflows",
    ],
)
def test_cues(text: str):
    assert has_cue(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "explanation",
        "planet",
        "planned",
        "planning",
        "stepping",
        "footstep",
        "consequence",
        "stepss",
        "planss",
        "sequences2go".replace("sequences", "sequencing"),
        "p l a n",
        "pl1an",
        "wörkflow"[:3],
        "etap",
        "s",
        "pipe line",
        "plаn",
    ],  # the last one has a Cyrillic a
)
def test_no_cues(text: str):
    assert not has_cue(text)


def test_mission_cue_counts_in_the_mission_only_and_decides_nothing_alone():
    assert counted(mission="Plans the work.") == {"mission_cue"}
    assert counted(Request(text="the plan")) == set()


LOUD: dict[str, dict[str, Any]] = {
    "step_budget": {"budget": {"steps": 16}},
    "tools": {"tools": [f"t.{n}" for n in range(5)]},
    "mission_cue": {"mission": "Every step."},
}


@pytest.mark.parametrize(
    "names", [c for n in range(6) for c in itertools.combinations(dict(WEIGHTS), n)], ids=str
)
def test_every_combination_of_weights(names: tuple[str, ...]):
    """All 32, every pair among them: the score is the sum, and 40 is enough."""
    text = "x" * 501 if "text_length" in names else "Why?"
    request = Request(text=text, parts=parts(3 if "input_parts" in names else 0))
    agent = QUIET.model_copy(
        update={key: value for name in names for key, value in LOUD.get(name, {}).items()}
    )
    route = choose(request, MATCH, agent, has_model=True)
    score = sum(dict(WEIGHTS)[name] for name in names)
    assert route.score == score
    assert {weight.name for weight in route.weights if weight.counted} == set(names)
    assert [weight.name for weight in route.weights] == [name for name, _ in WEIGHTS]
    assert route.route == ("orchestrated" if score >= 40 else "direct")


def route(binding: Binding, *, text: str = "Why?", has_model: bool = True, **agent: Any) -> str:
    return choose(Request(text=text), binding, QUIET.model_copy(update=agent), has_model=has_model).route


VALUE = Binding(metric="m", single_value=True)
BIG = {"budget": {"steps": 16}, "tools": [f"t.{n}" for n in range(5)]}


class TestOrderOfJudgement:
    def test_a_question_comes_first(self):
        asking = Binding(playbook="p", question=QUESTION)
        for planning in ("never", "always", "auto"):
            for has_model in (True, False):
                assert route(asking, planning=planning, text="plan", has_model=has_model) == "clarify"

    def test_also_where_nothing_matches_yet(self):
        """An unknown metric is such a case: the question says what there is."""
        assert route(Binding(question=QUESTION)) == "clarify"

    def test_then_the_setting(self):
        assert route(MATCH, planning="never", text="plan", **BIG) == "direct"
        assert route(VALUE, planning="always") == "orchestrated"

    def test_then_a_cue_in_the_request(self):
        assert route(VALUE, text="Plan how many there are.") == "orchestrated"

    def test_then_one_value(self):
        assert route(VALUE, **BIG) == "constrained"

    @pytest.mark.parametrize("update", [{"sensitive": True}, {"estimate_cost": 1_000_000}])
    def test_unless_it_is_sensitive_or_expensive(self, update: dict[str, Any]):
        assert route(VALUE.model_copy(update=update)) == "direct"
        assert route(VALUE.model_copy(update=update), **BIG) == "orchestrated"
        assert route(VALUE.model_copy(update={"estimate_cost": 999_999})) == "constrained"

    def test_then_the_score(self):
        assert route(MATCH, **BIG) == "orchestrated" and route(MATCH) == "direct"


class TestWithoutAModel:
    def test_a_playbook_plans_instead_of_direct(self):
        assert route(MATCH, has_model=False) == "orchestrated"
        assert route(MATCH, has_model=False, planning="never") == "orchestrated"

    def test_one_value_is_read(self):
        assert route(VALUE, has_model=False, planning="always") == "constrained"

    @pytest.mark.parametrize("planning", ["never", "auto", "always"])
    @pytest.mark.parametrize("text", ["Why?", "plan it"])
    def test_nothing_matches(self, planning: str, text: str):
        assert route(Binding(), has_model=False, planning=planning, text=text, **BIG) == "none"


class TestRequests:
    @pytest.mark.parametrize("text", ["", " ", "\n\t\u00a0\u3000"])
    def test_empty(self, text: str):
        with pytest.raises(RequestError) as caught:
            new_request(text)
        assert caught.value.code == "request.empty"

    def test_size_in_bytes(self):
        assert new_request("x" * REQUEST_TEXT_BYTES_MAX)
        for text in ("x" * (REQUEST_TEXT_BYTES_MAX + 1), "é" * (REQUEST_TEXT_BYTES_MAX // 2 + 1)):
            with pytest.raises(RequestError) as caught:
                new_request(text)
            assert caught.value.code == "request.too_large" and caught.value.hint

    def test_parts(self):
        assert new_request("Why?", parts(REQUEST_PARTS_MAX)).part_count == REQUEST_PARTS_MAX + 1
        with pytest.raises(RequestError) as caught:
            new_request("Why?", parts(REQUEST_PARTS_MAX + 1))
        assert caught.value.code == "request.too_many_parts"

    def test_half_a_surrogate_pair(self):
        with pytest.raises(RequestError) as caught:
            new_request("a\ud800b")
        assert caught.value.code == "request.text"

    def test_decomposed_text_is_composed(self):
        assert new_request("E\u0301tape").text == "Étape"

    def test_normalised_for_the_cache(self):
        assert Request(text=" Why\n did  IT\u00a0fall? ").normalised() == "why did it fall?"
        assert Request(text="x" * 10_000).normalised() == "x" * 10_000
