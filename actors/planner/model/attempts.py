"""A call whose answer may be wrong in a way that the model can repair when it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duly.protocol.plan.model_call import ModelMessage, Purpose
from duly.protocol.wire.errors import Fault, ModelError

from ...model_session import Session
from ...prompt import Prompt

# Answers that were none: not JSON, not under the schema, cut off.
REPAIRABLE = frozenset(("model.bad_answer", "model.truncated"))


async def asked(
    session: Session,
    purpose: Purpose,
    prompt: Prompt,
    messages: Sequence[ModelMessage],
    schema_name: str,
    schema: dict[str, Any],
) -> tuple[Any, list[Fault]]:
    """The model's value, or what was wrong with its answer. Raises ``ModelError`` for what no other answer would mend."""
    try:
        return await session.ask(purpose, prompt, messages, schema_name, schema), []
    except ModelError as error:
        if error.code not in REPAIRABLE:
            raise
        return None, list(error.faults) or [Fault("", error.code, error.message)]
