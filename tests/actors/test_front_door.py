"""The front door's socket: order, errors, and answers that come together."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from duly import __version__
from duly.actors.harness.front_door import FrontDoor
from duly.hosts.framing import FrameParser, Message, frame
from duly.protocol.wire.errors import RunError

LARGE = "x" * 300_000  # more than leaves in one write


class Desk:
    """Counts up, with pauses where it is told to; fails where it is told to."""

    async def serve(self, op: str, fields: Mapping[str, Any]) -> AsyncIterator[Mapping[str, Any]]:
        for number in range(fields["count"]):
            if number in fields.get("pauses", ()):
                await asyncio.sleep(0)
            yield {"event": number, "text": LARGE if number in fields.get("large", ()) else ""}
        if op == "fail":
            raise RunError("run.unknown", "There is no such run.")
        yield {"result": op, "last": True}


async def asked(folder: Path, *requests: Message) -> list[Message]:
    """The answers to requests that are sent at once on one connection."""
    path = folder / "front.sock"
    door = FrontDoor(Desk())
    await door.open(path)
    reader, writer = await asyncio.open_unix_connection(path)
    for request in requests:
        writer.writelines(frame({**request, "version": __version__}))
    found: list[Message] = []
    parser = FrameParser()
    while sum(bool(one.get("last")) for one in found) < len(requests):
        data = await asyncio.wait_for(reader.read(1 << 16), 10)
        assert data, "the door closed the connection"
        found += [message for message, _ in parser.feed(data)]
    writer.close()
    await door.close()
    return found


@pytest.fixture
def folder() -> Any:
    with tempfile.TemporaryDirectory(
        prefix="duly-d-"
    ) as name:  # pytest's own paths are too long for a socket
        yield Path(name)


@pytest.mark.parametrize("pauses", [(), (1,), (0, 3, 7), tuple(range(10))])
def test_every_answer_arrives_once_and_in_order(folder, pauses):
    found = asyncio.run(asked(folder, {"op": "count", "count": 10, "pauses": list(pauses)}))
    assert [one["event"] for one in found[:-1]] == list(range(10))
    assert found[-1] == {"result": "count", "last": True}


def test_large_answers_keep_their_place_among_small_ones(folder):
    found = asyncio.run(asked(folder, {"op": "count", "count": 6, "large": [1, 2, 4]}))
    assert [one["event"] for one in found[:-1]] == list(range(6))
    assert [len(one["text"]) > 0 for one in found[:-1]] == [False, True, True, False, True, False]


def test_an_error_comes_behind_the_answers_before_it(folder):
    found = asyncio.run(asked(folder, {"op": "fail", "count": 3}))
    assert [one.get("event") for one in found] == [0, 1, 2, None]
    assert found[-1]["error"]["code"] == "run.unknown"


def test_requests_of_one_connection_are_answered_one_after_the_other(folder):
    found = asyncio.run(asked(folder, {"op": "first", "count": 2}, {"op": "second", "count": 1}))
    assert [one.get("event", one.get("result")) for one in found] == [0, 1, "first", 0, "second"]
