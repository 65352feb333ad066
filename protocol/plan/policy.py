"""The policy of a package: what costs, what is sensitive, who approves, which tools are gated in every tier, what is checked.

    [policy]
    cost_line = 1_000_000                        # an estimate above it makes a plan consequential
    sensitive_sources = ["patients"]
    approvers = ["ada"]                          # names of keys in keys/people; empty: everybody trusted here
    [[policy.gates]]
    tool = "payments.send"
    when = "arguments.amount > 1000"             # left out: every call waits

``when`` is the last resort, where no typed setting suffices: a CEL expression (``expression``), evaluated outside of the
harness. A call is gated where one is true, and also where nobody can say: an error, a wrong type, a deadline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, ValidationError

from ..wire.model import Model
from .descriptor import Descriptor
from .rules import Rule

TOOL = "duly.policy"  # the builtin read that evaluates expressions
NOT_EVALUATED = "gate.not_evaluated"


class PolicyCheck(Model):
    """Checks that every step with this tool, or with this kind of output, gets whatever its plan says."""

    tool: str | None = None
    output: str | None = None
    rules: list[Rule] = Field(default_factory=list)
    tolerance: float | int = 0
    recompute: bool = False


class PolicyGate(Model):
    """A tool whose calls wait for a person in every tier: all of them, or those for which ``when`` is not false."""

    tool: str
    when: str | None = None


class Policy(Model):
    """``[policy]``. ``cost_line`` is in millionths of the currency unit; ``approvers`` are names of keys."""

    cost_line: int = Field(default=1_000_000, ge=0)
    sensitive_sources: list[str] = Field(default_factory=list)
    approvers: list[str] = Field(default_factory=list)
    gates: list[PolicyGate] = Field(default_factory=list)
    checks: list[PolicyCheck] = Field(default_factory=list)

    def gated(self) -> list[str]:
        """The tools of which every call waits."""
        return list(dict.fromkeys(gate.tool for gate in self.gates if gate.when is None))

    def expressions(self, tool: str) -> tuple[str, ...]:
        """The conditions of a tool's gates; empty where every call of it waits anyway, and where none has a condition."""
        if tool in self.gated():
            return ()
        return tuple(
            dict.fromkeys(gate.when for gate in self.gates if gate.tool == tool and gate.when is not None)
        )

    def conditions(self) -> list[str]:
        """Every expression of the policy, once."""
        return list(dict.fromkeys(gate.when for gate in self.gates if gate.when is not None))


class Said(Model):
    """What one expression gave: true, false, or ``None`` with the reason why nobody can say."""

    value: bool | None
    message: str = ""


class Evaluation(Model):
    """The output of ``duly.policy``: one answer for each expression, in order."""

    said: list[Said]


def facts_of(descriptor: Descriptor, arguments: Any) -> dict[str, Any]:
    """What an expression may name, for one call with resolved (tagged) arguments."""
    return {
        "arguments": arguments,
        "tool": descriptor.full_name,
        "effect": descriptor.effect,
        "resource": descriptor.resource,
    }


def question(package: str, expressions: Sequence[str], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call of ``duly.policy``; ``package`` is the snapshot's digest."""
    return {"package": package, "expressions": list(expressions), "facts": dict(facts)}


def judged(expressions: Sequence[str], output: Any) -> tuple[bool, str]:
    """Whether a call is gated, and the code why nobody could say.

    ``output`` is what ``duly.policy`` returned for ``question``, ``None`` where nothing came back (a deadline, a lost
    worker). Anything but a clear *false* of every expression gates.
    """
    if output is None:
        return True, NOT_EVALUATED
    try:
        said = Evaluation.model_validate(output).said
    except ValidationError:
        return True, NOT_EVALUATED
    if len(said) != len(expressions) or any(one.value is None for one in said):
        return True, NOT_EVALUATED
    return any(one.value for one in said), ""
