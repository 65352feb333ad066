"""The RFC 6962 Merkle tree: hashes, growth, roots, proofs. Pure: nodes come in through a function, nothing is kept.

Leaf hash ``SHA-256(0x00 ‖ data)``, node hash ``SHA-256(0x01 ‖ left ‖ right)``, empty tree ``SHA-256("")``. The two
prefixes keep a leaf of 64 bytes from being taken for a node. A node is named by its level (0 for leaves) and its index
in that level; only complete nodes (of 2^level leaves) have a name.

Source: RFC 6962 section 2.1, RFC 9162 sections 2.1.3 and 2.1.4 (verification).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

HASH_BYTES = 32
_sha256 = hashlib.sha256
EMPTY_ROOT = hashlib.sha256(b"").digest()

ReadNode = Callable[[int, int], bytes]
"""(level, index) -> the 32-byte hash of a complete node."""


def leaf_hash(data: bytes) -> bytes:
    """The 32-byte hash of an entry."""
    return _sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The 32-byte hash of a node over its two children."""
    return _sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True, slots=True)
class Frontier:
    """What a tree needs to grow: its size and the roots of its complete subtrees, the largest (leftmost) first."""

    size: int = 0
    peaks: tuple[bytes, ...] = ()

    def root(self) -> bytes:
        """The root hash of the tree."""
        if not self.peaks:
            return EMPTY_ROOT
        root = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            root = node_hash(peak, root)
        return root


class Growth(NamedTuple):
    """``frontier`` after the leaves; ``completed[i]`` holds the hashes that leaf i completed, levels 0, 1, … joined."""

    frontier: Frontier
    completed: list[bytes]


def append(frontier: Frontier, leaf_hashes: Iterable[bytes]) -> Growth:
    """The tree with more leaves. Leaf n completes as many nodes as n has trailing one bits, plus itself."""
    sha256 = _sha256
    size = frontier.size
    peaks = list(frontier.peaks)
    completed: list[bytes] = []
    for current in leaf_hashes:
        record = current
        carry = size
        while carry & 1:
            current = sha256(b"\x01" + peaks.pop() + current).digest()
            record += current
            carry >>= 1
        peaks.append(current)
        completed.append(record)
        size += 1
    return Growth(Frontier(size, tuple(peaks)), completed)


def nodes_completed_by(leaf: int) -> int:
    """How many nodes, the leaf's own hash included, leaf number ``leaf`` completes."""
    return (leaf ^ (leaf + 1)).bit_length()


def node_place(level: int, index: int) -> tuple[int, int]:
    """(leaf that completes this node, position of the hash among those that this leaf completes)."""
    return ((index + 1) << level) - 1, level


def frontier_of(size: int, read_node: ReadNode) -> Frontier:
    """The frontier of a tree whose nodes are stored. Raises ``ValueError`` for a negative size."""
    if size < 0:
        raise ValueError("a tree has no negative size")
    peaks: list[bytes] = []
    start = 0
    for level in range(size.bit_length() - 1, -1, -1):
        if size >> level & 1:
            peaks.append(read_node(level, start >> level))
            start += 1 << level
    return Frontier(size, tuple(peaks))


def root_of(size: int, read_node: ReadNode) -> bytes:
    """The root of the tree of the first ``size`` leaves."""
    return frontier_of(size, read_node).root()


def inclusion_proof(index: int, size: int, read_node: ReadNode) -> list[bytes]:
    """The proof that leaf ``index`` stands in the tree of ``size`` leaves. ``ValueError`` where there is no such leaf."""
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} leaves has no leaf {index}")
    proof: list[bytes] = []
    start, stop = 0, size
    while stop - start > 1:
        middle = start + _split(stop - start)
        if index < middle:
            proof.append(_range_hash(middle, stop, read_node))
            stop = middle
        else:
            proof.append(_range_hash(start, middle, read_node))
            start = middle
    proof.reverse()
    return proof


def consistency_proof(old_size: int, new_size: int, read_node: ReadNode) -> list[bytes]:
    """The proof that the tree of ``old_size`` leaves is a prefix of the tree of ``new_size`` leaves."""
    if not 0 <= old_size <= new_size:
        raise ValueError(f"a tree of {old_size} leaves is no prefix of one of {new_size}")
    if old_size in (0, new_size):
        return []
    proof: list[bytes] = []
    start, stop = 0, new_size
    # The old tree's last leaf is followed down; ``whole`` stays true while the old tree fills its part completely.
    whole = True
    while old_size != stop:
        middle = start + _split(stop - start)
        if old_size <= middle:
            proof.append(_range_hash(middle, stop, read_node))
            stop = middle
        else:
            proof.append(_range_hash(start, middle, read_node))
            start = middle
            whole = False
    if not whole:
        proof.append(_range_hash(start, stop, read_node))
    proof.reverse()
    return proof


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether ``proof`` shows that the leaf hash stands at ``index`` of the tree with this size and root."""
    if not 0 <= index < size or not _hashes((leaf, root, *proof)):
        return False
    node, last = index, size - 1
    current = leaf
    for sibling in proof:
        if last == 0:
            return False
        if node & 1 or node == last:
            current = node_hash(sibling, current)
            while not node & 1 and node:
                node >>= 1
                last >>= 1
        else:
            current = node_hash(current, sibling)
        node >>= 1
        last >>= 1
    return last == 0 and current == root


def verify_consistency(
    old_size: int, old_root: bytes, new_size: int, new_root: bytes, proof: Sequence[bytes]
) -> bool:
    """Whether ``proof`` shows that the tree (old size, old root) is a prefix of the tree (new size, new root)."""
    if not 0 <= old_size <= new_size or not _hashes((old_root, new_root, *proof)):
        return False
    if old_size == new_size:
        return not proof and old_root == new_root and (old_size > 0 or old_root == EMPTY_ROOT)
    if old_size == 0:
        return not proof and old_root == EMPTY_ROOT
    path = list(proof)
    if old_size & (old_size - 1) == 0:
        path.insert(0, old_root)
    if not path:
        return False
    node, last = old_size - 1, new_size - 1
    while node & 1:
        node >>= 1
        last >>= 1
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            old = node_hash(sibling, old)
            new = node_hash(sibling, new)
            while not node & 1 and node:
                node >>= 1
                last >>= 1
        else:
            new = node_hash(new, sibling)
        node >>= 1
        last >>= 1
    return last == 0 and old == old_root and new == new_root


def _split(count: int) -> int:
    """The largest power of two below ``count`` (RFC 6962's k), for a count of at least 2."""
    return 1 << ((count - 1).bit_length() - 1)


def _range_hash(start: int, stop: int, read_node: ReadNode) -> bytes:
    """The hash over leaves start … stop-1, a range that the recursion of RFC 6962 makes."""
    frontier = frontier_of(stop - start, lambda level, index: read_node(level, (start >> level) + index))
    return frontier.root()


def _hashes(values: Iterable[bytes]) -> bool:
    return all(len(value) == HASH_BYTES for value in values)
