"""The example's requests from words to verdict, in one process: bound, drafted, run by the tools, recomputed.

No grant, host or actor takes part; what they add is tested where they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import flights as example
from duly.actors.planner.bind import bind
from duly.actors.planner.draft import draft
from duly.actors.verifier.recompute import Claim, compare, reads_for
from duly.hosts.tools import metrics, report, tally
from duly.hosts.tools.context import CallContext, Tool
from duly.hosts.tools.metrics_cells import DataContext
from duly.protocol.judgement.checks import Check
from duly.protocol.judgement.verdict import judge
from duly.protocol.plan import refs
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import new_request
from duly.protocol.wire import canon, tagged
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX
from metric_steps import Steps, texts

TOOLS: dict[str, Tool] = {tool.descriptor.full_name: tool for tool in (*metrics.tools(), *report.tools())}
TALLY = tally.tools()[0]
Done = tuple[Plan, dict[str, Any], list[Check]]


def performed(request: str, data: Path) -> Done:
    """Plan, outputs and checks of a request over the prepared data."""
    package = example.package()
    asked = new_request(request)
    binding = bind(asked, package, example.catalogue(), package.agent())
    assert binding.question is None
    mode: Any = "constrained" if binding.playbook is None else "orchestrated"
    plan = draft(asked, binding, package, example.descriptors(), package.agent(), plan_id="p", mode=mode).plan
    outputs: dict[str, Any] = {}
    claims = []
    for step in plan.steps:
        tool = TOOLS.get(step.tool or "")
        if tool is None:
            continue  # the write of an incident has a host of its own
        arguments = refs.resolve(step.tool_contract.arguments, outputs)
        outputs[step.step_id] = travelled(tool.function(called(step.step_id, data), arguments))
        claims.append(Claim(step.step_id, str(step.tool), travelled(arguments)))
    assert package.semantics is not None
    tallies = {
        read.read_id: travelled(TALLY.function(called("tally", data), travelled(read.arguments)))
        for read in reads_for(claims, package.semantics)
    }
    return plan, outputs, compare(claims, outputs, tallies, package.semantics)


def travelled(value: Any) -> Any:
    """A value as it arrives elsewhere: tagged, in canonical bytes, the keys of its maps in another order."""
    return tagged.from_tagged(
        canon.decode(canon.encode(tagged.to_tagged(value)), bytes_max=ARTIFACT_BYTES_MAX)
    )


def called(step: str, data: Path) -> CallContext:
    return CallContext("run", step, example.FOLDER, data, data)


def last(done: Done) -> Mapping[str, Any]:
    found: Mapping[str, Any] = done[1][str(done[0].report_step)]
    return found


def test_the_flagship(prepared: Path) -> None:
    done = performed(
        "On-time arrivals fell in June compared with May. Find the cause and recommend what to do.", prepared
    )
    said = last(done)
    assert judge(done[2]) == ("pass", "")
    assert said["status"] == "complete"
    recommended = " ".join(texts(said, "recommendation"))
    assert "every origin" in recommended
    assert "JFK, LGA and EWR" in recommended
    assert {"observation", "hypothesis", "missing_evidence", "follow_up", "recommendation"} == {
        item["kind"] for item in said["statements"]
    }


def test_january_and_february(prepared: Path) -> None:
    done = performed("Why did on-time arrivals fall from January to February 2013?", prepared)
    assert judge(done[2])[0] == "inconclusive"
    assert last(done)["status"] == "withheld"
    assert "8 February 2013" in " ".join(texts(last(done), "missing_evidence"))
    assert "accounts for" not in str(last(done))


def test_delta_and_us_airways(prepared: Path) -> None:
    done = performed("Compare on-time arrivals of Delta and US Airways", prepared)
    assert judge(done[2]) == ("pass", "")
    assert any("reversal" in text for text in texts(last(done)))
    assert any("within each day part" in text for text in texts(last(done), "recommendation"))


@pytest.mark.parametrize(("verb", "count"), [("departed", "9,512"), ("were scheduled", "9,697")])
def test_a_constrained_query(prepared: Path, verb: str, count: str) -> None:
    text = "from JFK in March?"
    done = performed(f"How many flights {verb} {text}", prepared)
    assert judge(done[2]) == ("pass", "")
    said = next(iter(done[1].values()))["report"]
    assert f"{count} flights" in texts(said)[0]
    assert "SELECT" in said["statements"][0]["query"]


def test_the_carrier_of_the_incident(prepared: Path) -> None:
    done = performed("Open an incident for the carrier that contributed most to the fall in June", prepared)
    assert judge(done[2]) == ("pass", "")
    top = done[1]["decompose"]["top"]
    assert (top["segment"], top["note"]) == ("B6", "largest point contribution, not separable from UA")
    assert done[1]["decompose"]["baseline"]["period_text"] == "May 2013"


def test_any_two_months_in_either_order(flights: DataContext) -> None:
    """Every ordered pair of months by itself: attributed exactly where the sign is certain, and recomputed."""
    steps = Steps(flights)
    for first, second in itertools.permutations(range(1, 13), 2):
        steps.run(
            f"from-{first}-to-{second}",
            "metrics.decompose",
            metric="on_time_arrival_rate",
            baseline={"year": 2013, "month": first},
            current={"year": 2013, "month": second},
            dimension="origin",
        )
    for output in steps.outputs.values():
        low, high = output["change_low"], output["change_high"]
        assert (output["status"] == "attributed") == (low > 0 or high < 0)
    forth, back = steps.outputs["from-5-to-6"], steps.outputs["from-6-to-5"]
    assert forth["change"] == -back["change"]
    assert [item["segment"] for item in forth["segments"]] == [item["segment"] for item in back["segments"]]
    checks = steps.verify()
    assert {check.outcome for check in checks if not check.check_id.endswith(":attribution")} == {"pass"}
