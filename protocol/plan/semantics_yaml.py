"""``semantics.yaml``: bytes → ``Semantics``, every fault with file, line and field.

Plain YAML: no tags, no anchors, no aliases, no key twice; those give a document more than one reading, or a size that
its bytes do not show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import ValidationError

from ..wire.errors import Fault, PackageError
from ..wire.limits import DEPTH_MAX, PACKAGE_FILE_BYTES_MAX
from .semantics import Semantics

Path = tuple[str | int, ...]


def load(data: bytes, place: str) -> Semantics:
    """The semantics in ``data``; ``place`` is the file's name in errors.

    Raises ``PackageError`` ``package.semantics`` with every fault; each path reads ``file:line: field/field``.
    """
    tree, lines, faults = _plain_yaml(data, place)
    if not faults:
        try:
            semantics = Semantics.model_validate(tree)
        except ValidationError as error:
            faults = list(_model_faults(error, tree, lines, place))
        else:
            faults = [_fault(place, lines, path, text) for path, text in _dangling(semantics)]
            if not faults:
                return semantics
    first = faults[0]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    raise PackageError(
        "package.semantics",
        f"The semantics have a fault: {first.message}{more}",
        place=first.path,
        hint="Correct the file; every fault is listed with its line.",
        faults=faults,
    )


def _plain_yaml(data: bytes, place: str) -> tuple[Any, dict[Path, int], list[Fault]]:
    if len(data) > PACKAGE_FILE_BYTES_MAX:
        return (
            None,
            {},
            [Fault(place, "package.too_large", f"The file exceeds {PACKAGE_FILE_BYTES_MAX} bytes.")],
        )
    try:
        text = data.decode("utf-8")
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            if isinstance(token, yaml.AnchorToken | yaml.AliasToken | yaml.TagToken):
                where = f"{place}:{token.start_mark.line + 1}"
                return (
                    None,
                    {},
                    [Fault(where, "package.yaml", "Anchors, aliases and tags are not read here.")],
                )
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        return None, {}, [Fault(place, "package.yaml", f"The file is not UTF-8 (byte {error.start}).")]
    except RecursionError:
        return None, {}, [Fault(place, "package.yaml", "The file is nested too deeply.")]
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        return None, {}, [Fault(f"{place}:{line}", "package.yaml", f"This is no YAML: {error.problem}.")]
    except yaml.YAMLError as error:
        return None, {}, [Fault(place, "package.yaml", f"This is no YAML: {error}.")]
    if not isinstance(node, yaml.MappingNode):
        return None, {}, [Fault(f"{place}:1", "package.yaml", "The file must hold a map of fields.")]
    lines: dict[Path, int] = {(): 1}
    faults: list[Fault] = []
    tree = _value(node, (), lines, faults, place)
    return tree, lines, faults


def _value(node: yaml.Node, path: Path, lines: dict[Path, int], faults: list[Fault], place: str) -> Any:
    if len(path) > DEPTH_MAX:
        faults.append(
            Fault(f"{place}:{node.start_mark.line + 1}", "package.yaml", "This is nested too deeply.")
        )
        return None
    if isinstance(node, yaml.SequenceNode):
        return [_item(child, (*path, index), lines, faults, place) for index, child in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key_node, child in node.value:
            # A key is always the text as written: YAML would turn `on`, `no` or `8` into other types.
            key = str(key_node.value)
            if key in found:
                where = f"{place}:{key_node.start_mark.line + 1}: {_field((*path, key))}"
                faults.append(Fault(where, "package.yaml", f"The key {key!r} stands twice."))
            lines[(*path, key)] = key_node.start_mark.line + 1
            found[key] = _value(child, (*path, key), lines, faults, place)
        return found
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    finally:
        loader.dispose()


def _item(node: yaml.Node, path: Path, lines: dict[Path, int], faults: list[Fault], place: str) -> Any:
    lines[path] = node.start_mark.line + 1
    return _value(node, path, lines, faults, place)


def _model_faults(error: ValidationError, tree: Any, lines: dict[Path, int], place: str) -> Iterator[Fault]:
    for found in error.errors(include_url=False, include_input=False):
        message = str(found["msg"]).removeprefix("Value error, ")
        if found["type"] == "extra_forbidden":
            message = "There is no such field here."
        yield _fault(place, lines, _real_path(found["loc"], tree), message)


def _real_path(location: tuple[int | str, ...], tree: Any) -> Path:
    """The location without the union and tag names that pydantic puts in between; a missing last field stays."""
    path: list[str | int] = []
    here = tree
    for index, part in enumerate(location):
        inside = (isinstance(here, dict) and part in here) or (
            isinstance(here, list) and isinstance(part, int) and part < len(here)
        )
        if inside:
            here = here[part]
            path.append(part)
        elif index == len(location) - 1 and isinstance(here, dict):
            path.append(part)
    return tuple(path)


def _dangling(semantics: Semantics) -> Iterator[tuple[Path, str]]:
    """Names that nothing stands behind, and parts that do not belong together."""
    for name, part in semantics.dimensions.items():
        at: Path = ("dimensions", name)
        if part.source not in semantics.sources:
            yield (*at, "source"), f"There is no source {part.source!r}."
        for field, lookup in (("join", part.join), ("labels", part.labels)):
            if lookup is not None and lookup.source not in semantics.sources:
                yield (*at, field, "source"), f"There is no source {lookup.source!r}."
    for name, metric in semantics.metrics.items():
        at = ("metrics", name)
        if metric.source not in semantics.sources:
            yield (*at, "source"), f"There is no source {metric.source!r}."
            continue
        if metric.completeness is not None and not semantics.sources[metric.source].has_days():
            yield (*at, "completeness"), f"The source {metric.source!r} has no days to judge."
        for index, dimension in enumerate(metric.dimensions):
            if dimension not in semantics.dimensions:
                yield (*at, "dimensions", index), f"There is no dimension {dimension!r}."
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


def _fault(place: str, lines: dict[Path, int], path: Path, message: str) -> Fault:
    known = path
    while known not in lines:
        known = known[:-1]
    return Fault(f"{place}:{lines[known]}: {_field(path)}", "package.semantics", message)


def _field(path: Path) -> str:
    return "/".join(str(part) for part in path)
