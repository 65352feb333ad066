"""A plan as a text that a person edits: YAML with comments, in the order in which a plan is read.

Reading the text gives the same plan again, byte for byte of its content. What nobody changes is left out where it has its
usual value. Texts from elsewhere stand in quotes, with everything escaped that could move a cursor, hide, or end a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import yaml

from duly.protocol.authority.printable import escape, readable
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Plan
from duly.protocol.wire.errors import RunError

_COLUMNS = 100  # a list or map that fits into the rest of a line stands on it
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*\Z")
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
# Field of a step's part → its usual value, which is not written.
_USUAL: Mapping[str, Mapping[str, Any]] = {
    "": {"kind": "tool", "depends_on": []},
    "inputs": {"sources": [], "artifacts": {}},
    "tool_contract": {"authority": "", "idempotency": "none", "model": None},
    "output_contract": {"version": "1", "location": "artifacts", "evidence": "observation"},
}
_KEY_CHARS_MAX = 1_000  # YAML itself ends at 1,024
_FIRST = ("objective", "constraints", "scope", "task_class", "allow_partial", "report_step")


def plan_text(plan: Plan, descriptors: Mapping[str, Descriptor], *, run_id: str, version: int) -> str:
    """The text of a plan. ``descriptors`` are the tools that it may use, by full name.

    Raises ``RunError`` ``run.not_editable`` where it has no such text.
    """
    content = plan.content()
    lines = [*_head(run_id, version), *_tools(descriptors), ""]
    lines += [
        "# Fixed: `duly amend` changes what the run is for.",
        *_entry("objective", content["objective"], ""),
    ]
    for name in _FIRST[1:]:
        lines += _entry(name, content[name], "")
    lines += ["", "steps:" if content["steps"] else "steps: []"]
    for number, step in enumerate(content["steps"], 1):
        lines += [*([""] if number > 1 else []), f"  # step {number} of {len(content['steps'])}"]
        lines += _listed(_without_usual(step), "  ")
    return "\n".join(lines) + "\n"


def _head(run_id: str, version: int) -> list[str]:
    return [
        f"# The plan that waits in run {escape(run_id)}, version {version}.",
        "#",
        "# Change it, save it and leave the editor. What is not valid is shown, with its line, and nothing is sent.",
        "# A valid plan is shown at its gate again, the difference first, and waits there for an approval.",
        "# Left as it is, nothing is sent.",
        "#",
        "# You may change: constraints, scope (not beyond the mandate), task_class, allow_partial, report_step, and",
        "# everything in the steps; add, remove and reorder them. `descriptor` pins a tool as it was granted: leave it",
        '# out of a new step, and it is filled in. A reference is {$ref: "step#/pointer"}.',
    ]


def _tools(descriptors: Mapping[str, Descriptor]) -> list[str]:
    names = [f"{escape(name)} ({one.effect})" for name, one in sorted(descriptors.items())]
    return ["# Tools that it may use:", *(f"#   {name}" for name in names)] if names else []


def _without_usual(step: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in step.items():
        if name in _USUAL[""] and value == _USUAL[""][name]:
            continue
        usual = _USUAL.get(name) if name else None
        if usual is not None:
            value = {key: one for key, one in value.items() if key not in usual or usual[key] != one}
        kept[name] = value
    return kept


def _entry(name: str, value: Any, indent: str) -> list[str]:
    """The lines of one field of a map."""
    head = f"{indent}{_key(name)}:"
    flat = _flat(value)
    if not isinstance(value, list | dict) or not value or len(head) + 1 + len(flat) <= _COLUMNS:
        return [f"{head} {flat}"]
    inner = indent + "  "
    if isinstance(value, dict):
        return [head, *(line for key, item in value.items() for line in _entry(key, item, inner))]
    return [head, *(line for item in value for line in _listed(item, inner))]


def _listed(value: Any, indent: str) -> list[str]:
    """The lines of one item of a list."""
    flat = _flat(value)
    if not isinstance(value, list | dict) or not value or (len(indent) + 2 + len(flat) <= _COLUMNS):
        return [f"{indent}- {flat}"]
    inner = indent + "  "
    if isinstance(value, dict):
        lines = [line for key, item in value.items() for line in _entry(key, item, inner)]
    else:
        lines = [line for item in value for line in _listed(item, inner)]
    return [f"{indent}- {lines[0][len(inner) :]}", *lines[1:]]


def _flat(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)}: {_flat(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flat(item) for item in value) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return _float(value)
    return str(value) if isinstance(value, int) else _text(value)


def _float(value: float) -> str:
    """YAML takes ``1e-09`` for a text: a number with an exponent needs a point and a sign."""
    text = repr(value)
    mantissa, mark, exponent = text.partition("e")
    if not mark:
        return text
    point = mantissa if "." in mantissa else mantissa + ".0"
    return f"{point}e{exponent if exponent[0] in '+-' else '+' + exponent}"


def _key(name: str) -> str:
    key = _text(name)
    if len(key) > _KEY_CHARS_MAX:
        raise RunError(
            "run.not_editable",
            f"This plan has a key of more than {_KEY_CHARS_MAX} characters, which YAML cannot hold.",
            hint="Give the changed plan as JSON: `duly edit RUN --file plan.json`.",
        )
    return key


def _text(text: str) -> str:
    """A text, in quotes unless it is a plain word that YAML reads as that word."""
    if _BARE.match(text) and _is_word(text):
        return text
    return '"' + "".join(_characters(text)) + '"'


@lru_cache(maxsize=1024)
def _is_word(text: str) -> bool:
    """Whether YAML reads a bare word as this text: it takes ``no`` for false and ``1e3.0`` for who knows what."""
    return bool(yaml.safe_load(text) == text)


def _characters(text: str) -> Iterator[str]:
    for character in text:
        if character in _SHORT:
            yield _SHORT[character]
        elif " " <= character <= "~" or (not character.isascii() and readable(character) == character):
            yield character
        else:
            number = ord(character)
            yield (
                f"\\x{number:02x}"
                if number < 0x100
                else (f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}")
            )
