"""The package of the kill matrix: reads, and writes into a sink that counts every effect by itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Plan
from plans import plan, ref, step

DATA = "sinkdata"
KEYED, PROBED, UNSAFE = "keyed", "probed", "unsafe"
WRITES = {"w1": KEYED, "w2": PROBED, "w3": UNSAFE}
OBJECTIVE = "Change three things, each exactly once."

TOOLS = '''
import json
import os
import socket
import sqlite3

from duly.hosts.tools.python import tool


def _sink(call):
    call.data.mkdir(parents=True, exist_ok=True)
    sink = sqlite3.connect(call.data / "sink.sqlite", isolation_level=None, timeout=30)
    sink.execute("CREATE TABLE IF NOT EXISTS effects (run TEXT, thing TEXT, key TEXT, pid INTEGER)")
    sink.execute("CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY)")
    return sink


def _here(call, when, thing):
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.connect(str(call.data.parent / "kill.sock"))
    except OSError:
        return
    said = {"runs": {call.run_id: ["tool"]}, "steps": [thing], "when": when, "pid": os.getpid()}
    line.sendall(json.dumps(said).encode() + b"\\n")
    line.recv(1)
    line.close()


def _act(call, thing):
    """One effect is one row, whatever else is true."""
    _here(call, "tool before", thing)
    sink = _sink(call)
    sink.execute("INSERT INTO effects VALUES (?, ?, ?, ?)", (call.run_id, thing, call.idempotency_key, os.getpid()))
    sink.close()
    _here(call, "tool after", thing)
    return {"thing": thing, "made": True}


@tool(effect="write", idempotency="key", resource="sqlite:sink", timeout_seconds=20)
def keyed(call, thing: str) -> dict:
    """Acts once for a key, by the sink's own transaction."""
    _here(call, "tool before", thing)
    sink = _sink(call)
    sink.execute("BEGIN IMMEDIATE")
    fresh = sink.execute("INSERT OR IGNORE INTO keys VALUES (?)", (call.idempotency_key,)).rowcount
    if fresh:
        row = (call.run_id, thing, call.idempotency_key, os.getpid())
        sink.execute("INSERT INTO effects VALUES (?, ?, ?, ?)", row)
    sink.execute("COMMIT")
    sink.close()
    _here(call, "tool after", thing)
    return {"thing": thing, "made": True}


@tool(effect="write", probe="happened", resource="sqlite:sink", timeout_seconds=20)
def probed(call, thing: str) -> dict:
    """Repeats its effect when it is repeated; the probe can tell."""
    return _act(call, thing)


@tool(effect="write", resource="sqlite:sink", timeout_seconds=20)
def unsafe(call, thing: str) -> dict:
    """Repeats its effect when it is repeated, and nobody can tell."""
    return _act(call, thing)


@tool(effect="read")
def happened(call, thing: str) -> dict:
    sink = _sink(call)
    count = sink.execute("SELECT count(*) FROM effects WHERE run = ? AND thing = ?", (call.run_id, thing)).fetchone()[0]
    sink.close()
    return {"happened": count > 0, **({"output": {"thing": thing, "made": True}} if count else {})}


@tool(effect="read")
def find(call, thing: str) -> dict:
    """Reads a write back."""
    sink = _sink(call)
    count = sink.execute("SELECT count(*) FROM effects WHERE run = ? AND thing = ?", (call.run_id, thing)).fetchone()[0]
    sink.close()
    return {"thing": thing if count else None, "count": count}


@tool(effect="read", concurrent=True)
def look(call, thing: str) -> dict:
    return {"thing": thing}
'''

MANIFEST = f"""
[package]
name = "killed"
version = "1"
data = "{DATA}"

[agents.defaults]
tier = "bounded_autonomous"

[[agents.list]]
name = "clerk"
version = "1"
mission = "Changes things."
tools = ["sink.keyed", "sink.probed", "sink.unsafe", "sink.happened", "sink.find", "sink.look"]

[agents.list.budget]
steps = 60
tool_calls = 200
wall_seconds = 600

[tools.sink]
kind = "python"
functions = ["keyed", "probed", "unsafe", "happened", "find", "look"]
timeout_seconds = 20
"""


def write_package(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "agent.toml").write_text(MANIFEST, "utf-8")
    (folder / "tools.py").write_text(TOOLS, "utf-8")
    return folder


def the_plan(descriptors: Mapping[str, Descriptor]) -> Plan:
    """Two reads at once, three writes one behind the other, each of its own kind, and a read of what came out."""
    sink = {name: descriptors[f"sink.{name}"] for name in (*WRITES.values(), "find", "look")}

    def write(step_id: str, thing: str, needs: list[str]):
        return step(
            step_id,
            sink[WRITES[step_id]],
            {"thing": thing},
            needs=needs,
            reader=sink["find"],
            agree={"/thing": "/thing"},
            timeout_seconds=20,
        )

    return plan(
        [
            step("r1", sink["look"], {"thing": "a"}),
            step("r2", sink["look"], {"thing": "b"}),
            write("w1", "w1", ["r1", "r2"]),
            write("w2", "w2", ["w1"]),
            write("w3", "w3", ["w2"]),
            step("r3", sink["look"], {"thing": ref("r1", "/thing")}, needs=["w3"]),
        ],
        objective=OBJECTIVE,
    )


def effects(home: Path, run_id: str) -> dict[str, int]:
    """How often each write of a run happened, counted where it happened."""
    path = home / DATA / "sink.sqlite"
    if not path.exists():
        return {}
    sink = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        rows = sink.execute("SELECT thing, count(*) FROM effects WHERE run = ? GROUP BY thing", (run_id,))
        return dict(rows.fetchall())
    except sqlite3.OperationalError:
        return {}  # the first tool was killed before it made the table
    finally:
        sink.close()
