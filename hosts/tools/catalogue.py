"""The catalogue of a package's sources, read through the locked engine: what ``duly.survey`` gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duly.protocol.plan.catalogue import (
    Catalogue,
    Column,
    DimensionCatalogue,
    DimensionValue,
    MonthCoverage,
    SourceCatalogue,
)
from duly.protocol.plan.semantics_yaml import load
from duly.protocol.wire.errors import ToolError

from .context import CallContext
from .duckdb_source import SourceFile, Sources
from .metrics_catalogue import catalogue as described
from .metrics_cells import DataContext
from .metrics_package import SEMANTICS_FILE


def catalogue(call: CallContext, files: Mapping[str, SourceFile]) -> Catalogue:
    """Every located source with columns, rows, coverage and fingerprint, and every dimension with its known values.

    Raises ``PackageError`` for faulty semantics, and ``ToolError``: ``tool.source_missing``, ``tool.source_damaged``,
    ``tool.column_missing``, ``tool.source_changed`` where a file changes meanwhile.
    """
    sources = Sources(files)
    found: dict[str, SourceCatalogue] = {}
    dimensions: dict[str, DimensionCatalogue] = {}
    path = call.package / SEMANTICS_FILE
    if path.is_file():
        semantics = load(path.read_bytes(), SEMANTICS_FILE)
        output = described(DataContext(semantics, sources), {})
        found = {name: _source(name, sources, data) for name, data in output["sources"].items()}
        dimensions = {name: _dimension(name, data) for name, data in output["dimensions"].items()}
    for name in files:
        if name not in found:
            with sources.open(name) as database:
                data = {"columns": database.columns(name), "rows": database.count(name), "periods": []}
                found[name] = _source(name, sources, data)
    sources.unchanged()
    call.fingerprints.update({name: used.sha256 for name, used in sources.used.items()})
    return Catalogue(sources={name: found[name] for name in files}, dimensions=dimensions)


def _source(name: str, sources: Sources, data: Mapping[str, Any]) -> SourceCatalogue:
    try:
        coverage = [MonthCoverage(**period) for period in data["periods"]]
    except ValueError:
        raise ToolError(
            "tool.source_damaged",
            f"The source {name} has months that are no months.",
            place=str(sources.files[name].path),
            hint="Correct the time of the source in semantics.yaml, or the file.",
        ) from None
    return SourceCatalogue(
        name=name,
        fingerprint=sources.used[name].sha256,
        rows=data["rows"],
        columns=[Column(name=column, type=kind) for column, kind in data["columns"].items()],
        coverage=coverage,
    )


def _dimension(name: str, data: Mapping[str, Any]) -> DimensionCatalogue:
    values = [
        DimensionValue(value=entry["value"], label=entry.get("label"), rows=entry["rows"])
        for entry in data["values"]
    ]
    return DimensionCatalogue(name=name, values=values, complete=not data["truncated"])
