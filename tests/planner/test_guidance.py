"""A person's guidance replaces what it names of a binding; what it cannot change is said."""

from __future__ import annotations

from typing import Any

import pytest

import flights
from duly.actors.planner.bind import bind
from duly.actors.planner.draft import draft
from duly.actors.planner.guide import guided
from duly.protocol.plan import validate
from duly.protocol.plan.request import new_request
from duly.protocol.wire.errors import PlanError

FLAGSHIP = "On-time arrivals fell in June compared with May. Find the cause and recommend what to do."


@pytest.mark.parametrize(
    ("guidance", "expected"),
    [
        ("Compare with April instead.", {"baseline": {"year": 2013, "month": 4}}),
        ("Look at July.", {"current": {"year": 2013, "month": 7}}),
        ("December against November", {"current": {"year": 2013, "month": 12}, "baseline": {"year": 2013, "month": 11}}),
        ("Only flights from JFK", {"filters": [{"dimension": "origin", "value": "JFK"}]}),
        ("Only by carrier", {"dimensions": ["carrier"]}),
        ("Leave it without destination and maker", {"dimensions": ["origin", "carrier", "day_part"]}),
        ("Begin with the carrier", {"dimensions": ["carrier", "origin", "day_part", "destination", "maker"]}),
        ("Take the cancelled share", {"metric": "cancelled_share"}),
    ],
)  # fmt: skip
def test_guidance_changes_what_it_names_and_nothing_else(guidance: str, expected: dict[str, Any]) -> None:
    package = flights.package()
    request = new_request(FLAGSHIP)
    before = bind(request, package, flights.catalogue(), package.agent())
    after = guided(request, before, package, flights.catalogue(), package.agent(), [guidance])
    assert after.question is None
    assert after.parameters == {**before.parameters, **expected}
    assert (
        validate.faults_of(
            draft(request, after, package, flights.descriptors(), package.agent(), plan_id="p-1").plan,
            flights.descriptors(),
        )
        == []
    )


@pytest.mark.parametrize(
    "guidance", ["Do better.", "Compare with May.", "Consider the geopolitical situation"]
)
def test_guidance_that_changes_nothing_is_no_plan(guidance: str) -> None:
    package = flights.package()
    request = new_request(FLAGSHIP)
    before = bind(request, package, flights.catalogue(), package.agent())
    with pytest.raises(PlanError) as caught:
        guided(
            request,
            before,
            package,
            flights.catalogue(),
            package.agent(),
            ["Look at July.", "Look at June.", guidance],
        )
    assert caught.value.code == "plan.no_alternative"


def test_guidance_that_does_not_bind_asks() -> None:
    package = flights.package()
    request = new_request(FLAGSHIP)
    before = bind(request, package, flights.catalogue(), package.agent())
    after = guided(
        request, before, package, flights.catalogue(), package.agent(), ["Compare with April 2012."]
    )
    assert after.question is not None
    assert after.question.parameter == "baseline"
