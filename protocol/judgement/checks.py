"""Checks: single acceptance tests with an outcome ``pass``, ``fail`` or ``not_run`` and a reason.

This module evaluates what needs nothing but a step and its output: the output's schema and the typed rules. Independent
recomputation and the critic are the verifier's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from ..plan import refs, schema
from ..plan.descriptor import Descriptor
from ..plan.plan import Nothing, ReadBack, Step
from ..plan.rules import (
    AgreesRule,
    CountRule,
    EqualsRule,
    NotNullRule,
    RangeRule,
    Rule,
    SumsToRule,
    UniqueRule,
)
from ..wire.errors import DulyError
from ..wire.model import Model
from ..wire.plain_view import plain_view

Outcome = Literal["pass", "fail", "not_run"]

# The one key of what stands for the output of a call of which a person said that it happened. No tool can give it: a
# literal key that begins with $ is escaped in every output.
STATED = "$stated"


class Check(Model):
    """One acceptance test of one step (``step_id`` empty: of the run) and what came of it."""

    check_id: str
    kind: Literal["schema", "rule", "recompute", "critic"]
    step_id: str
    outcome: Outcome
    reason: str = ""
    mandatory: bool = True


def check_output(step: Step, output: Any, descriptor: Descriptor | None) -> list[Check]:
    """Schema and rules of a step over its tagged output.

    Of a call of which a person said that it happened there is no output: what it wrote is for its read-back to say.
    """
    if isinstance(output, dict) and STATED in output:
        return [_no_output(step, output)]
    found = [_schema(step, "contract", step.output_contract.json_schema, output)]
    if descriptor is not None and descriptor.output_schema:
        found.append(_schema(step, "descriptor", descriptor.output_schema, output))
    acceptance = step.verification.acceptance
    if not isinstance(acceptance, Nothing):
        found += check_rules(step, "rule", acceptance, output)
    return found


def check_rules(step: Step, name: str, rules: Sequence[Rule], output: Any) -> list[Check]:
    """Typed rules over a step's output, within the step's tolerance. ``name`` says whose rules they are."""
    tolerance = step.verification.tolerance
    slack = 0.0 if isinstance(tolerance, Nothing) else float(tolerance)
    return [
        _rule(step, f"{name}:{step.step_id}:{index}:{rule.rule}", rule, output, slack)
        for index, rule in enumerate(rules)
    ]


def _no_output(step: Step, output: dict[str, Any]) -> Check:
    return Check(
        check_id=f"schema:{step.step_id}:contract",
        kind="schema",
        step_id=step.step_id,
        outcome="not_run",
        reason=str(output[STATED]),
        mandatory=False,
    )


def check_read_back(step: Step, arguments: Any, read: Any) -> Check:
    """Whether what another tool read back agrees with what a step was told to write."""
    contract = step.verification.independent
    check_id = f"read_back:{step.step_id}"
    if not isinstance(contract, ReadBack):
        return Check(
            check_id=check_id,
            kind="recompute",
            step_id=step.step_id,
            outcome="not_run",
            reason="no read-back is agreed",
        )
    wrong = []
    for where, what in contract.agree.items():
        try:
            got = refs.lookup(read, refs.pointer_parts(where))
            wanted = refs.lookup(arguments, refs.pointer_parts(what))
        except KeyError as missing:
            wrong.append(f"{where} is missing ({missing.args[0]})")
            continue
        if not _same(got, wanted):
            wrong.append(f"{where} differs from {what}")
    return Check(
        check_id=check_id,
        kind="recompute",
        step_id=step.step_id,
        outcome="fail" if wrong else "pass",
        reason="; ".join(wrong),
    )


def _schema(step: Step, name: str, wanted: dict[str, Any], output: Any) -> Check:
    try:
        faults = schema.faults_of(plain_view(output), wanted, "", "tool.bad_output")
        reason = "; ".join(str(fault) for fault in faults[:5])
    except DulyError as error:
        reason = error.message
    return Check(
        check_id=f"schema:{step.step_id}:{name}",
        kind="schema",
        step_id=step.step_id,
        outcome="fail" if reason else "pass",
        reason=reason,
    )


def _rule(step: Step, check_id: str, rule: Rule, output: Any, slack: float) -> Check:
    try:
        reason = _broken(rule, output, slack)
    except KeyError as missing:
        reason = f"there is nothing at {missing.args[0]!r}"
    return Check(
        check_id=check_id,
        kind="rule",
        step_id=step.step_id,
        outcome="fail" if reason else "pass",
        reason=reason,
    )


def _at(output: Any, path: str) -> Any:
    return refs.lookup(output, refs.pointer_parts(path))


def _number(output: Any, path: str) -> float:
    return _as_number(_at(output, path), path)


def _as_number(value: Any, path: str) -> float:
    """A number of an output, exact ones (Decimal, beyond 64 bits) rounded to the nearest float."""
    plain = plain_view(value)
    if type(plain) not in (int, float) or (plain is not value and not isinstance(value, dict)):
        raise KeyError(f"{path} (no number)")
    try:
        return float(plain)
    except OverflowError:
        return math.inf if plain > 0 else -math.inf


def _field(item: Any, name: str, path: str) -> Any:
    if not isinstance(item, dict) or name not in item:
        raise KeyError(f"{path}/*/{name}")
    return item[name]


def _broken(rule: Rule, output: Any, slack: float) -> str:
    """Why a rule does not hold, or an empty text. Raises ``KeyError`` for a path that leads nowhere."""
    match rule:
        case RangeRule():
            value = _number(output, rule.path)
            low = -math.inf if rule.min is None else rule.min
            high = math.inf if rule.max is None else rule.max
            return "" if low - slack <= value <= high + slack else f"{value} lies outside of [{low}, {high}]"
        case EqualsRule():
            return _unequal(_at(output, rule.path), rule.value, slack)
        case NotNullRule():
            return "" if _at(output, rule.path) is not None else f"{rule.path} is null"
        case CountRule():
            count = len(_container(_at(output, rule.path), rule.path))
            high = math.inf if rule.max is None else rule.max
            return "" if rule.min <= count <= high else f"{count} entries, not {rule.min} to {high}"
        case UniqueRule():
            items = _list(_at(output, rule.path), rule.path)
            values = [_field(item, rule.field, rule.path) if rule.field else item for item in items]
            return (
                "" if len({repr(value) for value in values}) == len(values) else f"{rule.path} repeats itself"
            )
        case SumsToRule():
            items = _list(_at(output, rule.path), rule.path)
            found = [_as_number(_field(item, rule.field, rule.path), rule.path) for item in items]
            total = math.fsum(found)
            wanted = _number(output, rule.total)
            return "" if abs(total - wanted) <= slack + 1e-9 else f"{total} is not {wanted}"
        case AgreesRule():
            left, right = _number(output, rule.path), _number(output, rule.other)
            return "" if abs(left - right) <= slack else f"{left} and {right} differ"


def _container(value: Any, path: str) -> Any:
    if not isinstance(value, (list, dict)):
        raise KeyError(f"{path} (no list)")
    return value


def _list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise KeyError(f"{path} (no list)")
    return value


def _same(got: Any, wanted: Any) -> bool:
    """Whether what was read is what was written. A column of reals gives a whole number back as a real."""
    if type(got) in (int, float) and type(wanted) in (int, float):
        return bool(got == wanted)
    return type(got) is type(wanted) and bool(got == wanted)


def _unequal(got: Any, wanted: Any, slack: float) -> str:
    if type(wanted) in (int, float):
        number = _as_number(got, "the value")
        return "" if abs(number - float(wanted)) <= slack else f"{number} is not {wanted}"
    return "" if type(got) is type(wanted) and got == wanted else "the value is another one"
