"""The person's key: mandates and approvals are signed with it, here and nowhere else."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.wire.errors import AuthorityError
from duly.storage.home import Home
from duly.storage.keys import KeyRing

ROLE = "person"


def key_of(home: Home) -> Callable[[], Ed25519PrivateKey]:
    """The person's key of a data directory, loaded (and the first time made) when it is first needed."""
    kept: list[Ed25519PrivateKey] = []

    def load() -> Ed25519PrivateKey:
        if not kept:
            kept.append(_load(KeyRing(home.keys)))
        return kept[0]

    return load


def _load(ring: KeyRing) -> Ed25519PrivateKey:
    """The key; a passphrase is asked for at a terminal only, never taken from the environment or an argument."""
    try:
        return ring.private(ROLE)
    except AuthorityError as error:
        if error.code != "key.passphrase":
            raise
        if not sys.stdin.isatty():
            raise AuthorityError(
                "key.passphrase",
                "Your key has a passphrase, and there is no terminal to ask for it.",
                place=error.place,
                hint="Run the command at a terminal.",
            ) from None
    return ring.private(ROLE, getpass.getpass("Passphrase of your key: ").encode("utf-8"))
