"""Servers that refuse: through the command line each gives a stable code, a way out, and nothing that is half done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from holding import PACKAGE
from mind import ALWAYS, NEVER, answer, look, planned
from scripted_model_server import Asked, Reply, raw, refuses

pytestmark = [pytest.mark.ray, pytest.mark.slow]
BUDGET = 20_000
PAGE = b"<!doctype html><html><title>Welcome</title><body><h1>It works!</h1></body></html>"


@dataclass(frozen=True)
class Bad:
    """What a server answers, the code that a person gets, and a part of what is said to them beside it."""

    reply: Reply
    code: str
    says: str
    hint: str


BAD = {
    "a wrong key": Bad(
        refuses(401, "Incorrect API key provided.", code="invalid_api_key"),
        "model.refused_key",
        "refuses the key",
        "The key comes from",
    ),
    "a model that is not there": Bad(
        refuses(404, "The model 'planner' does not exist.", code="model_not_found"),
        "model.unknown_model",
        "no model 'planner'",
        "names openai:planner",
    ),
    "a page": Bad(
        raw(PAGE, content_type="text/html"),
        "model.not_a_model_server",
        "is no model server",
        "base_url ends where /chat/completions begins",
    ),
    "a page that is missing": Bad(
        raw(PAGE, status=404, content_type="text/html"),
        "model.not_a_model_server",
        "is no model server",
        "base_url ends where /chat/completions begins",
    ),
    "a context that is too short": Bad(
        refuses(
            400,
            "This model's maximum context length is 4097 tokens. However, your messages resulted in 5003 tokens.",
            code="context_length_exceeded",
        ),
        "model.context_overflow",
        "too long for the model's context",
        "maximum context length is 4097",
    ),
}
each = pytest.mark.parametrize("name", BAD)


class TestRuns:
    @each
    @pytest.mark.parametrize(("kind", "planning"), [("plan", ALWAYS), ("turn", NEVER)])
    def test_a_run_ends_failed_with_the_code_and_nothing_was_done(
        self, ask, mind, home, held, name, kind, planning
    ):
        bad = BAD[name]
        outcome = ask(
            f"Tell me of hills, {name}.", *planning, "--budget", f"model_tokens={BUDGET}", **{kind: bad.reply}
        )
        result = outcome.result
        assert (outcome.code, result["phase"], result["reason"]) == (3, "FAILED", bad.code), outcome.err
        assert result["next_owner"] == "person" and result["verdict"] == "none"
        assert mind.kinds() == [kind], "asking again would mend nothing"
        called = outcome.facts("model.called")
        assert [one["code"] for one in called] == [bad.code]
        kinds = set(outcome.kinds())
        assert not kinds & {"plan.drafted", "plan.extended", "gate.asked", "step.started", "direct.answered"}
        assert held.sink == [] and result["report"] is None and result["trusted_artifacts"] == []
        assert 0 <= result["budget"]["model_tokens"]["spent"] <= BUDGET
        assert home.replayed(result["run_id"]) == result

    @each
    def test_a_person_reads_what_is_wrong(self, home, held, mind, name):
        mind.says, mind.asked = {"plan": BAD[name].reply}, []
        said = home.duly("run", str(PACKAGE), f"Tell me, {name}.", *ALWAYS)
        text = " ".join(said.out.split())
        assert said.code == 3 and BAD[name].code in text and BAD[name].says in text
        assert "Traceback" not in said.out + said.err and max(map(len, _own(said.out, home))) <= 80

    @each
    def test_a_draft_alone_is_refused_with_a_way_out(self, home, held, mind, name):
        mind.says, mind.asked = {"plan": BAD[name].reply}, []
        said = home.duly("plan", str(PACKAGE), f"Plan it, {name}.")
        text = " ".join(said.err.replace("|", " ").split())
        assert (said.code, said.out) == (8, "") and mind.kinds() == ["plan"]
        assert f"[{BAD[name].code}]" in text and BAD[name].says in text and BAD[name].hint in text

    def test_the_next_call_is_as_good_as_ever(self, ask, mind):
        for name, bad in BAD.items():
            assert ask(f"Fail once more, {name}.", *ALWAYS, plan=bad.reply).code == 3
        assert ask("Look again.", *ALWAYS, plan=planned(look("s1", "far"))).code == 0
        assert ask("Say it again.", *NEVER, turn=answer("Again.")).result["answer"] == "Again."

    @each
    def test_a_critic_that_is_refused_leaves_the_result_unverified(self, ask, mind, name):
        plan = planned(look("s1", "far"))
        request = f"Review it, {name}."
        outcome = ask(request, *ALWAYS, "--tier", "supervised", plan=plan, review=BAD[name].reply)
        assert (outcome.code, outcome.result["phase"]) == (4, "PARTIAL"), outcome.err
        assert outcome.result["verdict"] == "inconclusive" and mind.kinds() == ["plan", "review"]
        assert [one["code"] for one in outcome.facts("model.called")] == ["", BAD[name].code]


def _own(text: str, home: Any) -> list[str]:
    """The lines of an output, without the one that names a path, however long that is."""
    return [line for line in text.splitlines() if str(home.root) not in line]


class Fussy:
    """A server that takes only some ways of asking for JSON; ``asked`` lists the ways in which it was asked."""

    def __init__(self, takes: str, value: Any) -> None:
        self._takes = takes
        self._value = value
        self.asked: list[str] = []

    def __call__(self, asked: Asked) -> Any:
        way = asked.body.get("response_format", {}).get("type", "text")
        self.asked.append(way)
        if way == self._takes:
            return self._value
        if way == "text":
            return refuses(400, "I take nothing at all.")
        return refuses(400, f"Invalid parameter: 'response_format' of type '{way}' is not supported.")


class TestSchemas:
    WAYS = ("json_schema", "json_object", "text")

    def test_a_server_that_refuses_a_schema_is_asked_in_the_next_way(self, ask, mind, held):
        """In one test, since what works is remembered."""
        plan = planned(look("s1", "far"))
        for number, (way, mode) in enumerate((("json_object", "json"), ("text", "text")), 1):
            server = Fussy(way, plan)
            outcome = ask(f"Fall back to {way}.", *ALWAYS, plan=server)
            assert outcome.code == 0, outcome.err
            assert tuple(server.asked) == self.WAYS[number - 1 : number + 1]
            assert [one["mode"] for one in outcome.facts("model.called")] == [mode]
            again = Fussy(way, plan)
            assert ask(f"And once more in {way}.", *ALWAYS, plan=again).code == 0
            assert again.asked == [way], "what works is remembered"
        nothing = Fussy("nothing", plan)
        outcome = ask("Fall as far as that.", *ALWAYS, plan=nothing)
        assert (outcome.code, outcome.result["reason"]) == (3, "model.schema_refused"), outcome.err
        assert nothing.asked == ["text"] and not outcome.facts("step.started")
