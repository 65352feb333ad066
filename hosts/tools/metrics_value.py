"""``metrics.value``: one metric, in one month or over everything, under filters."""

from __future__ import annotations

from .metrics_cells import Arguments, DataContext, Output, cells, head, period_data, question


def value(context: DataContext, arguments: Arguments) -> Output:
    """The value with numerator, denominator, definition and query. A ratio over nothing observed is null."""
    asked = question(context.semantics, arguments)
    period = arguments.get("period")
    with context.open(asked.metric, asked.filtered) as database:
        cell = cells(database, context.semantics, asked, period)[()]
        shown = period_data(asked.metric, period, cell)
        return {
            **head("value", asked),
            **shown,
            "denominator": None if asked.metric.kind == "count" else cell.observed,
            "query": database.queries[-1],
        }
