"""The people whose signatures count here: this installation's own person, and whom it trusts."""

from __future__ import annotations

from collections.abc import Mapping

from duly.protocol.authority.signing import key_id
from duly.storage.home import Home
from duly.storage.keys import KeyRing

OWN = "person"


class People:
    """Read anew for every question: somebody trusted a minute ago counts, somebody removed does not."""

    def __init__(self, home: Home) -> None:
        self._folder = home.keys
        self._ring = KeyRing(home.keys)

    def keys(self) -> Mapping[str, bytes]:
        """Public keys by key id."""
        return {key_id(key): key for key in self._named().values()}

    def name(self, keyid: str) -> str:
        """The name of a key in the ring, empty for one that is not there."""
        return next((name for name, key in self._named().items() if key_id(key) == keyid), "")

    def _named(self) -> dict[str, bytes]:
        found = dict(self._ring.people())
        if (self._folder / "public" / f"{OWN}.pub").exists():
            found[OWN] = self._ring.public(OWN)
        return found
