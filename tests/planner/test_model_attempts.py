"""Attempts: everything wrong with a value is told at once, a value that breaks the schema is never taken, a replay agrees."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.actors.model_replay import ReplayAsks
from duly.actors.model_session import Session
from duly.actors.planner.model.attempts import Form, attempted
from duly.protocol.wire.errors import DulyError, Fault, ModelError, PlanError
from scripted_model import Pauses, scripted

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "word": {"type": "string"}},
    "required": ["n", "word"],
    "additionalProperties": False,
}
FORM = Form("reason", "answer", SCHEMA)
GOOD = {"n": 2, "word": "x"}
ODD = Fault("n", "plan.odd", "n is odd.")
Told = list[list[tuple[Any, list[Fault]]]]


def read(value: Any) -> tuple[Any, list[Fault]]:
    """Odd numbers are wrong; what the schema says is not looked at."""
    number = value.get("n") if isinstance(value, dict) else None
    return value, [ODD] if isinstance(number, int) and number % 2 else []


def refused(attempts: Any) -> PlanError:
    return PlanError("plan.refused", "No.", faults=attempts[-1])


def tried(asked: Session, attempts: int = 3) -> tuple[Any, Told]:
    """What the attempts give, and what each was told of those before it."""
    told: Told = []

    def write(earlier: Any) -> str:
        told.append(list(earlier))
        return json.dumps([[value, [fault.to_data() for fault in faults]] for value, faults in earlier])

    try:
        made = asyncio.run(attempted(asked, FORM, attempts=attempts, write=write, read=read, refuse=refused))
    except DulyError as error:
        made = error
    return made, told


def test_faults_of_both_kinds_are_told_with_the_value():
    wrong = {"n": 3, "word": 7, "more": None}
    asked, _ = scripted(wrong, GOOD)
    made, told = tried(asked)
    assert made == GOOD
    (value, faults) = told[1][0]
    assert value == wrong
    assert faults[0] == ODD
    assert [(fault.path, fault.code) for fault in faults[1:]] == [
        ("word", "model.bad_answer"),
        ("", "model.bad_answer"),
    ]


@pytest.mark.parametrize("unfit", [{"n": 2}, {"n": 2.5, "word": "x"}, {**GOOD, "more": 1}, None, 7, []])
def test_a_value_that_breaks_the_schema_is_never_taken(unfit):
    """``read`` finds nothing wrong with any of these."""
    assert read(unfit)[1] == []
    asked, model = scripted(*[unfit] * 3)
    error, told = tried(asked)
    assert error.code == "plan.refused" and error.faults
    assert len(model.calls) == 3
    assert [value for value, _ in told[2]] == [unfit] * 2


def test_a_fault_that_both_find_is_told_once():
    asked, _ = scripted(ModelError("model.bad_answer", "No.", faults=[ODD, ODD]), GOOD)
    _, told = tried(asked)
    assert told[1] == [(None, [ODD, ODD])]

    both = [{"n": "3", "word": 1}, GOOD]
    asked, _ = scripted(*both)
    _, told = tried(asked)
    faults = told[1][0][1]
    assert len(set(faults)) == len(faults) == 2


@pytest.mark.parametrize(
    "script",
    [
        [{"n": 3, "word": 7}, {"n": 2}, GOOD],
        [ModelError("model.truncated", "It was cut off."), {"n": 1, "word": "x"}, GOOD],
        [
            ModelError(
                "model.bad_answer", "It is no JSON.", faults=[Fault("", "model.bad_answer", "no JSON.")]
            ),
            ModelError("model.rate_limited", "Wait.", story=["The server asks for a pause of 30 s."]),
            GOOD,
        ],
        [7, 7, 7],
    ],
)
def test_a_replay_is_told_the_same_and_ends_in_the_same_way(script):
    """What a replay is asked has to be what was asked then, letter for letter, or no answer is found."""
    asked, model = scripted(*copy.deepcopy(script))
    made, told = tried(asked)
    pauses = Pauses()
    again = Session(
        ReplayAsks(asked.uses),
        package="0" * 64,
        run_id="r2",
        mandate=b"",
        tokens_max=100_000,
        sleep=pauses,
    )
    replayed, told_again = tried(again)
    assert told_again == told
    assert str(replayed) == str(made)
    assert [used.use.code for used in again.uses] == [used.use.code for used in asked.uses]
    assert sum(pauses.seconds) < 5, "the pause that a server had asked for is over"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(JSON | st.fixed_dictionaries({"n": JSON, "word": JSON}), min_size=1, max_size=3))
def test_whatever_a_model_says_only_a_value_without_any_fault_is_taken(values):
    asked, model = scripted(*values)
    made, _ = tried(asked, attempts=len(values))
    if isinstance(made, DulyError):
        assert made.code == "plan.refused" and made.faults
    else:
        assert set(made) == {"n", "word"} and type(made["word"]) is str
        assert made["n"] == int(made["n"]) and read(made)[1] == []
