"""A run from its record: replay of the journal's entries, with the artifacts that they name.

The property: ``load_run`` gives exactly the state that the harness had when it journaled the last entry. Nothing is
decided again. A missing or changed artifact raises; a run that cannot be read is never taken for one without history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from duly.protocol.machine.events import Event
from duly.protocol.machine.evolve import evolve
from duly.protocol.machine.run import Run
from duly.protocol.wire.errors import DulyError, LogError, RunError

# Attached for the reader of the record; the state needs none of it.
_NOT_REPLAYED = frozenset(
    (
        *("receipt", "arguments", "reason", "transcript"),
        *("model_request", "model_response", "model_value", "parameters"),
    )
)


class Artifacts(Protocol):
    def get(self, run_id: str, digest: str) -> bytes: ...


class Entries(Protocol):
    def read_run(self, run_id: str) -> Iterable[Any]: ...


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event as it stands in the journal."""

    seq: int
    time_ms: int
    run_id: str
    epoch: int
    cause: str
    event: Event


def recorded(seq: int, leaf: Mapping[str, Any]) -> Recorded:
    """The event of a leaf, its artifacts named and not loaded."""
    event = Event(leaf["kind"], leaf["facts"], {}, leaf["artifacts"])
    return Recorded(seq, leaf["time_ms"], leaf["run_id"], leaf["epoch"], leaf["cause"], event)


def load_run(journal: Entries, artifacts: Artifacts, run_id: str) -> tuple[Run, list[Recorded]]:
    """The run of an id and its record. Raises ``RunError`` ``run.unknown``, or ``LogError`` with the entry's number."""
    run: Run | None = None
    record: list[Recorded] = []
    for entry in journal.read_run(run_id):
        one = recorded(entry.seq, entry.event)
        try:
            run = evolve(run, hydrated(one, artifacts).event)
        except LogError as error:
            raise LogError(error.code, error.message, place=error.place or f"entry {one.seq}") from None
        except DulyError as error:
            raise LogError("log.bad_event", f"Entry {one.seq} cannot be replayed: {error.message}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise LogError(
                "log.bad_event",
                f"Entry {one.seq} ({one.event.kind}) cannot be replayed: {type(error).__name__}.",
            ) from None
        record.append(one)
    if run is None:
        raise RunError("run.unknown", f"There is no run {run_id!r}.", hint="`duly runs` lists them.")
    return run, record


def hydrated(one: Recorded, artifacts: Artifacts) -> Recorded:
    """A recorded event with the bytes that its state needs."""
    names = {name: digest for name, digest in one.event.artifacts.items() if name not in _NOT_REPLAYED}
    if not names:
        return one
    attached = {name: artifacts.get(one.run_id, digest) for name, digest in names.items()}
    event = Event(one.event.kind, one.event.facts, attached, one.event.artifacts)
    return Recorded(one.seq, one.time_ms, one.run_id, one.epoch, one.cause, event)
