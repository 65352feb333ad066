"""Values of command line options, checked before anything is started."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from duly.protocol.plan.agent import BUDGET_NAMES
from duly.protocol.plan.request import InputPart
from duly.protocol.wire import canon
from duly.protocol.wire.errors import BudgetError, RequestError, WireError

TIERS = ("assisted", "supervised", "bounded_autonomous", "long_autonomous")
PLANNINGS = ("auto", "never", "always")
GATES = ("consequential", "always")
SCHEDULES = ("levels", "overlap")
BUDGET_MAX = (1 << 63) - 1


def budget(given: Sequence[str]) -> dict[str, int]:
    """``steps=20`` and the like. Raises ``BudgetError``: ``budget.bad_option``, ``budget.unknown``, ``budget.bad_value``."""
    amounts: dict[str, int] = {}
    known = ", ".join(BUDGET_NAMES)
    for text in given:
        name, mark, value = text.partition("=")
        if not mark:
            raise BudgetError(
                "budget.bad_option",
                f"A budget reads name=amount, not {text!r}.",
                place="--budget",
                hint=f"Names: {known}.",
            )
        if name not in BUDGET_NAMES:
            raise BudgetError(
                "budget.unknown", f"There is no budget {name!r}.", place="--budget", hint=f"Names: {known}."
            )
        if not (value.isascii() and value.isdigit()) or not 1 <= int(value[:20]) <= BUDGET_MAX:
            raise BudgetError(
                "budget.bad_value",
                f"The budget {name} is a whole number of at least 1, not {value!r}.",
                place="--budget",
                hint="For example --budget steps=20 (wall_seconds in seconds, cost in millionths).",
            )
        amounts[name] = int(value)
    return amounts


def parts(given: Sequence[str]) -> list[InputPart]:
    """``name=value`` inputs. A value that reads as JSON (a number, true, a list) is that, else it is the text."""
    found: dict[str, InputPart] = {}
    for text in given:
        name, mark, value = text.partition("=")
        if not mark or not name:
            raise RequestError(
                "request.bad_input", f"An input reads name=value, not {text!r}.", place="--input"
            )
        if name in found:
            raise RequestError("request.bad_input", f"The input {name!r} is given twice.", place="--input")
        found[name] = InputPart(name=name, value=_value(name, value))
    return list(found.values())


def one_of(option: str, value: str | None, allowed: Sequence[str]) -> str | None:
    """The value, where it is one of ``allowed`` or left out. Raises ``RequestError`` ``request.bad_option``."""
    if value is not None and value not in allowed:
        raise RequestError(
            "request.bad_option",
            f"{value!r} is no value of {option}.",
            hint=f"Give one of: {', '.join(allowed)}.",
        )
    return value


def _value(name: str, text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_no_constant)
        canon.encode(value)
    except ValueError:
        value = text
    except WireError as error:
        raise RequestError(
            "request.bad_input", f"The input {name!r} cannot be sent: {error.message}", place="--input"
        ) from None
    return value


def _no_constant(text: str) -> Mapping[str, Any]:
    raise ValueError(text)
