"""NesTools' gold plans and the faults that models make, through a real model host over HTTP: what a model is told of them.

The whole suite goes without a host (``test_nestools_model``); here a few rows of each kind do.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.actors.model_session import Session
from duly.hosts.models.client import ModelHostClient
from duly.protocol.plan import schema as schemas
from duly.protocol.plan.model_plan import plan_form
from duly.protocol.wire.errors import PlanError
from duly.protocol.wire.limits import DRAFTS_PER_PLAN_MAX
from model_host_world import ModelHostWorld
from model_words import plan_words
from nestools_words import BREAKS, STEPS_MAX, Break, Words, cases, drafting, good, package, same_calls
from scripted_model import blocks
from scripted_model_server import Asked, ScriptedModelServer
from suite_rows import Case

ROWS = 12  # of each kind of fault
OF = package()
# Faults that the schema of the call already forbids: a host that judged only that would tell the model of nothing else.
OUTSIDE = frozenset(("renamed_tool", "extra_argument", "number_as_text", "missing_argument"))


@pytest.fixture(scope="module")
def host() -> Iterator[ModelHostWorld]:
    with ModelHostWorld() as world:
        yield world


def drafted(host: ModelHostWorld, case: Case, *script: Words) -> tuple[Any, list[list[dict[str, Any]]]]:
    """The plan or the error that these answers lead to, and the earlier attempts that each request told of."""
    with ScriptedModelServer(list(script)) as server:
        host.renew(server.base_url)

        async def told(client: ModelHostClient) -> Any:
            asked = Session(
                client, package=host.package, run_id=host.run_id, mandate=host.mandate(), tokens_max=90_000
            )
            try:
                return await drafting(asked, case, OF)
            except PlanError as error:
                return error

        made = host.talk(told)
        assert not server.exhausted
        return made, [_earlier(one) for one in server.requests]


def _earlier(asked: Asked) -> list[dict[str, Any]]:
    (text,) = (one["content"] for one in asked.body["messages"] if one["role"] == "user")
    return blocks(text).get("earlier_attempts", [])


def broken(suites: Path, break_it: Break) -> Iterator[tuple[Case, Words, Words, str]]:
    """Cases with their good words, broken ones, and the code of the fault."""
    found = 0
    for index, case in enumerate(cases(suites)):
        words = plan_words(case.plan, case.descriptors)
        wrong = copy.deepcopy(words)
        if index % 7 or not good(case) or (code := break_it(wrong, random.Random(index), case)) is None:
            continue
        yield case, words, wrong, code
        found += 1
        if found == ROWS:
            return


@pytest.mark.parametrize("break_it", BREAKS, ids=lambda one: one.__name__)
def test_a_fault_is_told_with_the_plan_that_has_it(host: ModelHostWorld, suites: Path, break_it: Break):
    tried = 0
    for case, words, wrong, code in broken(suites, break_it):
        form = plan_form(case.descriptors, steps_max=STEPS_MAX).json_schema
        outside = {fault.path.removeprefix("/") for fault in schemas.faults_of(wrong, form, "", "x")}
        assert bool(outside) == (break_it.__name__ in OUTSIDE), case.plan.plan_id
        plan, (first, second) = drafted(host, case, wrong, words)
        assert same_calls(plan, case), case.plan.plan_id
        assert first == []
        (attempt,) = second
        assert attempt["plan"] == wrong
        assert code in {fault["code"] for fault in attempt["faults"]}, case.plan.plan_id
        assert outside <= {fault["path"] for fault in attempt["faults"]}
        assert len({tuple(fault.values()) for fault in attempt["faults"]}) == len(attempt["faults"])
        tried += 1
    assert tried >= 8


def test_faults_of_several_kinds_are_told_at_once_and_at_last_refused(host: ModelHostWorld, suites: Path):
    """One inside of the schema, three outside of it, in one plan: a host that stopped at the schema would hide one."""
    tried = 0
    for index, case in enumerate(cases(suites)):
        wrong, chance = plan_words(case.plan, case.descriptors), random.Random(index)
        if index % 40 or not good(case):
            continue
        codes = {code for one in BREAKS[2:] if (code := one(wrong, chance, case)) is not None}
        if not {"plan.cycle", "plan.bad_arguments"} <= codes:
            continue
        error, prompts = drafted(host, case, *[wrong] * DRAFTS_PER_PLAN_MAX)
        assert error.code == "plan.refused"
        assert codes <= {fault.code for fault in error.faults}
        for attempt in prompts[-1]:
            assert attempt["plan"] == wrong
            assert codes | {"model.bad_answer"} <= {fault["code"] for fault in attempt["faults"]}
        assert [len(one) for one in prompts] == list(range(DRAFTS_PER_PLAN_MAX))
        tried += 1
    assert tried >= 4
