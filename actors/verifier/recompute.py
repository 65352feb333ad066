"""The verifier's independent recomputation of everything material that metric and report tools said.

    claims = [Claim(step_id, "metrics.decompose", resolved arguments), …]
    for read in reads_for(claims, semantics):      run verify.tally with read.arguments in the verifier's own host
    checks = compare(claims, outputs, tallies, semantics)

Metric, months, dimensions and filters are what the step was asked about, so they come from its arguments; what they mean
comes from the semantics only. Raw counts come from a host, connection and SQL of the verifier's own; predicates' meaning,
buckets, joins, sums and the arithmetic of changes are evaluated here, exactly. Outputs are plain values (tags read).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from duly.protocol.judgement.checks import Check
from duly.protocol.plan.semantics import Metric, Semantics
from duly.protocol.wire.errors import DulyError

from . import recompute_expected, recompute_expected_parts, recompute_expected_segments
from .recompute_agreement import differences
from .recompute_cells import Missing, Recount, table_of
from .recompute_needs import Claim, Lookup, Need, lookup_tally, lookups_of, merged, needs_of, tally_of
from .recompute_report import own_report_checks, report_checks

__all__ = ["Claim", "Read", "compare", "reads_for"]

TALLY_TOOL = "verify.tally"
DIFFERENCES_SHOWN = 5
TOLERANCE_DEFAULT = Fraction(1, 10**9)
# Queries are shown, not computed; a value's report is checked by itself.
_UNCHECKED = {"metrics.value": frozenset(("query", "report"))}
_QUERY = frozenset(("query",))
_EXPECTED: dict[str, Callable[[Recount, Mapping[str, Any]], dict[str, Any]]] = {
    "metrics.value": recompute_expected.value,
    "metrics.change": recompute_expected.change,
    "metrics.completeness": recompute_expected.completeness,
    "metrics.decompose": recompute_expected_parts.decompose,
    "metrics.interact": recompute_expected_parts.interact,
    "metrics.segments": recompute_expected_segments.segments,
}


@dataclass(frozen=True, slots=True)
class Read:
    """One call of ``verify.tally``; ``read_id`` is the key of its output for ``compare``."""

    read_id: str
    arguments: dict[str, Any]


def reads_for(claims: Sequence[Claim], semantics: Semantics) -> list[Read]:
    """The tallies that recompute these claims, as few as will do. Claims that name unknown things need none."""
    known = [claim for claim in claims if not _unknown(claim, semantics)]
    needs = merged(need for claim in known for need in needs_of(claim, semantics))
    reads = [Read(need.read_id, tally_of(need, semantics)) for need in needs]
    return reads + [Read(lookup.read_id, lookup_tally(lookup)) for lookup in lookups_of(known, semantics)]


def compare(
    claims: Sequence[Claim],
    outputs: Mapping[str, Any],
    tallies: Mapping[str, Any],
    semantics: Semantics,
) -> list[Check]:
    """One check or more for every claim of a metric or report tool that has an output; others have none here.

    ``tallies`` maps each ``read_id`` to the output of its tally, or to the ``DulyError`` with which it failed: what then
    cannot be recomputed is ``not_run``. An attribution that is rightly withheld is ``not_run`` too, with the reason.
    """
    known = [claim for claim in claims if not _unknown(claim, semantics)]
    recount = _recount(known, tallies, semantics)
    checks: list[Check] = []
    for claim in claims:
        if claim.step_id not in outputs:
            continue
        if claim.tool in _EXPECTED:
            checks += _claim_checks(claim, outputs[claim.step_id], recount)
        elif claim.tool.startswith("report."):
            checks += report_checks(claim, outputs, claims)
    return checks


def _claim_checks(claim: Claim, output: Any, recount: Recount) -> list[Check]:
    check_id = f"recompute:{claim.step_id}"
    unknown = _unknown(claim, recount.semantics)
    if unknown:
        return [_check(check_id, claim, "fail", unknown)]
    metric = recount.semantics.metrics[str(claim.arguments["metric"])]
    try:
        expected = _EXPECTED[claim.tool](recount, claim.arguments)
    except Missing as missing:
        return [_check(check_id, claim, "not_run", str(missing.args[0]))]
    found = differences(expected, output, tolerance_of(metric), _UNCHECKED.get(claim.tool, _QUERY))
    if found:
        shown = "; ".join(str(difference) for difference in found[:DIFFERENCES_SHOWN])
        rest = len(found) - DIFFERENCES_SHOWN
        return [_check(check_id, claim, "fail", shown + (f" (and {rest} more)" if rest > 0 else ""))]
    checks = [_check(check_id, claim, "pass", "")]
    if expected.get("status") == "withheld":
        checks.append(_check(f"{check_id}:attribution", claim, "not_run", _why(expected)))
    if claim.tool == "metrics.value":
        checks += own_report_checks(claim, output)
    return checks + _metric_checks(claim, metric, output)


def _why(expected: Mapping[str, Any]) -> str:
    low, high = expected["change_low"], expected["change_high"]
    bounds = "" if low is None else f" (the change lies in [{float(low):.2f}, {float(high):.2f}])"
    return f"Nothing is attributed: {expected['reason']}{bounds}."


def tolerance_of(metric: Metric) -> Fraction:
    """The package's tolerance for a recomputation of this metric, in the metric's unit."""
    given = [Fraction(str(check.tolerance)) for check in metric.checks if check.kind == "recompute"]
    return min(given, default=TOLERANCE_DEFAULT)


def _metric_checks(claim: Claim, metric: Metric, output: Mapping[str, Any]) -> list[Check]:
    """The package's own checks of the metric, other than the recomputation itself."""
    found = []
    for index, check in enumerate(metric.checks):
        if check.kind == "recompute":
            continue
        slack = Fraction(str(check.tolerance))
        if check.kind == "range":
            wrong = [value for value in _values(output) if not _inside(value, check.min, check.max, slack)]
            reason = f"{wrong[0]!r} lies outside of the range of the metric" if wrong else ""
        elif claim.tool == "metrics.decompose" and output["status"] == "attributed":
            total = sum((Fraction(item["contribution"]) for item in output["segments"]), Fraction(0))
            apart = abs(total - Fraction(output["change"]))
            allowed = slack + Fraction(1, 10**12)
            reason = f"the contributions sum to {float(total)}, not to the change" if apart > allowed else ""
        else:
            continue
        check_id = f"metric:{claim.step_id}:{index}:{check.kind}"
        outcome = "fail" if reason else "pass"
        found.append(_check(check_id, claim, outcome, reason, "rule"))
    return found


def _values(output: Any) -> list[int | float]:
    """Every value of the metric in an output: the numbers under ``value``, at any depth."""
    if isinstance(output, Mapping):
        own = output.get("value")
        inner = [value for item in output.values() for value in _values(item)]
        return [own, *inner] if isinstance(own, int | float) and not isinstance(own, bool) else inner
    return [value for item in output for value in _values(item)] if isinstance(output, list) else []


def _inside(value: int | float, low: float | None, high: float | None, slack: Fraction) -> bool:
    exact = Fraction(value)
    return (low is None or exact >= Fraction(low) - slack) and (
        high is None or exact <= Fraction(high) + slack
    )


def _recount(claims: Sequence[Claim], tallies: Mapping[str, Any], semantics: Semantics) -> Recount:
    needs: dict[Need, Any] = {
        need: _tally(tallies, need.read_id)
        for need in merged(need for claim in claims for need in needs_of(claim, semantics))
    }
    tables: dict[Lookup, Any] = {}
    for lookup in lookups_of(claims, semantics):
        tally = _tally(tallies, lookup.read_id)
        tables[lookup] = tally if isinstance(tally, str) else table_of(tally)
    return Recount(semantics, needs, tables)


def _tally(tallies: Mapping[str, Any], read_id: str) -> Any:
    found = tallies.get(read_id)
    if found is None:
        return "The verifier's own read did not happen."
    return (
        f"The verifier's own read failed: {found.message} [{found.code}]"
        if isinstance(found, DulyError)
        else found
    )


def _unknown(claim: Claim, semantics: Semantics) -> str:
    """What the claim names that the semantics do not know; empty where all is known, or nothing is named."""
    if claim.tool not in _EXPECTED:
        return ""
    arguments = claim.arguments
    named = [str(item["dimension"]) for item in arguments.get("filters") or ()]
    named += [str(arguments["dimension"])] if "dimension" in arguments else []
    named += [str(name) for field in ("others", "strata") for name in arguments.get(field) or ()]
    try:
        semantics.metric(str(arguments["metric"]))
        for name in named:
            semantics.dimension_of(str(arguments["metric"]), name)
    except DulyError as error:
        return error.message
    return ""


def _check(check_id: str, claim: Claim, outcome: Any, reason: str, kind: Any = "recompute") -> Check:
    return Check(check_id=check_id, kind=kind, step_id=claim.step_id, outcome=outcome, reason=reason)
