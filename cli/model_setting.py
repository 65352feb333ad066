"""``$DULY_HOME/models.toml``: the setting that ``duly model serve`` writes for as long as it serves.

The model hosts read the file again at each call. A lock that the serving process holds says whether it still lives, so
a setting that was left behind is known as such.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

from duly.protocol.wire.errors import ModelError
from duly.storage import atomic_file
from duly.storage.home import Home

HEAD = "# Written by `duly model serve`"
SETTING_BYTES_MAX = 1 << 16


def path_of(home: Home) -> Path:
    """The file; its keys are planner, critic ("provider:name") and base_url."""
    return home.root / "models.toml"


def is_from_serving(data: bytes) -> bool:
    """Whether ``duly model serve`` wrote this, not a person."""
    return data.startswith(HEAD.encode())


def server_of(home: Home) -> int | None:
    """The process that serves a model for this data directory now, ``None`` where none does."""
    try:
        lock = os.open(_lock_path(home), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        written = os.read(lock, 32).strip()
        return int(written) if written.isdigit() else None
    finally:
        os.close(lock)
    return None


@contextlib.contextmanager
def serving(home: Home) -> Iterator[None]:
    """The right to serve for this data directory; one process at a time has it.

    Raises ``ModelError``: ``model.served`` where another has it, ``model.setting_kept`` where a person wrote a setting.
    """
    lock = os.open(_lock_path(home), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 32).decode("ascii", "replace").strip() or "unknown"
            raise ModelError(
                "model.served",
                f"Process {holder} serves a model for this data directory already.",
                place=str(home.root),
                hint="End it with Ctrl-C in its terminal first, or give this one another --home.",
            ) from None
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode("ascii"))
        _check_free(home)
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def written(home: Home, model: str, base_url: str) -> Iterator[Path]:
    """The setting, planner and critic the same model, while entered. Afterwards the file is removed, but only while it
    is still this one: a person may have written another meanwhile."""
    path = path_of(home)
    said = [
        f"{HEAD} (process {os.getpid()}), which removes it when it ends.",
        *(f"{name} = {json.dumps(value)}" for name, value in (("planner", model), ("critic", model))),
        f"base_url = {json.dumps(base_url)}",
        "",
    ]
    data = "\n".join(said).encode()
    atomic_file.replace(path, data)
    try:
        yield path
    finally:
        if _read(path) == data:
            path.unlink(missing_ok=True)


def _check_free(home: Home) -> None:
    path = path_of(home)
    found = _read(path)
    if found and not is_from_serving(found):
        raise ModelError(
            "model.setting_kept",
            "There is a setting that you wrote; it would be lost.",
            place=str(path),
            hint="Move it away, or give this one another --home.",
        )


def _read(path: Path) -> bytes:
    """The bytes of a setting, none where there is no file."""
    try:
        return atomic_file.read_plain(path, SETTING_BYTES_MAX) or b""
    except FileNotFoundError:
        return b""


def _lock_path(home: Home) -> Path:
    return home.run / "model_server.lock"
