"""What tells that a data file changed: size, time and SHA-256; and the record that a preparer leaves of its files."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duly.protocol.wire.errors import ToolError
from duly.protocol.wire.limits import FINGERPRINT_CACHE_ENTRIES_MAX

FINGERPRINTS_FILE = "fingerprints.json"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What tells that a file changed."""

    size: int
    mtime_ns: int
    sha256: str

    def to_data(self) -> dict[str, Any]:
        return {"size": self.size, "mtime_ns": self.mtime_ns, "sha256": self.sha256}


_hashes: dict[tuple[str, int, int, int], str] = {}


def fingerprint(path: Path) -> Fingerprint:
    """Size, time and SHA-256 of a regular file; the hash is computed once for each (inode, size, time).

    Raises ``ToolError`` ``tool.source_missing``, or ``tool.source_damaged`` for anything but a regular file.
    """
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise damaged(path, "This is not a regular file.")
        key = (str(path), found.st_ino, found.st_size, found.st_mtime_ns)
        digest = _hashes.get(key)
        if digest is None:
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if len(_hashes) >= FINGERPRINT_CACHE_ENTRIES_MAX:
                _hashes.clear()
            _hashes[key] = digest
    except FileNotFoundError:
        raise ToolError(
            "tool.source_missing",
            "The data file is not there.",
            place=str(path),
            hint="Run the package's preparer, or correct the path in agent.toml.",
        ) from None
    except OSError as error:
        raise ToolError(
            "tool.source_missing", f"The data file cannot be read ({error.strerror}).", place=str(path)
        ) from None
    return Fingerprint(found.st_size, found.st_mtime_ns, digest)


def damaged(path: Path | str, why: str) -> ToolError:
    return ToolError(
        "tool.source_damaged",
        f"The data file cannot be read as what it should be. {why}",
        place=str(path),
        hint="Restore the file, or remove it and run the package's preparer again.",
    )


def check_as_prepared(path: Path, found: Fingerprint) -> None:
    """A preparer leaves the hashes of its files beside them; a file that differs was damaged or edited since."""
    record = path.parent / FINGERPRINTS_FILE
    try:
        known = json.loads(record.read_bytes())
        expected = known.get(path.name, {}).get("sha256")
    except FileNotFoundError:
        return
    except (ValueError, AttributeError):
        raise damaged(record, "The record of fingerprints is not what a preparer writes.") from None
    if expected is not None and expected != found.sha256:
        raise damaged(path, "Its content is not what the preparer wrote.")
