"""``duly.policy``: what the conditions of a package's policy say of one call.

Conditions are written by people and read what a plan brings, so they run here, in a worker that is killed at its
deadline, and never in the harness. An answer is true, false, or nothing with the reason; who asks must take nothing for
*the gate asks*. The compiler is the extra ``policy``; a package whose policy has conditions does not load without it.
"""

from __future__ import annotations

import datetime
import decimal
import importlib
import importlib.util
import math
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from duly.protocol.plan import expression
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.policy import TOOL, Evaluation, Policy, Said
from duly.protocol.wire.errors import Fault, PackageError
from duly.protocol.wire.limits import POLICY_SECONDS_MAX

from .context import CallContext, Tool, plain_text

_COMPILER = "cel"
_MESSAGE_CHARS_MAX = 300
_INPUT = {
    "type": "object",
    "properties": {
        "package": {"type": "string"},
        "expressions": {"type": "array", "items": {"type": "string"}, "maxItems": 200},
        "facts": {"type": "object"},
    },
    "required": ["expressions", "facts"],
    "additionalProperties": False,
}


def tools(policy: Policy, lines: Mapping[tuple[str | int, ...], int]) -> tuple[Tool, ...]:
    """The evaluation of a policy that has conditions, every one of them compiled now.

    ``lines`` are the lines of the manifest. Raises ``PackageError``: ``package.missing_extra`` where no compiler is
    installed, ``package.expression`` with every condition that does not compile.
    """
    if not policy.conditions():
        return ()
    compiler = _compiler()
    faults = _uncompilable(policy, lines, compiler)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise PackageError(
            "package.expression",
            f"The policy has a condition that cannot be read: {faults[0].message}{more}",
            place=faults[0].path,
            faults=faults,
        )
    described = Descriptor(
        server=TOOL.partition(".")[0],
        name=TOOL.partition(".")[2],
        description="What the conditions of the policy say of one call.",
        input_schema=_INPUT,
        output_schema={"type": "object"},
        effect="read",
        idempotency="natural",
        timeout_seconds=POLICY_SECONDS_MAX,
    )
    return (Tool(described, lambda call, arguments: evaluated(call, arguments, compiler)),)


def _compiler() -> ModuleType:
    if importlib.util.find_spec(_COMPILER) is None:
        raise PackageError(
            "package.missing_extra",
            "The policy of this package has conditions, and what reads them is not installed.",
            place="agent.toml: policy/gates",
            hint="Install duly with its extra `policy`, or leave `when` out: then every call waits.",
        )
    return importlib.import_module(_COMPILER)


def _uncompilable(
    policy: Policy, lines: Mapping[tuple[str | int, ...], int], compiler: ModuleType
) -> list[Fault]:
    faults = []
    for index, gate in enumerate(policy.gates):
        if gate.when is None:
            continue
        try:
            compiler.compile(expression.as_doubles(gate.when))
        except Exception as problem:  # noqa: BLE001  the compiler raises what it likes for a text that is no expression
            at: tuple[str | int, ...] = ("policy", "gates", index, "when")
            known = next((at[:end] for end in range(len(at), 0, -1) if at[:end] in lines), None)
            line = f":{lines[known]}" if known else ""
            place = f"agent.toml{line}: policy/gates/{index}/when"
            faults.append(Fault(place, "package.expression", _sentence(problem)))
    return faults


def evaluated(call: CallContext, arguments: dict[str, Any], compiler: ModuleType) -> dict[str, Any]:
    """What each expression says of the facts, as ``Evaluation``. Never fails for what a call brings: that says nothing."""
    try:
        facts = {name: with_doubles(value) for name, value in arguments["facts"].items()}
    except _Inexact as problem:
        said = [Said(value=None, message=str(problem)) for _ in arguments["expressions"]]
    else:
        said = [_said(text, facts, compiler) for text in arguments["expressions"]]
    return Evaluation(said=said).to_data()


def _said(text: str, facts: Mapping[str, Any], compiler: ModuleType) -> Said:
    faults = expression.faults_of(text)
    if faults:
        return Said(value=None, message=faults[0])
    try:
        value = compiler.compile(expression.as_doubles(text)).execute(dict(facts))
    except Exception as problem:  # noqa: BLE001  whatever goes wrong in a condition means that it says nothing
        return Said(value=None, message=_sentence(problem))
    if type(value) is not bool:
        return Said(value=None, message="The expression gives no truth value.")
    return Said(value=value)


class _Inexact(Exception):
    """A value that a condition must not judge: it would be another one as a double."""


def with_doubles(value: Any) -> Any:
    """A value with every number as a double, so that no comparison depends on how a number was written.

    Raises where a double would be another number, and for what compares as false with everything.
    """
    if value is None or isinstance(value, bool | str | bytes):
        return value
    if isinstance(value, int | float | decimal.Decimal):
        return _double(value)
    if isinstance(value, Mapping):
        return {str(name): with_doubles(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_doubles(item) for item in value]
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    raise _Inexact(f"A value of the kind {type(value).__name__} cannot be judged.")


def _double(value: int | float | decimal.Decimal) -> float:
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    except ValueError:  # a signalling nan
        found = math.nan
    if math.isnan(found):
        raise _Inexact("A value is no number (nan).")
    whole = isinstance(value, int) or (
        isinstance(value, decimal.Decimal) and value == value.to_integral_value()
    )
    if whole and (math.isinf(found) or int(found) != int(value)):
        raise _Inexact("A whole number is too large to be exact.")
    return found


def _sentence(problem: BaseException) -> str:
    """The first line of what the compiler says, short and in plain letters: it repeats the expression."""
    if isinstance(problem, KeyError):
        return f"There is no {plain_text(str(problem))[:80]} in this call."
    lines = str(problem).splitlines() or [type(problem).__name__]
    told = next((line.partition("ERROR: ")[2] for line in lines if "ERROR: " in line), lines[0])
    return plain_text(told)[:_MESSAGE_CHARS_MAX]
