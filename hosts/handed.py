"""What a process is told when it starts: canonical bytes that its parent hands over through an inherited file (``secrets``)."""

from __future__ import annotations

from typing import Self

from duly.protocol.wire import canon
from duly.protocol.wire.errors import RuntimeFault
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX
from duly.protocol.wire.model import Model


class Handed(Model):
    """A configuration on its way from a parent to its child."""

    def encode(self) -> bytes:
        return canon.encode(self.to_data())

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Raises ``RuntimeFault`` ``runtime.bad_config``."""
        value = canon.decode(data, bytes_max=ARTIFACT_BYTES_MAX)
        return cls.from_data(
            value, error=RuntimeFault, code="runtime.bad_config", what="The host's configuration"
        )
