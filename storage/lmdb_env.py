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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import lmdb

from duly.protocol.wire import canon
from duly.protocol.wire.errors import StorageError
from duly.protocol.wire.limits import (
    MAP_BYTES_INITIAL,
    MAP_BYTES_MAX,
    STORE_READERS_MAX,
    STRUCTURE_CHECK_BYTES_MAX,
)

from .lmdb_faults import faults, to_storage_error
from .lmdb_file import DATA_FILE, check_full, check_light, create_aside
from .writer_lock import WriterLock

if TYPE_CHECKING:
    Transaction = lmdb.Transaction[bytes]
    Database = lmdb._Database
else:
    Transaction = lmdb.Transaction
    Database = object

T = TypeVar("T")

META = "meta"
LOCK_FILE = "writer.lock"
_SCHEMA_KEY = b"schema"
_OPEN: dict[str, _Shared] = {}  # real path -> the one handle of this process; LMDB forbids a second
_OPEN_LOCK = threading.Lock()


class Environment:
    """A store's folder, opened to read or (one process at a time) to write.

    ``format`` and ``version`` are stamped at creation and compared at every opening; ``databases`` are the named
    databases of that version. Several readers and one writer in one process share a handle.
    """

    def __init__(self, shared: _Shared, lock: WriterLock | None) -> None:
        self._shared = shared
        self._lock = lock
        self._closed = False
        self.folder = shared.folder

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
                create_aside(folder, lambda aside: _fill(aside, format, version, names))
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
        return self._shared.databases[name]

    def read(self, work: Callable[[Transaction], T]) -> T:
        """What ``work`` returns from one consistent view. The bytes it hands out must be copies, as ``get`` gives."""
        self._check()
        return self._shared.read(work)

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
        return self._shared.write(work)

    def file_bytes(self) -> int:
        """The length of the data file."""
        return (self.folder / DATA_FILE).stat().st_size

    def close(self) -> None:
        """Gives the handle back. In a forked child it only forgets it."""
        if self._closed:
            return
        self._closed = True
        self._shared.release()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _check(self) -> None:
        self._shared.check_process()
        if self._closed:
            raise StorageError("storage.closed", "This store was closed.", place=str(self.folder))


class _Shared:
    """The process's one LMDB handle for a folder, counted, with what guards it."""

    def __init__(self, folder: Path, names: tuple[str, ...], writable: bool) -> None:
        self.folder = folder
        self.databases: dict[str, Database] = {}
        self.users = 0
        self.process = os.getpid()
        self._names = names
        self._writable = writable
        self._idle = threading.Condition()
        self._readers = 0
        self._writing = threading.Lock()
        self._env: lmdb.Environment | None = None
        self.reopen(writable)

    def check_process(self) -> None:
        if self.process != os.getpid():
            raise StorageError(
                "storage.forked",
                f"Process {self.process} opened this store; its forked child may not use it.",
                place=str(self.folder),
                hint="Start the child as a program of its own, and open the store there.",
            )

    def reopen(self, writable: bool) -> None:
        """Opens LMDB (again): at first, when a reader's process becomes the writer, after a failed commit."""
        with self._quiet():
            if self._env is not None:
                self._env.close()
                self._env = None
            frame = check_light(self.folder)
            used = (frame.last_page + 1) * frame.page_bytes
            self._env = _lmdb_open(
                self.folder, max(MAP_BYTES_INITIAL, 1 << (2 * used - 1).bit_length()), writable
            )
            self._writable = writable
            self._env.reader_check()
            self.databases = _databases(self._env, self._names, self.folder)

    @property
    def writable(self) -> bool:
        return self._writable

    def read(self, work: Callable[[Transaction], T]) -> T:
        for _ in range(2):
            with self._reading() as env:
                try:
                    with env.begin() as transaction:
                        return work(transaction)
                except lmdb.MapResizedError:
                    pass
                except lmdb.ReadersFullError:
                    if not env.reader_check():
                        raise
            self._adapt()
        raise StorageError("storage.io", "The store's file keeps changing its size.", place=str(self.folder))

    def write(self, work: Callable[[Transaction], T]) -> T:
        with self._writing:
            if self._env is None:
                self.reopen(writable=True)
            while True:
                try:
                    return self._write_once(work)
                except lmdb.MapFullError as error:
                    # The transaction is poisoned and was aborted as a whole; it is run again as a whole.
                    self._grow(error)
                except lmdb.MapResizedError:
                    self._adapt()
                except (lmdb.Error, OSError) as error:
                    self._drop()
                    raise to_storage_error(error, self.folder) from error

    def _write_once(self, work: Callable[[Transaction], T]) -> T:
        assert self._env is not None
        with self._env.begin(write=True) as transaction:
            # Crash inside: nothing of the transaction is visible. Crash after the block: all of it is on disk.
            return work(transaction)

    def _grow(self, error: lmdb.MapFullError) -> None:
        assert self._env is not None
        size = self._env.info()["map_size"] * 2
        if size > MAP_BYTES_MAX:
            raise to_storage_error(error, self.folder) from error
        with self._quiet():
            self._env.reader_check()
            self._env.set_mapsize(size)

    def _adapt(self) -> None:
        with self._quiet():
            if self._env is not None:
                self._env.set_mapsize(0)

    def _drop(self) -> None:
        """Closes LMDB after an error that may have left it unusable; the next call opens it again."""
        with self._quiet():
            if self._env is not None:
                self._env.close()
                self._env = None

    @contextmanager
    def _reading(self) -> Iterator[lmdb.Environment]:
        while True:
            with self._idle:
                if self._env is not None:
                    self._readers += 1
                    env = self._env
                    break
            self.reopen(self._writable)
        try:
            with faults(self.folder):
                yield env
        finally:
            with self._idle:
                self._readers -= 1
                self._idle.notify_all()

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """Waits until this process has no read transaction open, and lets none begin."""
        with self._idle:
            while self._readers:
                self._idle.wait()
            yield

    def release(self) -> None:
        with _OPEN_LOCK:
            if self.process != os.getpid():
                return
            self.users -= 1
            if self.users == 0:
                _OPEN.pop(os.path.realpath(self.folder), None)
                self._drop()


def _share(folder: Path, format: str, version: int, names: tuple[str, ...], writer: bool) -> _Shared:
    key = os.path.realpath(folder)
    with _OPEN_LOCK:
        shared = _OPEN.get(key)
        if shared is None:
            check_light(folder)
            if writer and (folder / DATA_FILE).stat().st_size <= STRUCTURE_CHECK_BYTES_MAX:
                check_full(folder)
            _check_schema(folder, format, version)
            shared = _Shared(folder, names, writer)
            _OPEN[key] = shared
        else:
            shared.check_process()
            if writer and not shared.writable:
                shared.reopen(writable=True)
        shared.users += 1
        return shared


def _lmdb_open(folder: Path, map_bytes: int, writable: bool) -> lmdb.Environment:
    return lmdb.open(
        os.fsencode(folder),
        map_size=map_bytes,
        readonly=not writable,
        create=False,
        sync=True,
        metasync=True,
        writemap=False,
        mode=0o600,
        max_dbs=32,
        max_readers=STORE_READERS_MAX,
        max_spare_txns=0,
    )


def _databases(env: lmdb.Environment, names: tuple[str, ...], folder: Path) -> dict[str, Database]:
    try:
        return {name: env.open_db(name.encode("ascii"), create=False) for name in names}
    except lmdb.NotFoundError:
        raise StorageError(
            "storage.format", "This store lacks a part that its version has.", place=str(folder)
        ) from None


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
    env = _lmdb_open(folder, MAP_BYTES_INITIAL, writable=False)
    try:
        try:
            meta = env.open_db(META.encode("ascii"), create=False)
        except (lmdb.NotFoundError, lmdb.InvalidError):
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
