"""A journal and artifacts of one run in memory, read back by the same code that reads real ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from duly.protocol.machine.events import Event
from duly.protocol.machine.run import Run
from duly.protocol.wire import canon
from duly.protocol.wire.ids import salted_digest
from duly.protocol.wire.limits import LEAF_BYTES_MAX
from duly.storage.recovery import load_run

SALT = b"0123456789abcdef"


@dataclass(frozen=True)
class Entry:
    seq: int
    event: dict[str, Any]


@dataclass
class MemoryRecord:
    """``append`` is one transaction: all events of a decision, or none."""

    leaves: list[bytes] = field(default_factory=list)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    groups: list[int] = field(default_factory=list)  # the size of the record after each transaction

    def seal(self, data: bytes) -> str:
        return salted_digest(SALT, data)

    def append(self, run_id: str, events: Sequence[Event], *, now_ms: int, epoch: int) -> None:
        for one in events:
            for name, data in one.attached.items():
                assert one.artifacts[name] == self.seal(data), (
                    f"{one.kind} names another artifact than it brings"
                )
                self.artifacts[one.artifacts[name]] = data
            leaf = canon.encode(
                {
                    "v": 1,
                    "seq": len(self.leaves),
                    "time_ms": now_ms,
                    "run_id": run_id,
                    "kind": one.kind,
                    "epoch": epoch,
                    "cause": "",
                    "facts": dict(one.facts),
                    "artifacts": dict(one.artifacts),
                }
            )
            assert len(leaf) <= LEAF_BYTES_MAX, f"{one.kind} does not fit into a leaf: {len(leaf)} bytes"
            self.leaves.append(leaf)
        self.groups.append(len(self.leaves))

    # what ``storage.recovery`` asks of a journal and of artifacts

    def read_run(self, run_id: str) -> Iterator[Entry]:
        for seq, leaf in enumerate(self.leaves):
            yield Entry(seq, canon.decode(leaf))

    def get(self, run_id: str, digest: str) -> bytes:
        return self.artifacts[digest]

    def replayed(self, run_id: str) -> Run:
        """The run that the record gives, by the code that a restart uses."""
        return load_run(self, self, run_id)[0]
