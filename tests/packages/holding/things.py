"""Reads and writes that hold where a test says so.

A call named ``n`` holds while the file ``n.hold`` is locked in the data folder: it writes its name into the pipe
``arrived``, then waits for the lock. The writes append lines to ``sink``.
"""

import fcntl
import os

import duly

LINES = {
    "type": "object",
    "properties": {"lines": {"type": "integer"}},
    "required": ["lines"],
    "additionalProperties": False,
}


def hold(call, name: str) -> None:
    try:
        gate = os.open(call.data / f"{name}.hold", os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        arrived = os.open(call.data / "arrived", os.O_WRONLY)
        os.write(arrived, f"{name}\n".encode())
        os.close(arrived)
        fcntl.flock(gate, fcntl.LOCK_SH)
    finally:
        os.close(gate)


def lines(call) -> list[str]:
    sink = call.data / "sink"
    return sink.read_text().splitlines() if sink.exists() else []


def append(call, text: str) -> None:
    with open(call.data / "sink", "a") as sink:
        sink.write(f"{text}\n")


@duly.tool(effect="read", output_schema={"type": "object", "properties": {"text": {"type": "string"}}})
def look(name: str, call):
    """Gives the name back in capitals."""
    hold(call, name)
    return {"text": name.upper()}


@duly.tool(effect="read", output_schema={"type": "object", "properties": {"text": {"type": "string"}}})
def join(parts: list[str]):
    """Joins texts."""
    return {"text": " ".join(parts)}


@duly.tool(effect="write", resource="file:sink", idempotency="key", output_schema=LINES)
def note(text: str, call):
    """Notes a text once for each key, and holds between the effect and the answer."""
    line = f"{call.idempotency_key} {text}"
    if line not in lines(call):
        append(call, line)
    hold(call, "note")
    return {"lines": 1}


@duly.tool(effect="write", resource="file:sink", output_schema=LINES)
def send(text: str, call):
    """Sends a text: nothing tells a second time from the first. Holds between the effect and the answer."""
    append(call, f"sent {text}")
    hold(call, "send")
    return {"lines": 1}


@duly.tool(effect="read", output_schema={"type": "object", "properties": {"texts": {"type": "array"}}})
def noted(text: str, call):
    """The lines of the sink that end with a text, each as that text."""
    hold(call, "noted")
    return {"texts": [text for line in lines(call) if line.endswith(f" {text}")]}
