"""Everything that a report on a run shows, gathered from the record: no runtime is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from duly.protocol.authority.signing import key_id
from duly.protocol.machine.run import Run
from duly.protocol.plan.schedule import dependencies
from duly.protocol.views.contributions import Contributions, contributions
from duly.protocol.views.result import result_object
from duly.protocol.views.story import story
from duly.protocol.wire.errors import AuthorityError, StorageError
from duly.storage.home import Home
from duly.storage.keys import KeyRing
from duly.storage.recovery import Recorded, load_run

from .layout import utc
from .log_key import verifier_of
from .person import ROLE
from .records import Records

_APPROVALS = ("plan.approved", "step.approved")


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the plan with what became of it. Times are milliseconds, 0 where it did not run."""

    step_id: str
    level: int
    tool: str
    effect: str
    objective: str
    needs: tuple[str, ...]
    status: str
    code: str
    checked: str
    attempts: int
    started_ms: int
    ended_ms: int


@dataclass(frozen=True, slots=True)
class Given:
    """An approval: of what, by whose key (with the name that this installation knows it by), when."""

    kind: str
    step_id: str | None
    approver: str
    name: str
    time_ms: int
    gate: str
    seq: int


@dataclass(frozen=True, slots=True)
class Told:
    """One sentence of the story."""

    seq: int
    time_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class Proof:
    """Where the run stands in the log, and what to compare the log with."""

    first_seq: int
    last_seq: int
    verdict_seq: int | None
    log_key: str
    checkpoint: str


@dataclass(frozen=True, slots=True)
class Dossier:
    run: Run
    result: Mapping[str, Any]
    record: Sequence[Recorded]
    steps: Sequence[Step]
    contributions: Sequence[Contributions]
    approvals: Sequence[Given]
    submitter: str
    story: Sequence[Told]
    proof: Proof

    @property
    def report(self) -> Mapping[str, Any] | None:
        """The report where it was judged; what was not verified is no report yet."""
        return None if self.run.phase.waits or not self.run.phase.ended else self.result.get("report")

    @property
    def ended_ms(self) -> int:
        """When the last event was recorded."""
        return self.record[-1].time_ms

    def to_json(self) -> dict[str, Any]:
        """The whole as one JSON document."""
        plan = self.run.plan
        return {
            "type": "report",
            "run_id": self.run.run_id,
            "request": self.run.request.text,
            "agent": {"name": self.run.agent.name, "version": self.run.agent.version},
            "tier": self.run.mandate.tier,
            "submitter": self.submitter,
            "begun": utc(self.run.submitted_ms),
            "ended": utc(self.ended_ms) if self.run.phase.ended else None,
            "result": dict(self.result),
            "digests": self.digests(),
            "plan": None if plan is None else {"version": plan.version, "origin": plan.origin},
            "steps": [asdict(step) for step in self.steps],
            "contributions": [asdict(one) for one in self.contributions],
            "checks": [dict(check) for check in self.run.checks],
            "approvals": [asdict(one) for one in self.approvals],
            "story": [{**asdict(one), "time": utc(one.time_ms)} for one in self.story],
            "log": asdict(self.proof),
        }

    def digests(self) -> dict[str, str]:
        """What the run was made of, by digest."""
        found = {
            "plan": self.run.plan_digest,
            "package": self.run.mandate.package,
            "request": self.run.mandate.request,
            **{name: digest for name, digest in self.run.digests.items() if digest},
        }
        return {name: digest for name, digest in found.items() if digest}


def gathered(home: Home, name: str | None) -> Dossier:
    """The dossier of a run, the newest where no name is given. Raises as ``Records`` and ``load_run`` do."""
    with Records.open(home) as records:
        run_id = records.summary(name).run_id if name is not None else newest(records)
        if records.artifacts is None:
            raise StorageError(
                "storage.absent", "The artifacts of this run are missing.", place=str(home.artifacts)
            )
        run, record = load_run(records.journal, records.artifacts, run_id)
        records.journal.checkpoint()
        note = records.journal.head().note.decode("utf-8", "replace")
    names = _names(home)
    proof = Proof(record[0].seq, record[-1].seq, _verdict(record), str(verifier_of(home)), note)
    judged = run.phase.ended
    return Dossier(
        run=run,
        result=result_object(run),
        record=record,
        steps=_steps(run),
        contributions=contributions(run) if judged and result_object(run)["report"] is not None else [],
        approvals=[_given(one, names) for one in record if one.event.kind in _APPROVALS],
        submitter=_named(run.submitter, names),
        story=[Told(one.seq, one.time_ms, text) for one in record for text in story(run, [one])],
        proof=proof,
    )


def newest(records: Records) -> str:
    """The id of the run that was submitted last. Raises ``StorageError`` ``storage.absent`` where there is none."""
    found = records.journal.runs(1)
    if not found:
        raise StorageError(
            "storage.absent", "No run is recorded here yet.", hint="Start one with `duly run`."
        )
    return found[0].run_id


def _steps(run: Run) -> list[Step]:
    found = []
    for number, level in enumerate(run.levels, 1):
        for step_id in level:
            step, state = run.step(step_id), run.steps[step_id]
            descriptor = run.descriptors.get(step.tool or "")
            found.append(
                Step(
                    step_id=step_id,
                    level=number,
                    tool=step.tool or "",
                    effect=descriptor.effect if descriptor is not None else step.kind,
                    objective=step.objective,
                    needs=tuple(dependencies(step)),
                    status=state.status,
                    code=state.code,
                    checked=state.checked,
                    attempts=state.attempts,
                    started_ms=state.started_ms,
                    ended_ms=state.ended_ms,
                )
            )
    return found


def _given(one: Recorded, names: Mapping[str, str]) -> Given:
    facts = one.event.facts
    kind = "plan" if one.event.kind == "plan.approved" else "step"
    name = names.get(facts["approver"], "")
    return Given(kind, facts.get("step_id"), facts["approver"], name, one.time_ms, facts["gate"], one.seq)


def _verdict(record: Sequence[Recorded]) -> int | None:
    return next((one.seq for one in reversed(record) if one.event.kind == "verdict.reached"), None)


def _names(home: Home) -> dict[str, str]:
    """Key id → the name under which this installation knows the key."""
    ring = KeyRing(home.keys)
    found = {}
    try:
        found[key_id(ring.public(ROLE))] = "the person of this installation"
    except AuthorityError as error:
        if error.code != "key.missing":
            raise
    return {**found, **{key_id(public): name for name, public in ring.people().items()}}


def _named(key: str, names: Mapping[str, str]) -> str:
    return f"{names[key]} (key {key})" if key in names else f"key {key}"
