"""The one LMDB handle that a process has for a folder: counted, guarded, grown, and opened again after a failure."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import lmdb

from duly.protocol.wire.errors import StorageError
from duly.protocol.wire.limits import MAP_BYTES_INITIAL, MAP_BYTES_MAX, STORE_READERS_MAX

from .lmdb_faults import faults, to_storage_error
from .lmdb_file import check_light

if TYPE_CHECKING:
    Transaction = lmdb.Transaction[bytes]
    Database = lmdb._Database
else:
    Transaction = lmdb.Transaction
    Database = object

T = TypeVar("T")

_READ_TRIES = 8  # a file that doubled between each of them would have grown 256-fold


class Handle:
    """LMDB opened on a folder, for every ``Environment`` of this process that names it. ``users`` counts them."""

    def __init__(self, folder: Path, names: tuple[str, ...], writable: bool) -> None:
        self.folder = folder
        self.databases: dict[str, Database] = {}
        self.users = 0
        self.process = os.getpid()
        self.names = names
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
            self._env = open_lmdb(
                self.folder, max(MAP_BYTES_INITIAL, 1 << (2 * used - 1).bit_length()), writable
            )
            self._writable = writable
            self._env.reader_check()
            self.databases = _databases(self._env, self.names, self.folder)

    @property
    def writable(self) -> bool:
        return self._writable

    def read(self, work: Callable[[Transaction], T]) -> T:
        for _ in range(_READ_TRIES):
            with self._reading() as env:
                try:
                    with env.begin() as transaction:
                        return work(transaction)
                except lmdb.MapResizedError:
                    resized = True
                except lmdb.ReadersFullError:
                    resized = False
                    if not env.reader_check():
                        raise
            if resized:
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
                    self.drop()
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
            raise StorageError(
                "storage.full",
                f"This store has reached its largest size of {MAP_BYTES_MAX} bytes.",
                place=str(self.folder),
                hint="Move it away and begin a new one.",
            ) from error
        with self._quiet():
            self._env.reader_check()
            self._env.set_mapsize(size)

    def _adapt(self) -> None:
        with self._quiet():
            if self._env is not None:
                self._env.set_mapsize(0)

    def drop(self) -> None:
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


def open_lmdb(folder: Path, map_bytes: int, writable: bool) -> lmdb.Environment:
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
