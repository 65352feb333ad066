"""What the bounds of a run multiply to, worked out from their values."""

from __future__ import annotations

from collections.abc import Iterator

import page

from duly.protocol.wire import limits

_ALONE = (
    ("step failure", limits.REPLANS_STEP_FAILURE_MAX),
    ("verification", limits.REPLANS_VERIFICATION_MAX),
    ("budget nearly exhausted", limits.REPLANS_BUDGET_MAX),
)
_ASKED = (("gate feedback", limits.REPLANS_FEEDBACK_MAX), ("amendments", limits.AMENDMENTS_MAX))


def bounds() -> Iterator[str]:
    """The section: what one run can come to at most, alone and with a person who asks for more."""
    alone = 1 + sum(count for _, count in _ALONE)
    plans = alone + sum(count for _, count in _ASKED)
    attempts = limits.ATTEMPTS_PER_STEP_MAX + limits.LOST_PER_STEP_MAX
    yield from ("", "### What they multiply to", "")
    yield from page.prose(
        "No bound stands alone. The product is what a run could come to if everything failed every time; the budget, "
        "which every start is reserved from before it happens, ends a run long before."
    )
    yield ""
    rows = [
        ["plans of a run that nobody steers", f"{alone:,}", f"the first; {_listed(_ALONE)}"],
        ["plans of a run that a person steers", f"{plans:,}", f"those; {_listed(_ASKED)}"],
        [
            "drafts of a model",
            f"{plans * limits.DRAFTS_PER_PLAN_MAX:,}",
            f"{limits.DRAFTS_PER_PLAN_MAX} for each plan",
        ],
        [
            "starts of one step in one plan",
            f"{attempts:,}",
            f"{limits.ATTEMPTS_PER_STEP_MAX} attempts, and {limits.LOST_PER_STEP_MAX} that a dying process took along",
        ],
        ["starts of one call on an unchanged source", f"{attempts:,}", "another plan does not try it again"],
        [
            "starts of a run that nobody steers",
            f"{alone * limits.STEPS_MAX * attempts:,}",
            f"{alone} plans of {limits.STEPS_MAX:,} steps; no more than the budget's `steps`, "
            f"{limits.STEPS_DEFAULT} where nothing else is said",
        ],
        ["questions to a person", f"{limits.ANSWERS_MAX:,}", "whatever they are about"],
    ]
    yield from page.rows(("what", "at most", "from"), rows)


def _listed(bounded: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{name} {count}" for name, count in bounded)
