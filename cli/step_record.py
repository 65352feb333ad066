"""What the record holds of one step: its events under every version of the plan, its receipts, its arguments and output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from duly.protocol.authority.receipt import Receipt
from duly.protocol.authority.signing import key_id
from duly.protocol.machine import calls
from duly.protocol.machine.run import Run, StepState
from duly.protocol.plan.plan import Step
from duly.protocol.views.story import sentence
from duly.protocol.wire.errors import DulyError, PlanError, RunError
from duly.storage.home import Home
from duly.storage.keys import read_public_file
from duly.storage.recovery import Recorded

from .layout import utc
from .records import Records

_PLANS = ("plan.drafted", "plan.edited", "plan.extended")


@dataclass(frozen=True, slots=True)
class Told:
    """One event of the step: when, under which version of the plan, its sentence, and what a failed call said."""

    seq: int
    time_ms: int
    version: int
    kind: str
    text: str
    message: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Signed:
    """A receipt of the step. ``fault`` is the code of what keeps it from being believed, empty where it holds."""

    version: int
    node: str
    receipt: Receipt | None
    fault: str


@dataclass(frozen=True, slots=True)
class StepRecord:
    """``step`` and ``state`` are those of the last plan that has the step, ``None`` where the current one lacks it."""

    run: Run
    step_id: str
    step: Step | None
    state: StepState | None
    events: tuple[Told, ...]
    receipts: tuple[Signed, ...]

    @property
    def arguments(self) -> tuple[Any, bool]:
        """The arguments, resolved where every input is there; and whether they are."""
        if self.step is None:
            return None, False
        try:
            return calls.resolved(self.run, self.step), True
        except PlanError:
            return self.step.tool_contract.arguments, False

    @property
    def checks(self) -> list[Mapping[str, Any]]:
        """The checks of this step that the verdict counted."""
        return [check for check in self.run.checks if check.get("step_id") == self.step_id]


def step_record(home: Home, records: Records, name: str, step_id: str) -> StepRecord:
    """Everything of one step. Raises ``RunError`` ``run.unknown_step``, naming those that there are."""
    run, record = records.run(name)
    known = {step.step_id: step for step in run.plan.steps} if run.plan is not None else {}
    versions = list(_versions(record))
    own = [(version, one) for version, one in versions if one.event.facts.get("step_id") == step_id]
    if step_id not in known and not own:
        names = ", ".join(known) or "none yet"
        raise RunError(
            "run.unknown_step", f"Run {run.run_id} has no step {step_id!r}.", hint=f"Its steps: {names}."
        )
    keys = _host_keys(home)
    return StepRecord(
        run,
        step_id,
        known.get(step_id),
        run.steps.get(step_id),
        tuple(_told(records, version, one) for version, one in own),
        tuple(
            _signed(records, version, one, keys) for version, one in own if "receipt" in one.event.artifacts
        ),
    )


def to_data(found: StepRecord) -> dict[str, Any]:
    """The step for a script: one JSON document."""
    arguments, resolved = found.arguments
    state, step = found.state, found.step
    return {
        "run_id": found.run.run_id,
        "step_id": found.step_id,
        "objective": None if step is None else step.objective,
        "tool": None if step is None else step.tool,
        "status": None if state is None else state.status,
        "code": "" if state is None else state.code,
        "attempts": 0 if state is None else state.attempts,
        "arguments": arguments,
        "resolved": resolved,
        "output": "" if state is None else state.output,
        "checked": "" if state is None else state.checked,
        "checks": [dict(check) for check in found.checks],
        "receipts": [_receipt_data(one) for one in found.receipts],
        "events": [
            {
                "seq": one.seq,
                "time": utc(one.time_ms),
                "plan_version": one.version,
                "kind": one.kind,
                "message": one.message,
                "facts": {name: value for name, value in one.facts.items() if name != "phase"},
            }
            for one in found.events
        ],
    }


def _receipt_data(one: Signed) -> dict[str, Any]:
    fields = {} if one.receipt is None else one.receipt.to_data()
    return {"plan_version": one.version, "node": one.node, "fault": one.fault, **fields}


def _versions(record: list[Recorded]) -> Iterator[tuple[int, Recorded]]:
    """Every event with the version of the plan under which it happened."""
    version = 0
    for one in record:
        if one.event.kind in _PLANS:
            version = int(one.event.facts.get("version", version))
        yield version, one


def _told(records: Records, version: int, one: Recorded) -> Told:
    message = records.artifact(one.run_id, one.event.artifacts.get("message"))
    return Told(
        one.seq,
        one.time_ms,
        version,
        one.event.kind,
        sentence(one.event) or one.event.kind,
        message if isinstance(message, str) else "",
        one.event.facts,
    )


def _signed(records: Records, version: int, one: Recorded, keys: Mapping[str, bytes]) -> Signed:
    """The receipt of an event: of those that one signature covers, the one of this step and attempt."""
    node = str(one.event.facts.get("node", ""))
    envelope = records.artifact_bytes(one.run_id, one.event.artifacts["receipt"])
    if envelope is None:
        return Signed(version, node, None, "log.artifact_missing")
    step_id, attempt = one.event.facts.get("step_id"), one.event.facts.get("attempt")
    try:
        documents, _ = Receipt.open_all(envelope, keys)
    except DulyError as error:
        return Signed(version, node, None, error.code)
    for receipt in documents:
        same = receipt.step_id == step_id and receipt.run_id == one.run_id
        if same and attempt in (None, receipt.attempt):  # a probe has no attempt of its own
            return Signed(version, node, receipt, "")
    return Signed(version, node, None, "receipt.other_grant")


def _host_keys(home: Home) -> dict[str, bytes]:
    """The public keys of the hosts of this installation by their ids; one that cannot be read signs nothing."""
    found = {}
    for path in sorted((home.keys / "hosts").glob("*.pub")):
        public = read_public_file(path)
        found[key_id(public)] = public
    return found
