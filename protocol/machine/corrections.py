"""What a model hears about the plan before: why another is needed, and what was wrong with its own drafts."""

from __future__ import annotations

from collections.abc import Collection

from . import failures
from .run import Run

# What these say quotes tools and checks, and so perhaps the rows that they saw.
_QUOTES = (*failures.STEP_TRIGGERS, "failed_verification")


def corrections(run: Run, withheld: Collection[str]) -> list[str]:
    """Sentences beside the guidance. ``withheld`` are the steps of the plan before whose values no model may see: of what
    they failed with only the code is told. The critic's own words are told: it saw none of those values either."""
    if run.thinking != "plan":
        return []
    why = [run.replan_message] if run.replan_message else []
    if why and withheld and run.replan_trigger in _QUOTES:
        failed = _failed(run)
        if not failed or not failed.isdisjoint(withheld):
            where = f" ({', '.join(sorted(failed)[:20])})" if failed else ""
            why = [
                f"The plan before failed with {run.replan_reason}{where}; what its steps said is withheld."
            ]
    return [*why, *run.draft_faults]


def _failed(run: Run) -> set[str]:
    """The steps that a replan goes back to, ``critic`` for the critic; empty where that is not known."""
    failed = {
        name for name, state in run.steps.items() if state.status == "failed" or state.checked == "fail"
    }
    for check in run.checks:
        if check["outcome"] == "fail":
            failed.add(check["kind"] if check["kind"] == "critic" else check["step_id"])
    return failed
