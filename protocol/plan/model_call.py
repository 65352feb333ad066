"""One call of a language model: what is asked, what it took, and what came back.

A model never sees a tool: it is given texts and a JSON Schema, and answers with one JSON value. Whatever the value is, it
is untrusted data for whoever asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from ..wire import canon
from ..wire.ids import Digest
from ..wire.limits import (
    MODEL_BYTES_PER_TOKEN,
    MODEL_MESSAGE_TOKENS,
    MODEL_MESSAGES_MAX,
    MODEL_TEXT_BYTES_MAX,
)
from ..wire.model import Model

Purpose = Literal["plan", "arguments", "direct", "reason", "critic"]
ModelRole = Literal["planner", "critic"]
OutputMode = Literal["strict", "json", "text"]


class ModelMessage(Model):
    """One text of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str = Field(max_length=MODEL_TEXT_BYTES_MAX)


class ModelCall(Model):
    """What a model host is asked for: one JSON value under ``json_schema``.

    ``prompt`` names the prompt file and its version (``plan.v1``), ``prompt_digest`` is over its bytes. ``tokens_max`` is
    what the whole call may take, prompt and answer; the host enforces it. ``seconds_max`` ends the call.
    """

    purpose: Purpose
    prompt: str
    prompt_digest: Digest
    messages: list[ModelMessage] = Field(min_length=1, max_length=MODEL_MESSAGES_MAX)
    schema_name: str
    json_schema: dict[str, Any]
    tokens_max: int = Field(ge=1)
    seconds_max: int = Field(ge=1, le=3_600)

    @property
    def prompt_tokens(self) -> int:
        """What the texts and the schema take, counted before a server has counted them; rather too many than too few."""
        texts = sum(len(message.text.encode("utf-8", "replace")) for message in self.messages)
        data = texts + len(repr(self.json_schema))
        return -(-data // MODEL_BYTES_PER_TOKEN) + MODEL_MESSAGE_TOKENS * (len(self.messages) + 1)

    def digest(self) -> Digest:
        """What is asked, whatever it may take: by this a recorded answer is found again."""
        asked = self.to_data()
        return canon.digest("model_call", {name: asked[name] for name in asked if not name.endswith("_max")})

    def failed(self, code: str, *, tokens_in: int = 0, tokens_out: int = 0, duration_ms: int = 0) -> ModelUse:
        """The use of this call where no model is known to have answered it, or which."""
        return ModelUse(
            purpose=self.purpose,
            prompt=self.prompt,
            prompt_digest=self.prompt_digest,
            model="",
            mode="strict",
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            duration_ms=duration_ms,
            code=code,
        )


class ModelUse(Model):
    """What one call took, whether it gave an answer or failed (then ``code`` says how).

    ``model`` is ``provider:name``, ``mode`` the way in which the schema was asked for, ``parameters`` what was sent
    beside the texts. ``cost`` is in millionths of the price list's currency, 0 where no price is known.
    """

    purpose: Purpose
    prompt: str
    prompt_digest: Digest
    model: str
    mode: OutputMode
    parameters: dict[str, Any] = Field(default_factory=dict)
    tokens_in: int = Field(default=0, ge=0)
    tokens_out: int = Field(default=0, ge=0)
    cost: int = Field(default=0, ge=0)
    duration_ms: int = Field(default=0, ge=0)
    code: str = ""

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True, slots=True)
class Used:
    """One call that was made, failed ones too, with the exact bytes that went and came, keys removed.

    ``call`` is the digest of what was asked, ``value`` the canonical answer; of a call that failed, what a replay needs to
    fail in the same way (``actors/model_replay``). Empty where neither has a canonical form.
    """

    use: ModelUse
    call: str
    request: bytes
    response: bytes
    value: bytes = b""
