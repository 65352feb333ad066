"""Outputs as a run holds them: canonical bytes of the tagged form, read when somebody asks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..plan import refs
from ..wire import canon
from ..wire.errors import WireError
from ..wire.limits import ARTIFACT_BYTES_MAX, OUTPUTS_DECODED_MAX


@lru_cache(maxsize=OUTPUTS_DECODED_MAX)
def decoded(data: bytes) -> Any:
    """The tagged value of output bytes. Callers never change it. Raises ``WireError``."""
    return canon.decode(data, bytes_max=ARTIFACT_BYTES_MAX)


def read_output(data: bytes) -> Any:
    """The tagged value of bytes that came from outside. Raises ``WireError``, also for what poses as a reference."""
    value = decoded(data)
    if not refs.is_data(value):
        raise WireError("wire.bad_tag", "The output holds a key with $ that is no tag of the lossless form.")
    return value
