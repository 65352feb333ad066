"""``duly init``: a small agent package that runs at once, to be changed piece by piece."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from duly.protocol.plan.package import load_package
from duly.protocol.wire.errors import RequestError

from . import exit_codes
from .init_files import EXAMPLES, package_files
from .layout import labelled, paragraph
from .output import emit, say

_READ = (".toml", ".yaml", ".py", ".md")  # what belongs to a package's snapshot; the CSV is its data
DEFAULT_NAME = "shop"


def init(folder: str, *, name: str | None = None, json: bool = False) -> int:
    """Writes the package into a folder that is empty or not there yet. Raises ``RequestError`` ``request.folder`` for any
    other, and ``PackageError`` for a name that no package may have; then nothing is written."""
    place = Path(os.path.abspath(folder))
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise RequestError(
            "request.folder",
            "This folder is not empty.",
            place=str(place),
            hint="Name a folder that is empty, or one that is not there yet: `duly init shop`.",
        )
    chosen = name if name is not None else _name_of(place)
    files = package_files(chosen, _as_text(place / "orders.csv"), shlex.quote(folder))
    load_package({file: text.encode() for file, text in files.items() if file.endswith(_READ)}, str(place))
    for file, text in files.items():
        path = place / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if json:
        emit({"package": str(place), "name": chosen, "files": sorted(files), "requests": list(EXAMPLES)})
    else:
        say(_lines(place, chosen, folder, sorted(files)))
    return exit_codes.DONE


def _name_of(place: Path) -> str:
    """The folder's name as far as a package may be called so."""
    return re.sub(r"[^a-z0-9_-]+", "-", place.name.lower()).strip("-_") or DEFAULT_NAME


def _as_text(path: Path) -> str:
    """The path as a manifest can hold it. Raises ``RequestError`` for bytes that are no text."""
    text = str(path)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise RequestError(
            "request.folder", "The name of this folder is no UTF-8 text.", hint="Choose another folder."
        ) from None
    return text


def _lines(place: Path, name: str, folder: str, files: list[str]) -> list[str]:
    lines = [*labelled("package", f"{name}, in {place}"), *labelled("files", ", ".join(files)), ""]
    lines += paragraph("Try it:")
    for request in EXAMPLES:
        lines.append(f"  duly run {shlex.quote(folder)} {shlex.quote(request)}")
    return lines
