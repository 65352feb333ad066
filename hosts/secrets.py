"""Keys and secrets on their way from the supervisor into a host: through an inherited file, never by name or argument.

A parent writes bytes into an anonymous file in memory, seals it and passes the descriptor; the child reads it once and
closes it. So nothing secret stands in an environment, in an argument list or on a disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from duly.protocol.wire.ed25519 import check_public_key
from duly.protocol.wire.errors import AuthorityError, RuntimeFault
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX


def hand_over(data: bytes) -> int:
    """A descriptor from which a child can read these bytes; not inherited unless it is named to the child."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("duly", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    if hasattr(fcntl, "F_ADD_SEALS"):
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return fd


def take_over(fd: int) -> bytes:
    """The bytes that the parent handed over. The descriptor is closed afterwards."""
    try:
        os.lseek(fd, 0, os.SEEK_SET)
        parts, total = [], 0
        while part := os.read(fd, 1 << 16):
            parts.append(part)
            total += len(part)
            if total > ARTIFACT_BYTES_MAX:
                raise RuntimeFault("runtime.bad_config", "What the parent handed over does not end.")
    except OSError as error:
        raise RuntimeFault(
            "runtime.bad_config", f"The inherited file {fd} cannot be read: {error.strerror}."
        ) from None
    finally:
        os.close(fd)
    return b"".join(parts)


def write_public_key(path: Path, raw: bytes) -> None:
    """Writes a public key (hexadecimal, one line) aside and renames it, so that a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    aside = path.with_name(path.name + f".{os.getpid()}.new")
    aside.write_text(raw.hex() + "\n", encoding="ascii")
    os.replace(aside, path)


def private_key(path: Path) -> Ed25519PrivateKey:
    """The private key in a PKCS#8 PEM file, mode 0600, which is made when it is missing.

    The format and the name are those of ``storage/keys``; of several processes at once, one makes the file. Raises
    ``AuthorityError``: ``key.readable_by_others``, ``key.malformed``.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        pem = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        aside = path.with_name(f".{path.name}.{os.getpid()}.part")
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(pem)
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(aside, path)
        finally:
            os.unlink(aside)
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(fd, "rb") as file:
        if os.fstat(fd).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise AuthorityError(
                "key.readable_by_others", "This private key may be read by other users.", place=str(path)
            )
        try:
            key = serialization.load_pem_private_key(file.read(), None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise AuthorityError("key.malformed", "This file holds no Ed25519 private key.", place=str(path))
    return key


def read_public_keys(places: Sequence[str]) -> list[bytes]:
    """The public keys in files, and in the ``*.pub`` files of folders: PEM, or 64 hexadecimal digits.

    A missing place holds none. Raises ``AuthorityError`` ``key.malformed`` for a file that is no key, and what
    ``check_public_key`` refuses.
    """
    found = []
    for place in map(Path, places):
        for path in sorted(place.glob("*.pub")) if place.is_dir() else [place]:
            if path.is_file():
                found.append(_public_key(path))
    return found


def _public_key(path: Path) -> bytes:
    data = path.read_bytes().strip()
    try:
        if data.startswith(b"-----BEGIN"):
            key = serialization.load_pem_public_key(data)
            raw = key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else b""
        else:
            raw = bytes.fromhex(data.decode("ascii"))
    except (ValueError, UnsupportedAlgorithm):
        raw = b""
    if not raw:
        raise AuthorityError("key.malformed", "This is no Ed25519 public key.", place=str(path))
    check_public_key(raw)
    return raw
