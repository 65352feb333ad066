"""The envelope: every message between processes of duly, as canonical msgpack.

``kind`` picks the model of ``body``; an unknown kind or field is refused. ``cause`` is the id of the message or event
that led to this one. Bytes that are too large for a frame travel beside the envelopes as blobs, and the body names
them by digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from . import canon
from .errors import WireError
from .limits import FRAME_BYTES_MAX
from .model import Model, faults_of

Role = Literal[
    "harness",
    "planner",
    "executor",
    "verifier",
    "plan_cache",
    "audit_journal",
    "host",
    "front_door",
    "client",
]


class Envelope(Model):
    """A message with its body still as plain data; ``read_body`` gives the typed body."""

    v: Literal[1] = 1
    id: str = Field(min_length=1, max_length=64)
    kind: str
    sender: Role
    recipient: Role
    run_id: str = ""
    cause: str = ""
    epoch: int = 0
    body: dict[str, Any]


def pack(envelope: Envelope) -> bytes:
    """The canonical bytes of an envelope. Raises ``WireError`` for a body that has none, or is too large."""
    data = canon.encode(envelope.to_data())
    if len(data) > FRAME_BYTES_MAX:
        raise WireError(
            "wire.frame_too_large",
            f"A {envelope.kind} message of {len(data)} bytes exceeds the frame limit of {FRAME_BYTES_MAX}.",
            hint="Send large values as blobs.",
        )
    return data


def unpack(
    data: bytes, *, kinds: Mapping[str, type[Model]], recipient: Role | None = None
) -> tuple[Envelope, Model]:
    """The envelope and the typed body of bytes.

    Size and depth come first, then the form, then the models. Raises ``WireError``: ``wire.frame_too_large``,
    ``wire.too_deep``, ``wire.malformed``, ``wire.not_canonical``, ``wire.bad_envelope``, ``wire.unknown_kind``,
    ``wire.wrong_recipient``, ``wire.bad_body``.
    """
    value = canon.decode(data)
    try:
        envelope = Envelope.model_validate(value)
    except ValidationError as problem:
        raise WireError(
            "wire.bad_envelope", "This is no envelope.", faults=faults_of(problem, "wire.bad_envelope")
        ) from None
    if recipient is not None and envelope.recipient != recipient:
        raise WireError(
            "wire.wrong_recipient", f"This message is for a {envelope.recipient}, not for a {recipient}."
        )
    model = kinds.get(envelope.kind)
    if model is None:
        raise WireError("wire.unknown_kind", f"There is no message of kind {envelope.kind[:80]!r} here.")
    try:
        return envelope, model.model_validate(envelope.body)
    except ValidationError as problem:
        raise WireError(
            "wire.bad_body",
            f"The body of {envelope.kind} is not valid.",
            faults=faults_of(problem, "wire.bad_body"),
        ) from None
