"""Key files: made once, closed to others, and public keys that are refused (attack list 11)."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.wire.errors import AuthorityError, DulyError
from duly.storage.keys import KeyRing, read_public

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()
IDENTITY = (1).to_bytes(32, "little")


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    return KeyRing(tmp_path / "keys")


def code_of(call: Callable[[], Any]) -> str:
    with pytest.raises(DulyError) as caught:
        call()
    return caught.value.code


def test_a_key_is_made_once_and_stays(ring: KeyRing, tmp_path: Path) -> None:
    assert not ring.has("harness")
    key = ring.private("harness")
    assert ring.has("harness")
    raw = key.private_bytes_raw()
    assert ring.private("harness").private_bytes_raw() == raw
    assert KeyRing(tmp_path / "keys").load("harness").private_bytes_raw() == raw
    assert ring.public("harness") == key.public_key().public_bytes_raw()
    assert ring.private("log").private_bytes_raw() != raw
    assert (tmp_path / "keys" / "harness.key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700
    names = sorted(str(path.relative_to(tmp_path / "keys")) for path in (tmp_path / "keys").rglob("*"))
    assert names == ["harness.key", "log.key", "public", "public/harness.pub", "public/log.pub"]


def test_several_processes_at_once_get_the_same_key(tmp_path: Path, child: Callable[..., Any]) -> None:
    children = [child("make_key", tmp_path / "keys", "person") for _ in range(4)]
    assert [one.hear() for one in children] == ["ready"] * 4
    for one in children:
        one.say("go")
    heard = {one.hear() for one in children}
    assert heard == {KeyRing(tmp_path / "keys").public("person").hex()}


def test_a_crash_before_the_key_has_its_name_leaves_no_half_key(
    ring: KeyRing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", fail)
        assert code_of(lambda: ring.private("log")) == "storage.full"
    assert not ring.has("log")
    assert [path.name for path in (tmp_path / "keys").iterdir()] == []
    ring.private("log")


def test_a_crash_before_the_public_part_is_made_good(ring: KeyRing, tmp_path: Path) -> None:
    key = ring.private("log")
    (tmp_path / "keys" / "public" / "log.pub").unlink()
    assert code_of(lambda: ring.public("log")) == "key.missing"
    ring.private("log")
    assert ring.public("log") == key.public_key().public_bytes_raw()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_private_key_that_others_may_read_is_refused(ring: KeyRing, tmp_path: Path, mode: int) -> None:
    ring.private("log")
    (tmp_path / "keys" / "log.key").chmod(mode)
    assert code_of(lambda: ring.private("log")) == "key.readable_by_others"
    (tmp_path / "keys" / "log.key").chmod(0o400)
    ring.private("log")


def test_what_is_no_private_key(ring: KeyRing, tmp_path: Path) -> None:
    path = tmp_path / "keys" / "log.key"
    other_kind = generate_private_key(SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.parent.mkdir()
    for content in (b"", b"half a k", b"-----BEGIN PRIVATE KEY-----\n", other_kind, bytes(10_000)):
        path.write_bytes(content)
        path.chmod(0o600)
        assert code_of(lambda: ring.private("log")) == "key.malformed"
        assert path.read_bytes() == content


def test_a_private_key_that_is_a_link_or_a_pipe_is_refused(ring: KeyRing, tmp_path: Path) -> None:
    ring.private("log")
    (tmp_path / "keys" / "harness.key").symlink_to(tmp_path / "keys" / "log.key")
    assert code_of(lambda: ring.private("harness")) == "storage.denied"
    (tmp_path / "keys" / "person.key").symlink_to(tmp_path / "nowhere")
    assert code_of(lambda: ring.private("person")) == "storage.denied"
    os.mkfifo(tmp_path / "keys" / "host.key", 0o600)
    assert code_of(lambda: ring.private("host")) == "key.malformed"
    (tmp_path / "keys" / "read.key").mkdir(0o700)
    assert code_of(lambda: ring.private("read")) in ("key.malformed", "storage.denied")


def test_a_passphrase_is_needed_where_there_is_one(ring: KeyRing, tmp_path: Path) -> None:
    key = ring.private("person", b"secret")
    assert ring.load("person", b"secret").private_bytes_raw() == key.private_bytes_raw()
    assert code_of(lambda: ring.load("person")) == "key.passphrase"
    assert code_of(lambda: ring.load("person", b"other")) == "key.passphrase"
    assert b"ENCRYPTED" in (tmp_path / "keys" / "person.key").read_bytes()
    ring.private("log")
    assert code_of(lambda: ring.load("log", b"secret")) == "key.passphrase"


@pytest.mark.parametrize("name", ["", "../log", "a/b", ".hidden", "a b", "x" * 129, "caf\u00e9", "a\0"])
def test_names_that_are_none(ring: KeyRing, name: str) -> None:
    assert code_of(lambda: ring.private(name)) == "key.name"
    assert code_of(lambda: ring.public(name)) == "key.name"
    assert code_of(lambda: ring.trust(name, PUBLIC)) == "key.name"


def test_keys_of_hosts_and_people_are_registered_once(ring: KeyRing) -> None:
    ring.register("host-read", PUBLIC)
    ring.register("host-read", PUBLIC)
    other = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    assert code_of(lambda: ring.register("host-read", other)) == "key.mismatch"
    assert ring.public("host-read") == PUBLIC
    assert ring.people() == {}
    ring.trust("ada", PUBLIC)
    ring.trust("grace", other)
    assert code_of(lambda: ring.trust("ada", other)) == "key.mismatch"
    assert ring.people() == {"ada": PUBLIC, "grace": other}


def test_small_order_keys_are_refused_wherever_they_come_in(ring: KeyRing, tmp_path: Path) -> None:
    assert code_of(lambda: ring.register("host-read", IDENTITY)) == "key.small_order"
    assert code_of(lambda: ring.trust("mallory", IDENTITY)) == "key.small_order"
    assert not (tmp_path / "keys").exists()
    people = tmp_path / "keys" / "people"
    people.mkdir(parents=True)
    (people / "mallory.pub").write_text(IDENTITY.hex())
    assert code_of(ring.people) == "key.small_order"
    (people / "mallory.pub").write_text("rubbish")
    with pytest.raises(AuthorityError) as caught:
        ring.people()
    assert caught.value.code == "key.malformed" and str(people / "mallory.pub") in str(caught.value)


def test_an_exported_part_that_was_swapped_is_noticed(ring: KeyRing, tmp_path: Path) -> None:
    ring.private("log")
    other = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    (tmp_path / "keys" / "public" / "log.pub").write_text(other.hex())
    assert code_of(lambda: ring.private("log")) == "key.mismatch"


def test_public_keys_in_the_usual_forms() -> None:
    public = KEY.public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    ssh = public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    for form in (pem, ssh + b" ada@example\n", PUBLIC.hex().encode() + b"\n", base64.b64encode(PUBLIC)):
        assert read_public(form) == PUBLIC
    ec = generate_private_key(SECP256R1()).public_key()
    for form in (
        b"",
        b"ssh-ed25519 AAAA",
        ec.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
        ec.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH),
        base64.b64encode(PUBLIC[:31]),
        b"x" * 64,
        b"\xff" * 64,
    ):
        assert code_of(lambda form=form: read_public(form)) == "key.malformed"  # type: ignore[misc]
