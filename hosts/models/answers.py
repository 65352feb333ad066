"""From a model's text to the one JSON value that was asked for. Whatever stands there, the schema decides."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

from duly.protocol.plan import schema as schemas
from duly.protocol.plan.model_faults import UnfitAnswer
from duly.protocol.wire import canon
from duly.protocol.wire.errors import Fault, ModelError, WireError
from duly.protocol.wire.limits import FRAME_BYTES_MAX, MODEL_JSON_STARTS_MAX

_CODE = "model.bad_answer"
_THOUGHT_ENDS = ("</think>", "</thinking>")
_FAULTS_MAX = 50
_NOTHING = object()


def value_of(text: str, calls: Sequence[str], schema: dict[str, Any], *, cut: bool) -> Any:
    """The value in an answer that is valid under ``schema``.

    ``text`` may be the value, hold it in a code fence or anywhere within; ``calls`` are arguments of tool calls that
    nobody asked for, looked at where there is no text, as some servers make structured output of one. ``cut``: the
    answer ended at its limit. Raises ``ModelError``: ``model.truncated``, ``model.bad_answer`` with every fault; as
    ``UnfitAnswer`` where there is a value that can be shown to whoever asked.
    """
    first: Any = _NOTHING
    faults: list[Fault] = []
    for value in _values(text, calls):
        unsent = _unsendable(value)
        found = unsent or schemas.faults_of(value, schema, "", _CODE)
        if not found:
            return value
        if not faults:
            first, faults = _NOTHING if unsent else value, found
    if cut:
        raise ModelError(
            "model.truncated",
            "The answer was cut off at its limit of tokens before it was whole.",
            hint="Give the run more model_tokens, or ask for less at once.",
        )
    if not faults:
        what = "calls a tool, and none was offered" if calls else "is no JSON" if text.strip() else "is empty"
        raise ModelError(
            _CODE, f"The model's answer {what}.", faults=[Fault("", _CODE, f"the answer {what}.")]
        )
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    one = str(faults[0]).removesuffix(f" [{_CODE}]")  # the error has the same code
    said, told = f"The model's answer breaks the schema: {one}{more}", faults[:_FAULTS_MAX]
    if first is _NOTHING:
        raise ModelError(_CODE, said, faults=told)
    raise UnfitAnswer(_CODE, said, faults=told, value=first)


def heeds(text: str, schema: dict[str, Any]) -> bool:
    """Whether a whole answer shows that the server has heard of the schema: JSON with the top fields that it requires."""
    value = _parsed(text)
    if schema.get("type") != "object":
        return value is not _NOTHING
    return isinstance(value, dict) and set(schema.get("required", ())) <= value.keys()


def _unsendable(value: Any) -> list[Fault]:
    """What keeps a value from being told to anybody, whatever the schema says of it."""
    try:
        size = len(canon.encode({"value": value}))  # as a field of a message
    except WireError as problem:
        return [
            Fault(
                (problem.place or "").removeprefix("/value"),
                _CODE,
                f"the value cannot cross a wire: {problem.message}",
            )
        ]
    if size > FRAME_BYTES_MAX // 2:
        return [Fault("", _CODE, f"the value has {size} bytes in canonical form.")]
    return []


def _values(text: str, calls: Sequence[str]) -> Iterator[Any]:
    """Candidates, the likeliest first."""
    plain = text
    for end in _THOUGHT_ENDS:  # what a model thinks stands before what it says
        plain = plain.rpartition(end)[2]
    fenced = (part.partition("\n")[2] for part in plain.split("```", 2 * MODEL_JSON_STARTS_MAX)[1::2])
    for candidate in (plain, *fenced):
        value = _parsed(candidate)
        if value is not _NOTHING:
            yield value
    yield from _within(plain)
    if not plain.strip():
        for arguments in calls:
            value = _parsed(arguments)
            if value is not _NOTHING:
                yield value


def _within(text: str) -> Iterator[Any]:
    """JSON objects and lists that begin somewhere in the text; what lies inside a found one is not looked at."""
    position = 0
    for _ in range(MODEL_JSON_STARTS_MAX):
        start = min(
            (at for at in (text.find("{", position), text.find("[", position)) if at >= 0), default=-1
        )
        if start < 0:
            return
        try:
            value, position = _DECODER.raw_decode(text, start)
            yield _regular(value)
        except (ValueError, RecursionError):
            position = start + 1


def _parsed(text: str) -> Any:
    try:
        return _regular(_DECODER.decode(text.strip()))
    except (ValueError, RecursionError):
        return _NOTHING


def _regular(value: Any) -> Any:
    """The value in canonical form: texts in NFC and no negative zero, of which models know nothing."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, list):
        return [_regular(item) for item in value]
    if isinstance(value, dict):
        return _unique([(_regular(name), _regular(item)) for name, item in value.items()])
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a field stands twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
