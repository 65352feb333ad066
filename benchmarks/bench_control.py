"""What do control and its promises cost: restarts, invariants, records, flushes, and the way from an approval to its effect?

resume      a cold process opens journal and artifacts of one unfinished run and replays it; about linear in the number
            of events, and under a second for 10,000. Judged by processor time, since a replay waits for nothing but
            a processor; both are printed.
invariants  processor time of deciding whole runs with the checks that run in production, and with them taken out.
bytes       what a step adds to the journal and to the artifacts, and what a run costs before its first step.
flushes     write transactions that a level adds; one in the journal before its calls and one behind them.
approval    from sending the signed approval of an incident (the example package) until its write begins in the host.

The first two need no runtime. For the others this script starts a runtime of its own and stops it again; they are left
out with ``--without-runtime``. This machine's floors are printed with the result. Exit code 1 where a target is missed.

    python benchmarks/bench_control.py [--quick] [--json] [--rounds 5] [--folder DIR] [--without-runtime]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import control_resume
from floors import floors

LENGTHS = (100, 1_000, 10_000, 100_000)
SECONDS_FOR_10000_MAX = 1.0
GROWTH_MAX = 2.5  # microseconds an event at the longest, against those at a hundredth of it: linear, and some cache misses


def measure(folder: Path, *, rounds: int, quick: bool, runtime: bool) -> dict[str, Any]:
    """Every figure, medians over the rounds; ``missed`` names the targets that were not met."""
    lengths = list(LENGTHS[:2] if quick else LENGTHS)
    result: dict[str, Any] = {
        "question": "what control costs",
        "resume": control_resume.resume(folder, lengths, 1 if quick else rounds),
        "invariants": control_resume.checks(100 if quick else 1_000, 1 if quick else rounds),
    }
    if runtime:
        result |= _on_a_runtime(folder, rounds, quick)
    else:
        result["floor_us"] = floors(folder, quick=quick, ray=False)
    result["missed"] = _missed(result)
    return result


def _on_a_runtime(folder: Path, rounds: int, quick: bool) -> dict[str, Any]:
    import control_runtime
    from own_runtime import own_runtime

    small, large, many = (10, 30, 6) if quick else (100, 500, 42)
    with own_runtime(str(folder)) as running:
        control_runtime.written(running, control_runtime.levels(running, 2, 2))  # warms everything once
        return {
            "bytes": control_runtime.bytes_per_step(running, small, large),
            "flushes": [control_runtime.flushes_per_level(running, 2, many, width) for width in (1, 4)],
            "approval": control_runtime.approval_to_effect(running, 1 if quick else rounds),
            "floor_us": floors(running.home.run, quick=quick),
        }


def _missed(result: dict[str, Any]) -> list[str]:
    """The targets that were not met, each as a sentence."""
    rows = {row["events"]: row for row in result["resume"]}
    found = [
        f"resuming {events} events took {row['load_cpu_s']} s of processor time"
        for events, row in rows.items()
        if row["load_cpu_s"] > SECONDS_FOR_10000_MAX * max(1.0, events / 10_000)
    ]
    first, last = rows[sorted(rows)[-min(3, len(rows))]], rows[max(rows)]
    if last["us_per_event"] > GROWTH_MAX * first["us_per_event"]:
        found.append("the time to resume grows faster than the journal")
    return found


def told(result: dict[str, Any]) -> list[str]:
    """The result as lines for a terminal."""
    floor = ", ".join(f"{name} {value} us" for name, value in result["floor_us"].items())
    lines = [result["question"], f"floor: {floor}"]
    for row in result["resume"]:
        lines.append(
            f"resume: {row['events']:>7} events in {row['load_s']:.3f} s, {row['load_cpu_s']:.3f} of them at work "
            f"({row['us_per_event']} us an event), after opening in {row['open_s']:.3f} s and finding in {row['find_s']:.3f} s"
        )
    for row in result["invariants"]:
        lines.append(
            f"invariants: {row['shape']} of {row['steps']} steps, {row['checked_us_per_event']} us an event with them, "
            f"{row['bare_us_per_event']} without ({row['share']:.0%})"
        )
    if "bytes" in result:
        lines += _told_of_runtime(result)
    return [*lines, *(f"missed: {one}" for one in result["missed"])]


def _told_of_runtime(result: dict[str, Any]) -> list[str]:
    size, approval = result["bytes"], result["approval"]
    lines = [
        f"bytes: a step adds {size['journal_bytes_per_step']} to the journal ({size['entries_per_step']} entries) and "
        f"{size['artifact_bytes_per_step']} of artifacts; a run has {size['journal_bytes_per_run']} and "
        f"{size['artifact_bytes_per_run']} before its first"
    ]
    lines += [
        f"flushes: a level of {row['width']} adds {row['journal']} of the journal and {row['artifacts']} of artifacts; "
        f"a run of {row['short_levels']} levels has {row['journal_per_run']} and {row['artifacts_per_run']}"
        for row in result["flushes"]
    ]
    lines.append(
        f"approval: durable and heard of after {approval['approved_ms']} ms, its effect begins after "
        f"{approval['effect_begins_ms']} ms (at most {approval['effect_begins_ms_max']}, {approval['rounds']} rounds)"
    )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each kind after the first")
    parser.add_argument("--quick", action="store_true", help="small sizes and one round: does it run at all?")
    parser.add_argument("--folder", default=None, help="where to write; a short path (sockets lie in it)")
    parser.add_argument("--without-runtime", action="store_true", help="only what needs no runtime")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="duly-bench-", dir=options.folder) as name:
        result = measure(
            Path(name), rounds=options.rounds, quick=options.quick, runtime=not options.without_runtime
        )
    print(json.dumps(result) if options.json else "\n".join(told(result)))
    return 1 if result["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
