"""When each step ran, as SVG: bars over one scale, long pauses cut out, so that what overlapped can be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .layout import count, duration, shortened
from .markup import Html, joined, tag
from .report_dossier import Step
from .report_svg_plan import least, outcome
from .timeline import Span, overlaps

ROWS_MAX = 150
ROW = 26
LEFT, RIGHT, WIDTH = 190, 110, 1000
HEAD, FOOT = 8, 28
CUT = 34  # the width of a pause that is cut out
PAUSE_MS_MIN = 2_000  # shorter pauses are always drawn to scale
TICKS_MAX = 6


@dataclass(frozen=True, slots=True)
class Scale:
    """Times to places: ``pieces`` are (from, to) in milliseconds with pauses between them cut out."""

    pieces: tuple[tuple[int, int], ...]

    @property
    def per_ms(self) -> float:
        room = WIDTH - LEFT - RIGHT - CUT * (len(self.pieces) - 1)
        return room / max(1, sum(end - start for start, end in self.pieces))

    def x(self, time_ms: int) -> float:
        at = float(LEFT)
        for start, end in self.pieces:
            if time_ms <= end:
                return at + max(0, time_ms - start) * self.per_ms
            at += (end - start) * self.per_ms + CUT
        return at - CUT


def scale_of(spans: Sequence[Span]) -> Scale:
    """The scale of these spans. A pause is cut out where it is longer than all the work together."""
    busy: list[list[int]] = []
    for span in sorted(spans, key=lambda one: one.start_ms):
        if busy and span.start_ms <= busy[-1][1]:
            busy[-1][1] = max(busy[-1][1], span.end_ms)
        else:
            busy.append([span.start_ms, span.end_ms])
    longest = max(PAUSE_MS_MIN, sum(end - start for start, end in busy))
    pieces: list[list[int]] = []
    for start, end in busy:
        if pieces and start - pieces[-1][1] <= longest:
            pieces[-1][1] = end
        else:
            pieces.append([start, end])
    return Scale(tuple((start, end) for start, end in pieces))


def time_svg(steps: Sequence[Step], verification: Span | None = None) -> Html:
    """The bars of the steps that a host ran, and of the verification. Nothing ran: nothing."""
    ran = [(step, Span(step.step_id, step.started_ms, step.ended_ms)) for step in steps if step.started_ms]
    if not ran:
        return Html("")
    shown = ran[:ROWS_MAX]
    spans = [span for _, span in shown] + ([verification] if verification is not None else [])
    scale = scale_of(spans)
    begin = scale.pieces[0][0]
    rows = [_row(index, span, scale, begin, outcome(step)[0]) for index, (step, span) in enumerate(shown)]
    if verification is not None:
        rows.append(_row(len(rows), verification, scale, begin, "check"))
    height = HEAD + len(rows) * ROW + FOOT
    picture = tag(
        "svg",
        tag("title", "When each step ran"),
        *_ticks(scale, begin, height),
        *rows,
        *_cuts(scale, height),
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        height=height,
        role="img",
        style=least(WIDTH),
    )
    return joined([tag("div", picture, class_="wide"), tag("p", _said(ran, len(shown)), class_="note")])


def _said(ran: Sequence[tuple[Step, Span]], shown: int) -> str:
    pairs = overlaps([span for _, span in ran[:ROWS_MAX]])
    together = {name for pair in pairs for name in pair}
    text = (
        f"{count(len(together), 'step')} ran at the same time as another."
        if pairs
        else "No two steps overlapped."
    )
    if shown < len(ran):
        text += f" The first {shown} of {count(len(ran), 'step')} are shown."
    return text


def _row(index: int, span: Span, scale: Scale, begin: int, class_: str) -> Html:
    y = HEAD + index * ROW
    x, end = scale.x(span.start_ms), scale.x(span.end_ms)
    width = max(2.0, end - x)
    told = f"+{duration(span.start_ms - begin)}, {duration(span.end_ms - span.start_ms)}"
    return tag(
        "g",
        tag("title", f"{span.name}: {told}"),
        tag("text", shortened(span.name, 24), x=LEFT - 8, y=y + 17, text_anchor="end"),
        tag("rect", x=x, y=y + 4, width=width, height=ROW - 9, rx=2, class_="bar"),
        tag("text", told, x=x + width + 6, y=y + 17, class_="small"),
        class_=f"row {class_}",
    )


def _ticks(scale: Scale, begin: int, height: int) -> list[Html]:
    """Lines with the time since the first step began, at round distances in the first piece, and at later beginnings."""
    start, end = scale.pieces[0]
    step = _round((end - start) / TICKS_MAX)
    times = [start + number * step for number in range(int((end - start) // step) + 1)]
    times += [piece[0] for piece in scale.pieces[1:]]
    return [
        tag(
            "g",
            tag("path", d=f"M{scale.x(time):.1f} {HEAD} V{height - FOOT + 4}"),
            tag("text", f"+{duration(time - begin)}", x=scale.x(time), y=height - 8, text_anchor="middle"),
            class_="tick",
        )
        for time in times
    ]


def _round(milliseconds: float) -> int:
    """The next of 1, 2, 5 times a power of ten, at least a millisecond."""
    size = 1
    while True:
        for factor in (1, 2, 5):
            if size * factor >= milliseconds:
                return size * factor
        size *= 10


def _cuts(scale: Scale, height: int) -> list[Html]:
    """Where a pause is cut out, with its length."""
    found = []
    for (_, end), (start, _) in zip(scale.pieces, scale.pieces[1:], strict=False):
        x = scale.x(end) + CUT / 2
        marks = "".join(f"l6 6 l-12 6 l6 6 m0 {ROW - 18} " for _ in range((height - HEAD - FOOT) // ROW))
        found.append(
            tag(
                "g",
                tag("title", f"a pause of {duration(start - end)} is left out"),
                tag("path", d=f"M{x:.1f} {HEAD} {marks}", fill="none"),
                class_="cut",
            )
        )
    return found
