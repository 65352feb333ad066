"""What an approver sees: complete, deterministic, 80 columns, and impossible to forge from inside."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.authority.approval import ApprovedStep
from duly.protocol.authority.grant import arguments_digest
from duly.protocol.authority.printable import columns, is_plain_letter
from duly.protocol.authority.rendering import (
    GateFacts,
    render_difference,
    render_plan,
    render_preview,
    render_step,
    shown_digest,
)
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Plan
from duly.protocol.wire.errors import AuthorityError
from duly.protocol.wire.tagged import to_tagged

ASCII = set(string.printable) - set("\t\r\x0b\x0c")
READ = Descriptor(
    server="flights", name="largest", effect="read", resource="duckdb:flights", description="Ranks."
)
WRITE = Descriptor(server="incidents", name="open", effect="write", resource="sqlite:incidents")
FACTS = GateFacts(
    run_id="run-1", gate="gate-1", scope="5" * 64, budget={"steps": 20, "tool_calls": 60}, policy="6" * 64
)
TOOLS = {tool.full_name: tool for tool in (READ, WRITE)}
TEMPLATE = {"carrier": {"$ref": "s1#/rows/0/carrier"}, "note": "largest point contribution"}
RESOLVED = {"carrier": "B6", "note": "largest point contribution"}
HOSTILE = (
    '\x1b[2K\rApproved\x08\x9b1A\u202eevil\u2066\u200b\u2028\u2029\u0085| carrier = "XX"\nEND OF THE STEP'
)


def _step(step_id: str, tool: Descriptor, arguments: Any, **more: Any) -> dict[str, Any]:
    return {
        "step_id": step_id,
        "objective": f"What {step_id} finds out",
        "inputs": {},
        "tool_contract": {
            "tool": {"server": tool.server, "name": tool.name, "descriptor": tool.digest()},
            "arguments": arguments,
            "effect": tool.effect,
            "timeout_seconds": 30,
        },
        "output_contract": {"json_schema": {"type": "object"}, "artifact": step_id},
        "verification": {
            "acceptance": {"none": "nothing to accept"},
            "tolerance": {"none": "exact"},
            "independent": {"none": "an example"},
        },
        "on_failure": [{"do": "escalate"}],
        **more,
    }


def _plan(arguments: Any = TEMPLATE, objective: str = "Open an incident") -> Plan:
    steps = [_step("s1", READ, {"month": 6}), _step("s2", WRITE, arguments, depends_on=["s1"])]
    return Plan.model_validate({"plan_id": "p1", "objective": objective, "steps": steps})


def _approved(arguments: Any = TEMPLATE, template: bool = True) -> dict[str, ApprovedStep]:
    entry = ApprovedStep(
        tool=WRITE.full_name,
        descriptor=WRITE.digest(),
        arguments=arguments_digest(arguments),
        template=template,
    )
    return {"s2": entry}


def _rendered(arguments: Any = TEMPLATE, **more: Any) -> str:
    return render_plan(_plan(arguments, **more), TOOLS, FACTS, _approved(arguments))


GOLDEN_PLAN = """\
APPROVAL OF A PLAN

run       run-1
gate      gate-1
plan      1135c452bf0a882e5cb53b31868c5f87c87fd107bca578c81cf50b8c460c14d6
scope     5555555555555555555555555555555555555555555555555555555555555555
policy    6666666666666666666666666666666666666666666666666666666666666666
budget    steps 20, tool_calls 60

Lines that begin with | show what plan, package and tools say, all of it.
Only the other lines are duly's own words.

WHAT NEEDS YOUR APPROVAL: 1 step of 2
Step 2: WRITES
| resource = "sqlite:incidents"
| tool = "incidents.open"
digest    a6daaaa66d7b1677024de3ec33a35ce3a6f99b333ce156bf81deb7a98528328c
Some of its arguments come from earlier steps and are shown again when known,
unless you approve with references.

OBJECTIVE
| "Open an incident"

SETTINGS OF THE PLAN
| allow_partial = false
| task_class = "deterministic"

STEP 1 of 2: reads only
| id = "s1"
| objective = "What s1 finds out"
| tool = "flights.largest"
| description = "Ranks."
| resource = "duckdb:flights"
pinned    f516549aa6d9fd9ca494f5d255b4556c3ec48f73abb30cddbb92e18288daaecc
arguments
| month = 6
contract
| effect = "read"
| on_failure[0].do = "escalate"
| output.artifact = "s1"
| output.evidence = "observation"
| timeout_seconds = 30
| verification.acceptance.none = "nothing to accept"
| verification.independent.none = "an example"
| verification.tolerance.none = "exact"
schema    a1110bc7f82e96889b9752c80a827c0677e3f7df59ebe60b034e97cee993604e

STEP 2 of 2: WRITES
| id = "s2"
| objective = "What s2 finds out"
| tool = "incidents.open"
| resource = "sqlite:incidents"
pinned    65870576a97f1dca428fd668fb6e07237943e2a255817565dd0f782d1a1982e2
| waits_for = ["s1"]
arguments
| carrier <- output of step s1 at /rows/0/carrier
| note = "largest point contribution"
contract
| effect = "write"
| on_failure[0].do = "escalate"
| output.artifact = "s2"
| output.evidence = "observation"
| timeout_seconds = 30
| verification.acceptance.none = "nothing to accept"
| verification.independent.none = "an example"
| verification.tolerance.none = "exact"
schema    a1110bc7f82e96889b9752c80a827c0677e3f7df59ebe60b034e97cee993604e

END OF THE PLAN: 2 steps, 68 lines above.
"""

GOLDEN_STEP = """\
APPROVAL OF ONE STEP

run       run-1
gate      gate-1
plan      1135c452bf0a882e5cb53b31868c5f87c87fd107bca578c81cf50b8c460c14d6
scope     5555555555555555555555555555555555555555555555555555555555555555
policy    6666666666666666666666666666666666666666666666666666666666666666
budget    steps 20, tool_calls 60

Lines that begin with | show what plan, package and tools say, all of it.
Only the other lines are duly's own words.

STEP 2 of 2: WRITES
| id = "s2"
| objective = "What s2 finds out"
| tool = "incidents.open"
| resource = "sqlite:incidents"
pinned    65870576a97f1dca428fd668fb6e07237943e2a255817565dd0f782d1a1982e2

ARGUMENTS, exactly as they will be executed
digest    a986739126d30e0ab6644334daf32fef4a110dda9a3c10b5f2182864788a7400
| carrier = "B6"
| note = "largest point contribution"

WHERE ARGUMENTS COME FROM
| carrier <- output of step s1 at /rows/0/carrier

HOW IT IS CHECKED
| acceptance.none = "nothing to accept"
| independent.none = "an example"
| tolerance.none = "exact"

END OF THE STEP, 32 lines above.
"""


class TestPlan:
    def test_golden(self) -> None:
        assert _rendered() == GOLDEN_PLAN

    def test_same_bytes_same_text_and_digest(self) -> None:
        assert (
            shown_digest(_rendered())
            == shown_digest(_rendered())
            != shown_digest(_rendered(objective="Other"))
        )

    def test_one_byte_of_an_argument_changes_the_text(self) -> None:
        assert _rendered({**RESOLVED, "note": "a"}) != _rendered({**RESOLVED, "note": "b"})

    def test_an_argument_cannot_pose_as_a_line_of_the_text(self) -> None:
        text = _rendered({"note": HOSTILE}, objective=HOSTILE)
        own = [line for line in text.splitlines() if not line.startswith("|")]
        assert own.count("APPROVAL OF A PLAN") == 1 and "END OF THE STEP" not in own
        assert not any("XX" in line or "evil" in line for line in own)
        assert all(c in ASCII or is_plain_letter(c) for c in text)

    def test_every_line_fits_into_80_columns(self) -> None:
        text = _rendered({"note": HOSTILE * 20, "k" * 100: "東" * 90}, objective="word " * 60)
        assert max(sum(columns(c) for c in line) for line in text.splitlines()) <= 80

    def test_a_changed_descriptor_is_said(self) -> None:
        changed = WRITE.model_copy(update={"description": "Opens an incident!"})
        text = render_plan(_plan(), {READ.full_name: READ, changed.full_name: changed}, FACTS, _approved())
        assert "THE TOOL IS DESCRIBED DIFFERENTLY NOW. The plan was made for" in text.splitlines()

    def test_the_last_line_counts_the_lines(self) -> None:
        lines = _rendered().splitlines()
        assert lines[-1] == f"END OF THE PLAN: 2 steps, {len(lines) - 1} lines above."

    def test_an_approval_of_an_unknown_step_is_refused(self) -> None:
        with pytest.raises(AuthorityError) as caught:
            render_plan(_plan(), {}, FACTS, {"s9": _approved()["s2"]})
        assert caught.value.code == "gate.other_step"

    def test_a_step_that_writes_is_never_called_harmless(self) -> None:
        for text in (render_plan(_plan(), TOOLS, FACTS, {}), render_preview(_plan(), TOOLS)):
            lines = text.splitlines()
            at = lines.index("THIS ACTS AND IS NOT APPROVED WITH THIS TEXT")
            assert lines[at + 1] == "Step 2: WRITES"
            assert not any("CHANGES NOTHING" in line for line in lines)

    def test_a_plan_of_reads_says_that_it_changes_nothing(self) -> None:
        reads = _plan().model_copy(update={"steps": _plan().steps[:1]})
        assert (
            "THIS PLAN CHANGES NOTHING: every step only reads." in render_preview(reads, TOOLS).splitlines()
        )

    def test_the_difference_comes_first(self) -> None:
        text = render_plan(_plan(RESOLVED), TOOLS, FACTS, _approved(RESOLVED, False), before=_plan())
        assert text.index("WHAT CHANGED") < text.index("WHAT NEEDS YOUR APPROVAL")


class TestStep:
    def test_golden(self) -> None:
        assert render_step(_plan(), "s2", RESOLVED, WRITE, FACTS) == GOLDEN_STEP

    def test_the_digest_is_that_of_the_executed_arguments(self) -> None:
        text = render_step(_plan(), "s2", RESOLVED, WRITE, FACTS)
        assert f"digest    {arguments_digest(RESOLVED)}" in text.splitlines()

    @given(st.text(max_size=60), st.text(max_size=60))
    def test_different_arguments_different_text(self, one: str, other: str) -> None:
        shown = [render_step(_plan(), "s2", to_tagged({"note": text}), WRITE, FACTS) for text in (one, other)]
        assert (shown[0] == shown[1]) == (one == other)


class TestDifference:
    def test_changed_values_stand_with_both_sides(self) -> None:
        assert render_difference(_plan(), _plan(RESOLVED)).splitlines() == [
            "| - steps.s2.tool_contract.arguments.carrier <- output of step s1 at",
            "|> /rows/0/carrier",
            '| + steps.s2.tool_contract.arguments.carrier = "B6"',
        ]

    def test_an_added_step_stands_in_full(self) -> None:
        longer = _plan().model_copy(
            update={"steps": [*_plan().steps, _plan().steps[0].model_copy(update={"step_id": "s3"})]}
        )
        lines = render_difference(_plan(), longer).splitlines()
        assert '| + order = ["s1", "s2", "s3"]' in lines and '| + steps.s3.step_id = "s3"' in lines
        assert not any(line.startswith("| - steps") for line in lines)

    def test_nothing_changed(self) -> None:
        assert render_difference(_plan(), _plan()) == "nothing\n"
