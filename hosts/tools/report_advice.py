"""Recommendations and follow-ups that a playbook brings: typed templates, filled only from the report's named values.

    {"when": "broad", "text": "Look for what changed at every {dimension} at once …"}

``when`` is one condition or a list of which every one must hold. What holds depends on the report; see ``report``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from duly.protocol.judgement.report import Level, Statement, names_in, say
from duly.protocol.wire.errors import ToolError

from .report_evidence import Values

CONDITIONS = (
    "always",
    "complete",
    "withheld",
    "broad",
    "concentrated",
    "mixed",
    "still",
    "rate",
    "mix",
    "fell",
    "rose",
    "worse",
    "better",
    "reversal",
    "no_reversal",
    "order_uncertain",
)


def advice(
    kind: Literal["recommendation", "follow_up"],
    templates: Sequence[Mapping[str, Any]],
    holds: Collection[str],
    values: Values,
    associated: Collection[str],
) -> list[Statement]:
    """The statements of every template whose conditions hold, in the playbook's order.

    ``associated`` are the steps whose outputs are associations: who names a value of one speaks on that level.
    Raises ``ToolError`` ``tool.bad_template`` for an unknown condition, or a name that has no value here.
    """
    found = []
    for template in templates:
        when = [template["when"]] if isinstance(template["when"], str) else list(template["when"])
        strange = [name for name in when if name not in CONDITIONS]
        if strange:
            raise ToolError(
                "tool.bad_template",
                f"There is no condition {strange[0]!r}.",
                place=str(template["text"]),
                hint=f"Known: {', '.join(CONDITIONS)}.",
            )
        if set(when) <= set(holds):
            text = str(template["text"])
            steps = {values[name].source.partition("#")[0] for name in names_in(text) if name in values}
            level: Level = "association" if steps & set(associated) else "observation"
            found.append(say(kind, level, text, values))
    return found


def turn(direction: str, better: str) -> list[str]:
    """The conditions that a direction meets: ``fell`` or ``rose``, and ``worse`` or ``better``."""
    if direction not in ("fell", "rose"):
        return []
    if better == "none":
        return [direction]
    return [direction, "better" if (direction == "rose") == (better == "up") else "worse"]
