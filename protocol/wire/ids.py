"""Names of things, as types that cannot be mixed up, and the digests under which bytes are known.

A digest is the lowercase hexadecimal SHA-256 of ``duly/v1/<domain>\\0<bytes>``: the domain keeps the digest of a plan
from ever being taken for the digest of an argument.
"""

from __future__ import annotations

import hashlib
import re
from typing import NewType

from .errors import WireError
from .limits import IDENTIFIER_CHARS_MAX

RunId = NewType("RunId", str)
PlanId = NewType("PlanId", str)
StepId = NewType("StepId", str)
MessageId = NewType("MessageId", str)
Digest = NewType("Digest", str)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def is_name(text: str) -> bool:
    """Whether a text may be an id: ASCII letters, digits and ``_ . : -``, at most 128, a letter or digit first."""
    return len(text) <= IDENTIFIER_CHARS_MAX and _NAME.match(text) is not None


def is_digest(text: str) -> bool:
    """Whether a text is 64 lowercase hexadecimal digits."""
    return _DIGEST.match(text) is not None


def digest_bytes(domain: str, data: bytes) -> Digest:
    """The digest of bytes under a domain such as ``plan`` or ``arguments``."""
    return Digest(hashlib.sha256(b"duly/v1/" + domain.encode("ascii") + b"\0" + data).hexdigest())


def salted_digest(salt: bytes, data: bytes) -> Digest:
    """The name of an artifact: SHA-256 of salt ‖ bytes. The salt is 16 random bytes, one a run."""
    if len(salt) != 16:
        raise WireError("wire.salt", f"A salt has 16 bytes, this one has {len(salt)}.")
    return Digest(hashlib.sha256(salt + data).hexdigest())
