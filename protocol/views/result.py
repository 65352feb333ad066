"""The result of a run as scripts read it: one map of plain data, the same from the front door and from the record."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from ..judgement.report import Report
from ..machine.phases import Phase
from ..machine.run import DONE, GONE, Run
from ..plan.plan import Plan


def result_object(run: Run) -> dict[str, Any]:
    """Phase, verdict, reason, next owner, report, trusted artifacts, budget, and what a stopped run needs.

    ``answer`` is what a model said in a direct run; nobody checked it. ``budget`` maps names to ``{limit, spent}`` in the unit of the limit (seconds, counts, millionths).
    """
    return {
        "run_id": run.run_id,
        "phase": str(run.phase),
        "verdict": run.verdict,
        "reason": run.reason,
        "message": run.message,
        "next_owner": run.next_owner,
        "report": report_object(run),
        "answer": run.answer or None,
        "trusted_artifacts": trusted(run),
        "plan_digest": run.plan_digest,
        "budget": {
            name: {"limit": limit, "spent": run.budget.used(name)}
            for name, limit in sorted(run.budget.limits.items())
        },
        "needs": needs(run),
    }


def trusted(run: Run) -> list[str]:
    """Digests of the outputs that no check failed; unchecked ones only count after a verdict."""
    return [
        state.output
        for state in run.steps.values()
        if state.status in DONE and state.output and state.checked in ("pass", "not_run")
    ]


def report_of(run: Run) -> Report | None:
    """The report that the plan's report step made, or ``None`` while there is none."""
    step_id = _report_step(run.plan)
    if step_id is None or step_id not in run.outputs:
        return None
    output = run.output(step_id)
    data = output.get("report", output) if isinstance(output, dict) else None
    try:
        return Report.model_validate(data)
    except ValidationError:
        return None


def report_object(run: Run) -> dict[str, Any] | None:
    """The report as data. What was not verified is not shown as a report of a failed run."""
    report = report_of(run)
    if report is None or run.phase is Phase.FAILED:
        return None
    return report.to_json({name: state.output for name, state in run.steps.items() if state.output})


def _report_step(plan: Plan | None) -> str | None:
    if plan is None:
        return None
    if plan.report_step is not None:
        return plan.report_step
    return plan.steps[0].step_id if len(plan.steps) == 1 else None


def needs(run: Run) -> dict[str, Any] | None:
    """What a person can do about a run that stopped; ``None`` where nothing is needed."""
    if run.asked is not None:
        question = run.asked.question
        return {
            "question": question.text,
            "parameter": question.parameter,
            "choices": list(question.choices),
            "about": run.asked.about,
        }
    if run.gate is not None:
        return {"approval": run.gate.kind, "gate": run.gate.gate_id, "step_id": run.gate.step_id}
    if run.phase is Phase.PARTIAL:
        return _partial(run)
    return None


def _partial(run: Run) -> dict[str, Any]:
    """What is done, what is missing, and the concrete choices."""
    report = report_of(run)
    missing = [name for name, state in run.steps.items() if state.status in GONE or state.status == "pending"]
    open_checks = [str(check["check_id"]) for check in run.checks if check["outcome"] == "not_run"]
    shadowed = [name for name, state in run.steps.items() if state.status == "shadowed"]
    return {
        **({"shadowed": shadowed} if shadowed else {}),
        "done": [name for name, state in run.steps.items() if state.status in DONE],
        "missing": missing + open_checks,
        "choices": [*(choice.text for choice in (report.choices if report else ())), _continuation(run)],
    }


def _continuation(run: Run) -> str:
    """The choice that there always is; in a shadow run it is the same work done for real."""
    why = "to do it for real" if run.mandate.shadow else "to go on where it stopped"
    return f"Run `duly run --from {run.run_id}` {why}: what still holds is used again."
