"""The same work in LangGraph with its SQLite checkpointer, ``durability="sync"``: what users would take instead.

The chain is LangGraph's cheapest form of it: one node in a loop, so the graph stays small however long the chain is.
The level is a fan-out of ``Send`` with as many threads as there are reads.
"""

from __future__ import annotations

import operator
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send


class Counted(TypedDict):
    value: int


class Waited(TypedDict):
    waited: Annotated[list[int], operator.add]


def chain(saver: SqliteSaver, count: int) -> Callable[[str], tuple[float, float]]:
    """Gives a function that runs the chain in a thread of a given name; its seconds and its processor's seconds."""

    def add_one(state: Counted) -> Counted:
        return {"value": state["value"] + 1}

    builder = StateGraph(Counted)
    builder.add_node("step", add_one)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: "step" if state["value"] < count else END)
    graph = builder.compile(checkpointer=saver)

    def run(thread: str) -> tuple[float, float]:
        config: Any = {"configurable": {"thread_id": thread}, "recursion_limit": count + 10}
        cpu = time.process_time()
        began = time.perf_counter()
        out = graph.invoke({"value": 0}, config, durability="sync")
        took = time.perf_counter() - began
        if out["value"] != count:
            raise RuntimeError(f"the chain ended at {out['value']}")
        return took, time.process_time() - cpu

    return run


def level(saver: SqliteSaver, count: int, milliseconds: int) -> Callable[[str], tuple[float, float]]:
    """Gives a function that runs the level; its seconds and its processor's seconds."""

    def wait(state: dict[str, int]) -> Waited:
        time.sleep(state["milliseconds"] / 1000)
        return {"waited": [state["milliseconds"]]}

    def fan_out(state: Waited) -> list[Send]:
        return [Send("wait", {"milliseconds": milliseconds}) for _ in range(count)]

    builder = StateGraph(Waited)
    builder.add_node("wait", wait)
    builder.add_conditional_edges(START, fan_out, ["wait"])
    builder.add_edge("wait", END)
    graph = builder.compile(checkpointer=saver)

    def run(thread: str) -> tuple[float, float]:
        config: Any = {"configurable": {"thread_id": thread}, "max_concurrency": count}
        cpu = time.process_time()
        began = time.perf_counter()
        out = graph.invoke({"waited": []}, config, durability="sync")
        took = time.perf_counter() - began
        if len(out["waited"]) != count:
            raise RuntimeError(f"{len(out['waited'])} of {count} reads came back")
        return took, time.process_time() - cpu

    return run


@contextmanager
def saver(folder: Path) -> Iterator[SqliteSaver]:
    """A checkpointer over a new database in a folder (write-ahead log, a flush a checkpoint: its own settings)."""
    connection = sqlite3.connect(folder / "langgraph.sqlite", check_same_thread=False)
    try:
        yield SqliteSaver(connection)
    finally:
        connection.close()
