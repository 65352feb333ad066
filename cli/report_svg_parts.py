"""The contributions to a change as SVG: one bar a segment from zero, with the interval from its missing rows."""

from __future__ import annotations

from collections.abc import Sequence

from duly.protocol.views.contributions import Contributions, Part

from .layout import count, shortened
from .markup import Html, joined, tag

ROW = 30
WIDTH = 500
LEFT, RIGHT = 194, 12
HEAD, FOOT = 6, 30
TICKS_MAX = 5


def parts_svg(charts: Sequence[Contributions]) -> Html:
    """A picture a dimension; those of one unit share their scale, so that they can be compared by eye."""
    return joined(_figure(chart, _bounds(charts, chart.unit)) for chart in charts)


def _bounds(charts: Sequence[Contributions], unit: str) -> tuple[float, float]:
    """The smallest and the largest value of a unit, zero included, with some room."""
    parts = [part for chart in charts if chart.unit == unit for part in chart.parts]
    low = min([0.0, *(min(part.low, part.value) for part in parts)])
    high = max([0.0, *(max(part.high, part.value) for part in parts)])
    if low == high:
        return 0.0, 1.0
    room = (high - low) * 0.04
    return low - (room if low < 0 else 0), high + (room if high > 0 else 0)


def _figure(chart: Contributions, bounds: tuple[float, float]) -> Html:
    height = HEAD + len(chart.parts) * ROW + FOOT
    low, high = bounds
    per_unit = (WIDTH - LEFT - RIGHT) / (high - low)

    def x(value: float) -> float:
        return LEFT + (value - low) * per_unit

    picture = tag(
        "svg",
        tag("title", f"Contributions of {chart.dimension}"),
        *(
            tag(
                "g",
                tag("path", d=f"M{x(value):.1f} {HEAD} V{height - FOOT + 4}"),
                tag("text", f"{value:+g}" if value else "0", x=x(value), y=height - 12, text_anchor="middle"),
                class_="tick" if value else "tick zero",
            )
            for value in _ticks(low, high)
        ),
        *(
            _row(index, part, x(0.0), x(part.value), x(part.low), x(part.high), chart.unit)
            for index, part in enumerate(chart.parts)
        ),
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        height=height,
        role="img",
    )
    return tag("figure", tag("figcaption", _caption(chart)), tag("div", picture, class_="wide"), _rest(chart))


def _caption(chart: Contributions) -> Html:
    whole = "" if chart.change is None else f" to the change of {chart.change:+,.3f} {chart.unit}"
    return joined([tag("strong", chart.dimension or "segments"), f"{whole}"])


def _rest(chart: Contributions) -> Html:
    if not chart.more:
        return Html("")
    told = f"and {count(chart.more, 'segment')} more, together {chart.rest:+,.3f} {chart.unit}"
    return tag("p", told, class_="note")


def _row(index: int, part: Part, zero: float, x: float, low: float, high: float, unit: str) -> Html:
    """Name, bar, interval and numbers of one segment."""
    y = HEAD + index * ROW
    middle = y + 9
    told = f"{part.value:+,.3f} {unit}, interval [{part.low:+,.3f}, {part.high:+,.3f}]"
    name = part.segment if part.label in ("", part.segment) else f"{part.segment} ({part.label})"
    return tag(
        "g",
        tag("title", f"{name}: {told}"),
        tag("text", shortened(name, 23), x=LEFT - 8, y=y + 14, text_anchor="end"),
        tag("rect", x=min(zero, x), y=y + 2, width=max(1.0, abs(x - zero)), height=14, class_="bar"),
        tag(
            "path",
            d=f"M{low:.1f} {middle} H{high:.1f} M{low:.1f} {middle - 4} v8 M{high:.1f} {middle - 4} v8",
            class_="interval",
        ),
        tag(
            "text",
            f"{part.value:+,.3f} [{part.low:+,.3f}, {part.high:+,.3f}]",
            x=LEFT - 8,
            y=y + 26,
            text_anchor="end",
            class_="tiny",
        ),
        class_="part down" if part.value < 0 else "part up",
    )


def _ticks(low: float, high: float) -> list[float]:
    """Round values in a range, zero among them."""
    size = 10.0**-9
    while True:
        for factor in (1, 2, 5):
            step = size * factor
            if (high - low) / step <= TICKS_MAX:
                first, last = int(low / step), int(high / step)
                return [round(number * step, 9) for number in range(first, last + 1)]
        size *= 10
