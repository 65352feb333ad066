"""From one call in a worker to the semantics and sources of its package."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from duly.protocol.plan.manifest import SourceEntry
from duly.protocol.plan.semantics import Semantics
from duly.protocol.plan.semantics_yaml import load
from duly.protocol.wire.errors import DulyError, ToolError

from .context import CallContext, ToolFunction
from .duckdb_source import Allowance, SourceFile, Sources
from .metrics_cells import DataContext, normal

SEMANTICS_FILE = "semantics.yaml"
_ENTRIES = TypeAdapter(dict[str, SourceEntry])


def data_context(call: CallContext) -> DataContext:
    """The semantics of the call's package snapshot, and its sources where they lie now.

    Raises ``PackageError`` for a faulty file, ``ToolError`` ``tool.no_semantics`` where there is none.
    """
    path = call.package / SEMANTICS_FILE
    try:
        semantics = _semantics(path.read_bytes())
    except FileNotFoundError:
        raise ToolError(
            "tool.no_semantics", "The package has no semantics.yaml, so it has no metrics.", place=str(path)
        ) from None
    return DataContext(semantics, Sources(located(call), Allowance(call.rows_max)))


@functools.lru_cache(maxsize=8)
def _semantics(data: bytes) -> Semantics:
    """The semantics of a file's bytes; a warm worker reads each once."""
    return load(data, SEMANTICS_FILE)


def reading(answer: Callable[[DataContext, dict[str, Any]], Any]) -> ToolFunction:
    """A data tool as a worker calls it: builds the context, and reports what was read.

    A source that changed under the read fails the call: two queries of one answer must mean the same data.
    """

    def run(call: CallContext, arguments: dict[str, Any]) -> Any:
        try:
            context = data_context(call)
            result = normal(answer(context, arguments))
            context.sources.unchanged()
        except ToolError:
            raise
        except DulyError as error:
            raise ToolError(
                "tool.bad_arguments" if error.code.startswith("request.") else "tool.bad_package",
                error.message,
                place=error.place,
                hint=error.hint,
            ) from None
        call.fingerprints.update({name: found.sha256 for name, found in context.sources.used.items()})
        call.rows_scanned += context.sources.allowance.scanned
        return result

    return run


def located(call: CallContext) -> dict[str, SourceFile]:
    """Every ``[sources.*]`` of the manifest; a relative file lies in the data folder, or in the package."""
    try:
        manifest = tomllib.loads((call.package / "agent.toml").read_text(encoding="utf-8"))
        entries = _ENTRIES.validate_python(manifest.get("sources", {}))
    except (OSError, ValueError, ValidationError) as error:
        raise ToolError("tool.bad_package", f"The sources of agent.toml cannot be read ({error}).") from None
    found = {}
    for name, entry in entries.items():
        base = call.package if entry.base == "package" else call.data
        found[name] = SourceFile(base / Path(entry.file), entry.table, tuple(entry.nulls))
    return found
