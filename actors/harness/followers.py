"""Who watches which run, and what they are shown: events as scripts read them, then the result where the run stops."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from duly.protocol.machine.run import Run
from duly.protocol.views.result import result_object
from duly.storage.recovery import Recorded

News = tuple[list[Recorded], Run]


class Followers:
    def __init__(self) -> None:
        self._queues: dict[str, set[asyncio.Queue[News]]] = {}

    def publish(self, run_id: str, records: list[Recorded], run: Run) -> None:
        """Tells everybody who follows a run what became durable."""
        for queue in self._queues.get(run_id, ()):
            queue.put_nowait((records, run))

    async def follow(
        self,
        run_id: str,
        *,
        after: int,
        history: Callable[[], Iterable[Recorded]],
        current: Callable[[], Run],
        begin: Callable[[], Any] | None = None,
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Events with a number above ``after``, and the result once the run waits or has ended.

        Listening begins before the history is read, so nothing falls between. ``begin`` is awaited after listening
        began and before anything is shown: what it does is not missed.
        """
        queue: asyncio.Queue[News] = asyncio.Queue()
        self._queues.setdefault(run_id, set()).add(queue)
        try:
            if begin is not None:
                await begin()
            for record in history():
                if record.seq > after:
                    after = record.seq
                    yield {"event": event_object(record)}
            run = current()
            while not queue.empty() or not (run.phase.waits or run.phase.ended):
                records, run = await queue.get()
                for record in records:
                    if record.seq > after:
                        after = record.seq
                        yield {"event": event_object(record)}
            yield {"result": {"type": "result", **result_object(run)}, "last": True}
        finally:
            watching = self._queues.get(run_id, set())
            watching.discard(queue)
            if not watching:
                self._queues.pop(run_id, None)


def event_object(record: Recorded) -> dict[str, Any]:
    """An event as it is printed. ``time`` is RFC 3339 in UTC with milliseconds."""
    return {
        "type": "event",
        "seq": record.seq,
        "time": _moment(record.time_ms),
        "run_id": record.run_id,
        "kind": record.event.kind,
        "epoch": record.epoch,
        "cause": record.cause,
        "phase": record.event.facts.get("phase", ""),
        "facts": {name: value for name, value in record.event.facts.items() if name != "phase"},
        "artifacts": dict(record.event.artifacts),
    }


@lru_cache(maxsize=16)  # the events of a decision happen at one moment
def _moment(time_ms: int) -> str:
    moment = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
