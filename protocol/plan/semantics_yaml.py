"""``semantics.yaml``: bytes → ``Semantics``, every fault with file, line and field."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import ValidationError

from . import plain_yaml
from .places import Path, unknown
from .semantics import Semantics

_CODE = "package.semantics"
_WHAT = "The semantics have a fault"


def load(data: bytes, place: str) -> Semantics:
    """The semantics in ``data``; ``place`` is the file's name in errors.

    Raises ``PackageError`` ``package.semantics`` (``package.yaml`` where it is no plain YAML) with every fault; each
    path reads ``file:line: field/field``.
    """
    tree, places = plain_yaml.read(data, place)
    if places.faults:
        raise places.refuse(_CODE, _WHAT)
    try:
        semantics = Semantics.model_validate(tree)
    except ValidationError as problem:
        places.add_model_faults(problem, tree, (), _CODE, Semantics)
        raise places.refuse(_CODE, _WHAT) from None
    for path, message in _dangling(semantics):
        places.add(path, _CODE, message)
    if places.faults:
        raise places.refuse(_CODE, _WHAT)
    return semantics


def _dangling(semantics: Semantics) -> Iterator[tuple[Path, str]]:
    """Names that nothing stands behind, and parts that do not belong together."""
    for name, part in semantics.dimensions.items():
        at: Path = ("dimensions", name)
        if part.source not in semantics.sources:
            yield (*at, "source"), unknown("source", part.source, semantics.sources)
        for field, lookup in (("join", part.join), ("labels", part.labels)):
            if lookup is not None and lookup.source not in semantics.sources:
                yield (*at, field, "source"), unknown("source", lookup.source, semantics.sources)
    for name, metric in semantics.metrics.items():
        at = ("metrics", name)
        if metric.source not in semantics.sources:
            yield (*at, "source"), unknown("source", metric.source, semantics.sources)
            continue
        if metric.completeness is not None and not semantics.sources[metric.source].has_days():
            yield (*at, "completeness"), f"The source {metric.source!r} has no days to judge."
        for index, dimension in enumerate(metric.dimensions):
            if dimension not in semantics.dimensions:
                yield (*at, "dimensions", index), unknown("dimension", dimension, semantics.dimensions)
            elif semantics.dimensions[dimension].source != metric.source:
                yield (*at, "dimensions", index), f"The dimension {dimension!r} cuts another source."
    yield from _ambiguous(semantics)


def _ambiguous(semantics: Semantics) -> Iterator[tuple[Path, str]]:
    """Spoken names that stand for two metrics, or for two dimensions: a request could not tell which is meant."""
    tables = (("metrics", semantics.metrics), ("dimensions", semantics.dimensions))
    for table, entries in tables:
        owner: dict[str, str] = {}
        for name, entry in entries.items():
            for spoken in dict.fromkeys(text.casefold() for text in (entry.label, *entry.synonyms)):
                if owner.setdefault(spoken, name) != name:
                    yield (table, name, "synonyms"), f"{spoken!r} already names {owner[spoken]!r}."
