"""For whom a gate waits: the people whom the package's policy names, else everybody whom this installation trusts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duly.protocol.machine.run import Run
from duly.protocol.plan.manifest_toml import parse_manifest
from duly.protocol.plan.package import MANIFEST_FILE
from duly.protocol.plan.policy import Policy
from duly.protocol.wire.errors import PackageError, StorageError
from duly.storage.home import Home
from duly.storage.keys import KeyRing
from duly.storage.packages import PackageStore

from .layout import count
from .person import ROLE

NAMES_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Approvers:
    """``named`` are the policy's; ``None`` where its snapshot cannot be read. ``trusted`` are the names of known keys,
    ``own`` those under which the key of this installation's person stands."""

    named: tuple[str, ...] | None
    trusted: tuple[str, ...]
    own: frozenset[str]

    def to_data(self) -> dict[str, Any]:
        """For a script: who may decide, and whether that is because the policy says so."""
        names = self.named or self.trusted
        return {
            "names": list(names),
            "by_policy": bool(self.named),
            "known": self.named is not None,
            "you": bool(self.own.intersection(names)),
        }

    def text(self) -> str:
        if self.named is None:
            return "people whom the policy names (its snapshot cannot be read here)"
        if self.named:
            missing = [name for name in self.named if name not in self.trusted]
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
    policy = policy_of(home, run)
    ring = KeyRing(home.keys)
    keys = ring.people()
    if (home.keys / "public" / f"{ROLE}.pub").exists():
        keys = {ROLE: ring.public(ROLE), **{name: key for name, key in keys.items() if name != ROLE}}
    own = frozenset(name for name, key in keys.items() if key == keys.get(ROLE))
    return Approvers(None if policy is None else tuple(policy.approvers), tuple(keys), own)


def policy_of(home: Home, run: Run) -> Policy | None:
    """The policy of the snapshot that a run works with, ``None`` where it is gone or damaged."""
    try:
        files = PackageStore(home.packages).get(run.mandate.package)
        return parse_manifest(files[MANIFEST_FILE], MANIFEST_FILE).policy
    except (PackageError, StorageError, KeyError):
        return None
