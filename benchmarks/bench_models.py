"""What does a model's call cost beside the model, how long is a plan's prompt, and what does the plan cache save?

The model is a small server on loopback that answers at once with JSON that it was given before (``instant_model``), so every
figure is duly's own or the machine's; with a real model its seconds come on top.

overhead  one schema-constrained call through duly (session, socket, model host with mandate and ledger, client library,
          schema) against a bare HTTP request with the same body on a connection that stays open, and against the client
          library by itself; taken alternately. A small question, and a plan's draft. Target: at most 15 ms more than the
          bare request, in the median.
prompt    bytes and tokens of the whole prompt of a draft (system, message, schema) over 5 to 200 tools, written by the
          code that drafts. Target: what one draft may take holds its three attempts at 100 tools.
cache     a warm runtime: from the order until the plan is there, drafted by the model and then, for the same words again,
          out of the plan cache. Target: no call of the model at a hit, and no slower than a model that takes no time.

    python benchmarks/bench_models.py [--quick] [--json] [--rounds 5] [--folder DIR]

Exit code 1 where a target is missed. Needs the extra ``models``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import planner_prompt
from floors import floors
from instant_model import NAME, InstantModel
from own_runtime import OwnRuntime, own_runtime

from duly.cli import mandate, person
from duly.cli.client import FrontDoor
from duly.cli.mandate import Order
from duly.cli.start import opened
from duly.protocol.plan.request import new_request
from duly.protocol.wire.limits import DRAFTS_PER_PLAN_MAX

if TYPE_CHECKING:
    import models_side

ADDED_MS_TARGET = 15.0
CALLS_PER_ROUND = 100
TOOLS = (5, 10, 20, 40, 50, 100, 200)  # 40: just below where the schema stops to spell out arguments
TOOLS_TARGET = 100
STORED_SECONDS_MAX = 20.0
PLAN: dict[str, Any] = {
    "steps": [
        {
            "id": "s1",
            "kind": "tool",
            "tool": "nothing.add_one",
            "objective": "Add one.",
            "arguments": {"value": 1},
            "after": [],
            "checks": [],
        }
    ],
    "report_step": None,
    "allow_partial": False,
}


def measure(folder: Path, *, rounds: int, quick: bool) -> dict[str, Any]:
    """Every figure; ``missed`` names the targets that were not met."""
    import models_side  # needs the client library, which the script's help does not

    load = os.getloadavg()[0]
    tries = 1 if quick else 2 * rounds + 1
    prompt = [planner_prompt.draft_of(count, tries).row(count) for count in TOOLS]
    calls = 20 if quick else rounds * CALLS_PER_ROUND
    with (
        InstantModel({**models_side.ANSWERS, "plan": PLAN}) as model,
        _named(model),
        own_runtime(str(folder)) as runtime,
    ):
        overhead = {
            "small": _overhead(models_side.timed(runtime, model, models_side.small(), calls)),
            "draft": _overhead(models_side.timed(runtime, model, models_side.draft(), calls)),
        }
        cache = plans(runtime, model, rounds)
        floor = floors(runtime.home.run, quick=quick)
    result: dict[str, Any] = {
        "question": "what a model's call costs",
        "rounds": rounds,
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "processors": os.cpu_count(),
        "floor_us": {**floor, "raw_call": round(overhead["small"]["raw"]["median_ms"] * 1e3, 1)},
        "overhead": overhead,
        "prompt": prompt,
        "cache": cache,
    }
    result["missed"] = _missed(result)
    return result


@contextlib.contextmanager
def _named(model: InstantModel) -> Iterator[None]:
    """The environment names this model for the planner, none for the critic, and no key of the person's."""
    before = {name: value for name, value in os.environ.items() if name.startswith("DULY_MODEL_")}
    for name in before:
        del os.environ[name]
    ours = {"DULY_MODEL_PLANNER": NAME, "DULY_MODEL_BASE_URL": model.base_url}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]
        os.environ.update(before)


def _overhead(timed: models_side.Timed) -> dict[str, Any]:
    """Median and 95th percentile of each way in milliseconds, and how much duly adds to the bare request."""
    found: dict[str, Any] = {name: _spread(timed.seconds[name]) for name in ("raw", "library", "duly")}
    raw, library, ours = found["raw"], found["library"], found["duly"]
    return {
        "calls": len(timed.seconds["duly"]),
        "body_bytes": timed.body_bytes,
        **found,
        "added_ms": round(ours["median_ms"] - raw["median_ms"], 3),
        "added_p95_ms": round(ours["p95_ms"] - raw["p95_ms"], 3),
        "added_to_library_ms": round(ours["median_ms"] - library["median_ms"], 3),
        "ratio": round(ours["median_ms"] / raw["median_ms"], 2),
        "target_ms": ADDED_MS_TARGET,
    }


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    return {
        "median_ms": round(statistics.median(seconds) * 1e3, 3),
        "p95_ms": round(statistics.quantiles(seconds, n=20)[-1] * 1e3, 3),
    }


def plans(runtime: OwnRuntime, model: InstantModel, rounds: int) -> dict[str, Any]:
    """The same request twice a round, new words each round: drafted by the model, then out of the cache."""
    rows: dict[str, list[float]] = {"draft": [], "hit": []}
    calls = {"draft": 0, "hit": 0}
    with opened(runtime.home) as door:
        for number in range(rounds + 1):
            text = f"Add one to one, please, and call it measurement {number}."
            for name, wanted in (("draft", "plan.cache_miss"), ("hit", "plan.cache_hit")):
                before = model.asked()
                seconds, kinds = _planned(runtime, door, text)
                if wanted not in kinds:
                    raise RuntimeError(f"no {wanted} where a {name} was to be measured")
                if number:  # the first round warms
                    rows[name].append(seconds)
                    calls[name] += model.asked() - before
                _stored(door, number + 1)
    ratios = [draft / hit for draft, hit in zip(rows["draft"], rows["hit"], strict=True)]
    return {
        "rounds": rounds,
        "model_answers_after_ms": 0,
        **{f"{name}_ms": round(statistics.median(values) * 1e3, 1) for name, values in rows.items()},
        **{f"{name}_ms_max": round(max(values) * 1e3, 1) for name, values in rows.items()},
        "ratio": round(statistics.median(ratios), 2),
        "model_calls": {name: count / rounds for name, count in calls.items()},
    }


def _planned(runtime: OwnRuntime, door: FrontDoor, text: str) -> tuple[float, list[str]]:
    """Seconds from the order until its plan is there, and the kinds of the run's events. Raises where it does not pass."""
    request = new_request(text)
    order = mandate.draft(runtime.package, request, Order(planning="always"), None)
    signed = order.sign(person.key_of(runtime.home)())
    kinds: list[str] = []
    took = 0.0
    began = time.perf_counter()
    for message in door.stream("submit", mandate=signed, request=request.to_data(), plan=None):
        event = message.get("event")
        if event is not None:
            kinds.append(event["kind"])
            if event["kind"] == "plan.drafted":
                took = time.perf_counter() - began
    result = message["result"]
    if result["phase"] != "COMPLETED" or not took:
        raise RuntimeError(f"the run ended {result['phase']} ({result['reason']})")
    return took, kinds


def _stored(door: FrontDoor, entries: int) -> None:
    """Returns once the cache holds so many plans: a plan is kept after its run has passed, and nobody waits for that."""
    late = time.monotonic() + STORED_SECONDS_MAX
    while door.call("cache", action="stats")["entries"] < entries:
        if time.monotonic() > late:
            raise RuntimeError("the plan of a run that passed did not get into the cache")


def _missed(result: dict[str, Any]) -> list[str]:
    """The targets that were not met, each as a sentence."""
    calls, cache = result["overhead"], result["cache"]
    drafts = next(row["attempts"] for row in result["prompt"] if row["tools"] == TOOLS_TARGET)
    checks = [
        (calls["small"]["added_ms"] > ADDED_MS_TARGET, "a small call adds more than its target"),
        (calls["draft"]["added_ms"] > ADDED_MS_TARGET, "a draft's call adds more than its target"),
        (drafts < DRAFTS_PER_PLAN_MAX, f"a draft may not take its attempts over {TOOLS_TARGET} tools"),
        (cache["model_calls"]["hit"] > 0, "a plan out of the cache asked the model"),
        (cache["ratio"] < 1, "a plan out of the cache takes longer than one of a model that takes no time"),
    ]
    return [sentence for missed, sentence in checks if missed]


def told(result: dict[str, Any]) -> list[str]:
    """The result as lines for a person."""
    cache = result["cache"]
    floor = ", ".join(f"{name.replace('_', ' ')} {value} us" for name, value in result["floor_us"].items())
    before, behind = result["load"]
    lines = [
        f"machine  {result['processors']} processors, load {before} before and {behind} behind",
        f"floor    {floor}",
    ]
    for name, row in result["overhead"].items():
        raw, library, ours = (row[way] for way in ("raw", "library", "duly"))
        lines += [
            f"call     {name}, {row['body_bytes']} bytes, {row['calls']} calls: duly {ours['median_ms']} ms"
            f" (p95 {ours['p95_ms']}), bare request {raw['median_ms']} ms (p95 {raw['p95_ms']}),"
            f" library {library['median_ms']} ms (p95 {library['p95_ms']})",
            f"         duly adds {row['added_ms']} ms to the bare request (target {row['target_ms']}; p95"
            f" {row['added_p95_ms']}), {row['added_to_library_ms']} ms to the library; {row['ratio']} times the request",
        ]
    lines += [
        f"prompt   {row['tools']:>3} tools: {row['prompt_bytes']} bytes (message {row['message_bytes']}, schema"
        f" {row['schema_bytes']}), about {row['tokens']} tokens, booked as {row['tokens_booked']}"
        f" ({row['attempts']} times within a draft);"
        f" takes as {row['told']}, arguments {row['arguments']}, {row['cpu_ms']} ms to write"
        for row in result["prompt"]
    ]
    lines += [
        f"cache    a model that answers after {cache['model_answers_after_ms']} ms and nothing else: plan there after"
        f" {cache['draft_ms']} ms (at most {cache['draft_ms_max']}), {cache['model_calls']['draft']} calls",
        f"         out of the cache after {cache['hit_ms']} ms (at most {cache['hit_ms_max']}),"
        f" {cache['model_calls']['hit']} calls: {cache['ratio']} times as fast",
    ]
    return lines + [f"missed   {sentence}" for sentence in result["missed"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each kind after the first")
    parser.add_argument("--quick", action="store_true", help="few calls and one round: does it run at all?")
    parser.add_argument("--folder", default=None, help="where to write; a short path (sockets lie in it)")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="duly-bench-", dir=options.folder) as name:
        result = measure(Path(name), rounds=1 if options.quick else options.rounds, quick=options.quick)
    print(json.dumps(result) if options.json else "\n".join(told(result)))
    return 1 if result["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
