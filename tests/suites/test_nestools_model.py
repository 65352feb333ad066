"""NesTools' gold plans as a model would write them, with the faults that models make: found, told, repaired or refused."""

from __future__ import annotations

import asyncio
import copy
import random
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from duly.protocol.plan import validate
from duly.protocol.plan.model_plan import plan_form
from duly.protocol.plan.package import Package
from duly.protocol.wire.errors import Fault, PlanError
from duly.protocol.wire.limits import DRAFTS_PER_PLAN_MAX
from model_words import plan_words
from nestools_words import BREAKS, STEPS_MAX, Break, Words, cases, drafting, good, package, same_calls
from scripted_model import ScriptedModel, faults_told, scripted
from suite_rows import Case

ROWS = 500


def drafted(case: Case, *script: Words, of: Package) -> tuple[Any, ScriptedModel]:
    asked, model = scripted(*script)
    return drafting(asked, case, of), model


def test_gold_plans_pass_the_form_and_come_back_as_they_are(suites: Path):
    of = package()
    whole = 0
    for case in cases(suites):
        if not good(case):
            continue
        words = plan_words(case.plan, case.descriptors)
        form = plan_form(case.descriptors, steps_max=STEPS_MAX)
        assert jsonschema_rs.validator_for(form.json_schema).is_valid(words), case.plan.plan_id
        made, model = drafted(case, words, of=of)
        plan = asyncio.run(made)
        assert same_calls(plan, case), case.plan.plan_id
        assert validate.faults_of(plan, case.descriptors) == []
        assert len(model.calls) == 1
        whole += 1
    assert whole >= 0.9 * ROWS


@pytest.mark.parametrize("break_it", BREAKS, ids=lambda one: one.__name__)
def test_a_fault_is_found_told_and_repaired(suites: Path, break_it: Break):
    of = package()
    tried = 0
    for index, case in enumerate(cases(suites)):
        if index % 4 or not good(case):
            continue
        words = plan_words(case.plan, case.descriptors)
        broken = copy.deepcopy(words)
        code = break_it(broken, random.Random(index), case)
        if code is None:
            continue
        made, model = drafted(case, broken, words, of=of)
        plan = asyncio.run(made)
        assert same_calls(plan, case), case.plan.plan_id
        assert faults_told(model.prompts()[0]) == []
        assert code in {fault["code"] for fault in faults_told(model.prompts()[1])}, case.plan.plan_id
        tried += 1
    assert tried > 40


def test_several_faults_at_once_are_all_told_and_at_last_refused(suites: Path):
    """The three attempts of one draft, each broken in another way: every prompt holds all faults before it."""
    of = package()
    seen: Counter[str] = Counter()
    for index, case in enumerate(cases(suites)):
        if index % 5 or not good(case):
            continue
        chance = random.Random(index)
        attempts = []
        for _ in range(DRAFTS_PER_PLAN_MAX):
            broken = plan_words(case.plan, case.descriptors)
            chosen = sorted(chance.sample(BREAKS[2:], 3), key=BREAKS.index)  # or one would undo another
            codes = {code for one in chosen if (code := one(broken, chance, case)) is not None}
            attempts.append((broken, codes))
        made, model = drafted(case, *(broken for broken, _ in attempts), of=of)
        with pytest.raises(PlanError) as caught:
            asyncio.run(made)
        assert caught.value.code == "plan.refused"
        last = {fault.code for fault in caught.value.faults}
        assert attempts[-1][1] <= last
        for number, prompt in enumerate(model.prompts()):
            told = {fault["code"] for fault in faults_told(prompt)}
            wanted = {code for _, codes in attempts[:number] for code in codes}
            assert wanted <= told, (case.plan.plan_id, wanted - told)
            assert (told == set()) == (number == 0)
        assert all(isinstance(fault, Fault) for fault in caught.value.faults)
        seen.update(last)
    assert {"plan.bad_arguments", "plan.cycle", "plan.reference_missing"} <= seen.keys()
