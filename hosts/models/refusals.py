"""What a server's refusal means: an error with a code, or a lesson after which the same call may be asked again.

Servers agree on little beside the status: the words below are those of OpenAI, Anthropic, Groq, llama.cpp,
llama-cpp-python, vLLM and their gateways. Words are looked at for these decisions only, and told to the person.
"""

from __future__ import annotations

import email.utils
import json
import math
import re
import time
from dataclasses import dataclass
from typing import Any

from duly.protocol.plan.model_call import OutputMode
from duly.protocol.plan.model_faults import pause_story
from duly.protocol.wire.errors import ModelError
from duly.protocol.wire.limits import MODEL_ANSWER_TOKENS_MIN, MODEL_WORDS_CHARS_MAX

from .exchange import Exchange
from .settings import Setting

_OVERFLOW = re.compile(
    r"context.{0,20}(length|size|window)|context_length|exceed_context|prompt is too long|input is too long"
    r"|too many tokens|maximum.{0,20}tokens",
    re.I,
)
_CONTEXT = re.compile(r"context (?:length|size|window)(?: is)?(?: only)? \(?(\d+)", re.I)
_PROMPT = re.compile(r"(\d+) (?:in the messages|input tokens|tokens in the (?:prompt|messages))", re.I)
_ANSWER_LIMIT = re.compile(r"(?:at most|less than or equal to|\d+ >) [`'\"]?(\d+)", re.I)
_ABOUT_ANSWER = re.compile(r"max_(?:completion_|output_)?tokens|completion tokens", re.I)
_NO_MODEL = re.compile(
    r"model_not_found|no such model|invalid model|unknown model|model\b.{0,200}\b(?:not found|not exist)",
    re.I | re.S,
)
_ABOUT_MODEL = re.compile(r"\bmodels?\b|\bdeployment", re.I)
_KEY = re.compile(r"api[ _-]?key|authentication", re.I)
_SCHEMA = re.compile(r"response_format|json_schema|json_object|grammar|structured output|schema", re.I)
_UNKNOWN_WORD = re.compile(
    r"unsupported|not support|unrecognized|unknown|only the default|deprecated|extra", re.I
)
_TEMPERATURE = re.compile(r"temperature", re.I)
_OF_ANYBODY = (401, 402, 403, 408, 413, 429)  # mean the same from whatever stands in front of a model server
_POOR = re.compile(r"insufficient_quota|exceeded your current quota|billing|credit balance", re.I)


@dataclass(frozen=True, slots=True)
class Lesson:
    """What to change before the call is asked again; one of the fields is set."""

    mode: bool = False
    temperature: bool = False
    completion_tokens: bool = False
    answer_tokens: int = 0
    for_good: bool = False  # whether that limit is the model's own, whatever the prompt


def lesson_of(exchange: Exchange, mode: OutputMode, answer_tokens: int) -> Lesson | None:
    """What the refusal teaches, ``None`` where asking again in another way is of no use."""
    words = _whole_words(exchange)
    if _is_foreign(exchange):
        return None
    if exchange.status in (500, 501) and mode != "text" and _SCHEMA.search(words):
        return Lesson(mode=True)  # llama-cpp-python and some gateways say it with a 500
    if exchange.status not in (400, 422):
        return None
    if limit := _answer_limit(words, answer_tokens):
        return Lesson(answer_tokens=limit, for_good=not _CONTEXT.search(words))
    if _OVERFLOW.search(words) and not _ABOUT_ANSWER.search(words) or _NO_MODEL.search(words):
        return None
    if "max_completion_tokens" in words and "max_tokens" in words.replace("max_completion_tokens", ""):
        return Lesson(completion_tokens=True)
    if _TEMPERATURE.search(words) and _UNKNOWN_WORD.search(words):
        return Lesson(temperature=True)
    if _KEY.search(words) and not _SCHEMA.search(words):
        return None
    return Lesson(mode=True) if mode != "text" else None


def error_of(exchange: Exchange, setting: Setting) -> ModelError:
    """The error for an answer whose status is not 2xx."""
    status, words, said = exchange.status, _whole_words(exchange), words_of(exchange)
    if _is_foreign(exchange) and (status == 501 or 400 <= status < 500 and status not in _OF_ANYBODY):
        return not_a_model_server(exchange, setting)
    if status in (400, 413, 422, 500) and (status == 413 or _OVERFLOW.search(words)):
        hint = "Serve the model with a longer context, set another, or grant the agent fewer tools."
        return _error("model.context_overflow", "The call is too long for the model's context.", said, hint)
    if status in (401, 403) or (status in (400, 402, 429) and (_POOR.search(words) or status == 402)):
        hint = f"The key comes from {setting.origin}." if setting.key else "No key is set."
        return _error("model.refused_key", "The model server refuses the key.", said, hint)
    if status in (400, 404, 422) and _NO_MODEL.search(words) or status == 404 and _ABOUT_MODEL.search(said):
        hint = f"{setting.origin} names {setting.model}."
        return _error("model.unknown_model", f"The server has no model {setting.name!r}.", said, hint)
    if status == 429:
        return _paused(
            exchange, _error("model.rate_limited", "The model server takes no more calls now.", said)
        )
    if status == 408 or status >= 500 and status != 501:
        return _paused(
            exchange, _error("model.unavailable", f"The model server fails with status {status}.", said)
        )
    if status in (400, 422) or status == 501 and _SCHEMA.search(words):
        if _KEY.search(words) and not _SCHEMA.search(words):
            return _error("model.refused_key", "The model server refuses the key.", said)
        return _error(
            "model.schema_refused",
            "The server takes this call neither with a schema nor as plain text.",
            said,
        )
    return not_a_model_server(exchange, setting)


def not_a_model_server(exchange: Exchange, setting: Setting) -> ModelError:
    """Something answers, and it does not speak the language of model servers."""
    kind = str(exchange.headers.get("content-type", "no type")).partition(";")[0][:60]
    where = setting.base_url or f"the address of {setting.provider}"
    return ModelError(
        "model.not_a_model_server",
        f"What answers at {where} is no model server (status {exchange.status}, {kind}).",
        place=setting.origin,
        hint="base_url ends where /chat/completions begins, often with /v1.",
    )


def words_of(exchange: Exchange) -> str:
    """What the server says about the failure, in one bounded line; ``""`` where it says nothing that can be told."""
    text = _message(exchange)
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return line if len(line) <= MODEL_WORDS_CHARS_MAX else line[: MODEL_WORDS_CHARS_MAX - 1] + "…"


def _error(code: str, sentence: str, said: str, hint: str | None = None) -> ModelError:
    return ModelError(code, sentence, hint=hint, story=[f"The server says: {said}"] if said else [])


def _answer_limit(words: str, asked: int) -> int:
    """How many tokens an answer may have after all, where the refusal is about that and leaves room; else 0."""
    context, prompt = _CONTEXT.search(words), _PROMPT.search(words)
    if context and prompt:
        room = int(context.group(1)) - int(prompt.group(1)) - 1
        return room if MODEL_ANSWER_TOKENS_MIN <= room < asked else 0
    limit = _ANSWER_LIMIT.search(words) if _ABOUT_ANSWER.search(words) else None
    return int(limit.group(1)) if limit and MODEL_ANSWER_TOKENS_MIN <= int(limit.group(1)) < asked else 0


def _paused(exchange: Exchange, error: ModelError) -> ModelError:
    seconds = _pause(exchange)
    if seconds is None:
        return error
    return ModelError(error.code, error.message, hint=error.hint, story=[*error.story, pause_story(seconds)])


def _pause(exchange: Exchange) -> int | None:
    """``Retry-After`` in seconds, rounded up: a number of them or a date (RFC 9110, 10.2.3)."""
    given = str(exchange.headers.get("retry-after", "")).strip()
    try:
        if "retry-after-ms" in exchange.headers:
            seconds = float(exchange.headers["retry-after-ms"]) / 1_000
        elif re.fullmatch(r"\d{1,9}(\.\d+)?", given):
            seconds = float(given)
        else:
            seconds = email.utils.parsedate_to_datetime(given).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    return max(0, math.ceil(seconds)) if math.isfinite(seconds) else None


def _whole_words(exchange: Exchange) -> str:
    return exchange.response[:20_000].decode("utf-8", "replace")


def _is_foreign(exchange: Exchange) -> bool:
    """Whether an error is in no language of model servers: a page, or words of which none concerns a call of a model.

    They answer in JSON; some tell in plain text which field of a request they could not read.
    """
    if isinstance(_parsed(exchange), dict | list):
        return False
    words = _whole_words(exchange)
    known = (_OVERFLOW, _NO_MODEL, _KEY, _SCHEMA, _ABOUT_ANSWER, _TEMPERATURE)
    return words.lstrip().startswith("<") or not any(one.search(words) for one in known)


def _parsed(exchange: Exchange) -> Any:
    try:
        return json.loads(exchange.response)
    except (ValueError, RecursionError):
        return None


def _message(exchange: Exchange) -> str:
    body = _parsed(exchange)
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return "" if b"<" in exchange.response[:200] else _whole_words(exchange)
    for found in (body.get("error"), body.get("detail"), body.get("message"), body):
        if isinstance(found, dict):
            found = found.get("message")
        if isinstance(found, str):
            return found
    return ""
