"""Checkpoints: what the log's key signs about the whole log, as a C2SP signed note.

    <origin>\\n<size>\\n<base64 root>\\n
    \\n
    — <name> <base64(key id ‖ signature)>\\n

The signature covers the text with its last newline, not the blank line. The key id is the first four bytes of
``SHA-256(name ‖ 0x0A ‖ 0x01 ‖ public key)``: one key under two names is two verifiers. A note is refused as a whole when
a known key's signature does not hold; signatures of unknown keys are ignored.

Source: C2SP signed-note, tlog-checkpoint and (for the cosignatures that are ignored here) tlog-cosignature.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ..wire.ed25519 import PUBLIC_KEY_BYTES, check_public_key, raw_public_key
from ..wire.errors import LogError
from ..wire.limits import NOTE_BYTES_MAX, NOTE_SIGNATURES_MAX
from .merkle import EMPTY_ROOT, HASH_BYTES

_ED25519 = b"\x01"
_SIGNATURE_BYTES = 64
_KEY_ID_BYTES = 4
_DASH = "\u2014 "
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f]")
_SIZE_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Origin (the log's name), number of entries, 32-byte root; ``extensions`` are further lines of the text."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def text(self) -> str:
        """The signed text, its last newline included."""
        lines = [self.origin, str(self.size), base64.b64encode(self.root).decode("ascii"), *self.extensions]
        return "".join(line + "\n" for line in lines)


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """The name and raw public key of somebody who signs notes."""

    name: str
    public: bytes

    @property
    def key_id(self) -> bytes:
        """The four bytes by which a signature line names its key."""
        named = self.name.encode("utf-8") + b"\n" + _ED25519 + self.public
        return hashlib.sha256(named).digest()[:_KEY_ID_BYTES]

    def __str__(self) -> str:
        encoded = base64.b64encode(_ED25519 + self.public).decode("ascii")
        return f"{self.name}+{self.key_id.hex()}+{encoded}"

    @classmethod
    def of(cls, name: str, key: Ed25519PrivateKey) -> VerifierKey:
        """The verifier of what ``key`` signs under ``name``."""
        _check_name(name)
        return cls(name, raw_public_key(key))

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        """A key from its one-line form ``name+<key id, 8 hex>+<base64 of 0x01 ‖ public key>``."""
        name, _, rest = text.strip().partition("+")
        key_id, _, encoded = rest.partition("+")
        _check_name(name)
        data = _base64(encoded)
        if data is None or len(data) != 1 + PUBLIC_KEY_BYTES or data[:1] != _ED25519:
            raise LogError(
                "log.verifier_key", "A verifier key reads name+id+base64 and holds an Ed25519 key."
            )
        check_public_key(data[1:])
        key = cls(name, data[1:])
        if key.key_id.hex() != key_id:
            raise LogError("log.verifier_key", f"The key id {key_id!r} is not that of the key beside it.")
        return key


def sign(checkpoint: Checkpoint, key: Ed25519PrivateKey, signature_prefix: bytes | None = None) -> bytes:
    """The note: the checkpoint's text and the signature line of ``key`` under the checkpoint's origin.

    ``signature_prefix`` is the key id where the caller has it already (a signer that makes one note a group).
    """
    prefix = signature_prefix or VerifierKey.of(checkpoint.origin, key).key_id
    text = checkpoint.text()
    signature = base64.b64encode(prefix + key.sign(text.encode("utf-8"))).decode("ascii")
    return f"{text}\n{_DASH}{checkpoint.origin} {signature}\n".encode()


def verify(note: bytes, keys: Iterable[VerifierKey]) -> Checkpoint:
    """The checkpoint of a note that at least one of ``keys`` signed *as the origin that it names*.

    Raises ``LogError``: ``log.note`` (not a note), ``log.checkpoint`` (not a checkpoint), ``log.signature`` (a known
    key's signature does not hold), ``log.unsigned`` (none of the known keys signed it).
    """
    text, signatures = _split(note)
    known = {(key.name, key.key_id): key for key in keys}
    signers = set()
    for name, key_id, signature in signatures:
        key = known.get((name, key_id))
        if key is None:
            continue
        _check_signature(key, signature, text)
        signers.add(name)
    checkpoint = parse_text(text)
    if checkpoint.origin not in signers:
        raise LogError(
            "log.unsigned",
            f"No known key signed this checkpoint as {checkpoint.origin!r}.",
            hint="Give the log's own verifier key.",
        )
    return checkpoint


def read_unverified(note: bytes) -> Checkpoint:
    """What a note claims, its signatures not looked at: to find one's place, never to believe it."""
    return parse_text(_split(note)[0])


def parse_text(text: str) -> Checkpoint:
    """The checkpoint in a note's text, unverified. Raises ``LogError`` ``log.checkpoint``."""
    origin, *rest = text.removesuffix("\n").split("\n")
    if len(rest) < 2 or not text.endswith("\n"):
        raise _bad("it has fewer than three lines")
    size_text, root_text, *extensions = rest
    if not origin:
        raise _bad("its origin is empty")
    if not (size_text.isascii() and size_text.isdigit()) or (size_text[0] == "0" and size_text != "0"):
        raise _bad("its size is no plain decimal number")
    if len(size_text) > 19 or int(size_text) > _SIZE_MAX:
        raise _bad("its size does not fit into 63 bits")
    root = _base64(root_text)
    if root is None or len(root) != HASH_BYTES:
        raise _bad("its root is not the base64 of 32 bytes")
    if size_text == "0" and root != EMPTY_ROOT:
        raise _bad("an empty log has another root")
    if "" in extensions:
        raise _bad("an extension line is empty")
    return Checkpoint(origin, int(size_text), root, tuple(extensions))


def _split(note: bytes) -> tuple[str, list[tuple[str, bytes, bytes]]]:
    """The text of a note and its signatures (name, key id, signature)."""
    if len(note) > NOTE_BYTES_MAX:
        raise LogError("log.note", f"A note has at most {NOTE_BYTES_MAX} bytes, this one has {len(note)}.")
    try:
        whole = note.decode("utf-8")
    except UnicodeDecodeError:
        raise LogError("log.note", "A note is UTF-8, this one is not.") from None
    if _CONTROL.search(whole):
        raise LogError("log.note", "A note holds no control character but newline.")
    head, blank, tail = whole.rpartition("\n\n")
    if not blank or not tail.endswith("\n"):
        raise LogError(
            "log.note", "A note has a text, a blank line and signature lines, each with a newline."
        )
    lines = tail.removesuffix("\n").split("\n")
    if len(lines) > NOTE_SIGNATURES_MAX:
        raise LogError("log.note", f"A note has at most {NOTE_SIGNATURES_MAX} signatures.")
    return head + "\n", [_signature_line(line) for line in lines]


def _signature_line(line: str) -> tuple[str, bytes, bytes]:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    data = _base64(encoded)
    if not line.startswith(_DASH) or data is None or len(data) <= _KEY_ID_BYTES:
        raise LogError(
            "log.note", "A signature line reads: em dash, blank, name, blank, base64 of id and signature."
        )
    _check_name(name)
    return name, data[:_KEY_ID_BYTES], data[_KEY_ID_BYTES:]


def _check_signature(key: VerifierKey, signature: bytes, text: str) -> None:
    check_public_key(key.public)
    try:
        if len(signature) != _SIGNATURE_BYTES:
            raise InvalidSignature
        Ed25519PublicKey.from_public_bytes(key.public).verify(signature, text.encode("utf-8"))
    except InvalidSignature:
        raise LogError(
            "log.signature", f"The signature of {key.name!r} under this note does not hold."
        ) from None


def _check_name(name: str) -> None:
    """Refuses a key name that is empty or holds white space, ``+`` or control characters."""
    if not name or "+" in name or any(c.isspace() or c < " " or c == "\x7f" for c in name):
        raise LogError(
            "log.key_name", f"The key name {name!r} is empty or holds a blank, '+' or a control character."
        )


def _base64(text: str) -> bytes | None:
    """The bytes, or None where the text is not exactly what encoding them would give."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None
    return data if base64.b64encode(data).decode("ascii") == text else None


def _bad(why: str) -> LogError:
    return LogError("log.checkpoint", f"This is no checkpoint: {why}.")
