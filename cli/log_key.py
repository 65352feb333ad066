"""The public key of the log, under the log's name: what reading and verifying trust."""

from __future__ import annotations

from duly.actors.runtime.settings import LOG_KEY, ORIGIN
from duly.protocol.log.checkpoint import VerifierKey
from duly.protocol.wire.errors import AuthorityError
from duly.storage.home import Home
from duly.storage.keys import KeyRing


def verifier_of(home: Home) -> VerifierKey:
    """The log's key in ``keys/public``. Raises ``AuthorityError`` ``key.missing`` in a sentence for the person."""
    try:
        return VerifierKey(ORIGIN, KeyRing(home.keys).public(LOG_KEY))
    except AuthorityError as error:
        if error.code != "key.missing":
            raise
        raise AuthorityError(
            "key.missing",
            "The public key of this log is missing, so nothing in it can be trusted.",
            place=error.place,
            hint="Restore the folder keys/ from a backup.",
        ) from None
