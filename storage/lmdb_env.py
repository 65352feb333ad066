"""One LMDB environment: opened safely, one writer, transactions that grow, resize and fail cleanly.

Trusted: no (whoever reads checks hashes). May lose data: no; a write that returned is on disk.

All reading and writing happens inside ``read(work)`` and ``write(work)``. A transaction never outlives the call, so
none is held for long, the file cannot grow behind a forgotten reader, and the map can be resized between two calls.
``work`` may be run again from the start (the map was full, another process grew the file): it must change nothing but
its transaction.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar

import lmdb

from duly.protocol.wire import canon
from duly.protocol.wire.errors import StorageError
from duly.protocol.wire.limits import MAP_BYTES_INITIAL, STRUCTURE_CHECK_BYTES_MAX

from .lmdb_faults import faults
from .lmdb_file import DATA_FILE, check_full, check_light, create_folder_aside
from .lmdb_handle import Database, Handle, Transaction, open_lmdb
from .writer_lock import WriterLock

__all__ = ["META", "Database", "Environment", "Transaction"]

T = TypeVar("T")

META = "meta"
LOCK_FILE = "writer.lock"
_SCHEMA_KEY = b"schema"
_OPEN: dict[str, Handle] = {}  # real path -> the one handle of this process; LMDB forbids a second
_OPEN_LOCK = threading.Lock()


class Environment:
    """A store's folder, opened to read or (one process at a time) to write.

    ``format`` and ``version`` are stamped at creation and compared at every opening; ``databases`` are the named
    databases of that version. Several readers and one writer in one process share a handle.
    """

    def __init__(self, handle: Handle, lock: WriterLock | None) -> None:
        self._handle = handle
        self._lock = lock
        self._closed = False
        self.folder = handle.folder

    @classmethod
    def open(
        cls, folder: Path, format: str, version: int, databases: tuple[str, ...], *, writer: bool
    ) -> Environment:
        """Opens, and where ``writer`` is set creates, the store in ``folder``.

        Raises ``StorageError``: ``storage.absent`` (a reader, nothing there), ``storage.held``, ``storage.schema``,
        ``storage.format``, ``storage.damaged``, ``storage.denied``, ``storage.forked``.
        """
        folder = Path(os.path.abspath(folder))
        names = (META, *databases)
        with faults(folder):
            if writer and not (folder / DATA_FILE).exists():
                create_folder_aside(folder, lambda aside: _fill(aside, format, version, names))
                if not (folder / DATA_FILE).exists():
                    raise StorageError(
                        "storage.format",
                        "This folder holds other things and no store.",
                        place=str(folder),
                        hint="Move them away, or restore the store's data.mdb from a backup.",
                    )
            lock = None
            if writer:
                lock = WriterLock(folder / LOCK_FILE)
                lock.take()
            try:
                return cls(_share(folder, format, version, names, writer), lock)
            except BaseException:
                if lock is not None:
                    lock.release()
                raise

    def database(self, name: str) -> Database:
        """The handle of a named database, for use inside ``work``; asked for in every transaction anew."""
        return self._handle.databases[name]

    def read(self, work: Callable[[Transaction], T]) -> T:
        """What ``work`` returns from one consistent view. The bytes it hands out must be copies, as ``get`` gives."""
        self._check()
        return self._handle.read(work)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """What ``work`` returns, after its changes are on disk; or an error, and none of them is visible.

        After ``storage.full`` or ``storage.io`` out of the commit itself the environment is opened again, and the
        caller must look whether the change is there: a failing disk may have kept it.
        """
        self._check()
        if self._lock is None:
            raise StorageError(
                "storage.read_only", "This store was opened for reading.", place=str(self.folder)
            )
        return self._handle.write(work)

    def file_bytes(self) -> int:
        """The length of the data file."""
        return (self.folder / DATA_FILE).stat().st_size

    def close(self) -> None:
        """Gives the handle back. In a forked child it only forgets it."""
        if self._closed:
            return
        self._closed = True
        _release(self._handle)
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _check(self) -> None:
        self._handle.check_process()
        if self._closed:
            raise StorageError("storage.closed", "This store was closed.", place=str(self.folder))


def _share(folder: Path, format: str, version: int, names: tuple[str, ...], writer: bool) -> Handle:
    """This process's handle for the folder, opened on first use and made writable when the writer comes."""
    key = os.path.realpath(folder)
    with _OPEN_LOCK:
        handle = _OPEN.get(key)
        if handle is None:
            check_light(folder)
            if writer and (folder / DATA_FILE).stat().st_size <= STRUCTURE_CHECK_BYTES_MAX:
                check_full(folder)
            _check_schema(folder, format, version)
            handle = Handle(folder, names, writer)
            _OPEN[key] = handle
        else:
            handle.check_process()
            if handle.names != names:
                raise StorageError(
                    "storage.schema", f"This store is open and not {format}.", place=str(folder)
                )
            if writer and not handle.writable:
                handle.reopen(writable=True)
        handle.users += 1
        return handle


def _release(handle: Handle) -> None:
    with _OPEN_LOCK:
        if handle.process != os.getpid():
            return
        handle.users -= 1
        if handle.users == 0:
            _OPEN.pop(os.path.realpath(handle.folder), None)
            handle.drop()


def _fill(folder: Path, format: str, version: int, names: tuple[str, ...]) -> None:
    env = lmdb.open(os.fsencode(folder), map_size=MAP_BYTES_INITIAL, mode=0o600, max_dbs=32, lib_version=0)
    try:
        databases = {name: env.open_db(name.encode("ascii")) for name in names}
        with env.begin(write=True) as transaction:
            stamp = canon.encode({"format": format, "version": version})
            transaction.put(_SCHEMA_KEY, stamp, db=databases[META])
    finally:
        env.close()


def _check_schema(folder: Path, format: str, version: int) -> None:
    """Compares the stamp before anything else of the file is believed."""
    env = open_lmdb(folder, MAP_BYTES_INITIAL, writable=False)
    try:
        try:
            meta = env.open_db(META.encode("ascii"), create=False)
        except (lmdb.NotFoundError, lmdb.InvalidError, lmdb.IncompatibleError):
            stamp = None
        else:
            with env.begin(db=meta) as transaction:
                stamp = transaction.get(_SCHEMA_KEY)
    finally:
        env.close()
    if stamp == canon.encode({"format": format, "version": version}):
        return
    found = canon.decode(stamp) if stamp is not None else None
    raise StorageError(
        "storage.schema",
        f"This store is {_name(found)}; this duly reads {format} version {version}.",
        place=str(folder),
        hint="Use the duly that wrote it.",
    )


def _name(found: object) -> str:
    if isinstance(found, dict):
        return f"{found.get('format')} version {found.get('version')}"
    return "not one of duly's"
