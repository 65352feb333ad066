"""Used grants and the epoch outlive the process; a torn last line does not stop a host, a strange one does."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.hosts.ledger import DurableLedger, Ledger
from duly.protocol.wire.errors import RuntimeFault
from duly.protocol.wire.limits import NONCE_KEPT_SECONDS

NOW = 1_700_000_000_000


def _codes(ledger: Ledger, *nonces: str) -> list[str]:
    return [why.code if why else "" for why in ledger.use([(one, NOW) for one in nonces], NOW)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "used_grants"


def _reopened(path, now_ms: int = NOW) -> DurableLedger:
    return DurableLedger(path, now_ms)


def test_a_grant_is_used_once_also_after_a_restart(path):
    ledger = _reopened(path)
    assert _codes(ledger, "a", "b", "a") == ["", "", "grant.replayed"]
    ledger.raise_epoch(4)
    ledger.raise_epoch(3)
    ledger.close()
    again = _reopened(path)
    assert (again.epoch, _codes(again, "b", "c")) == (4, ["grant.replayed", ""])
    again.close()


@given(st.integers(0, 30))
def test_a_crash_while_appending_loses_only_what_was_not_acted_on(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("ledger") / "used_grants"
    ledger = _reopened(path)
    _codes(ledger, "kept")
    ledger.close()
    whole = path.read_bytes()
    line = b"nonce 1700000000000 torn"
    path.write_bytes(whole + line[: min(cut, len(line))])
    again = _reopened(path)
    assert _codes(again, "kept", "torn") == ["grant.replayed", ""]
    again.close()
    last = _reopened(path)
    assert _codes(last, "torn") == ["grant.replayed"]
    last.close()


@pytest.mark.parametrize("line", ["nonce x y", "epoch -1", "rubbish", "nonce 1 a b"])
def test_a_line_of_another_version_stops_the_host(path, line):
    path.parent.mkdir()
    path.write_text(line + "\nepoch 1\n")
    with pytest.raises(RuntimeFault) as why:
        _reopened(path)
    assert why.value.code == "runtime.ledger_damaged"
    assert why.value.place == f"{path}:1"


def test_a_second_holder_is_told_who_holds_it(path):
    ledger = _reopened(path)
    with pytest.raises(RuntimeFault) as why:
        _reopened(path)
    assert why.value.code == "runtime.held"
    ledger.close()
    _reopened(path).close()


def test_long_expired_grants_are_forgotten_at_a_start(path):
    ledger = _reopened(path)
    _codes(ledger, "old")
    ledger.close()
    _reopened(path, NOW + NONCE_KEPT_SECONDS * 1_000 + 1).close()
    assert path.read_text() == f"since {NOW + 1}\nepoch 0\n"


def test_a_nonce_that_could_forge_a_line_is_refused(path):
    ledger = _reopened(path)
    assert _codes(ledger, "a\nepoch 99", "", "a b") == ["grant.malformed"] * 3
    ledger.close()
    again = _reopened(path)
    assert again.epoch == 0
    again.close()


def test_a_grant_that_was_settled_unused_stays_void_and_says_so_again(path):
    ledger = _reopened(path)
    assert ledger.settle("a", NOW, NOW) == "void"
    assert _codes(ledger, "a") == ["grant.replayed"]
    ledger.close()
    again = _reopened(path)
    assert (again.settle("a", NOW, NOW), _codes(again, "a", "b")) == ("void", ["grant.replayed", ""])
    assert again.settle("b", NOW, NOW) == "used"
    again.close()


def test_what_may_have_been_forgotten_is_not_called_unused(path):
    """A machine that was off for weeks: its ledger has dropped the grant, which may have been used all the same."""
    ledger = _reopened(path)
    _codes(ledger, "used-long-ago")
    ledger.close()
    later = NOW + NONCE_KEPT_SECONDS * 1_000 + 5
    again = _reopened(path, later)
    assert again.settle("used-long-ago", NOW, later) == "forgotten"
    assert again.settle("of-today", later, later) == "void"
    again.close()


def test_a_ledger_that_was_lost_does_not_vouch_for_what_was_before_it(path):
    ledger = _reopened(path)
    _codes(ledger, "used")
    ledger.close()
    path.unlink()
    again = _reopened(path, NOW + 10)
    assert again.settle("used", NOW, NOW) == "forgotten"
    again.close()


def test_a_full_disk_leaves_a_grant_unused_and_the_ledger_readable(path, monkeypatch):
    ledger = _reopened(path)
    _codes(ledger, "kept")
    whole_write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, data: whole_write(fd, data[: len(data) // 2]))
        with pytest.raises(RuntimeFault) as refused:
            _codes(ledger, "torn")
    assert refused.value.code == "runtime.disk_full"
    assert _codes(ledger, "torn", "next") == ["", ""], "there is room again, and nothing ran before"
    ledger.close()
    again = _reopened(path)
    assert _codes(again, "kept", "torn", "next") == ["grant.replayed"] * 3
    again.close()
