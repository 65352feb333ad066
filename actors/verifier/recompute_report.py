"""Whether a report says only what stands in outputs: by the rules of reports, and by making it again.

The rules are independent of the code that made the report. Making it again with the outputs as they were receipted shows
whether anything was changed on the way, words included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duly.hosts.tools.report import BUILDERS, made
from duly.hosts.tools.report_value import own_report
from duly.protocol.judgement.checks import Check
from duly.protocol.judgement.report import Level, Report
from duly.protocol.judgement.report_rules import faults_in
from duly.protocol.wire.errors import DulyError, ToolError

from .recompute_needs import Claim

FAULTS_SHOWN = 5
_ASSOCIATIONS = ("metrics.decompose", "metrics.interact", "metrics.segments")
_JUDGED = ("metrics.completeness", *_ASSOCIATIONS)


def own_report_checks(claim: Claim, output: Mapping[str, Any]) -> list[Check]:
    """The checks of the report that a value carries itself; none where it carries none."""
    if "report" not in output:
        return []
    value = {name: item for name, item in output.items() if name != "report"}
    try:
        report = Report.from_data(output["report"], error=ToolError, code="report.shape", what="The report")
        again = own_report(claim.step_id, value)
    except DulyError as error:
        return [_check(claim, "report", str(error))]
    faults = [
        str(fault) for fault in faults_in(report, {claim.step_id: value}, {claim.step_id: "observation"})
    ]
    if again != report:
        faults.append("the report is not what its value gives")
    return [_check(claim, "report", "; ".join(faults[:FAULTS_SHOWN]))]


def report_checks(claim: Claim, outputs: Mapping[str, Any], claims: Sequence[Claim]) -> list[Check]:
    """The checks of one report step: its rules, and that it is what its evidence gives."""
    output = outputs[claim.step_id]
    tools = {other.step_id: other.tool for other in claims}
    levels: dict[str, Level] = {
        step: "association" if tool in _ASSOCIATIONS else "observation" for step, tool in tools.items()
    }
    try:
        report = Report.from_data(output, error=ToolError, code="report.shape", what="The report")
    except DulyError as error:
        return [_check(claim, "shape", str(error))]
    faults = [str(fault) for fault in faults_in(report, outputs, levels)]
    faults += _status_faults(claim, report, outputs, tools)
    return [
        _check(claim, "rules", "; ".join(faults[:FAULTS_SHOWN])),
        _check(claim, "again", _made_again(claim, output, outputs)),
    ]


def _status_faults(
    claim: Claim, report: Report, outputs: Mapping[str, Any], tools: Mapping[str, str]
) -> list[str]:
    """A diagnosis is withheld exactly where one of the outputs that it rests on is."""
    if claim.tool != "report.diagnosis":
        return [] if report.status == "complete" else ["status: only a diagnosis can be withheld"]
    steps = [str(item["step"]) for item in claim.arguments["evidence"]]
    judged = [outputs[step] for step in steps if tools.get(step) in _JUDGED and step in outputs]
    uncertain = [one for one in judged if one.get("sign_certain") is False or one.get("status") == "withheld"]
    wanted = "withheld" if uncertain else "complete"
    return [] if report.status == wanted else [f"status: it is {report.status}, but the evidence is {wanted}"]


def _made_again(claim: Claim, output: Any, outputs: Mapping[str, Any]) -> str:
    """Why the report is not what its evidence gives; empty where it is."""
    build = BUILDERS.get(claim.tool.removeprefix("report."))
    if build is None:
        return "there is no such report"
    evidence = []
    for item in claim.arguments["evidence"]:
        if item["step"] not in outputs:
            return f"the evidence names {item['step']!r}, which has no output"
        evidence.append({"step": item["step"], "output": outputs[item["step"]]})
    try:
        again = made(build, {**claim.arguments, "evidence": evidence})
    except DulyError as error:
        return str(error)
    return "" if again == output else "the report is not what its evidence gives"


def _check(claim: Claim, name: str, reason: str) -> Check:
    return Check(
        check_id=f"recompute:{claim.step_id}:{name}",
        kind="recompute",
        step_id=claim.step_id,
        outcome="fail" if reason else "pass",
        reason=reason,
    )
