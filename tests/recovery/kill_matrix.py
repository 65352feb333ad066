"""The kill matrix: every boundary of a run's journal × every process, each killed there; then the next command.

    python tests/recovery/kill_matrix.py [--write docs/kill-matrix.md] [--sample N --seed S] [--only TARGET,…]

Every case is a run of its own on a real runtime. Effects are counted in the sink, a file that only the tools write.
`make kill-matrix` runs all of it, which takes the better part of an hour.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

KIT = Path(__file__).resolve().parent.parent / "kit"
sys.path.append(str(KIT))

from kill_cases import FREE, GATED, boundaries, cases, run_case, sample  # noqa: E402
from kill_table import Row, document  # noqa: E402
from kill_world import KillWorld, short_folder  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="targets, with commas between them")
    parser.add_argument("--tier", choices=(FREE, GATED), default="")
    wish = parser.parse_args()
    rows: list[Row] = []
    begun = time.monotonic()
    with short_folder() as folder:
        for tier in (wish.tier,) if wish.tier else (FREE, GATED):
            with KillWorld(folder, tier) as world:
                given = cases(tier, boundaries(world))
                if wish.only:
                    given = [one for one in given if one.target in wish.only.split(",")]
                if wish.sample:
                    given = sample(given, wish.sample, wish.seed)
                for number, case in enumerate(given, 1):
                    story = run_case(world, case)
                    rows.append(Row(tier, str(case.boundary), case.target, case.again, story))
                    print(
                        f"{number:4}/{len(given)} {story.seconds:6.1f} s  {case}: {rows[-1].word}", flush=True
                    )
                    if wish.write:  # hours of work are not lost with the last case
                        wish.write.write_text(document(rows, time.monotonic() - begun), "utf-8")
                    for fault in story.faults:
                        print(f"      FAULT {fault} (run {story.run_id}, {story.commands})", flush=True)
    text = document(rows, time.monotonic() - begun)
    print(text)
    return 1 if any(row.story.faults for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
