"""Snapshots of agent packages: what a run was started with stays what it runs with.

Trusted: no; ``get`` hashes again. May lose data: no; a waiting run needs its snapshot.

A snapshot holds the files that make up a package, never its data: ``agent.toml``, ``duly.lock``, and files with the
suffixes below, none of them hidden, none reached through a link.
"""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

from duly.protocol.wire import canon
from duly.protocol.wire.errors import PackageError, StorageError
from duly.protocol.wire.ids import Digest, digest_bytes, is_digest
from duly.protocol.wire.limits import (
    PACKAGE_BYTES_MAX,
    PACKAGE_DEPTH_MAX,
    PACKAGE_FILE_BYTES_MAX,
    PACKAGE_FILES_MAX,
)

from .atomic_file import read_plain
from .lmdb_faults import faults
from .lmdb_file import create_folder_aside, sync_path

NAMES = ("agent.toml", "duly.lock")
SUFFIXES = (".yaml", ".yml", ".py", ".sql", ".md", ".txt")
_SKIPPED_FOLDERS = ("__pycache__", "node_modules")


def read_folder(path: Path) -> dict[str, bytes]:
    """Relative path (with ``/``) -> bytes of the package's files.

    Raises ``PackageError``: ``package.missing``, ``package.link``, ``package.too_large``, ``package.unreadable``.
    """
    if not path.is_dir():
        raise PackageError("package.missing", "There is no agent package here.", place=str(path))
    files: dict[str, bytes] = {}
    total = 0
    for name in _walk(path, "", 0):
        data = _read(path / name, name)
        total += len(data)
        if len(files) >= PACKAGE_FILES_MAX or total > PACKAGE_BYTES_MAX:
            raise PackageError(
                "package.too_large",
                f"A package has at most {PACKAGE_FILES_MAX} files and {PACKAGE_BYTES_MAX} bytes.",
                place=str(path),
                hint="Keep data outside of the package, in the folder that its manifest names.",
            )
        files[name] = data
    return files


def digest(files: Mapping[str, bytes]) -> Digest:
    """The digest of a package: over the digests of its files by name, as `protocol.plan.package` computes it."""
    return canon.digest("package", {name: digest_bytes("package.file", data) for name, data in files.items()})


class PackageStore:
    """The snapshots in a folder, each in a folder named by its digest."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, files: Mapping[str, bytes]) -> Digest:
        """Keeps a snapshot and returns its digest; one that is there already is left as it is."""
        for name in files:
            _check_relative(name)
        name = digest(files)
        target = self._folder / name
        with faults(self._folder):
            if target.is_dir() and self._is_whole(target, name):
                return name
            if target.exists():
                shutil.rmtree(target)
            create_folder_aside(target, lambda aside: _write(aside, files))
        return name

    def get(self, name: str) -> dict[str, bytes]:
        """The files of a snapshot, hashed again. Raises ``StorageError``: ``storage.package_missing``, ``…_changed``."""
        path = self.path(name)
        files = read_folder(path)
        if digest(files) != name:
            raise StorageError(
                "storage.package_changed", "This snapshot is not what was stored.", place=str(path)
            )
        return files

    def path(self, name: str) -> Path:
        """The folder of a snapshot, as it is. Raises ``StorageError`` ``storage.package_missing``."""
        if not is_digest(name) or not (self._folder / name).is_dir():
            raise StorageError("storage.package_missing", f"There is no package {name[:80]!r} here.")
        return self._folder / name

    def _is_whole(self, target: Path, name: Digest) -> bool:
        try:
            return digest(read_folder(target)) == name
        except PackageError:
            return False


def _walk(root: Path, inside: str, depth: int) -> Iterator[str]:
    """The names of the package's files, sorted within each folder."""
    if depth > PACKAGE_DEPTH_MAX:
        raise PackageError(
            "package.too_large", f"Folders are nested deeper than {PACKAGE_DEPTH_MAX}.", place=inside
        )
    try:
        entries = sorted(os.scandir(root / inside), key=lambda entry: entry.name)
    except OSError as error:
        raise PackageError(
            "package.unreadable", f"A folder cannot be read: {error.strerror}.", place=inside
        ) from None
    for entry in entries:
        name = f"{inside}/{entry.name}" if inside else entry.name
        if entry.name.startswith(".") or entry.name in _SKIPPED_FOLDERS:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(root, name, depth + 1)
        elif entry.name in NAMES or entry.name.endswith(SUFFIXES):
            _check_relative(name)
            yield name


def _read(path: Path, name: str) -> bytes:
    """The bytes of a plain file with one name; anything else under a package's name is refused, not skipped."""
    try:
        data = read_plain(path, PACKAGE_FILE_BYTES_MAX + 1)
    except OSError as error:
        message = f"This file cannot be read: {error.strerror}."
        raise PackageError("package.unreadable", message, place=name) from None
    if data is None:
        raise PackageError(
            "package.link", "A file of a package must be a plain file, not a link.", place=name
        )
    if len(data) > PACKAGE_FILE_BYTES_MAX:
        message = f"A file of a package has at most {PACKAGE_FILE_BYTES_MAX} bytes."
        raise PackageError("package.too_large", message, place=name)
    return data


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(data)
        path.chmod(0o600)
        sync_path(path)
    for inner, _, _ in os.walk(folder):
        sync_path(Path(inner))


def _check_relative(name: str) -> None:
    parts = name.split("/")
    bad = "\0" in name or "\\" in name or any(part in ("", ".", "..") for part in parts)
    # A digest is taken over names: they must be texts (no stray bytes) in one normal form.
    if bad or any("\ud800" <= c <= "\udfff" for c in name) or not unicodedata.is_normalized("NFC", name):
        raise PackageError("package.path", f"{name[:200]!a} is no path inside of a package.")
