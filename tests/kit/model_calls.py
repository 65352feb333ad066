"""What the journal keeps of a run's models and steps, read beside the runtime."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from duly.cli.records import Records
from duly.protocol.wire import canon
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX
from runtime_home import Outcome, RuntimeHome


class Call:
    """One recorded call of a model: its facts, and its artifacts as bytes."""

    def __init__(self, records: Records, event: dict[str, Any]) -> None:
        self.facts = event["facts"]
        self.artifacts = {
            name: records.artifact_bytes(event["run_id"], digest)
            for name, digest in event["artifacts"].items()
        }

    @property
    def request(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.artifacts["model_request"] or b"")
        return found

    @property
    def parameters(self) -> dict[str, Any]:
        found: dict[str, Any] = canon.decode(
            self.artifacts["parameters"] or b"", bytes_max=ARTIFACT_BYTES_MAX
        )
        return found


@contextmanager
def recorded(home: RuntimeHome, outcome: Outcome) -> Iterator[tuple[Records, list[dict[str, Any]]]]:
    """The journal's own events of a run, read beside the runtime."""
    with Records.open(home.home) as records:
        yield records, [one.event for one in records.journal.read_run(outcome.result["run_id"])]


def calls_of(home: RuntimeHome, outcome: Outcome) -> list[Call]:
    """Every call of a model, in order."""
    with recorded(home, outcome) as (records, events):
        return [Call(records, event) for event in events if event["kind"] == "model.called"]


def outputs_of(home: RuntimeHome, outcome: Outcome) -> dict[str, Any]:
    """The last output of each step."""
    with recorded(home, outcome) as (records, events):
        return {
            event["facts"]["step_id"]: records.attached(event, "output")
            for event in events
            if event["kind"] == "step.succeeded"
        }
