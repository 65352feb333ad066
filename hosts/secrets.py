"""Keys and secrets on their way from the supervisor into a host: through an inherited file, never by name or argument.

A parent writes bytes into an anonymous file in memory, seals it and passes the descriptor; the child reads it once and
closes it. So nothing secret stands in an environment, in an argument list or on a disk.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.wire.errors import RuntimeFault
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


def new_key() -> Ed25519PrivateKey:
    """A fresh key of a host. It lives as long as the supervisor that made it and is written nowhere."""
    return Ed25519PrivateKey.generate()
