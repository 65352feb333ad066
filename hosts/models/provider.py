"""From a setting to a model of the client library: the one place that knows which library that is.

The decision for it: ``docs/decisions/model-client-library.md``. Importing this module costs most of a second and some
50 MB, so only a host that is asked for a call does.
"""

from __future__ import annotations

import difflib
import inspect
from typing import Any, get_args

from httpx2 import AsyncClient
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage as LibraryMessage
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import KnownModelName, Model, ModelRequestParameters, infer_model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from duly.protocol.plan.model_call import ModelMessage, OutputMode
from duly.protocol.wire.errors import ModelError

from .settings import Setting

_OPENAI = ("openai", "openai-chat")
_NO_KEY = "none"  # the library wants some key; a server that needs none ignores it


def model_of(setting: Setting, http: AsyncClient, *, completion_tokens: bool) -> Model[Any]:
    """The library's model for a setting. Raises ``ModelError``: ``model.bad_setting``, ``model.extra_missing``.

    ``completion_tokens``: whether a server at ``base_url`` wants the limit as ``max_completion_tokens``.
    """
    if setting.provider in _OPENAI:
        if not setting.base_url and not setting.key:
            raise _no_key(setting)
        provider = OpenAIProvider(
            base_url=setting.base_url or "https://api.openai.com/v1",
            api_key=setting.key or _NO_KEY,
            http_client=http,
        )
        if not setting.base_url:
            return OpenAIChatModel(setting.name, provider=provider)
        profile = OpenAIModelProfile(
            supports_json_schema_output=True,
            supports_json_object_output=True,
            json_schema_transformer=None,  # a server of one's own gets the schema as it is
            openai_chat_supports_max_completion_tokens=completion_tokens,
        )
        return OpenAIChatModel(setting.name, provider=provider, profile=profile)
    try:
        kind = infer_provider_class(setting.provider)
        given = _arguments(setting, kind, http)
        return infer_model(setting.model, provider_factory=lambda _: kind(**given))
    except ImportError:
        raise ModelError(
            "model.extra_missing",
            f"The client of the provider {setting.provider} is not installed.",
            place=setting.origin,
            hint=f"Install it: pip install 'pydantic-ai-slim[{setting.provider}]'.",
        ) from None
    except UserError:
        raise _no_key(setting) from None
    except (ValueError, TypeError):
        raise _unknown(setting) from None


def parameters_of(
    mode: OutputMode, name: str, schema: dict[str, Any], *, own_server: bool
) -> ModelRequestParameters:
    """How the library asks for JSON. No tool is ever among them."""
    if mode == "text":
        return ModelRequestParameters(output_mode="text")
    wanted = OutputObjectDefinition(json_schema=schema, name=name, strict=True if own_server else None)
    if mode == "strict":
        return ModelRequestParameters(output_mode="native", output_object=wanted)
    # The schema stands in the messages already.
    return ModelRequestParameters(
        output_mode="prompted", output_object=wanted, prompted_output_template=False
    )


def settings_of(answer_tokens: int, *, temperature: bool) -> ModelSettings:
    """Bounds of the answer, and no retries inside."""
    settings = ModelSettings(max_tokens=answer_tokens, max_retries=0)
    if temperature:
        settings["temperature"] = 0
    return settings


def messages_of(messages: list[ModelMessage]) -> list[LibraryMessage]:
    """The texts of a call in the library's types."""
    found: list[LibraryMessage] = []
    for message in messages:
        if message.role == "assistant":
            found.append(ModelResponse(parts=[TextPart(message.text)]))
        elif message.role == "system":
            found.append(ModelRequest(parts=[SystemPromptPart(message.text)]))
        else:
            found.append(ModelRequest(parts=[UserPromptPart(message.text)]))
    return found


def texts_of(response: ModelResponse) -> tuple[str, list[str]]:
    """The text of an answer, and the arguments of tool calls that nobody asked for."""
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    return text, [part.args_as_json_str() for part in response.parts if isinstance(part, ToolCallPart)]


def _arguments(setting: Setting, kind: type[Any], http: AsyncClient) -> dict[str, Any]:
    known = inspect.signature(kind).parameters
    if "http_client" not in known:
        raise ModelError(
            "model.bad_setting",
            f"The provider {setting.provider} brings a client of its own, which duly cannot bound.",
            place=setting.origin,
            hint='Use "openai:NAME" with the base_url of an OpenAI-compatible gateway to it.',
        )
    given: dict[str, Any] = {"http_client": http, "api_key": setting.key or _NO_KEY}
    if not setting.key and not setting.base_url:
        raise _no_key(setting)
    if setting.base_url:
        if "base_url" not in known:
            raise ModelError(
                "model.bad_setting",
                f"The provider {setting.provider} has one address; base_url cannot change it.",
                place=setting.origin,
                hint='Use "openai:NAME" with base_url for a server of your own.',
            )
        given["base_url"] = setting.base_url
    return given


def _no_key(setting: Setting) -> ModelError:
    return ModelError(
        "model.bad_setting",
        f"The provider {setting.provider} needs a key, and none is set beside {setting.model}.",
        place=setting.origin,
        hint='Set api_key = { secret = "NAME" } in [models], or DULY_MODEL_API_KEY beside DULY_MODEL_PLANNER.',
    )


def _unknown(setting: Setting) -> ModelError:
    known = {str(name).partition(":")[0] for name in get_args(KnownModelName.__value__) if ":" in str(name)}
    near = difflib.get_close_matches(setting.provider, sorted(known), n=1)
    meant = f" (did you mean {near[0]!r}?)" if near else ""
    return ModelError(
        "model.bad_setting",
        f"There is no provider {setting.provider!r}{meant}.",
        place=setting.origin,
        hint='For an OpenAI-compatible server write "openai:NAME" and its base_url.',
    )
