"""Asking an actor: again where it went away and asking is harmless, and with an error of ours for whatever goes wrong."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from duly.protocol.wire.errors import DulyError, RuntimeFault
from duly.protocol.wire.limits import ACTOR_TRIES_MAX

T = TypeVar("T")
AWAY = ("runtime.actor_lost", "runtime.host_lost", "runtime.host_unreachable")
log = logging.getLogger("duly")


async def again(ask: Callable[[], Awaitable[T]]) -> T:
    """What ``ask`` gives, asked anew while who is asked goes away; a bounded number of times. Raises ``DulyError``.

    The transport waits for an actor that is started again, so no try is wasted on one that is away.
    """
    for _ in range(ACTOR_TRIES_MAX - 1):
        try:
            return await once(ask)
        except DulyError as error:
            if error.code not in AWAY:
                raise
    return await once(ask)


async def once(ask: Callable[[], Awaitable[T]]) -> T:
    """What ``ask`` gives. A fault of ours becomes ``runtime.internal``: a run must hear of it, or it would wait for ever."""
    try:
        return await ask()
    except DulyError:
        raise
    except Exception as problem:
        log.exception("an order failed")
        raise RuntimeFault(
            "runtime.internal", f"The harness failed with {type(problem).__name__}; see its log."
        ) from None
