"""Plain YAML: bytes → a tree of plain data, with the line of every key.

No tags, no anchors, no aliases, no key twice: those give a document more than one reading, or a size that its bytes do
not show. Keys are always texts as written, since YAML would turn ``on``, ``no`` or ``8`` into other types.
"""

from __future__ import annotations

from typing import Any

import yaml

from ..wire.limits import DEPTH_MAX, PACKAGE_FILE_BYTES_MAX
from .places import Path, Places

_FORBIDDEN = (yaml.AnchorToken, yaml.AliasToken, yaml.TagToken)
_OPENING = (
    yaml.BlockSequenceStartToken,
    yaml.BlockMappingStartToken,
    yaml.FlowSequenceStartToken,
    yaml.FlowMappingStartToken,
)
_CLOSING = (yaml.BlockEndToken, yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken)


def read(data: bytes, place: str) -> tuple[dict[str, Any], Places]:
    """The map in ``data`` and its places. Where the places hold faults already, the tree is not to be used."""
    lines: dict[Path, int] = {}
    places = Places(place, lines)
    node = _compose(data, places)
    if node is None:
        return {}, places
    lines[()] = 1
    tree = _value(node, (), lines, places)
    return tree, places


def _compose(data: bytes, places: Places) -> yaml.MappingNode | None:
    if len(data) > PACKAGE_FILE_BYTES_MAX:
        places.add((), "package.too_large", f"The file exceeds {PACKAGE_FILE_BYTES_MAX} bytes.")
        return None
    try:
        text = data.decode("utf-8")
        if not _is_plain(text, places):
            return None
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        places.add((), "package.yaml", f"The file is not UTF-8 (byte {error.start}).")
    except RecursionError:
        places.add((), "package.yaml", "The file is nested too deeply.")
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark is not None else 0
        _at_line(places, line, f"This is no YAML: {error.problem}.")
    except yaml.YAMLError as error:
        places.add((), "package.yaml", f"This is no YAML: {str(error).splitlines()[0]}.")
    else:
        if isinstance(node, yaml.MappingNode):
            return node
        _at_line(places, 0, "The file must hold a map of fields.")
    return None


def _is_plain(text: str, places: Places) -> bool:
    """Whether neither tags nor anchors nor deep nests stand in a text. Judged token by token: the time to read on grows
    with the square of the depth."""
    depth = 0
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        if isinstance(token, _FORBIDDEN):
            _at_line(places, token.start_mark.line, "Anchors, aliases and tags are not read here.")
            return False
        depth += isinstance(token, _OPENING) - isinstance(token, _CLOSING)
        if depth > DEPTH_MAX + 1:
            _at_line(places, token.start_mark.line, "This is nested too deeply.")
            return False
    return True


def _at_line(places: Places, line: int, message: str) -> None:
    Places(f"{places.place}:{line + 1}", {}, places.faults).add((), "package.yaml", message)


def _value(node: yaml.Node, path: Path, lines: dict[Path, int], places: Places) -> Any:
    if len(path) > DEPTH_MAX:
        _at_line(places, node.start_mark.line, "This is nested too deeply.")
        return None
    if isinstance(node, yaml.SequenceNode):
        return [_item(child, (*path, index), lines, places) for index, child in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key_node, child in node.value:
            key = str(key_node.value)
            if key in found:
                where = Places(f"{places.place}:{key_node.start_mark.line + 1}", {}, places.faults)
                where.add((*path, key), "package.yaml", f"The key {key!r} stands twice.")
            lines[(*path, key)] = key_node.start_mark.line + 1
            found[key] = _value(child, (*path, key), lines, places)
        return found
    return _scalar(node, places)


def _item(node: yaml.Node, path: Path, lines: dict[Path, int], places: Places) -> Any:
    lines[path] = node.start_mark.line + 1
    return _value(node, path, lines, places)


def _scalar(node: yaml.Node, places: Places) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    except ValueError:  # a date such as 2013-02-30
        _at_line(places, node.start_mark.line, "This value cannot be read; put it in quotes.")
        return None
    finally:
        loader.dispose()
