"""The report tools: they fill typed templates from the outputs of earlier steps, and read nothing else.

Arguments: ``evidence`` is a list of ``{"step": id, "output": {"$ref": "id#"}}``; ``recommendations`` and ``follow_ups``
are a playbook's own templates (``report_advice``). The output is a ``Report`` (``judgement/report``) as data.

What a template may ask for in ``when``: ``always``; ``complete`` or ``withheld``; of a diagnosis ``broad``, ``concentrated``,
``mixed``, ``still``, ``rate`` or ``mix`` (the larger effect), ``fell`` or ``rose``, ``worse`` or ``better`` (by the metric's
direction); of a comparison ``reversal`` or ``no_reversal``, and ``order_uncertain``.

What a template may name: in a diagnosis ``label direction change baseline current before after before_counted
before_observed before_missing before_population after_counted after_observed after_missing after_population population
observed low high certainty`` and, unless withheld, of the dimension that decides ``dimension plural top top_label
contribution note leading rate mix spread moved comparable``; in a comparison ``metric period dimension first first_label
first_value second second_label second_value ahead difference low high missing population`` and, of a reversal, ``stratum
overall within``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from duly.protocol.judgement.report import Report
from duly.protocol.judgement.report_rules import faults_in
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.wire.errors import ToolError
from duly.protocol.wire.limits import TOOL_TIMEOUT_SECONDS_DEFAULT

from .context import CallContext, Tool, ToolFunction
from .report_comparison import comparison
from .report_diagnosis import diagnosis
from .report_value import change, value

Build = Callable[[Mapping[str, Any]], Report]
Schema = dict[str, Any]

_EVIDENCE: Schema = {
    "type": "array",
    "minItems": 1,
    "maxItems": 64,
    "items": {
        "type": "object",
        "properties": {
            "step": {"type": "string", "minLength": 1, "maxLength": 128},
            "output": {"type": "object"},
        },
        "required": ["step", "output"],
        "additionalProperties": False,
    },
}
_TEMPLATES: Schema = {
    "type": "array",
    "maxItems": 64,
    "items": {
        "type": "object",
        "properties": {
            "when": {
                "anyOf": [
                    {"type": "string", "maxLength": 64},
                    {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": 8,
                        "items": {"type": "string", "maxLength": 64},
                    },
                ]
            },
            "text": {"type": "string", "minLength": 1, "maxLength": 2_000},
        },
        "required": ["when", "text"],
        "additionalProperties": False,
    },
}
_OUTPUT: Schema = {
    "type": "object",
    "properties": {
        "kind": {"const": "report"},
        "status": {"enum": ["complete", "withheld"]},
        "statements": {"type": "array", "minItems": 1, "items": {"type": "object"}},
        "choices": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["kind", "status", "statements", "choices"],
}
_LEVELS: dict[str, Literal["observation", "association"]] = {
    "value": "observation",
    "change": "observation",
    "completeness": "observation",
}
_ROWS: tuple[tuple[str, Build, bool, Literal["observation", "association"], str], ...] = (
    ("value", value, False, "observation", "The report of one value."),
    ("change", change, False, "observation", "The report of a change, without an attribution."),
    (
        "diagnosis",
        diagnosis,
        True,
        "association",
        "The report of a change: what it goes with, what is missing, what to do.",
    ),
    ("comparison", comparison, True, "association", "The report of two segments compared."),
)
BUILDERS: dict[str, Build] = {row[0]: row[1] for row in _ROWS}


def tools(server: str = "report", timeout_seconds: int = TOOL_TIMEOUT_SECONDS_DEFAULT) -> tuple[Tool, ...]:
    """The report tools under a server's name."""
    return tuple(
        Tool(
            Descriptor(
                server=server,
                name=name,
                description=description,
                input_schema=_takes(advised),
                output_schema=_OUTPUT,
                effect="read",
                idempotency="natural",
                timeout_seconds=timeout_seconds,
                evidence=evidence,
            ),
            _function(build),
        )
        for name, build, advised, evidence, description in _ROWS
    )


def made(build: Build, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The report as data, after its own rules held. Raises ``ToolError`` ``tool.bad_report`` with every fault."""
    report = build(arguments)
    outputs = {str(item["step"]): item["output"] for item in arguments["evidence"]}
    levels = {step: _LEVELS.get(str(output.get("kind")), "association") for step, output in outputs.items()}
    faults = faults_in(report, outputs, levels)
    if faults:
        raise ToolError(
            "tool.bad_report",
            f"The report breaks a rule of reports: {faults[0].message}",
            place=faults[0].path,
            hint="Correct the template of the playbook.",
            faults=faults,
        )
    return report.to_data()


def _function(build: Build) -> ToolFunction:
    def run(call: CallContext, arguments: dict[str, Any]) -> Any:
        return made(build, arguments)

    return run


def _takes(advised: bool) -> Schema:
    properties: Schema = {"evidence": _EVIDENCE}
    if advised:
        properties |= {"recommendations": _TEMPLATES, "follow_ups": _TEMPLATES}
    return {
        "type": "object",
        "properties": properties,
        "required": ["evidence"],
        "additionalProperties": False,
    }
