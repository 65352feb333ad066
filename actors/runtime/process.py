"""What every actor's process does first: a log of its own, and no core dumps."""

from __future__ import annotations

import logging
import os
import resource

from .settings import Settings

LOG_BYTES_MAX = 4 << 20


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
    logger.info("%s started as process %d", role, os.getpid())
