"""Artifacts: validated outputs and texts, kept under the SHA-256 of salt ‖ bytes, with one salt a run.

Trusted: no; every read hashes again. May lose data: no; what ``put_many`` returned stays until it is erased.

The salt keeps a digest in the journal from telling what was erased: without it, a short text could be found by trying.
Values above 256 KiB are files beside the LMDB file. Erasing takes salt and values out of the store; pages and disk
blocks that held them are free and overwritten by later writes, not wiped at once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self, TypeVar

from duly.protocol.wire.errors import LogError, StorageError
from duly.protocol.wire.ids import Digest, is_digest, is_name, salted_digest
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX, ARTIFACT_INLINE_BYTES_MAX, ARTIFACTS_PER_PUT_MAX

from . import atomic_file
from .lmdb_env import Environment, Transaction
from .lmdb_faults import faults, to_storage_error
from .lmdb_file import sync_path

K = TypeVar("K")

FORMAT = "duly.artifacts"
VERSION = 1
SALT_BYTES = 16

_SALTS = "salts"  # run id -> 16 bytes
_VALUES = (
    "values"  # run id ‖ 0 ‖ digest (32 bytes) -> 0 ‖ bytes; 1 ‖ size (8 bytes) for a file; 2 once it expired
)
_ERASED = "erased"  # run id -> number of artifacts that were erased (8 bytes)
_EXPIRIES = "expiries"  # time in ms (8 bytes) ‖ key in values -> nothing
_INLINE, _FILE, _EXPIRED = b"\0", b"\1", b"\2"


class ArtifactStore:
    """The artifacts in a folder; one process writes, others read beside it."""

    def __init__(self, env: Environment, random_bytes: Callable[[int], bytes]) -> None:
        self._env = env
        self._random_bytes = random_bytes
        self._files = env.folder / "files"
        self._salts: dict[str, bytes] = {}

    @classmethod
    def open(
        cls, path: Path, *, writer: bool = True, random_bytes: Callable[[int], bytes] = os.urandom
    ) -> ArtifactStore:
        """Opens, and as writer creates, the store. Raises ``StorageError`` as ``Environment.open`` does."""
        return cls(
            Environment.open(path, FORMAT, VERSION, (_SALTS, _VALUES, _ERASED, _EXPIRIES), writer=writer),
            random_bytes,
        )

    def salt_for(self, run_id: str) -> bytes:
        """The run's salt, made when it is first asked for. Raises ``LogError`` ``log.artifact_erased``."""
        _check_run(run_id)
        salt = self._salts.get(run_id) or self._stored_salt(run_id)
        if salt is None:
            salt = self._random_bytes(SALT_BYTES)
            self._env.write(lambda transaction: self._claim_salt(transaction, run_id, salt))
        self._salts[run_id] = salt
        return salt

    def put_many(
        self, run_id: str, values: Mapping[K, bytes], *, expires_ms: int | None = None
    ) -> dict[K, Digest]:
        """Keeps values, all or none, and returns their digests by the same names once they are on disk.

        ``expires_ms`` is when ``expire`` takes them out again (rows of a sensitive source). Raises ``StorageError``
        ``storage.artifact_too_large``, ``storage.full``; ``LogError`` ``log.artifact_erased``.
        """
        if len(values) > ARTIFACTS_PER_PUT_MAX:
            raise StorageError(
                "storage.group_too_large", f"At most {ARTIFACTS_PER_PUT_MAX} artifacts at a time."
            )
        if not values:
            return {}
        for name, data in values.items():
            if len(data) > ARTIFACT_BYTES_MAX:
                raise StorageError(
                    "storage.artifact_too_large",
                    f"An artifact has at most {ARTIFACT_BYTES_MAX} bytes, this one has {len(data)}.",
                    place=f"{run_id}: {name}",
                )
        _check_run(run_id)
        known = self._salts.get(run_id) or self._stored_salt(run_id)
        salt = known or self._random_bytes(SALT_BYTES)
        digests = {name: salted_digest(salt, data) for name, data in values.items()}
        by_digest = {digests[name]: data for name, data in values.items()}
        # Files first, flushed and named. Crash here: files that nothing names; a later put finds and keeps them.
        with faults(self._env.folder):
            self._write_files(run_id, by_digest)

        def work(transaction: Transaction) -> None:
            self._claim_salt(transaction, run_id, salt)
            values_db = self._env.database(_VALUES)
            for digest, data in by_digest.items():
                large = len(data) > ARTIFACT_INLINE_BYTES_MAX
                record = _FILE + len(data).to_bytes(8, "big") if large else _INLINE + data
                transaction.put(_key(run_id, digest), record, db=values_db)
                if expires_ms is not None:
                    due = expires_ms.to_bytes(8, "big") + _key(run_id, digest)
                    transaction.put(due, b"", db=self._env.database(_EXPIRIES))

        self._env.write(work)
        self._salts[run_id] = salt
        return digests

    def put(self, run_id: str, data: bytes) -> Digest:
        """Keeps one value; see ``put_many``."""
        return self.put_many(run_id, {0: data})[0]

    def get(self, run_id: str, digest: str) -> bytes:
        """The bytes of an artifact, hashed again.

        Raises ``LogError``: ``log.artifact_missing``, ``log.artifact_erased``, ``log.artifact_changed``.
        """
        _check_run(run_id)
        if not is_digest(digest):
            raise LogError("log.artifact_missing", f"{digest[:80]!r} is no digest.", place=run_id)

        def work(transaction: Transaction) -> tuple[bytes | None, bytes | None, bool]:
            salt = transaction.get(run_id.encode("ascii"), db=self._env.database(_SALTS))
            record = transaction.get(_key(run_id, digest), db=self._env.database(_VALUES))
            return salt, record, self._is_erased(transaction, run_id)

        salt, record, erased = self._env.read(work)
        place = f"{run_id}/{digest}"
        if erased:
            raise LogError("log.artifact_erased", "The artifacts of this run were erased.", place=place)
        if salt is None or record is None:
            raise LogError("log.artifact_missing", "This artifact is not kept here.", place=place)
        if record == _EXPIRED:
            raise LogError(
                "log.artifact_erased", "This artifact's time was over and it was erased.", place=place
            )
        data = record[1:] if record[:1] == _INLINE else self._read_file(run_id, digest)
        if len(salt) != SALT_BYTES or salted_digest(salt, data) != digest:
            raise LogError(
                "log.artifact_changed", "The bytes of this artifact are not those recorded.", place=place
            )
        return data

    def digests(self, run_id: str) -> list[Digest]:
        """The digests of a run's artifacts, sorted."""
        _check_run(run_id)
        return self._env.read(lambda transaction: self._digests(transaction, run_id))

    def is_erased(self, run_id: str) -> bool:
        """Whether the run's artifacts were erased."""
        _check_run(run_id)
        return self._env.read(lambda transaction: self._is_erased(transaction, run_id))

    def erase(self, run_id: str) -> int:
        """Takes a run's artifacts and its salt out of the store for good; returns how many there were.

        The journal still verifies: it holds digests, and without the salt they tell nothing.
        """
        _check_run(run_id)

        def work(transaction: Transaction) -> int:
            digests = self._digests(transaction, run_id)
            for digest in digests:
                transaction.delete(_key(run_id, digest), db=self._env.database(_VALUES))
            run_key = run_id.encode("ascii")
            transaction.delete(run_key, db=self._env.database(_SALTS))
            before = transaction.get(run_key, b"", db=self._env.database(_ERASED))
            count = int.from_bytes(before, "big") + len(digests)
            transaction.put(run_key, count.to_bytes(8, "big"), db=self._env.database(_ERASED))
            return len(digests)

        count = self._env.write(work)
        self._salts.pop(run_id, None)
        # Crash here: the run counts as erased and its files are still there; erasing again removes them.
        with faults(self._env.folder):
            if (self._files / run_id).exists():
                shutil.rmtree(self._files / run_id)
                sync_path(self._files)
        return count

    def expire(self, now_ms: int) -> int:
        """Takes out every artifact whose time is over; returns how many. Its digest stays known as erased."""

        def work(transaction: Transaction) -> list[bytes]:
            expiries, values = self._env.database(_EXPIRIES), self._env.database(_VALUES)
            limit = (now_ms + 1).to_bytes(8, "big")
            due = [key for key in transaction.cursor(db=expiries).iternext(values=False) if key < limit]
            gone = []
            for key in due:
                transaction.delete(key, db=expiries)
                if transaction.get(key[8:], _EXPIRED, db=values) != _EXPIRED:
                    transaction.put(key[8:], _EXPIRED, db=values)
                    gone.append(key[8:])
            return gone

        gone = self._env.write(work)
        # Crash here: files that nothing names any more; erasing their run removes them.
        with faults(self._env.folder):
            for key in gone:
                run_id, _, digest = key.partition(b"\0")
                (self._files / run_id.decode("ascii") / digest.hex()).unlink(missing_ok=True)
        return len(gone)

    def file_bytes(self) -> int:
        """The length of the LMDB file; larger values come on top."""
        return self._env.file_bytes()

    def close(self) -> None:
        self._env.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _stored_salt(self, run_id: str) -> bytes | None:
        key = run_id.encode("ascii")
        return self._env.read(lambda transaction: transaction.get(key, db=self._env.database(_SALTS)))

    def _claim_salt(self, transaction: Transaction, run_id: str, salt: bytes) -> None:
        if self._is_erased(transaction, run_id):
            raise LogError("log.artifact_erased", "The artifacts of this run were erased.", place=run_id)
        transaction.put(run_id.encode("ascii"), salt, db=self._env.database(_SALTS), overwrite=False)

    def _is_erased(self, transaction: Transaction, run_id: str) -> bool:
        return transaction.get(run_id.encode("ascii"), db=self._env.database(_ERASED)) is not None

    def _digests(self, transaction: Transaction, run_id: str) -> list[Digest]:
        prefix = run_id.encode("ascii") + b"\0"
        digests = []
        cursor = transaction.cursor(db=self._env.database(_VALUES))
        found = cursor.set_range(prefix)
        while found and cursor.key().startswith(prefix):
            if cursor.value() != _EXPIRED:
                digests.append(Digest(cursor.key()[len(prefix) :].hex()))
            found = cursor.next()
        return digests

    def _write_files(self, run_id: str, by_digest: Mapping[Digest, bytes]) -> None:
        large = {digest: data for digest, data in by_digest.items() if len(data) > ARTIFACT_INLINE_BYTES_MAX}
        if not large:
            return
        folder = self._files / run_id
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True)
            sync_path(self._files)
            sync_path(self._env.folder)
        for digest, data in large.items():
            os.rename(atomic_file.write_aside(folder / digest, data), folder / digest)
        sync_path(folder)

    def _read_file(self, run_id: str, digest: str) -> bytes:
        place = f"{run_id}/{digest}"
        try:
            data = atomic_file.read_plain(self._files / run_id / digest, ARTIFACT_BYTES_MAX + 1)
        except FileNotFoundError:
            raise LogError(
                "log.artifact_missing", "The file of this artifact is missing.", place=place
            ) from None
        except OSError as error:
            raise to_storage_error(error, self._env.folder) from error
        if data is None:
            raise LogError("log.artifact_changed", "The file of this artifact is no plain file.", place=place)
        return data


def _check_run(run_id: str) -> None:
    if not is_name(run_id):
        raise StorageError("storage.run_id", f"{run_id[:80]!r} is no id of a run.")


def _key(run_id: str, digest: str) -> bytes:
    return run_id.encode("ascii") + b"\0" + bytes.fromhex(digest)
