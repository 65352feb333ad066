"""The verdict over all checks: one failed check fails, one mandatory check that did not run leaves it open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .checks import Check

Verdict = Literal["pass", "fail", "inconclusive"]


def judge(checks: Sequence[Check]) -> tuple[Verdict, str]:
    """The verdict and its reason, a sentence. No check at all is no pass."""
    failed = [check for check in checks if check.outcome == "fail"]
    if failed:
        return "fail", _sentence(failed)
    open_checks = [check for check in checks if check.outcome == "not_run" and check.mandatory]
    if open_checks:
        return "inconclusive", _sentence(open_checks)
    if not any(check.outcome == "pass" for check in checks):
        return "inconclusive", "Nothing was checked."
    return "pass", ""


def _sentence(checks: Sequence[Check]) -> str:
    first = checks[0]
    more = f" (and {len(checks) - 1} more)" if len(checks) > 1 else ""
    return f"{first.check_id}: {first.reason}{more}"
