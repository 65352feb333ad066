"""Untrusted text on its way to a model: JSON between marks that nothing inside can write.

    <data name="request">
    {"text":"…"}
    </data>

The JSON stands on one line and is ASCII only, and ``<``, ``>`` and ``&`` are written as escapes: whatever a row, a
description or a file name says, it cannot end its mark, begin another, or hide from whoever reads the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...wire.errors import ModelError
from ...wire.limits import MODEL_TEXT_BYTES_MAX

_ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", 0x7F: "\\u007f"}


def encoded(value: Any) -> str:
    """JSON of readable data (``handles.readable``) on one line, without any character that a mark has."""
    written = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return written.translate(_ESCAPES)


def size(value: Any) -> int:
    """The bytes that a value takes between its marks."""
    return len(encoded(value))


def block(name: str, value: Any) -> str:
    """One marked block. ``name`` is a word of duly's own, never one of the data's."""
    return f'<data name="{name}">\n{encoded(value)}\n</data>'


def message(blocks: Mapping[str, Any]) -> str:
    """Every block that has something in it, in order. Raises ``ModelError`` ``model.context_overflow``."""
    text = "\n".join(
        block(name, value) for name, value in blocks.items() if value is not None and value != []
    )
    if len(text) > MODEL_TEXT_BYTES_MAX:
        raise ModelError(
            "model.context_overflow",
            f"What the model would have to read has {len(text)} bytes; {MODEL_TEXT_BYTES_MAX} are the most.",
            hint="Grant the agent fewer tools, or ask with fewer input parts.",
        )
    return text
