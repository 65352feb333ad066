"""The plan's graph as SVG: levels from left to right; an outcome is told by a sign, a word and a colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .layout import count, shortened
from .markup import Html, joined, tag
from .report_dossier import Step

NODES_MAX = 150  # a picture with more of them shows nothing; the table of steps has all
NODE_WIDTH, NODE_HEIGHT = 208, 52
GAP_X, GAP_Y = 64, 14
MARGIN, HEAD = 8, 26
TEXT_COLUMNS = 24  # that fit into a node beside its sign

# Status of a step → class (colour), sign, word.
OUTCOMES: Mapping[str, tuple[str, str, str]] = {
    "succeeded": ("good", "tick", "succeeded"),
    "reused": ("good", "tick", "reused"),
    "failed": ("bad", "cross", "failed"),
    "degraded": ("dim", "dash", "degraded"),
    "skipped": ("dim", "dash", "skipped"),
    "shadowed": ("dim", "dash", "would have run"),
    "abandoned": ("dim", "dash", "given up"),
    "unknown": ("ask", "question", "outcome unknown"),
    "started": ("busy", "ring", "running"),
    "retrying": ("busy", "ring", "to be retried"),
    "pending": ("wait", "ring", "not run"),
}
_OTHER = ("wait", "ring", "")


def outcome(step: Step) -> tuple[str, str, str]:
    """Class, sign and word for a step; a failed check outweighs that it ran."""
    if step.checked == "fail":
        return "bad", "cross", "check failed"
    found = OUTCOMES.get(step.status, _OTHER)
    return found if found[2] else (found[0], found[1], step.status)


def plan_svg(steps: Sequence[Step]) -> Html:
    """The graph, with a sentence on what it leaves out. No steps give nothing."""
    if not steps:
        return Html("")
    shown = steps[:NODES_MAX]
    places = _places(shown)
    width = max(x for x, _ in places.values()) + NODE_WIDTH + MARGIN
    height = max(y for _, y in places.values()) + NODE_HEIGHT + MARGIN
    levels = sorted({step.level for step in shown})
    heads = [
        tag("text", f"level {level}", x=MARGIN + index * (NODE_WIDTH + GAP_X), y=16, class_="faint")
        for index, level in enumerate(levels)
    ]
    lines = [(need, step.step_id) for step in shown for need in _direct(step, shown)]
    edges = [_edge(places[before], places[after]) for before, after in lines]
    picture = tag(
        "svg",
        tag("title", f"The plan: {count(len(steps), 'step')} in {count(len(levels), 'level')}"),
        *heads,
        tag("g", *edges, class_="edges"),
        *(_node(step, places[step.step_id]) for step in shown),
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        style=least(width),
    )
    said = []
    if len(lines) < sum(need in places for step in shown for need in step.needs):
        said.append("A line that follows from others is left out.")
    if len(shown) < len(steps):
        said.append(
            f"The first {len(shown)} of {count(len(steps), 'step')} are shown; the table below has all."
        )
    note = tag("p", " ".join(said), class_="note") if said else ""
    return joined([tag("div", picture, class_="wide"), note])


def least(width: int) -> str:
    """A picture shrinks to fit, as far as its letters stay readable; below that its frame scrolls."""
    return f"min-width:{width * 7 // 10}px"


def sign(name: str, x: float, y: float, class_: str) -> Html:
    """A sign of 16 by 16 around a point: tick, cross, dash, question (a triangle) or ring, each in a shape of its own."""
    stroke: dict[str, object] = {"fill": "none", "stroke_width": 2, "stroke_linecap": "round"}
    marks: Mapping[str, Sequence[Html]] = {
        "tick": (
            tag("circle", cx=x, cy=y, r=8, class_="fill"),
            tag("path", d=f"M{x - 4} {y} l3 3 l5 -6", class_="on", **stroke),
        ),
        "cross": (
            tag("rect", x=x - 8, y=y - 8, width=16, height=16, class_="fill"),
            tag("path", d=f"M{x - 4} {y - 4} l8 8 m0 -8 l-8 8", class_="on", **stroke),
        ),
        "dash": (
            tag("circle", cx=x, cy=y, r=7, class_="line", stroke_dasharray="3 3", **stroke),
            tag("path", d=f"M{x - 3} {y} h6", class_="line", **stroke),
        ),
        "question": (
            tag("path", d=f"M{x} {y - 9} l9.5 16.5 h-19 z", class_="fill"),
            tag("text", "?", x=x, y=y + 5.5, class_="on-text", text_anchor="middle"),
        ),
        "ring": (tag("circle", cx=x, cy=y, r=7, class_="line", **stroke),),
    }
    return tag("g", *marks[name], class_=f"sign {class_}")


def _places(steps: Sequence[Step]) -> dict[str, tuple[int, int]]:
    """Upper left corners: one column a level, each column in plan order."""
    columns: dict[int, list[str]] = {}
    for step in steps:
        columns.setdefault(step.level, []).append(step.step_id)
    tallest = max(map(len, columns.values()))
    found = {}
    for index, level in enumerate(sorted(columns)):
        free = (tallest - len(columns[level])) * (NODE_HEIGHT + GAP_Y) // 2
        for row, step_id in enumerate(columns[level]):
            x = MARGIN + index * (NODE_WIDTH + GAP_X)
            found[step_id] = (x, HEAD + free + row * (NODE_HEIGHT + GAP_Y))
    return found


def _direct(step: Step, steps: Sequence[Step]) -> list[str]:
    """What a step waits for, without what another of these waits for already."""
    needs = {one.step_id: one.needs for one in steps}
    wanted = [need for need in step.needs if need in needs]
    implied: set[str] = set()
    waiting = [before for need in wanted for before in needs[need]]
    while waiting:
        one = waiting.pop()
        if one not in implied:
            implied.add(one)
            waiting.extend(needs.get(one, ()))
    return [need for need in wanted if need not in implied]


def _edge(start: tuple[int, int], end: tuple[int, int]) -> Html:
    x, y = start[0] + NODE_WIDTH, start[1] + NODE_HEIGHT // 2
    to_x, to_y = end[0], end[1] + NODE_HEIGHT // 2
    bend = max(24, (to_x - x) // 2)
    return tag("path", d=f"M{x} {y} C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}")


def _node(step: Step, place: tuple[int, int]) -> Html:
    x, y = place
    class_, mark, word = outcome(step)
    acts = step.effect not in ("read", "reason")
    dashed = "5 4" if class_ in ("dim", "wait") else None
    told = word + (f" [{step.code}]" if step.code else "")
    tool = f"{step.effect} {step.tool}" if acts else step.tool or "reason"
    return tag(
        "g",
        tag("title", f"{step.step_id}: {step.objective} ({told}; {tool})"),
        tag(
            "rect",
            x=x,
            y=y,
            width=NODE_WIDTH,
            height=NODE_HEIGHT,
            rx=6,
            class_="box",
            stroke_dasharray=dashed,
        ),
        tag("rect", x=x, y=y, width=5, height=NODE_HEIGHT, class_="acts") if acts else "",
        sign(mark, x + 20, y + 17, class_),
        tag("text", shortened(step.step_id, TEXT_COLUMNS - 2), x=x + 36, y=y + 21, class_="strong"),
        tag("text", shortened(f"{told} · {tool}", TEXT_COLUMNS + 7), x=x + 12, y=y + 42, class_="small"),
        class_=f"node {class_}",
    )
