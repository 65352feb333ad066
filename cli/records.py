"""Reading the stores of a data directory directly, without a runtime."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from duly.protocol.wire import canon
from duly.protocol.wire.errors import LogError, RunError, StorageError
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX
from duly.storage.artifacts import ArtifactStore
from duly.storage.home import VARIABLE, Home
from duly.storage.journal_reader import JournalReader
from duly.storage.journal_schema import RunSummary

from .log_key import verifier_of

if TYPE_CHECKING:  # the machine loads pydantic, which the fast commands do without
    from duly.protocol.machine.run import Run
    from duly.storage.recovery import Recorded

RUNS_SEARCHED_MAX = 10_000
PREFIX_CHARS_MIN = 3


def home_of(option: str | None) -> Home:
    """The data directory: ``--home``, else ``$DULY_HOME``, else the platform's. Touches nothing."""
    return Home.resolve() if option is None else Home.resolve({VARIABLE: option})


class Records:
    """The journal and the artifacts of a data directory, to read."""

    def __init__(self, journal: JournalReader, artifacts: ArtifactStore | None) -> None:
        self.journal = journal
        self.artifacts = artifacts

    @classmethod
    def open(cls, home: Home) -> Self:
        """Raises ``StorageError`` ``storage.absent`` where no run was ever recorded, and as the stores do."""
        if not home.journal.is_dir():
            raise StorageError(
                "storage.absent",
                "Nothing is recorded here yet.",
                place=str(home.root),
                hint="Start a run with `duly run`.",
            )
        journal = JournalReader.open(home.journal, [verifier_of(home)])
        try:
            artifacts = ArtifactStore.open(home.artifacts, writer=False) if home.artifacts.is_dir() else None
        except BaseException:
            journal.close()
            raise
        return cls(journal, artifacts)

    def summary(self, name: str) -> RunSummary:
        """The run of that id, or the only one whose id begins so. Raises ``RunError``: ``run.unknown``, ``run.ambiguous``."""
        found = self.journal.run(name)
        if found is not None:
            return found
        alike = []
        if len(name) >= PREFIX_CHARS_MIN:
            alike = [run for run in self.journal.runs(RUNS_SEARCHED_MAX) if run.run_id.startswith(name)]
        if len(alike) > 1:
            ids = ", ".join(run.run_id for run in alike[:5])
            raise RunError("run.ambiguous", f"Several runs begin with {name!r}: {ids}.")
        if not alike:
            raise RunError("run.unknown", f"There is no run {name!r}.", hint="`duly runs` lists all runs.")
        return alike[0]

    def event(self, seq: int) -> dict[str, Any]:
        """The event with that number, compared with the tree."""
        return next(iter(self.journal.entries([seq]))).event

    def attached(self, event: dict[str, Any], name: str) -> Any:
        """The value attached to an event under a name, ``None`` where it was never there or was erased."""
        return self.artifact(event["run_id"], event["artifacts"].get(name))

    def artifact(self, run_id: str, digest: str | None) -> Any:
        """The value of an artifact, ``None`` as for ``attached``."""
        data = self.artifact_bytes(run_id, digest)
        return None if data is None else canon.decode(data, bytes_max=ARTIFACT_BYTES_MAX)

    def artifact_bytes(self, run_id: str, digest: str | None) -> bytes | None:
        """The bytes of an artifact, ``None`` as for ``attached``."""
        if digest is None or self.artifacts is None:
            return None
        try:
            return self.artifacts.get(run_id, digest)
        except LogError as error:
            if error.code in ("log.artifact_missing", "log.artifact_erased"):
                return None
            raise

    def run(self, name: str) -> tuple[Run, list[Recorded]]:
        """A run that a person named, replayed, with its record. Raises as ``summary``, and as ``load_run`` does."""
        from duly.storage.recovery import load_run

        run_id = self.summary(name).run_id
        if self.artifacts is None:
            raise StorageError("storage.absent", "The artifacts of this run are missing.", place=run_id)
        return load_run(self.journal, self.artifacts, run_id)

    def close(self) -> None:
        self.journal.close()
        if self.artifacts is not None:
            self.artifacts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def run_named(home: Home, name: str) -> str:
    """The full id of a run that a person named, found in the journal. Raises as ``Records.summary``."""
    with _searched(home, name) as records:
        return records.summary(name).run_id


def run_recorded(home: Home, name: str) -> Run:
    """The run that a person named, as the journal gives it. Raises as ``Records.run``."""
    with _searched(home, name) as records:
        return records.run(name)[0]


def last_seq(home: Home, name: str) -> int:
    """The number of the newest event of a run that a person named. Raises as ``Records.summary``."""
    with _searched(home, name) as records:
        return records.summary(name).last_seq


@contextmanager
def _searched(home: Home, name: str) -> Iterator[Records]:
    """The records, in which a run is looked for: where nothing is recorded, there is no such run."""
    try:
        with Records.open(home) as records:
            yield records
    except StorageError as error:
        if error.code != "storage.absent":
            raise
        raise RunError("run.unknown", f"There is no run {name!r}: nothing is recorded here yet.") from None
