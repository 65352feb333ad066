"""``duly show RUN STEP``: the story of one step, with the arguments as they were executed and what hosts signed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from duly.protocol.authority.argument_lines import value_lines
from duly.protocol.authority.grant import arguments_digest
from duly.protocol.wire.errors import StorageError
from duly.storage.home import Home

from . import exit_codes
from .layout import bold, duration, labelled, moment, paragraph, table
from .output import emit, say
from .records import Records
from .step_record import Signed, StepRecord, step_record, to_data

OUTPUT_LINES_MAX = 40


def show_step(home: Home, name: str, step_id: str, *, json: bool = False) -> int:
    """One step of a run, replayed from the record, without a runtime."""
    with Records.open(home) as records:
        found = step_record(home, records, name, step_id)
    if json:
        emit(to_data(found))
    else:
        say(page(found))
    return exit_codes.DONE


def page(found: StepRecord) -> list[str]:
    """The whole page of a step."""
    lines = [*labelled("run", f"{found.run.run_id}, {found.run.phase}"), *labelled("step", found.step_id)]
    lines += _head(found)
    lines += _arguments(found)
    lines += ["", bold("STORY"), *_events(found)]
    lines += _receipts(found.receipts)
    lines += check_lines(found.checks)
    return [*lines, *_output(found)]


def _head(found: StepRecord) -> list[str]:
    step, state = found.step, found.state
    if step is None or state is None:
        return labelled("state", "the plan has it no more; this is what happened under earlier ones")
    lines = labelled("objective", step.objective)
    lines += labelled("tool", f"{step.tool or 'the model'} ({step.tool_contract.effect})")
    lines += labelled("state", state.status + (f" [{state.code}]" if state.code else ""))
    lines += labelled("attempts", str(state.attempts))
    if state.checked:
        lines += labelled("check", state.checked)
    return lines


def _arguments(found: StepRecord) -> list[str]:
    if found.step is None or found.step.kind == "reason":
        return []
    arguments, resolved = found.arguments
    title = "ARGUMENTS, as they are executed" if resolved else "ARGUMENTS, as they stand in the plan"
    lines = ["", bold(title), *labelled("digest", arguments_digest(arguments))]
    return [*lines, *(value_lines(arguments) if arguments else ["none"])]


def _events(found: StepRecord) -> list[str]:
    lines: list[str] = []
    version = 0
    for one in found.events:
        if one.version != version:
            version = one.version
            lines += paragraph(f"plan version {version}", "  ")
        lines += paragraph(f"{moment(one.time_ms)}  {one.text}", "    ", "      ")
        if one.message:
            lines += paragraph(one.message, "      | ", "      | ")
    return lines or ["  nothing happened yet"]


def _receipts(receipts: Iterable[Signed]) -> list[str]:
    lines: list[str] = []
    for one in receipts:
        receipt = one.receipt
        if receipt is None:
            lines += labelled("receipt", f"that cannot be believed [{one.fault}]")
            continue
        result = receipt.outcome + (f" [{receipt.code}]" if receipt.code else "")
        lines += labelled("attempt", f"{receipt.attempt} of plan version {one.version}: {result}")
        lines += labelled(
            "host", f"{receipt.host}{f' on node {one.node}' if one.node else ''}, epoch {receipt.epoch}"
        )
        lines += labelled(
            "time",
            f"{moment(receipt.started_ms)} to {moment(receipt.ended_ms)}, {duration(receipt.duration_us / 1000)}",
        )
        lines += labelled("ran", f"arguments {receipt.arguments}")
        if receipt.output:
            cut = ", cut off at the limit" if receipt.truncated else ""
            lines += labelled("gave", f"output {receipt.output}{cut}")
        if receipt.rows_scanned:
            lines += labelled("rows", f"{receipt.rows_scanned:,} read")
        for source, mark in sorted(receipt.fingerprints.items()):
            lines += labelled("source", f"{source} {mark}")
    return ["", bold("RECEIPTS, signed by the hosts"), *lines] if lines else []


def check_lines(checks: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every check of the verdict: outcome, kind, which, and why where it did not pass."""
    rows = [
        tuple(str(check.get(name) or "") for name in ("outcome", "kind", "check_id", "reason"))
        for check in checks
    ]
    if not rows:
        return []
    return ["", bold("CHECKS"), *table(("outcome", "kind", "check", "reason"), rows, "  ", whole=True)]


def _output(found: StepRecord) -> list[str]:
    if found.state is None or not found.state.output:
        return []
    lines = ["", bold("OUTPUT"), *labelled("artifact", found.state.output)]
    descriptor = found.run.descriptors.get((found.step.tool or "") if found.step else "")
    if descriptor is None or descriptor.sensitive:
        return [*lines, "Sensitive: not shown."]
    try:
        value = found.run.output(found.step_id)
    except (KeyError, StorageError):
        return lines
    shown = value_lines(value, "output")
    more = len(shown) - OUTPUT_LINES_MAX
    return [*lines, *shown[:OUTPUT_LINES_MAX], *([f"and {more} lines more"] if more > 0 else [])]
