"""Asks a model for one JSON value, in the firmest way that its server takes.

First with the schema as a constraint of the server (*strict*), then in JSON mode with the schema in the prompt (*json*),
then with plain words (*text*). A server that refuses one way is asked in the next, within the same call and with nothing
generated in between; what it refuses is remembered, so that later calls begin with what works.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelResponse

from duly.protocol.plan.model_call import ModelMessage
from duly.protocol.plan.model_faults import UnfitAnswer
from duly.protocol.wire import canon
from duly.protocol.wire.errors import ModelError
from duly.protocol.wire.limits import MODEL_REQUESTS_PER_CALL_MAX

from . import prices, provider, refusals
from .abilities import Abilities
from .answers import heeds, value_of
from .attempt import Attempt
from .exchange import CURRENT, Exchange
from .mask import Mask
from .settings import Setting
from .transport import RecordingTransport, client

_INSTRUCTION = (
    "Answer with one JSON value and nothing else: no explanation, no code fence. "
    "It has to be valid under this JSON Schema:\n"
)


class Asker:
    """The calls of one host: connections that stay open, and what its servers have shown."""

    def __init__(self) -> None:
        self._transport = RecordingTransport()
        self._http = client(self._transport)
        self._abilities: dict[tuple[str, str], Abilities] = {}
        self._models: dict[tuple[Setting, bool], Any] = {}

    async def close(self) -> None:
        await self._http.aclose()

    def abilities(self, setting: Setting) -> Abilities:
        """What the server of a setting has shown so far; changes with each call."""
        return self._abilities.setdefault((setting.base_url, setting.model), Abilities())

    def cost_of(self, setting: Setting, tokens_in: int, tokens_out: int) -> int:
        return prices.cost_of(setting, tokens_in, tokens_out)

    async def ask(self, setting: Setting, attempt: Attempt) -> Any:
        """The value. ``attempt.answer_tokens`` bounds the answer. Raises ``ModelError``; the attempt tells the rest."""
        known = self.abilities(setting)
        schema = canon.digest("model.schema", attempt.call.json_schema)
        deadline = asyncio.get_running_loop().time() + attempt.call.seconds_max
        for number in range(1, MODEL_REQUESTS_PER_CALL_MAX + 1):
            attempt.mode = known.mode_for(schema)
            attempt.answer_tokens = min(attempt.answer_tokens, known.answer_tokens_max)
            attempt.exchange = Exchange(Mask(setting.key))
            attempt.parameters.update(max_tokens=attempt.answer_tokens, requests=number)
            attempt.parameters.pop("temperature", None)
            if known.temperature:
                attempt.parameters["temperature"] = 0
            response = await self._sent(setting, attempt, known, deadline)
            if response is not None:
                return self._value(setting, attempt, response, known, schema)
            if not self._learnt(attempt, known, schema):
                break
        raise refusals.error_of(attempt.exchange, setting)

    async def _sent(
        self, setting: Setting, attempt: Attempt, known: Abilities, deadline: float
    ) -> ModelResponse | None:
        """The server's answer as the library reads it; ``None`` where the server, or the library, refuses the request."""
        exchange = attempt.exchange
        token = CURRENT.set(exchange)
        try:
            async with asyncio.timeout_at(deadline):
                return await model_request(
                    self._model(setting, known),
                    provider.messages_of(_texts(attempt)),
                    model_settings=provider.settings_of(attempt.answer_tokens, temperature=known.temperature),
                    model_request_parameters=provider.parameters_of(
                        attempt.mode,
                        attempt.call.schema_name,
                        attempt.call.json_schema,
                        own_server=bool(setting.base_url),
                    ),
                )
        except TimeoutError:
            raise ModelError(
                "model.timeout", f"The model did not answer within {attempt.call.seconds_max} s."
            ) from None
        except ModelError:
            raise
        except (
            Exception
        ) as problem:  # whatever a library makes of what a stranger sent is judged by the exchange
            if exchange.fault is not None:
                raise exchange.fault from None
            if not exchange.sent and not (isinstance(problem, UserError) and attempt.mode != "text"):
                raise _not_made(setting, problem) from None
            if 200 <= exchange.status < 300:
                raise _unreadable(exchange, setting, problem) from None
            return None
        finally:
            CURRENT.reset(token)

    def _model(self, setting: Setting, known: Abilities) -> Any:
        key = (setting, known.completion_tokens)
        if key not in self._models:
            self._models.clear()  # one package, one setting: only the present one is worth its memory
            self._models[key] = provider.model_of(
                setting, self._http, completion_tokens=known.completion_tokens
            )
        return self._models[key]

    @staticmethod
    def _learnt(attempt: Attempt, known: Abilities, schema: str) -> bool:
        """Whether the refusal says how to ask again."""
        if not attempt.exchange.sent:  # the library knows that this model cannot be asked so
            lesson: refusals.Lesson | None = refusals.Lesson(mode=True)
        else:
            lesson = refusals.lesson_of(attempt.exchange, attempt.mode, attempt.answer_tokens)
        if lesson is None or (lesson.completion_tokens and known.completion_tokens):
            return False
        if lesson.temperature and not known.temperature:
            return False
        refused = attempt.parameters.setdefault("refused", [])
        refused.append({"mode": attempt.mode, "status": attempt.exchange.status})
        if lesson.mode:
            known.refuse(attempt.mode, schema)
        if lesson.answer_tokens:
            attempt.answer_tokens = lesson.answer_tokens
            if lesson.for_good:
                known.answer_tokens_max = lesson.answer_tokens
        known.temperature &= not lesson.temperature
        known.completion_tokens |= lesson.completion_tokens
        return True

    def _value(
        self, setting: Setting, attempt: Attempt, response: ModelResponse, known: Abilities, schema: str
    ) -> Any:
        exchange = attempt.exchange
        attempt.counted(response.usage.input_tokens, response.usage.output_tokens)
        attempt.cost = self.cost_of(setting, attempt.tokens_in, attempt.tokens_out)
        text, calls = provider.texts_of(response)
        text, calls = exchange.mask.text(text), [exchange.mask.text(one) for one in calls]
        if response.finish_reason == "content_filter":
            raise ModelError("model.refusal", "The model declines to answer this.")
        cut = response.finish_reason == "length"
        if attempt.mode == "strict" and not cut and not heeds(text, attempt.call.json_schema):
            known.refuse(
                "strict", schema
            )  # the next call puts the schema in the prompt, where the model sees it
        try:
            return exchange.mask.value(value_of(text, calls, attempt.call.json_schema, cut=cut))
        except UnfitAnswer as problem:
            problem.value = exchange.mask.value(problem.value)
            raise


def _texts(attempt: Attempt) -> list[ModelMessage]:
    """The messages; with the schema in the first one of the system's where the server is not told of it."""
    messages = list(attempt.call.messages)
    if attempt.mode == "strict":
        return messages
    schema = json.dumps(attempt.call.json_schema, ensure_ascii=False, separators=(",", ":"))
    if messages[0].role == "system":
        messages[0] = messages[0].model_copy(update={"text": f"{messages[0].text}\n\n{_INSTRUCTION}{schema}"})
    else:
        messages.insert(0, ModelMessage.model_construct(role="system", text=_INSTRUCTION + schema))
    return messages


def _unreadable(exchange: Exchange, setting: Setting, problem: Exception) -> ModelError:
    """A 2xx answer that the library cannot read: an error in disguise, a broken completion, or no model server."""
    try:
        body = json.loads(exchange.response)
    except (ValueError, RecursionError):
        return refusals.not_a_model_server(exchange, setting)
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        code = body["error"].get("code")
        disguised = Exchange(exchange.mask, exchange.request, True, 502, exchange.headers, exchange.response)
        if isinstance(code, int) and 400 <= code < 600:
            disguised.status = code
        return refusals.error_of(disguised, setting)
    if isinstance(body, dict) and body.keys() & {"choices", "content", "candidates", "output"}:
        return ModelError(
            "model.bad_answer", f"The server's completion has wrong fields ({type(problem).__name__})."
        )
    return refusals.not_a_model_server(exchange, setting)


def _not_made(setting: Setting, problem: Exception) -> ModelError:
    return ModelError(
        "model.bad_setting",
        f"No request for {setting.model} could be made ({type(problem).__name__}).",
        place=setting.origin,
        hint="Check the name of the model and its address.",
    )
