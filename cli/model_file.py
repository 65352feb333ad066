"""The file of a local model: whether it is one, and what the model is called."""

from __future__ import annotations

import os
import re
from pathlib import Path

from duly.protocol.wire.errors import RequestError

GGUF = b"GGUF"  # the first bytes of every such file
NAME_CHARS_MAX = 64


def checked(named: str) -> Path:
    """The absolute path of a GGUF file. Raises ``RequestError``: ``request.model_file``, ``request.model_format``."""
    path = Path(os.path.abspath(os.path.expanduser(named)))
    hint = "Give the path of a GGUF file: `duly model serve model.gguf`."
    if path.is_dir():
        raise RequestError("request.model_file", "This is a folder, not a file.", place=str(path), hint=hint)
    try:
        with path.open("rb") as stream:
            first = stream.read(len(GGUF))
    except OSError as error:
        raise RequestError(
            "request.model_file",
            f"The model's file cannot be read: {error.strerror}.",
            place=str(path),
            hint=hint,
        ) from None
    if first != GGUF:
        raise RequestError(
            "request.model_format",
            "This is no GGUF file, the only form of a model that can be served here.",
            place=str(path),
            hint="Other forms are converted by tools of llama.cpp; most models are published as GGUF, too.",
        )
    return path


def name_of(path: Path) -> str:
    """What the model is called in settings and records: the file's name in plain letters, without its ending."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).strip("-._")
    return plain[:NAME_CHARS_MAX] or "model"
