"""What every actor's process does first: a log of its own, no core dumps, and a quiet garbage collector."""

from __future__ import annotations

import gc
import logging
import os
import resource

from .settings import Settings

LOG_BYTES_MAX = 4 << 20
COLLECT_AFTER_ALLOCATIONS = 50_000  # Python's own 700 is for programs that make one object at a time


def begin(settings: Settings, role: str) -> None:
    """Logs go to ``run/<role>.log`` of the data directory. Nothing that travels between actors is written there."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)
    from logging.handlers import RotatingFileHandler

    path = settings.place.run / f"{role}.log"
    handler = RotatingFileHandler(path, maxBytes=LOG_BYTES_MAX, backupCount=1, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("duly")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    # A full collection walks every object of Ray and of the libraries: 130 ms, twice in a run of a thousand steps. What is
    # there now stays for good, so it is never looked at again.
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER_ALLOCATIONS)
    logger.info("%s started as process %d", role, os.getpid())
