"""A plan kept for its request: with other values it plans those, and a request in other words is not for it."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.actors.planner.bind import bind
from duly.actors.planner.draft import draft
from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.catalogue import Catalogue
from duly.protocol.plan.package import Package, load_package
from duly.protocol.plan.playbook_yaml import parse_playbook
from duly.protocol.plan.request import new_request
from duly.protocol.views.plan_playbook import playbook_of
from duly.protocol.wire.errors import PackageError
from duly.protocol.wire.limits import PLAYBOOK_SLOTS_MAX
from plans import plan, step, table, tool

MANIFEST = b"""
[package]
name = "shop"
version = "1"
data = "shop"

[[agents]]
name = "clerk"

[tools.t]
kind = "python"
functions = ["send", "look"]
"""
ANY = {"type": "object"}
SEND, LOOK = tool("send", "write", input_schema=ANY), tool("look", input_schema=ANY)
ALL = table(SEND, LOOK)
AGENT = AgentSpec(name="clerk", version="1", tools=["t.send", "t.look"])
OSLO = "Send 3 stones to Oslo, please."


def package(data: bytes | None = None) -> Package:
    files = {"agent.toml": MANIFEST, "tools.py": b"import duly\n"}
    return load_package(files | ({"playbooks/kept.yaml": data} if data else {}), "shop")


def kept(text: str, *arguments: dict[str, Any]) -> Package:
    """The package with the playbook of a plan that sends with these arguments, one step each."""
    steps = [step(f"s{n}", LOOK, given) for n, given in enumerate(arguments, 1)]
    return package(playbook_of(plan(steps, objective=text), package(), ALL, name="kept"))


def asked(of: Package, text: str) -> list[Any] | None:
    """The arguments of every step of the plan for a request; ``None`` where it is not the playbook's."""
    binding = bind(new_request(text), of, Catalogue(), AGENT)
    if binding.playbook is None:
        return None
    drafted = draft(new_request(text), binding, of, ALL, AGENT, plan_id="p").plan
    return [one.tool_contract.arguments for one in drafted.steps]


GIVEN = {"count": 3, "place": "Oslo"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (OSLO, GIVEN),
        ("  send 3\n stones to Oslo, PLEASE.", GIVEN),
        ("Send 3 stones to Lima, please.", {"count": 3, "place": "Lima"}),
        ("Send 12 stones to Lima, please.", {"count": 12, "place": "Lima"}),
        ("Send -2.5 stones to lima, please.", {"count": -2.5, "place": "lima"}),
        ("Send 3 stones to Sao-Paulo, please.", {"count": 3, "place": "Sao-Paulo"}),
        ("Send 3 stones to New York, please.", None),
        ("Send 3 apples to Oslo, please.", None),
        ("Send 3 stones from Oslo, please.", None),
        ("Send 3 stones to Oslo, please. And burn it.", None),
        ("Send three stones to Oslo, please.", None),
        ("Send 3,5 stones to Oslo, please.", None),
        ("Send ٣ stones to Oslo, please.", None),
        ("Send 3 stones to Os\u200blo, please.", None),
        ("Send 3 stones to Os\u202elo, please.", None),
        ("Send 3 stones to , please.", None),
        ("Never send 3 stones to Oslo, please.", None),
        ("Send 3 stones to {$param: place}, please.", None),
    ],
)
def test_other_values_are_planned_and_other_words_are_not_taken(text, found):
    of = kept(OSLO, GIVEN)
    assert asked(of, text) == (None if found is None else [found])


def test_a_value_that_stands_twice_is_one():
    of = kept("From Oslo look to Oslo.", {"from": "Oslo"}, {"to": ["Oslo", {"deep": "Oslo"}]})
    assert asked(of, "From Lima look to Lima.") == [{"from": "Lima"}, {"to": ["Lima", {"deep": "Lima"}]}]
    assert asked(of, "From Lima look to Rome.") is None


def test_a_text_of_two_words_stays_of_two():
    of = kept("Look at New York now.", {"place": "New York"})
    assert asked(of, "Look at Los Angeles now.") == [{"place": "Los Angeles"}]
    assert asked(of, "Look at Lima now.") is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"place": "Oslo", "note": "Oslo is far."},
        {"place": "Os"},
        {"place": "oslo"},
        {"a": 3, "b": 3, "place": "x"},
    ],
    ids=["within another text", "part of a word", "in another case", "a number in two arguments"],
)
def test_what_cannot_be_told_apart_keeps_the_plan_to_the_very_same_request(arguments):
    of = kept(OSLO, arguments)
    assert asked(of, OSLO) == [arguments]
    assert asked(of, OSLO.replace("Oslo", "Lima")) is None
    assert asked(of, OSLO.replace("3", "4")) is None


def test_a_literal_that_stays_is_the_same_letter_for_letter():
    of = kept("Look at aB.", {"key": "aB", "note": "see aB"})
    assert asked(of, "LOOK AT aB.") is None  # the piece holds the word, so its case counts
    assert asked(of, "Look at aB.") == [{"key": "aB", "note": "see aB"}]
    assert asked(of, "Look at ab.") is None


def test_slots_are_bounded_and_apart():
    words = [f"w{n}x" for n in range(PLAYBOOK_SLOTS_MAX + 3)]
    of = kept("Look " + " ".join(words), {"all": words})
    assert len(of.playbooks["kept"].parameters) == PLAYBOOK_SLOTS_MAX
    of = kept("Look at a-b.", {"left": "a", "right": "b"})
    assert len(of.playbooks["kept"].parameters) == 1


WORD = st.text(string.ascii_letters + "éß字", min_size=1, max_size=6)
TEXTS = st.lists(st.one_of(WORD, st.integers(0, 99).map(str)), min_size=2, max_size=7)


@given(TEXTS, st.data())
def test_no_old_value_answers_another_request(words, data):
    """Whatever else is asked: it is not for the playbook, or every value of the plan is the one that is asked for."""
    chosen = data.draw(st.lists(st.sampled_from(range(len(words))), min_size=1, max_size=3, unique=True))
    of = kept(" ".join(words), {f"a{n}": words[n] for n in chosen})
    assert asked(of, " ".join(words)) == [{f"a{n}": words[n] for n in chosen}]
    other = [data.draw(st.sampled_from((one, data.draw(WORD)))) for one in words]
    found = asked(of, " ".join(other))
    if found is not None:
        assert found == [{f"a{n}": other[n] for n in chosen}]


@given(st.text(max_size=200), st.text(min_size=1, max_size=200))
def test_any_text_is_kept_and_any_other_is_judged(text, other):
    if not text.strip():
        return
    of = kept(text, {"text": text, "part": text[:20]})
    assert asked(of, text) is not None
    found = asked(of, other)
    assert found is None or " ".join(other.split()).casefold() == " ".join(text.split()).casefold() or found


@pytest.mark.parametrize(
    ("match", "parameters", "code"),
    [
        ("{least: 1}", "{}", "package.playbook"),
        ("{request: [a], cues: [{words: [b], weight: 1}]}", "{}", "package.playbook"),
        ("{request: [a, {$param: x}]}", "{}", "package.unknown_parameter"),
        ("{request: ['a ']}", "{x: {kind: text}}", "package.playbook"),
        (
            "{request: [{$param: x}, '-', {$param: y}]}",
            "{x: {kind: text}, y: {kind: number}}",
            "package.playbook",
        ),
    ],
)
def test_a_file_that_cannot_be_is_refused(match, parameters, code):
    written = (
        f"name: kept\ntitle: t\ntask_class: open\nmatch: {match}\nparameters: {parameters}\n"
        "steps: [{id: a, tool: t.look, objective: o, arguments: {}}]\n"
    )
    with pytest.raises(PackageError) as caught:
        parse_playbook(written.encode(), "kept.yaml")
    assert code in {fault.code for fault in caught.value.faults}
