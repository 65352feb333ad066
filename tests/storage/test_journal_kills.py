"""A writer that is killed at any moment: acknowledged ≤ recovered, and every group whole (attack list 12, 17, 25)."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from duly.storage.fsck import verify_journal
from duly.storage.journal import Journal

OpenJournal = Callable[[], Journal]


@pytest.mark.parametrize("seed", range(6))
def test_acknowledged_is_recovered_and_groups_are_whole(
    tmp_path: Path, open_journal: OpenJournal, child: Callable[..., Any], seed: int
) -> None:
    chance = random.Random(seed)
    published: dict[int, bytes] = {}
    for life in range(5):
        writer = child("journal_writer", tmp_path / "journal", seed * 100 + life)
        acknowledged = int(writer.hear())
        for _ in range(chance.randrange(12)):
            acknowledged = int(writer.hear())
        writer.kill()
        for line in writer.stdout:
            acknowledged = int(line)
        journal = open_journal()
        assert journal.size > acknowledged
        groups: dict[int, list[int]] = {}
        for entry in journal.read():
            groups.setdefault(entry.event["facts"]["group"], []).append(entry.event["facts"]["of"])
        for sizes in groups.values():
            assert sizes == [sizes[0]] * sizes[0]
        head = journal.head()
        assert published.setdefault(head.size, head.note) == head.note
        assert journal.epoch() == life + 1
        journal.close()
        report = verify_journal(tmp_path / "journal", [journal.verifier])
        assert report.faults == []
        assert report.size == head.size


@pytest.mark.parametrize("seed", range(3))
def test_a_writer_killed_while_it_creates_leaves_nothing_half(
    tmp_path: Path, open_journal: OpenJournal, child: Callable[..., Any], seed: int
) -> None:
    writer = child("create_slowly", tmp_path / "journal", seed)
    assert writer.hear() == "now"
    writer.kill()
    journal = open_journal()
    assert journal.size == 0
    journal.close()
    assert verify_journal(tmp_path / "journal", [journal.verifier]).ok
    assert [path.name for path in tmp_path.iterdir()] == ["journal"]
