"""Which models a package asks for: ``[models]`` of its manifest, and the forms of a model's name and address.

    planner  = "openai:NAME"             who answers, and under which name; without it, no model plans
    critic   = "anthropic:NAME"          without it, no critic
    base_url = "http://127.0.0.1:8000/v1"   another server than the provider's own
    api_key  = { secret = "NAME" }       the key is DULY_PLANNER_SECRET_NAME, DULY_CRITIC_SECRET_NAME of the supervisor

A package holds no key: whoever can read a package could use it.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from ..wire.model import Model
from .model_call import ModelRole

_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}:[!-~]{1,160}")


def _model_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError('write a model as "provider:name", for instance "openai:gpt-5-mini"')
    return text


def _base_url(text: str) -> str:
    wrong = "give an address such as http://127.0.0.1:8000/v1, without user, `?` and `#`"
    if not text.isascii() or any(sign.isspace() or not sign.isprintable() for sign in text):
        raise ValueError(wrong)
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError:
        raise ValueError(wrong) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(wrong)
    if "@" in parts.netloc or "?" in text or "#" in text:
        raise ValueError(wrong)
    return text.rstrip("/")


def _no_key(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError('a key does not stand in a package; write { secret = "NAME" }')
    return value


ModelName = Annotated[str, AfterValidator(_model_name)]
BaseUrl = Annotated[str, Field(max_length=2_000), AfterValidator(_base_url)]


class SecretName(Model):
    """A secret by its name; the supervisor's environment holds it under ``DULY_<ROLE>_SECRET_<NAME>``."""

    secret: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]


class Models(Model):
    """``[models]``. Address and key go together: what another place sets is never mixed with them."""

    planner: ModelName | None = None
    critic: ModelName | None = None
    base_url: BaseUrl | None = None
    api_key: Annotated[SecretName | None, BeforeValidator(_no_key)] = None

    @model_validator(mode="after")
    def _used(self) -> Self:
        if self.planner is None and self.critic is None and (self.base_url or self.api_key):
            raise ValueError("name a planner or a critic; nothing uses the address and the key")
        return self

    def of(self, role: ModelRole) -> str | None:
        """The model of a role, as ``provider:name``."""
        return self.planner if role == "planner" else self.critic

    def named(self) -> list[str]:
        """What the package asks for, each as ``planner openai:NAME``."""
        given = {"planner": self.planner, "critic": self.critic}
        return [f"{role} {name}" for role, name in given.items() if name is not None]
