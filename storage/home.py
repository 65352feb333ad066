"""Where everything of one installation lies: $DULY_HOME, or the platform's folder for the data of a user.

journal/ plan_cache/ artifacts/ packages/ keys/   what stays
run/                                              sockets and process numbers of what runs now
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from duly.protocol.wire.errors import StorageError
from duly.protocol.wire.ids import is_name
from duly.protocol.wire.limits import SOCKET_PATH_BYTES_MAX

VARIABLE = "DULY_HOME"
FOLDERS = ("journal", "plan_cache", "artifacts", "packages", "keys", "run")
_MADE_BY_STORES = ("journal", "plan_cache", "artifacts")  # these appear whole, by a rename


@dataclass(frozen=True, slots=True)
class Home:
    """The folders of one installation. Naming them touches nothing; ``prepare`` makes and checks them."""

    root: Path

    @classmethod
    def resolve(cls, environment: Mapping[str, str] | None = None) -> Home:
        """The home that the environment names, or the platform's default. Raises ``storage.home`` for a bad name."""
        named = (os.environ if environment is None else environment).get(VARIABLE)
        if named is None:
            return cls(Path(platformdirs.user_data_dir("duly", appauthor=False)))
        if not named.strip() or "\0" in named:
            raise StorageError(
                "storage.home", f"{VARIABLE} is set but names no folder.", hint="Unset it or name one."
            )
        return cls(Path(os.path.abspath(os.path.expanduser(named))))

    @property
    def journal(self) -> Path:
        return self.root / "journal"

    @property
    def plan_cache(self) -> Path:
        return self.root / "plan_cache"

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def packages(self) -> Path:
        return self.root / "packages"

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    @property
    def run(self) -> Path:
        return self.root / "run"

    def data(self, name: str) -> Path:
        """The folder for a package's data, from the relative path in its manifest. Raises ``storage.home``."""
        path = Path(name)
        if (
            path.is_absolute()
            or not path.parts
            or any(part in ("..", "") for part in path.parts)
            or "\0" in name
        ):
            raise StorageError("storage.home", f"{name!r} does not name a folder inside {VARIABLE}.")
        if path.parts[0] in FOLDERS:
            raise StorageError("storage.home", f"{path.parts[0]!r} is a folder of duly's own; name another.")
        return self.root / path

    def prepare(self) -> Home:
        """Makes the folders, mode 0700, and checks that this user owns them and nobody else may write there.

        The stores make their own when they are first opened. Raises ``StorageError``: ``storage.home``,
        ``storage.denied``, ``storage.full``.
        """
        for folder in (self.root, *(self.root / name for name in FOLDERS if name not in _MADE_BY_STORES)):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._check(folder)
            except (FileExistsError, NotADirectoryError):
                raise _unusable(folder, "is not a folder") from None
            except OSError as error:
                raise _unusable(folder, f"cannot be made or read ({error.strerror})") from None
        return self

    def socket_path(self, name: str) -> Path:
        """Where the socket ``name`` lies: in ``run/``, or, where that path is too long for the kernel, under a hash of
        it in the folder for temporary files, in a folder that only this user may enter."""
        if not is_name(name):
            raise StorageError("storage.home", f"{name[:80]!r} is no name for a socket.")
        path = self.run / f"{name}.sock"
        if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
            return path
        short = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        folder = Path(tempfile.gettempdir()) / f"duly-{os.getuid()}"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise _unusable(folder, f"cannot be made ({error.strerror})") from None
        self._check(folder)
        path = folder / f"{short}.sock"
        if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
            raise _unusable(folder, "is too long a path for a socket; set TMPDIR to a shorter one")
        return path

    def _check(self, folder: Path) -> None:
        state = os.lstat(folder)
        if stat.S_ISLNK(state.st_mode) and folder != self.root:
            raise _unusable(folder, "is a link")
        state = os.stat(folder)
        if not stat.S_ISDIR(state.st_mode):
            raise _unusable(folder, "is not a folder")
        if state.st_uid != os.getuid():
            raise _unusable(folder, f"belongs to user {state.st_uid}, not to you")
        if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise _unusable(folder, "may be written by other users of this machine")
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise _unusable(folder, "may not be written by you")


def _unusable(folder: Path, why: str) -> StorageError:
    return StorageError(
        "storage.home",
        f"The folder {why}.",
        place=str(folder),
        hint=f"Set {VARIABLE} to a folder of your own.",
    )
