"""A look at every store before anything is started that would fail for it.

An actor that cannot open its store fails in Ray's way: slowly, and with Ray's story instead of the store's.
"""

from __future__ import annotations

from duly.storage.artifacts import ArtifactStore
from duly.storage.home import Home
from duly.storage.journal import Journal
from duly.storage.keys import KeyRing
from duly.storage.plan_cache import PlanCacheStore

from .settings import LOG_KEY, ORIGIN


def check_stores(home: Home) -> None:
    """Opens each store as its owner will, and closes it again. Raises what the owner would."""
    Journal.open(home.journal, KeyRing(home.keys).private(LOG_KEY), ORIGIN).close()
    ArtifactStore.open(home.artifacts).close()
    PlanCacheStore.open(home.plan_cache).close()
