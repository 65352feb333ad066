"""A call whose answer may be wrong in a way that the model can repair when it is told: a few attempts, each fed every fault.

An answer can be wrong twice: under the schema, which the model host judges, and as what it stands for, which is judged
here. A value that breaks the schema is read all the same, so that the model hears of all faults at once and not of one kind
after the other; it is never taken, even where nothing else is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from duly.protocol.plan.model_call import Purpose
from duly.protocol.plan.model_faults import UnfitAnswer
from duly.protocol.wire.errors import DulyError, Fault, ModelError

from ...model_session import Session, user
from ...prompt import load

T = TypeVar("T")
Earlier = list[tuple[Any, list[Fault]]]  # what the model gave, and everything that was wrong with it

# Answers that were none: not JSON, not under the schema, cut off.
REPAIRABLE = frozenset(("model.bad_answer", "model.truncated"))


@dataclass(frozen=True, slots=True)
class Form:
    """What is asked: for which purpose, which has its prompt, and under which schema."""

    purpose: Purpose
    name: str
    schema: dict[str, Any]


async def attempted(
    session: Session,
    form: Form,
    *,
    attempts: int,
    write: Callable[[Earlier], str],
    read: Callable[[Any], tuple[T, list[Fault]]],
    refuse: Callable[[Sequence[list[Fault]]], DulyError],
) -> T:
    """What ``read`` makes of the first value without a fault. ``write`` is given every earlier value with its faults.

    Raises ``ModelError`` for what no other answer would mend; after the last attempt what ``refuse`` gives for the faults of
    all of them.
    """
    prompt = load("planner", form.purpose)
    earlier: Earlier = []
    for _ in range(attempts):
        value: Any = None
        try:
            value = await session.ask(form.purpose, prompt, [user(write(earlier))], form.name, form.schema)
        except ModelError as error:
            if error.code not in REPAIRABLE:
                raise
            faults = list(error.faults) or [Fault("", error.code, error.message)]
            if isinstance(error, UnfitAnswer):
                value = error.value
                faults = _together(faults, read(value)[1])
        else:
            found, faults = read(value)
            if not faults:
                return found
        earlier.append((value, faults))
    raise refuse([faults for _, faults in earlier])


def _together(unfit: Sequence[Fault], wrong: Sequence[Fault]) -> list[Fault]:
    """The faults of a value as what it stands for, then those under the schema, each once. Paths are of one spelling."""
    schema = (Fault(one.path.removeprefix("/"), one.code, one.message) for one in unfit)
    return list(dict.fromkeys((*wrong, *schema)))
