"""Requests that a playbook has as a whole: the very same text, but for the places of its parameters.

Texts and numbers stand where the playbook's file says. Months, metrics, dimensions and segments stand where they are
recognised, in its text as in the one that is asked. White space is no difference; case is one only where the playbook's
arguments say such a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from duly.protocol.plan.playbook import Playbook
from duly.protocol.wire.limits import PLAYBOOK_SLOT_CHARS_MAX

from .recognise import Findings, recognise
from .vocabulary import Vocabulary

_NUMBER = r"(?<![\w.,])[+-]?[0-9]{1,15}(?:\.[0-9]{1,15})?(?!\w|[.,]\d)"
_RECOGNISED = {
    "metric": "metrics",
    "dimension": "dimensions",
    "dimensions": "dimensions",
    "period": "periods",
    "period_pair": "periods",
    "filters": "values",
    "segment_pair": "values",
}


def request_values(
    playbook: Playbook, text: str, found: Findings, vocabulary: Vocabulary | None
) -> dict[str, Any] | None:
    """The texts and numbers of a request by parameter; ``None`` where it is not the playbook's request.

    ``found`` is what was recognised in ``text``.
    """
    kinds = {_RECOGNISED[one.kind] for one in playbook.parameters.values() if one.kind in _RECOGNISED}
    named = {kind: {_plain(text[a:b]) for a, b in _spans(found, kind)} for kind in kinds}
    pattern: list[str] = []
    seen: set[str] = set()
    words = [leaf for step in playbook.steps for leaf in _texts(step.arguments)]
    for piece in playbook.match.request:
        if isinstance(piece, str):
            pattern.append(_literal(piece, named, words, vocabulary))
        else:
            name = piece["$param"]
            pattern.append(_slot(playbook, name, name in seen))
            seen.add(name)
    match = re.fullmatch("".join(pattern), _plain(text))
    if match is None:
        return None
    if not all(match[name].isprintable() for name in seen):  # an approver would not see it
        return None
    return {name: _value(playbook.parameters[name].kind, match[name]) for name in seen}


def _plain(text: str) -> str:
    return " ".join(text.split())


def _slot(playbook: Playbook, name: str, again: bool) -> str:
    if again:
        return f"(?P={name})"  # letter for letter what stood there before
    if playbook.parameters[name].kind == "number":
        return f"(?P<{name}>{_NUMBER})"
    words = max(1, playbook.parameters[name].words)
    word = rf"\S{{1,{PLAYBOOK_SLOT_CHARS_MAX}}}"
    return rf"(?<!\w)(?P<{name}>(?=\w){word}(?:\ {word}){{{words - 1}}}(?<=\w))(?!\w)"


def _literal(piece: str, named: dict[str, set[str]], words: list[str], vocabulary: Vocabulary | None) -> str:
    """The pattern of a text; what is recognised in it for a parameter may be anything of its kind that is recognised."""
    here = recognise(piece, vocabulary)
    places = sorted((span, kind) for kind in named for span in _spans(here, kind))
    pattern, at = "", 0
    for (start, end), kind in places:
        if start < at:
            continue
        choices = sorted({*named[kind], piece[start:end]}, key=len, reverse=True)
        pattern += _written(piece[at:start], words) + f"(?:{'|'.join(map(re.escape, choices))})"
        at = end
    return pattern + _written(piece[at:], words)


def _written(text: str, words: Sequence[str]) -> str:
    exact = any(word in text for word in words)
    return re.escape(text) if exact else f"(?i:{re.escape(text)})"


def _spans(found: Findings, kind: str) -> Iterator[tuple[int, int]]:
    """The places in the text, in characters, of everything of a kind that was recognised."""
    for one in getattr(found, kind):
        yield found.words[one.start].start, found.words[one.end - 1].end


def _texts(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for value in tree.values():
            yield from _texts(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _texts(value)
    elif isinstance(tree, str) and tree:
        yield tree


def _value(kind: str, text: str) -> Any:
    if kind != "number":
        return text
    return float(text) if "." in text else int(text)
