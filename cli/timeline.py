"""When each step ran, as text: bars over one scale, so that what overlapped can be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .layout import COLUMNS, duration, padded, shortened

NAME_COLUMNS_MAX = 18


@dataclass(frozen=True, slots=True)
class Span:
    """One step's time, in milliseconds of wall time; ``end_ms`` 0 where it has not ended."""

    name: str
    start_ms: int
    end_ms: int


def timeline_lines(spans: Sequence[Span], now_ms: int = 0) -> list[str]:
    """One line a span: name, bar, begin after the first span's begin, and duration. No spans give no lines."""
    if not spans:
        return []
    begin = min(span.start_ms for span in spans)
    ends = [span.end_ms or max(now_ms, span.start_ms) for span in spans]
    whole = max(max(ends) - begin, 1)
    names = [shortened(span.name, NAME_COLUMNS_MAX) for span in spans]
    tails = [
        f"+{duration(span.start_ms - begin)}, {duration(end - span.start_ms) if span.end_ms else 'running'}"
        for span, end in zip(spans, ends, strict=True)
    ]
    name_columns = max(map(len, names))
    bar_columns = COLUMNS - name_columns - max(map(len, tails)) - 6
    lines = []
    for span, end, name, tail in zip(spans, ends, names, tails, strict=True):
        first = min((span.start_ms - begin) * bar_columns // whole, bar_columns - 1)
        last = max(first + 1, (end - begin) * bar_columns // whole)
        bar = padded(" " * first + "=" * (last - first), bar_columns)
        lines.append(f"  {padded(name, name_columns)} |{bar}| {tail}")
    return lines


def overlaps(spans: Sequence[Span]) -> list[tuple[str, str]]:
    """The pairs of spans that ran at the same time for at least a millisecond."""
    found = []
    for index, one in enumerate(spans):
        for other in spans[index + 1 :]:
            if (
                one.end_ms
                and other.end_ms
                and max(one.start_ms, other.start_ms) < min(one.end_ms, other.end_ms)
            ):
                found.append((one.name, other.name))
    return found
