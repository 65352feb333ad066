"""Names and digests: what may be one, and fixed values that must never change."""

from __future__ import annotations

import hashlib

import pytest

from duly.protocol.wire.errors import WireError
from duly.protocol.wire.ids import digest_bytes, is_digest, is_name, salted_digest


@pytest.mark.parametrize("text", ["a", "Z9", "s1", "p-r1", "a.b:c_d-e", "0", "x" * 128])
def test_names(text: str):
    assert is_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-a",
        ".a",
        ":a",
        "_a",
        "a b",
        "a/b",
        "a\n",
        "a\x00",
        "é",
        "a#b",
        "x" * 129,
        "a\u200b",
        "../a",
        "a$",
    ],
)
def test_no_names(text: str):
    assert not is_name(text)


def test_digests_are_64_lowercase_digits():
    assert is_digest("0" * 64) and is_digest("abcdef0123456789" * 4)
    for text in ("", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "0" * 64 + "\n"):
        assert not is_digest(text)


def test_a_digest_stands_under_its_domain():
    """SHA-256 of ``duly/v1/<domain>\\0<bytes>``; journals hold such digests, so they never change."""
    assert digest_bytes("plan", b"") == hashlib.sha256(b"duly/v1/plan\x00").hexdigest()
    assert digest_bytes("plan", b"") == "5926856607c7b137974acd6d74a16c14c50e8d410af95509ae310b50d4f4b58f"
    values = {digest_bytes("plan", b"x"), digest_bytes("arguments", b"x"), digest_bytes("plan", b"y")}
    assert len(values) == 3 and all(is_digest(value) for value in values)


def test_no_domain_runs_into_its_bytes():
    assert digest_bytes("plan", b"x") != digest_bytes("pla", b"n\x00x")


def test_an_artifacts_name_is_salted():
    salt = bytes(range(16))
    assert salted_digest(salt, b"rows") == hashlib.sha256(salt + b"rows").hexdigest()
    assert salted_digest(salt, b"rows") != salted_digest(bytes(16), b"rows")


@pytest.mark.parametrize("length", [0, 15, 17])
def test_a_salt_has_sixteen_bytes(length: int):
    with pytest.raises(WireError) as caught:
        salted_digest(bytes(length), b"rows")
    assert caught.value.code == "wire.salt"
