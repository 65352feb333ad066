"""The kill matrix: every boundary of a run's journal × every process, each killed there; then the next command.

    python tests/recovery/kill_matrix.py [--write docs/kill-matrix.md] [--only TARGET,…] [--rows FILE]

Every case is a run of its own on a real runtime. Effects are counted in the sink, a file that only the tools write.
`make kill-matrix` runs all of it, which takes about an hour; with ``--rows`` it goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

KIT = Path(__file__).resolve().parent.parent / "kit"
sys.path.append(str(KIT))

from kill_cases import FREE, GATED, Case, boundaries, cases, run_case  # noqa: E402
from kill_table import Row, document  # noqa: E402
from kill_world import TARGETS, WHOLE, KillWorld, short_folder  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--rows", type=Path, help="where results are kept, one a line")
    parser.add_argument("--only", default="", help="targets, with commas between them")
    parser.add_argument("--tier", choices=(FREE, GATED), default="")
    wish = parser.parse_args()
    rows: list[Row] = []
    if wish.rows and wish.rows.exists():
        rows = [Row(**json.loads(line)) for line in wish.rows.read_text("utf-8").splitlines()]
    wanted = wish.only.split(",") if wish.only else list(TARGETS)
    # What takes the whole machine down takes the longest, so it comes last.
    for part in ([one for one in wanted if one not in WHOLE], [one for one in wanted if one in WHOLE]):
        for tier in (wish.tier,) if wish.tier else (FREE, GATED):
            with short_folder() as folder, KillWorld(folder, tier) as world:
                _run(world, [one for one in cases(tier, boundaries(world)) if one.target in part], rows, wish)
    print(document(rows))
    return 1 if any(row.word == "FAULT" for row in rows) else 0


def _run(world: KillWorld, given: Sequence[Case], rows: list[Row], wish: argparse.Namespace) -> None:
    done = {(row.tier, row.boundary, row.target, row.again) for row in rows}
    left = [one for one in given if (one.tier, str(one.boundary), one.target, one.again) not in done]
    for number, case in enumerate(left, 1):
        story = run_case(world, case)
        rows.append(Row.of(case, story))
        print(f"{number:4}/{len(left)} {story.seconds:6.1f} s  {case}: {rows[-1].word}", flush=True)
        for fault in story.faults:
            print(f"      FAULT {fault} (run {story.run_id}, {story.commands})", flush=True)
        if wish.rows:
            with open(wish.rows, "a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(rows[-1])) + "\n")
        if wish.write:
            wish.write.write_text(document(rows), "utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
