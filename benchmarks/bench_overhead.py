"""What does a step cost on a warm runtime, against LangGraph and against this machine's own floors?

Four questions, asked of one runtime that this script starts for itself and stops again:

chain   a plan of 1,000 reads that do nothing, each taking the number that the one before it gave; time a step until
        every result is durable, and until the run has its verdict. Against LangGraph's loop with ``SqliteSaver`` and
        ``durability="sync"``, which flushes after every single step; duly flushes once a segment of 100 reads.
level   100 reads that wait 50 ms, none needing another: time until all are durable, against 50 ms and LangGraph's Send.
shell   ``duly runs`` as a process of its own, from its start to its end.
memory  proportional memory (PSS) of every process of the idle runtime together.

Chain and level are taken alternately, duly and LangGraph in one run, since machines drift. Targets: the chain no slower
than LangGraph, the level within 0.25 s, ``duly runs`` within 0.2 s, less than 1 GiB. Exit code 1 where one is missed.

    python benchmarks/bench_overhead.py [--quick] [--json] [--rounds 5] [--steps 1000] [--folder DIR]

Needs the extra ``bench``; without it the comparison is left out, and said so.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import measured_package
from floors import floors
from own_runtime import OwnRuntime, own_runtime

LEVEL_READS = 100
LEVEL_MS = 50
LEVEL_SECONDS_TARGET = 0.25
SHELL_SECONDS_TARGET = 0.2
MEMORY_BYTES_TARGET = 1 << 30


def measure(folder: Path, *, steps: int, rounds: int, quick: bool) -> dict[str, Any]:
    """Every figure; seconds unless the name says otherwise, medians over the rounds."""
    load = os.getloadavg()[0]
    with own_runtime(str(folder)) as runtime:
        idle = memory(runtime)
        rows = _alternately(runtime, folder, steps, rounds)
        shell, shell_cpu = shell_seconds(runtime, 3 if quick else 15)
        floor = floors(runtime.home.run, quick=quick)
        after = memory(runtime)
    result: dict[str, Any] = {
        "question": "what a step costs on a warm runtime",
        "steps": steps,
        "rounds": rounds,
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "processors": os.cpu_count(),
        "floor_us": floor,
        "chain": _chain(rows, steps),
        "level": _level(rows),
        "shell": {
            "duly_runs_s": round(shell, 3),
            "cpu_s": round(shell_cpu, 3),
            "target_s": SHELL_SECONDS_TARGET,
        },
        "memory": {
            "idle_bytes": idle["bytes"],
            "processes": idle["processes"],
            "after_runs_bytes": after["bytes"],
            "target_bytes": MEMORY_BYTES_TARGET,
        },
    }
    result["missed"] = _missed(result)
    return result


def _alternately(runtime: OwnRuntime, folder: Path, steps: int, rounds: int) -> dict[str, list[float]]:
    """The measured seconds by name, one of each a round; the first round of each warms and is dropped."""
    descriptors = runtime.package.descriptors
    chain = measured_package.chain(descriptors, steps)
    level = measured_package.level(descriptors, LEVEL_READS, LEVEL_MS)
    rows: dict[str, list[float]] = {}

    def note(**found: float) -> None:
        for name, value in found.items():
            rows.setdefault(name, []).append(value)

    with _others(folder, steps) as others:
        for number in range(rounds + 1):
            ours = runtime.run(chain)
            note(chain_durable=ours.durable_s, chain_ended=ours.ended_s, chain_cpu=ours.cpu_s)
            if "chain" in others:
                took, cpu = others["chain"](f"chain-{number}")
                note(chain_langgraph=took, chain_langgraph_cpu=cpu)
            ours = runtime.run(level)
            note(level_durable=ours.durable_s, level_ended=ours.ended_s, level_journal=ours.journal_s)
            if "level" in others:
                note(level_langgraph=others["level"](f"level-{number}")[0])
    return {name: values[1:] for name, values in rows.items()}


@contextlib.contextmanager
def _others(folder: Path, steps: int) -> Iterator[dict[str, Callable[[str], tuple[float, float]]]]:
    """What duly is measured against: functions by name, none where LangGraph is not installed."""
    if importlib.util.find_spec("langgraph") is None:
        yield {}
        return
    import langgraph_side

    with langgraph_side.saver(folder) as saver:
        yield {
            "chain": langgraph_side.chain(saver, steps),
            "level": langgraph_side.level(saver, LEVEL_READS, LEVEL_MS),
        }


def _chain(rows: dict[str, list[float]], steps: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        f"{name}_us_per_step": round(statistics.median(rows[f"chain_{name}"]) / steps * 1e6, 1)
        for name in ("durable", "ended", "cpu", "langgraph", "langgraph_cpu")
        if f"chain_{name}" in rows
    }
    if "chain_langgraph" in rows:
        found["ratio"] = _ratio(rows["chain_langgraph"], rows["chain_durable"])
        found["ratio_ended"] = _ratio(rows["chain_langgraph"], rows["chain_ended"])
    return found


def _level(rows: dict[str, list[float]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "reads": LEVEL_READS,
        "ideal_s": LEVEL_MS / 1000,
        "durable_s": round(statistics.median(rows["level_durable"]), 3),
        "ended_s": round(statistics.median(rows["level_ended"]), 3),
        "journal_s": round(statistics.median(rows["level_journal"]), 3),
        "target_s": LEVEL_SECONDS_TARGET,
    }
    if "level_langgraph" in rows:
        found["langgraph_s"] = round(statistics.median(rows["level_langgraph"]), 3)
        found["ratio"] = _ratio(rows["level_langgraph"], rows["level_durable"])
    return found


def _ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """How many times faster duly is: the median of the rounds' ratios."""
    return round(statistics.median(their / our for their, our in zip(theirs, ours, strict=True)), 2)


def shell_seconds(runtime: OwnRuntime, tries: int) -> tuple[float, float]:
    """``duly runs`` from the start of its process to its end, and its processor time: medians of warm tries."""
    command = [sys.executable, "-P", "-m", "duly.cli.entry", "runs"]
    environment = {**os.environ, "DULY_HOME": str(runtime.home.root)}
    took = []
    for _ in range(tries + 1):
        began, cpu = time.perf_counter(), _children_cpu_seconds()
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        took.append((time.perf_counter() - began, _children_cpu_seconds() - cpu))
    wall, cpu = (statistics.median(column) for column in zip(*took[1:], strict=True))
    return wall, cpu


def _children_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def memory(runtime: OwnRuntime) -> dict[str, int]:
    """Bytes of every process together: the proportional share, the resident size where the kernel hides that."""
    sizes = [int(str(one["pss_bytes"] or one["rss_bytes"] or 0)) for one in runtime.processes()]
    return {"bytes": sum(sizes), "processes": len(sizes)}


def _missed(result: dict[str, Any]) -> list[str]:
    """The targets that were not met, each as a sentence."""
    checks = [
        (result["level"]["durable_s"] > LEVEL_SECONDS_TARGET, "the level took longer than its target"),
        (result["shell"]["duly_runs_s"] > SHELL_SECONDS_TARGET, "duly runs took longer than its target"),
        (result["memory"]["idle_bytes"] >= MEMORY_BYTES_TARGET, "the idle runtime is larger than its target"),
        (result["chain"].get("ratio", 1) < 1, "the chain is slower than LangGraph's"),
    ]
    return [sentence for missed, sentence in checks if missed]


def told(result: dict[str, Any]) -> list[str]:
    """The result as lines for a person."""
    chain, level, shell, size = (result[name] for name in ("chain", "level", "shell", "memory"))
    floor = ", ".join(f"{name.replace('_', ' ')} {value} us" for name, value in result["floor_us"].items())
    before, behind = result["load"]
    lines = [
        f"machine  {result['processors']} processors, load {before} before and {behind} behind",
        f"floor    {floor}",
        f"chain    {result['steps']} reads: {chain['durable_us_per_step']} us a step until durable,"
        f" {chain['ended_us_per_step']} us with the verdict, {chain['cpu_us_per_step']} us of processor time",
    ]
    if "ratio" in chain:
        lines.append(
            f"         LangGraph {chain['langgraph_us_per_step']} us a step, {chain['langgraph_cpu_us_per_step']} us of"
            f" processor time: duly is {chain['ratio']} times as fast ({chain['ratio_ended']} with the verdict)"
        )
    else:
        lines.append("         LangGraph is not installed: pip install 'duly[bench]' compares")
    lines.append(
        f"level    {level['reads']} reads of {level['ideal_s'] * 1000:.0f} ms: {level['durable_s']} s until durable"
        f" (target {level['target_s']}), {level['ended_s']} s with the verdict"
    )
    if "ratio" in level:
        lines.append(f"         LangGraph {level['langgraph_s']} s: duly is {level['ratio']} times as fast")
    lines += [
        f"shell    duly runs {shell['duly_runs_s']} s (target {shell['target_s']}), {shell['cpu_s']} s of processor time",
        f"memory   {size['idle_bytes'] / 2**20:.0f} MiB in {size['processes']} processes when idle"
        f" (target {size['target_bytes'] / 2**20:.0f}), {size['after_runs_bytes'] / 2**20:.0f} after the runs",
    ]
    return lines + [f"missed   {sentence}" for sentence in result["missed"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_000, help="length of the chain")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each kind after the first")
    parser.add_argument("--quick", action="store_true", help="few steps and one round: does it run at all?")
    parser.add_argument("--folder", default=None, help="where to write; a short path (sockets lie in it)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    options = parser.parse_args()
    steps, rounds = (50, 1) if options.quick else (options.steps, options.rounds)
    with tempfile.TemporaryDirectory(prefix="duly-bench-", dir=options.folder) as name:
        result = measure(Path(name), steps=steps, rounds=rounds, quick=options.quick)
    print(json.dumps(result) if options.json else "\n".join(told(result)))
    return 1 if result["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
