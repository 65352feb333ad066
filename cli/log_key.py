"""The public key of the log, under the log's name."""

from __future__ import annotations

from duly.protocol.log.checkpoint import VerifierKey
from duly.protocol.wire.errors import AuthorityError
from duly.storage import journal_schema as schema
from duly.storage.home import Home
from duly.storage.keys import KeyRing
from duly.storage.lmdb_env import META, Environment

ROLE = "log"


def verifier_of(home: Home) -> VerifierKey:
    """The key in ``keys/public`` with the name that the journal bears. The name is the journal's claim, the key is not.

    Raises ``AuthorityError`` ``key.missing`` in a sentence for the person.
    """
    try:
        public = KeyRing(home.keys).public(ROLE)
    except AuthorityError as error:
        if error.code != "key.missing":
            raise
        raise AuthorityError(
            "key.missing",
            "The public key of this log is missing, so nothing in it can be trusted.",
            place=error.place,
            hint="Restore the folder keys/ from a backup.",
        ) from None
    with Environment.open(home.journal, schema.FORMAT, schema.VERSION, schema.DATABASES, writer=False) as env:
        name = env.read(lambda transaction: transaction.get(schema.ORIGIN_KEY, b"", db=env.database(META)))
    return VerifierKey(name.decode("utf-8", "replace"), public)
