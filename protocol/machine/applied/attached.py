"""Reading what is attached to an event."""

from __future__ import annotations

from typing import Any

from ...wire import canon
from ...wire.limits import ARTIFACT_BYTES_MAX
from ..events import Event


def value_of(event: Event, name: str) -> Any:
    """The value attached to an event under a name. Raises ``KeyError`` where there is none."""
    return canon.decode(event.attached[name], bytes_max=ARTIFACT_BYTES_MAX)
