"""The metric tools of a package: ``value completeness change decompose interact segments``, and ``catalogue``.

Each reads the package's semantics and its located sources and gives a map whose ``kind`` names its shape
(``metrics_schemas``). None writes anything; none takes SQL. A ``value`` has its report under ``report``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.wire.limits import TOOL_TIMEOUT_SECONDS_DEFAULT

from . import metrics_schemas as schemas
from .context import CallContext, Tool, ToolFunction
from .metrics_catalogue import catalogue
from .metrics_cells import DataContext
from .metrics_change import change, completeness
from .metrics_decompose import decompose
from .metrics_interact import interact
from .metrics_package import reading
from .metrics_segments import segments
from .metrics_value import value
from .report_value import own_report

Evidence = Literal["observation", "association"]
Answer = Callable[[DataContext, dict[str, Any]], dict[str, Any]]
PRELOAD = ("duckdb",)

_ROWS: tuple[tuple[str, Answer, schemas.Schema, schemas.Schema, Evidence, str], ...] = (
    (
        "value",
        value,
        schemas.VALUE_IN,
        schemas.VALUE_OUT,
        "observation",
        "One metric in one month or over everything, with numerator, denominator, definition and query.",
    ),
    (
        "completeness",
        completeness,
        schemas.CHANGE_IN,
        schemas.COMPLETENESS_OUT,
        "observation",
        "What is missing in two months, and the bounds of the change when all missing rows fall either way.",
    ),
    (
        "change",
        change,
        schemas.CHANGE_IN,
        schemas.CHANGE_OUT,
        "observation",
        "A metric in two months, and the difference.",
    ),
    (
        "decompose",
        decompose,
        schemas.DECOMPOSE_IN,
        schemas.DECOMPOSE_OUT,
        "association",
        "What each segment of a dimension contributes to a change, exactly; withheld where its sign is not certain.",
    ),
    (
        "interact",
        interact,
        schemas.INTERACT_IN,
        schemas.INTERACT_OUT,
        "association",
        "The leading segments of a dimension through the other dimensions: rate against mix, broad or concentrated.",
    ),
    (
        "segments",
        segments,
        schemas.SEGMENTS_IN,
        schemas.SEGMENTS_OUT,
        "association",
        "Two segments compared, over everything and within strata; a reversal is named.",
    ),
    (
        "catalogue",
        catalogue,
        schemas.CATALOGUE_IN,
        schemas.CATALOGUE_OUT,
        "observation",
        "Names, types, coverage and known values of the sources.",
    ),
)
ANSWERS: dict[str, Answer] = {row[0]: row[1] for row in _ROWS}


def tools(server: str = "metrics", timeout_seconds: int = TOOL_TIMEOUT_SECONDS_DEFAULT) -> tuple[Tool, ...]:
    """The metric tools under a server's name."""
    return tuple(
        Tool(
            Descriptor(
                server=server,
                name=name,
                description=description,
                input_schema=takes,
                output_schema=gives,
                effect="read",
                idempotency="natural",
                timeout_seconds=timeout_seconds,
                evidence=evidence,
            ),
            _with_report(reading(answer)) if name == "value" else reading(answer),
            preload=PRELOAD,
        )
        for name, answer, takes, gives, evidence, description in _ROWS
    )


def _with_report(read: ToolFunction) -> ToolFunction:
    """A value carries its own report: a plan of one read has no other step that could make it."""

    def run(call: CallContext, arguments: dict[str, Any]) -> Any:
        output = read(call, arguments)
        return output | {"report": own_report(call.step_id, output).to_data()}

    return run
