"""For whom a gate waits: the people whom the package's policy names, else everybody whom this installation trusts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duly.protocol.authority.signing import key_id
from duly.protocol.machine.run import Run
from duly.storage.home import Home
from duly.storage.keys import KeyRing

from .layout import count
from .person import ROLE

NAMES_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Approvers:
    """``named`` are the policy's, names or key ids. ``trusted`` are the names of known keys, ``own`` the names and the id
    under which the key of this installation's person stands."""

    named: tuple[str, ...]
    trusted: tuple[str, ...]
    own: frozenset[str]

    def to_data(self) -> dict[str, Any]:
        """For a script: who may decide, whether because the policy says so, and whether that is whoever asks."""
        names = self.named or self.trusted
        return {
            "names": list(names),
            "by_policy": bool(self.named),
            "you": bool(self.own.intersection(names)),
        }

    def text(self) -> str:
        if self.named:
            missing = [name for name in self.named if name not in (*self.trusted, *self.own)]
            lacks = f"; no key is known here of {', '.join(missing)}" if missing else ""
            return f"{' or '.join(map(self._shown, self.named))}, by the policy of the package{lacks}"
        names = ", ".join(map(self._shown, self.trusted[:NAMES_SHOWN_MAX]))
        more = len(self.trusted) - NAMES_SHOWN_MAX
        if not names:
            return "anybody trusted here"
        return f"anybody trusted here: {names}" + (f" and {count(more, 'other')}" if more > 0 else "")

    def _shown(self, name: str) -> str:
        return f"{name} (you)" if name in self.own else name


def approvers_of(home: Home, run: Run) -> Approvers:
    """Who may decide a gate of a run."""
    ring = KeyRing(home.keys)
    keys = ring.people()
    own: set[str] = set()
    if (home.keys / "public" / f"{ROLE}.pub").exists():
        mine = ring.public(ROLE)
        keys = {ROLE: mine, **{name: key for name, key in keys.items() if name != ROLE}}
        own = {key_id(mine), *(name for name, key in keys.items() if key == mine)}
    return Approvers(tuple(run.policy.approvers), tuple(keys), frozenset(own))
