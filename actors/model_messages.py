"""The messages about models: who would be asked, and what a model is asked for beside plans and reviews."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from duly.protocol.wire.model import Model

from .model_terms import ModelTerms, UseTold


class AskArguments(Model):
    """To the planner's model: the open arguments of a step. Blob 0 holds the tagged inputs by name."""

    package: str
    request: dict[str, Any]
    step: dict[str, Any]
    descriptor: dict[str, Any]
    withheld: list[str] = Field(default_factory=list)
    terms: ModelTerms


class AskReason(Model):
    """To the planner's model: a reason step. Blob 0 holds the tagged inputs by name."""

    package: str
    step: dict[str, Any]
    withheld: list[str] = Field(default_factory=list)
    terms: ModelTerms


class AskTurn(Model):
    """To the planner's model: the next turn of a direct run. Blob 0 holds the descriptors, blob 1 the turns so far."""

    package: str
    agent: str
    request: dict[str, Any]
    last: bool
    terms: ModelTerms


class ModelAnswered(Model):
    """Blob 0 is the tagged value: arguments, an output, or a turn (``{answer}``, ``{tool, arguments, why}``)."""

    error: dict[str, Any] | None = None
    uses: list[UseTold] = Field(default_factory=list)
