"""An LMDB data file before LMDB sees it: is it one, is it whole; and how a new one comes into being.

LMDB maps the file into memory, so a file that is too short kills its reader with SIGBUS, and a page full of nonsense may
do so with SIGSEGV. So the file is looked at with plain reads first. A crash while LMDB creates a file leaves one that
cannot be opened, so a new one is made in a folder aside and renamed when it is whole and on disk.
"""

from __future__ import annotations

import os
import secrets
import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import lmdb.verify

from duly.protocol.wire.errors import StorageError

DATA_FILE = "data.mdb"
_MAGIC = 0xBEEFC0DE
_FORMAT = 1  # LMDB 0.9; 3 is the incompatible 1.0 that the same wheel bundles
_PAGE_HEADER_BYTES = 16
_META = struct.Struct(
    "=II QQ 48s 48s QQ"
)  # magic, version, address, map size, free tree, main tree, last page, txn
_ASIDE = ".new-"


class Frame(NamedTuple):
    """What the newer of a file's two meta pages says."""

    page_bytes: int
    last_page: int
    transaction: int


def check_light(folder: Path) -> Frame:
    """Reads both meta pages and compares the file's length with what they claim.

    Cheap enough for every reading command. Raises ``StorageError``: ``storage.absent``, ``storage.format`` (not LMDB,
    or its other format), ``storage.damaged`` (cut off).
    """
    path = folder / DATA_FILE
    try:
        with path.open("rb", buffering=0) as file:
            first = file.read(4096)
            page_bytes = _page_bytes(first, path)
            second = os.pread(file.fileno(), 4096, page_bytes)
            frames = [_meta(page, path) for page in (first, second)]
            length = os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        raise StorageError("storage.absent", "There is no store here yet.", place=str(folder)) from None
    except PermissionError:
        raise StorageError(
            "storage.denied", "This store may not be read by this user.", place=str(folder)
        ) from None
    newest = max(frames, key=lambda frame: frame.transaction)
    if length < (newest.last_page + 1) * page_bytes:
        # A free page at the very end need not exist on disk; only the full walk can tell that from a cut-off file.
        check_full(folder)
    return newest


def check_full(folder: Path) -> None:
    """Walks every page (a second for about 120 MB). Raises ``StorageError`` ``storage.damaged`` with what it found."""
    path = folder / DATA_FILE
    try:
        findings: list[str] = lmdb.verify.verify(str(path), subdir=False)  # type: ignore[no-untyped-call]
    except (lmdb.verify.VerifyError, struct.error, OSError) as error:
        raise _damaged(path, [str(error)]) from None
    if findings:
        raise _damaged(path, findings)


def create_folder_aside(folder: Path, fill: Callable[[Path], None]) -> None:
    """Makes ``folder`` with what ``fill`` writes into it, or not at all; where another process was faster, its folder is kept.

    ``fill`` gets an empty folder of mode 0700, leaves whole files there and closes them.
    """
    parent = folder.parent
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _sweep(folder)
    aside = parent / f".{folder.name}{_ASIDE}{os.getpid()}-{secrets.token_hex(4)}"
    aside.mkdir(mode=0o700)
    try:
        fill(aside)
        # Crash before the rename: a folder aside that the next start removes, no store.
        for entry in sorted(aside.iterdir()):
            sync_path(entry)
        sync_path(aside)
        try:
            os.rename(aside, folder)
        except OSError:
            if not folder.is_dir():
                raise
        # Crash here: the store is whole; after a power loss it may be missing, and nothing was acknowledged yet.
        sync_path(parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def sync_path(path: Path) -> None:
    """Flushes a file or a folder's entries to disk."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _sweep(folder: Path) -> None:
    """Removes what a creation that died has left aside."""
    for aside in folder.parent.glob(f".{folder.name}{_ASIDE}*"):
        process = aside.name.rpartition(_ASIDE)[2].partition("-")[0]
        if process.isdigit() and not _is_alive(int(process)):
            shutil.rmtree(aside, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _page_bytes(first: bytes, path: Path) -> int:
    if len(first) < _PAGE_HEADER_BYTES + _META.size:
        raise _damaged(path, ["shorter than its first page"])
    free_tree = _META.unpack_from(first, _PAGE_HEADER_BYTES)[4]
    page_bytes: int = struct.unpack_from("=I", free_tree)[0]
    _meta(first, path)
    if page_bytes & (page_bytes - 1) or not 256 <= page_bytes <= 1 << 16:
        raise _damaged(path, [f"a page size of {page_bytes} bytes"])
    return page_bytes


def _meta(page: bytes, path: Path) -> Frame:
    if len(page) < _PAGE_HEADER_BYTES + _META.size:
        raise _damaged(path, ["shorter than its two first pages"])
    magic, version, _, _, free_tree, _, last_page, transaction = _META.unpack_from(page, _PAGE_HEADER_BYTES)
    if magic != _MAGIC or version != _FORMAT or sys.maxsize < 1 << 32:
        raise StorageError(
            "storage.format",
            "This file is not an LMDB file of format 0.9.",
            place=str(path),
            hint="Move it away, or restore the store from a backup.",
        )
    return Frame(struct.unpack_from("=I", free_tree)[0], last_page, transaction)


def _damaged(path: Path, findings: list[str]) -> StorageError:
    return StorageError(
        "storage.damaged",
        f"This store's file is damaged: {findings[0]}.",
        place=str(path),
        hint="Restore it from a backup; `duly audit verify` says how far it is good.",
        story=findings[:20],
    )
