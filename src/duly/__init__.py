"""duly runs agent work as plans that are approved, executed and verified.

    import duly

    with duly.Runtime() as runtime:
        result = runtime.run("examples/flights", "How many flights departed from JFK in March?")

The names below are the public API; everything else may change between versions. They are loaded when they are first
used, so ``import duly`` costs nothing and a package's ``tools.py`` can have ``duly.tool`` alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duly.cli.session import Runtime, verify_log
    from duly.hosts.tools.python import tool
    from duly.protocol.plan.plan import Plan, Step
    from duly.protocol.plan.request import Request

__version__ = "0.1.0"
__all__ = ["Plan", "Request", "Runtime", "Step", "tool", "verify_log"]

_HOMES = {
    "Plan": "duly.protocol.plan.plan",
    "Request": "duly.protocol.plan.request",
    "Runtime": "duly.cli.session",
    "Step": "duly.protocol.plan.plan",
    "tool": "duly.hosts.tools.python",
    "verify_log": "duly.cli.session",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'duly' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
