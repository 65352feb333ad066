"""What a tool is for a worker, and what a call knows: the only things that a tool module needs to import from here.

    TOOL = Tool(Descriptor(server="metrics", name="change", effect="read", ...), run)

    def run(call: CallContext, arguments: dict[str, Any]) -> Any: ...

A tool gets its arguments as plain Python values (tags read) that fit its input schema, and returns any value that
``protocol/wire/tagged`` can keep. It fails with ``ToolError`` (code ``tool.*``, the message is for a person); ``transient``
in ``ToolFailure`` says that a retry may help. Any other exception becomes ``tool.failed``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.wire.errors import DulyError, ToolError


class ToolFailure(ToolError):
    """A failure of which the tool knows whether trying again may help."""

    def __init__(self, code: str, message: str, *, transient: bool = False, hint: str | None = None) -> None:
        super().__init__(code, message, hint=hint)
        self.transient = transient


@dataclass(slots=True)
class CallContext:
    """One call: what it may know, and what it reports beside its result.

    ``package`` is the package's snapshot folder, ``data`` the folder that its sources and files live in, ``scratch`` a
    folder that is removed with the worker. ``secrets`` holds only what the manifest names for this tool's server.
    ``rows_max`` bounds the rows that a read may scan. The tool fills in ``fingerprints`` (source name → digest of what
    was read), ``rows_scanned`` and ``truncated``; they go into the receipt.
    """

    run_id: str
    step_id: str
    package: Path
    data: Path
    scratch: Path
    idempotency_key: str = ""
    rows_max: int = 0
    secrets: Mapping[str, str] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    rows_scanned: int = 0
    truncated: bool = False


ToolFunction = Callable[[CallContext, dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """A descriptor with the function behind it, the names of the secrets and the modules that it needs."""

    descriptor: Descriptor
    function: ToolFunction
    secrets: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()


def said(problem: DulyError) -> str:
    """Sentence, place and hint of an error; its code travels beside them."""
    place = f"{problem.place}: " if problem.place else ""
    return f"{place}{problem.message} {problem.hint or ''}".rstrip()


def plain_text(text: str) -> str:
    """Text of a stranger as a canonical message can carry it: in normal form C, without halves of surrogate pairs."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode("utf-8"))
