"""The entries between two checkpoints, judged against the signed root at their end.

Three witnesses speak about a group: the leaves, the hashes stored beside them, and the signature. Where two agree, the
third is at fault, so the entry can be named; where none agree, the group is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from duly.protocol.log.leaf import read_leaf
from duly.protocol.log.merkle import HASH_BYTES, Frontier, append, leaf_hash
from duly.protocol.wire.errors import LogError
from duly.protocol.wire.limits import READ_PAGE_ENTRIES_MAX

from . import journal_schema as schema
from .journal_schema import number_key, split_record
from .lmdb_env import Environment, Transaction

Add = Callable[[str, str, str], None]
"""(place, code, sentence): notes a fault."""


@dataclass(slots=True)
class Group:
    """Entries ``start`` … ``stop``-1: their leaves, the node hashes stored with them, and which are found bad."""

    start: int
    stop: int
    leaves: list[bytes]
    nodes: list[bytes]
    bad: set[int]

    @classmethod
    def read(cls, env: Environment, start: int, stop: int, add: Add) -> Group:
        """Reads a group in pages; an entry that is missing is a fault and stands as empty."""
        group = cls(start, stop, [], [], set())
        for first in range(start, stop, READ_PAGE_ENTRIES_MAX):
            page = range(first, min(first + READ_PAGE_ENTRIES_MAX, stop))

            def work(transaction: Transaction, page: range = page) -> list[bytes | None]:
                entries = env.database(schema.ENTRIES)
                return [transaction.get(number_key(seq), db=entries) for seq in page]

            for seq, record in zip(page, env.read(work), strict=True):
                nodes, leaf = split_record(seq, record or b"")
                group.nodes.append(nodes)
                group.leaves.append(leaf)
                if record is None:
                    group._fault(add, seq, "log.entry_missing", "This entry is missing.")
        return group

    def judge(self, before: Frontier, root: bytes | None, add: Add) -> Frontier | None:
        """The frontier after the group, or None where its entries cannot be brought together with the signed root.

        ``root`` is None where no valid checkpoint stands at the group's end; then the leaves count as they are.
        """
        hashes = [leaf_hash(leaf) for leaf in self.leaves]
        growth = append(before, hashes)
        if not self.bad and root in (None, growth.frontier.root()):
            self._compare_nodes(growth.completed, add)
            return growth.frontier
        stored = [nodes[:HASH_BYTES] for nodes in self.nodes]
        differing = [at for at, pair in enumerate(zip(hashes, stored, strict=True)) if pair[0] != pair[1]]
        growth = append(before, stored)
        for at in differing:
            if self.start + at not in self.bad:
                self._fault(
                    add, self.start + at, "log.entry_changed", "This entry is not the one that was recorded."
                )
        if growth.frontier.root() == root:
            self._compare_nodes(growth.completed, add)
            return growth.frontier
        if not self.bad:
            first = self._first_differing(growth.completed)
            message = "These entries are not those that were signed."
            add(
                f"entry {first}",
                "log.entries_replaced",
                f"{message} (entries {self.start} to {self.stop - 1})",
            )
        return None

    def events(self, add: Add) -> list[tuple[int, dict[str, Any]]]:
        """The events of the entries that are sound, numbered; an entry that is no event is a fault."""
        found = []
        for seq, leaf in enumerate(self.leaves, self.start):
            if seq in self.bad:
                continue
            try:
                found.append((seq, read_leaf(leaf, seq)))
            except LogError as error:
                self._fault(add, seq, error.code, error.message)
        return found

    def _compare_nodes(self, completed: Sequence[bytes], add: Add) -> None:
        for seq, (stored, derived) in enumerate(zip(self.nodes, completed, strict=True), self.start):
            if stored != derived and seq not in self.bad:
                levels = range(0, len(derived), HASH_BYTES)
                level = next(
                    i for i, at in enumerate(levels) if stored[at:][:HASH_BYTES] != derived[at:][:HASH_BYTES]
                )
                self._fault(
                    add, seq, "log.node_changed", f"The hash of level {level} stored here does not fit."
                )

    def _first_differing(self, completed: Sequence[bytes]) -> int:
        """The first leaf under the first stored node that the leaves do not give; the group's first where all fit."""
        for seq, (stored, derived) in enumerate(zip(self.nodes, completed, strict=True), self.start):
            for level, at in enumerate(range(0, len(derived), HASH_BYTES)):
                if stored[at : at + HASH_BYTES] != derived[at : at + HASH_BYTES]:
                    return max(self.start, seq + 1 - (1 << level))
        return self.start

    def _fault(self, add: Add, seq: int, code: str, message: str) -> None:
        self.bad.add(seq)
        add(f"entry {seq}", code, message)
