"""The tree against the recursive definition of RFC 6962, its published vectors, and every proof up to 130 leaves."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.log.merkle import (
    EMPTY_ROOT,
    Frontier,
    append,
    consistency_proof,
    frontier_of,
    inclusion_proof,
    leaf_hash,
    node_hash,
    node_place,
    nodes_completed_by,
    root_of,
    verify_consistency,
    verify_inclusion,
)

LEAVES_MAX = 130
LEAVES = [leaf_hash(b"leaf %d" % number) for number in range(LEAVES_MAX)]


def reference_root(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962 section 2.1, word for word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return node_hash(reference_root(leaves[:k]), reference_root(leaves[k:]))


COMPLETED = append(Frontier(), LEAVES).completed
ROOTS = [reference_root(LEAVES[:size]) for size in range(LEAVES_MAX + 1)]


def read_node(level: int, index: int) -> bytes:
    leaf, position = node_place(level, index)
    node = COMPLETED[leaf][position * 32 : position * 32 + 32]
    assert len(node) == 32
    return node


def test_published_vectors() -> None:
    # The tree of the certificate-transparency test data: eight leaves of growing length.
    data = [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ]
    roots = [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ]
    frontier = Frontier()
    assert frontier.root().hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    for entry, root in zip(data, roots, strict=True):
        frontier = append(frontier, [leaf_hash(bytes.fromhex(entry))]).frontier
        assert frontier.root().hex() == root


@pytest.mark.parametrize("size", range(LEAVES_MAX + 1))
def test_growth_in_any_groups_gives_the_recursive_root(size: int) -> None:
    whole = append(Frontier(), LEAVES[:size])
    assert whole.frontier.root() == ROOTS[size]
    assert root_of(size, read_node) == ROOTS[size]
    assert frontier_of(size, read_node) == whole.frontier
    part = append(Frontier(), LEAVES[: size // 3])
    rest = append(part.frontier, LEAVES[size // 3 : size])
    assert rest.frontier == whole.frontier
    assert part.completed + rest.completed == whole.completed
    assert [len(record) // 32 for record in whole.completed] == [
        nodes_completed_by(leaf) for leaf in range(size)
    ]


def test_every_inclusion_proof() -> None:
    for size in range(1, LEAVES_MAX + 1):
        for index in range(size):
            proof = inclusion_proof(index, size, read_node)
            assert verify_inclusion(LEAVES[index], index, size, proof, ROOTS[size])
            assert not verify_inclusion(LEAVES[index - 1], index, size, proof, ROOTS[size]) or size == 1
            assert not verify_inclusion(LEAVES[index], index, size, [*proof, EMPTY_ROOT], ROOTS[size])
            assert not verify_inclusion(LEAVES[index], index, size, proof, ROOTS[size - 1])
            if proof:
                assert not verify_inclusion(LEAVES[index], index, size, proof[:-1], ROOTS[size])
                assert not verify_inclusion(LEAVES[index], index, size, proof[1:], ROOTS[size])


def test_every_consistency_proof() -> None:
    for new in range(LEAVES_MAX + 1):
        for old in range(new + 1):
            proof = consistency_proof(old, new, read_node)
            assert verify_consistency(old, ROOTS[old], new, ROOTS[new], proof)
            assert not verify_consistency(old, ROOTS[old], new, ROOTS[new], [*proof, EMPTY_ROOT])
            if proof:
                assert not verify_consistency(old, ROOTS[old], new, ROOTS[new], proof[:-1])
                assert not verify_consistency(old, ROOTS[old], new, ROOTS[new], proof[1:])
                assert not verify_consistency(old, ROOTS[old - 1], new, ROOTS[new], proof)
                assert not verify_consistency(old, ROOTS[old], new, ROOTS[new - 1], proof)
            elif old < new:
                assert old == 0


@given(st.data())
def test_a_changed_hash_is_refused(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, LEAVES_MAX))
    index = data.draw(st.integers(0, size - 1))
    proof = inclusion_proof(index, size, read_node)
    at = data.draw(st.integers(0, len(proof) - 1))
    bit = data.draw(st.integers(0, 255))
    changed = int.from_bytes(proof[at], "big") ^ 1 << bit
    forged = [*proof[:at], changed.to_bytes(32, "big"), *proof[at + 1 :]]
    assert not verify_inclusion(LEAVES[index], index, size, forged, ROOTS[size])
    old = data.draw(st.integers(1, size - 1))
    proof = consistency_proof(old, size, read_node)
    at = data.draw(st.integers(0, len(proof) - 1))
    forged = [
        *proof[:at],
        (int.from_bytes(proof[at], "big") ^ 1 << bit).to_bytes(32, "big"),
        *proof[at + 1 :],
    ]
    assert not verify_consistency(old, ROOTS[old], size, ROOTS[size], forged)


hashes = st.binary(min_size=0, max_size=40) | st.sampled_from([*LEAVES[:4], *ROOTS[:8]])


@given(st.integers(-3, 300), st.integers(-3, 300), st.lists(hashes, max_size=20), hashes, hashes)
def test_any_proof_ends_in_accept_or_reject(
    first: int, second: int, proof: list[bytes], left: bytes, right: bytes
) -> None:
    accepted = verify_inclusion(left, first, second, proof, right)
    assert accepted in (True, False)
    if not 0 <= first < second:
        assert accepted is False
    accepted = verify_consistency(first, left, second, right, proof)
    assert accepted in (True, False)
    if not 0 <= first <= second:
        assert accepted is False


def test_sizes_beyond_any_tree_end_too() -> None:
    assert not verify_inclusion(LEAVES[0], 0, 1 << 200, [LEAVES[1]] * 10, ROOTS[2])
    assert not verify_consistency((1 << 200) - 1, ROOTS[1], 1 << 200, ROOTS[2], [LEAVES[1]] * 10)


@pytest.mark.parametrize(("index", "size"), [(0, 0), (1, 1), (5, 3), (-1, 3)])
def test_no_proof_for_a_leaf_that_is_not_there(index: int, size: int) -> None:
    with pytest.raises(ValueError, match="no leaf"):
        inclusion_proof(index, size, read_node)
    assert not verify_inclusion(LEAVES[0], index, size, [], LEAVES[0])


@pytest.mark.parametrize(("old", "new"), [(3, 2), (-1, 2)])
def test_no_proof_that_a_tree_shrank(old: int, new: int) -> None:
    with pytest.raises(ValueError, match="no prefix"):
        consistency_proof(old, new, read_node)


def test_a_repeated_last_leaf_changes_the_root() -> None:
    three = append(Frontier(), LEAVES[:3]).frontier.root()
    four = append(Frontier(), [*LEAVES[:3], LEAVES[2]]).frontier.root()
    assert three != four


def test_a_leaf_that_looks_like_a_node_is_none() -> None:
    left, right = LEAVES[:2]
    assert leaf_hash(left + right) != node_hash(left, right)
    assert (
        append(Frontier(), [leaf_hash(left + right)]).frontier.root()
        != append(Frontier(), [left, right]).frontier.root()
    )


def test_an_empty_tree_has_one_root_and_no_history() -> None:
    assert verify_consistency(0, EMPTY_ROOT, 0, EMPTY_ROOT, [])
    assert not verify_consistency(0, ROOTS[1], 0, ROOTS[1], [])
    assert not verify_consistency(0, ROOTS[1], 5, ROOTS[5], [])
    assert not verify_consistency(0, EMPTY_ROOT, 5, ROOTS[5], [ROOTS[5]])


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        frontier_of(-1, read_node)
