"""Whatever value of an output is changed, a check fails; whatever tally is missing, nothing passes for it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from duly.actors.verifier.recompute import Claim, compare, reads_for
from duly.protocol.judgement.verdict import judge
from duly.protocol.wire.errors import ToolError
from metric_steps import Steps, failed
from small_world import APRIL, FIXED_PARTS, MARCH, fixed_rows, world

ADVICE = [{"when": "always", "text": "Look at {top} of {label}."}]
Place = tuple[str | int, ...]


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Steps:
    found = Steps(world(tmp_path_factory.mktemp("world"), fixed_rows(), FIXED_PARTS))
    common = {"metric": "rate", "baseline": MARCH, "current": APRIL}
    found.run(
        "value", "metrics.value", metric="rate", period=MARCH, filters=[{"dimension": "shop", "value": "A"}]
    )
    found.run("change", "metrics.change", **common)
    found.run("complete", "metrics.completeness", **common)
    found.run("by_shop", "metrics.decompose", **common, dimension="shop", sign_certain=True)
    found.run("by_maker", "metrics.decompose", **common, dimension="maker")
    found.run("in_shop", "metrics.interact", **common, dimension="shop", others=["slot", "maker"])
    found.run(
        "two", "metrics.segments", metric="rate", dimension="shop", segments=["A", "B"], strata=["slot"]
    )
    found.run("said", "report.value", evidence=["value"])
    found.run("compared", "report.comparison", evidence=["two"])
    evidence = ["complete", "by_shop", "by_maker", "in_shop"]
    found.run("report", "report.diagnosis", evidence=evidence, recommendations=ADVICE)
    return found


def test_untouched_outputs_pass(steps: Steps) -> None:
    checks = steps.verify()
    assert judge(checks) == ("pass", "")
    assert steps.outputs["by_shop"]["status"] == "attributed"


@pytest.mark.parametrize(
    "step",
    ["value", "change", "complete", "by_shop", "by_maker", "in_shop", "two", "said", "compared", "report"],
)
def test_every_changed_value_fails(steps: Steps, step: str) -> None:
    tallies = steps.tallies()
    places = list(_leaves(steps.outputs[step]))
    assert len(places) > 10
    for place in places:
        outputs = {**steps.outputs, step: _changed(steps.outputs[step], place)}
        checks = compare(steps.claims, outputs, tallies, steps.context.semantics)
        wrong = [check for check in failed(checks) if check.step_id == step]
        assert wrong, f"a changed {'/'.join(map(str, place))} of {step} was not noticed"


def test_a_value_that_was_added_fails(steps: Steps) -> None:
    outputs = copy.deepcopy(steps.outputs)
    outputs["by_shop"]["cause"] = "the weather"
    checks = compare(steps.claims, outputs, steps.tallies(), steps.context.semantics)
    assert [check.step_id for check in failed(checks)] == ["by_shop"]


def test_a_withheld_attribution_that_was_made_fails(steps: Steps) -> None:
    claims = [
        Claim(claim.step_id, claim.tool, {**claim.arguments, "sign_certain": False})
        if claim.step_id == "by_shop"
        else claim
        for claim in steps.claims
    ]
    checks = compare(claims, steps.outputs, steps.tallies(), steps.context.semantics)
    assert [check.step_id for check in failed(checks)] == ["by_shop"]


def test_another_definition_in_the_plan_changes_nothing(steps: Steps) -> None:
    """The definition is the package's: whatever an argument claims beside it is not read."""
    lying = [Claim(one.step_id, one.tool, {**one.arguments, "numerator": []}) for one in steps.claims]
    assert [read.arguments for read in reads_for(lying, steps.context.semantics)] == [
        read.arguments for read in reads_for(steps.claims, steps.context.semantics)
    ]


def test_without_a_tally_nothing_passes(steps: Steps) -> None:
    checks = compare(steps.claims, steps.outputs, {}, steps.context.semantics)
    numbers = [check for check in checks if not check.check_id.endswith((":rules", ":again"))]
    assert {check.outcome for check in numbers} == {"not_run"}
    assert judge(checks)[0] == "inconclusive"


def test_a_failed_tally_is_told(steps: Steps) -> None:
    error = ToolError("tool.source_missing", "The data file is not there.")
    tallies = {read.read_id: error for read in reads_for(steps.claims, steps.context.semantics)}
    checks = compare(steps.claims, steps.outputs, tallies, steps.context.semantics)
    assert any("tool.source_missing" in check.reason for check in checks if check.outcome == "not_run")


def test_an_unknown_metric_fails(steps: Steps) -> None:
    claims = [Claim("change", "metrics.change", {"metric": "nothing", "baseline": MARCH, "current": APRIL})]
    assert reads_for(claims, steps.context.semantics) == []
    checks = compare(claims, steps.outputs, {}, steps.context.semantics)
    assert [check.outcome for check in checks] == ["fail"]


def test_reads_are_few(steps: Steps) -> None:
    reads = reads_for(steps.claims, steps.context.semantics)
    assert len(reads) == len({read.read_id for read in reads})
    assert len(reads) <= 9


def _leaves(value: Any, place: Place = ()) -> Iterator[Place]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key != "query" or place and place[0] in ("statements", "choices"):
                yield from _leaves(item, (*place, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, (*place, index))
    else:
        yield place


def _changed(value: Any, place: Place) -> Any:
    """A copy in which one leaf says something else, by little where it is a number."""
    found = copy.deepcopy(value)
    here = found
    for part in place[:-1]:
        here = here[part]
    here[place[-1]] = _other(here[place[-1]])
    return found


def _other(leaf: Any) -> Any:
    if isinstance(leaf, bool):
        return not leaf
    if isinstance(leaf, int):
        return leaf + 1
    if isinstance(leaf, float):
        return leaf + 1e-6
    return leaf + "x" if isinstance(leaf, str) else ["x"] if isinstance(leaf, list) else 1
