"""What a planner may know of the data: definitions and the catalogue, cut to what a request needs.

Of a sensitive source only its name and columns are told: no months, no known values, nothing that stands in a row.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from typing import Any

from ...plan.catalogue import Catalogue, DimensionCatalogue, coverage_text
from ...plan.package import Package
from ...plan.request import Binding
from ...plan.semantics import Semantics
from .handles import WITHHELD

_METRICS_MAX = 40
_VALUES_NAMED_MAX = 40
_VALUES_FREQUENT_MAX = 12
_COLUMNS_MAX = 80
_TEXT_CHARS = 600
_WORD = re.compile(r"[^\W_]+")


def definitions(package: Package, binding: Binding, text: str) -> dict[str, Any] | None:
    """Metrics that the request may be about, with their dimensions; ``None`` for a package without semantics."""
    semantics = package.semantics
    if semantics is None:
        return None
    found = {}
    for name in metrics_for(semantics, binding, text):
        metric = semantics.metrics[name]
        found[name] = {
            "label": metric.label,
            "synonyms": list(metric.synonyms)[:10],
            "means": metric.definition_text()[:_TEXT_CHARS],
            "unit": metric.unit,
            "better": metric.direction,
            "source": metric.source,
            "dimensions": {key: semantics.dimensions[key].label for key in metric.dimensions},
        }
    return {"version": semantics.version, "metrics": found}


def metrics_for(semantics: Semantics, binding: Binding, text: str) -> list[str]:
    """The bound metric, and those of which a word of name, label or synonym stands in the text; else all, some dozens."""
    said = words(text)
    bound = binding.metric or binding.parameters.get("metric")
    chosen = [
        name
        for name, metric in semantics.metrics.items()
        if name == bound or said & words(" ".join((name, metric.label, *metric.synonyms)))
    ]
    return (chosen or list(semantics.metrics))[:_METRICS_MAX]


def sources(package: Package, catalogue: Catalogue, names: Iterable[str]) -> dict[str, Any]:
    """Columns, size and months of sources; of a sensitive one the columns alone."""
    sensitive = set(package.manifest.policy.sensitive_sources)
    found: dict[str, Any] = {}
    for name in names:
        source = catalogue.sources.get(name)
        if source is None:
            continue
        told: dict[str, Any] = {
            "columns": {one.name[:128]: one.type[:64] for one in source.columns[:_COLUMNS_MAX]}
        }
        if name in sensitive:
            told["withheld"] = WITHHELD
        else:
            told |= {"rows": source.rows, "months": coverage_text(source.coverage)[:_TEXT_CHARS]}
        found[name] = told
    return found


def dimensions(package: Package, catalogue: Catalogue, names: Iterable[str], text: str) -> dict[str, Any]:
    """Known values of dimensions: those that the request names, and the most frequent."""
    semantics = package.semantics
    sensitive = set(package.manifest.policy.sensitive_sources)
    found: dict[str, Any] = {}
    for name in names:
        entry = catalogue.dimensions.get(name)
        if semantics is None or entry is None or name not in semantics.dimensions:
            continue
        if sensitive & dimension_sources(semantics, name):
            found[name] = {"withheld": WITHHELD}
        else:
            found[name] = _values(entry, words(text))
    return found


def dimension_sources(semantics: Semantics, name: str) -> set[str]:
    """The sources whose rows hold the values of a dimension, its spoken names included."""
    dimension = semantics.dimensions[name]
    lookups = [one.source for one in (dimension.join, dimension.labels) if one is not None]
    return {dimension.source, *lookups}


def _values(entry: DimensionCatalogue, said: Collection[str]) -> dict[str, Any]:
    named = [one for one in entry.values if words(one.text()) & set(said)][:_VALUES_NAMED_MAX]
    frequent = [one for one in entry.values[:_VALUES_FREQUENT_MAX] if one not in named]
    shown = [one.text()[:200] for one in (*named, *frequent)]
    return {"values": shown, "more": max(0, len(entry.values) - len(shown)), "complete": entry.complete}


def words(text: str) -> set[str]:
    """The words of a text, without case and accents; those of one letter count only as a whole value would."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    return {word.removesuffix("s") or word for word in _WORD.findall(plain) if len(word) > 1}
