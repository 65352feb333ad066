"""The table of the kill matrix, as it stands in the documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kill_cases import Case
from kill_package import WRITES
from kill_world import TARGETS, Story

TITLES = {"bounded_autonomous": "Without gates", "assisted": "With a gate"}
HEAD = """\
# The kill matrix

<!-- Written by `make kill-matrix`; do not edit. -->

A run of two reads at once, three writes one behind the other (`w1` takes an idempotency key, `w2` has a probe, `w3` has
neither) and a last read, on a real runtime. Each row is a boundary of its journal: the moment before or after a group of
events is recorded, or before or after an effect takes place inside its tool. Each column is what gets SIGKILL at that
moment: the supervisor takes its whole tree with it, "everything" is killed process by process at once. Then the next
command is given, and the next, until the run has ended. The sink counts its effects by itself.

`ok`: the run went on by itself and ended COMPLETED. `asked`: it stopped at WAITING_INPUT and said that nobody knows whether
that effect took place; answered by what the sink holds, it ended COMPLETED. `-`: the boundary did not occur. `FAULT`: an
effect took place twice, or one that was reported done is missing, or the log does not verify, or replaying it gives another
run than the harness had, or the run ended in another way.
"""


@dataclass(frozen=True)
class Row:
    """One case and what came of it, in a word."""

    tier: str
    boundary: str
    target: str
    again: bool
    word: str
    effects: Sequence[int]

    @classmethod
    def of(cls, case: Case, story: Story) -> Row:
        word = "asked" if story.asked else "ok"
        if story.faults or not story.reached:
            word = "FAULT" if story.faults else "-"
        return cls(case.tier, str(case.boundary), case.target, case.again, word, list(story.effects.values()))


def document(rows: Sequence[Row]) -> str:
    """The page: what was counted, and a table for each tier."""
    parts = [HEAD, _counts(rows)]
    for tier in dict.fromkeys(row.tier for row in rows):
        parts.append(
            f"## {TITLES[tier]} (tier `{tier}`)\n\n" + _table([row for row in rows if row.tier == tier])
        )
    return "\n".join(parts)


def _counts(rows: Sequence[Row]) -> str:
    reached = [row for row in rows if row.word != "-"]
    effects = [count for row in rows for count in row.effects]
    words = [row.word for row in rows]
    return (
        f"| counted | |\n|---|---|\n| kills | {len(reached) + sum(row.again for row in reached)} |\n"
        f"| runs | {len(rows)} |\n| effects ordered | {len(rows) * len(WRITES)} |\n"
        f"| effects that took place | {sum(effects)} |\n"
        f"| effects that took place twice | {sum(count > 1 for count in effects)} |\n"
        f"| runs that asked a person | {words.count('asked')} |\n"
        f"| boundaries that did not occur | {words.count('-')} |\n"
        f"| runs with a fault | {words.count('FAULT')} |\n"
    )


def _table(rows: Sequence[Row]) -> str:
    targets = [target for target in TARGETS if any(row.target == target for row in rows)]
    lines = [f"| boundary | {' | '.join(targets)} |", "|---" * (len(targets) + 1) + "|"]
    for name, again in dict.fromkeys((row.boundary, row.again) for row in rows):
        found = {row.target: row.word for row in rows if (row.boundary, row.again) == (name, again)}
        title = f"{name}, and once more when it is resumed" if again else name
        lines.append(f"| {title} | {' | '.join(found.get(target, '') for target in targets)} |")
    return "\n".join(lines) + "\n"
