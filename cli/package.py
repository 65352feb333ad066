"""Which package a person means, and opening it through the front door."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from duly.protocol.wire.errors import PackageError, StorageError
from duly.protocol.wire.ids import is_digest, is_name
from duly.protocol.wire.limits import FRAME_BYTES_MAX
from duly.storage.home import Home
from duly.storage.packages import PackageStore, read_folder

from .client import FrontDoor
from .mandate import Opened
from .output import note

MANIFEST = "agent.toml"
FILES_BYTES_MAX = FRAME_BYTES_MAX * 9 // 10  # they travel in one message


def open_package(door: FrontDoor, home: Home, named: str) -> Opened:
    """The package as the harness reads it. Its files are sent, so the runtime needs no access to the folder."""
    files, place = files_of(home, named)
    for message in door.stream("package.open", files=dict(files), place=place):
        if "progress" in message:
            note(str(message["progress"]))
        if message.get("last"):
            return Opened.of(message)
    raise AssertionError("a stream ends with a last message")


def files_of(home: Home, named: str) -> tuple[Mapping[str, bytes], str]:
    """The files of a package and where they are from: a path, the name of a package that was run here before, or the
    digest of a snapshot.

    Raises ``PackageError``: ``package.missing``, and as ``read_folder`` does.
    """
    folder = Path(named)
    if folder.is_dir():
        files: Mapping[str, bytes] = read_folder(folder)
        if MANIFEST not in files:
            raise PackageError(
                "package.missing",
                "This folder is no agent package: it has no agent.toml.",
                place=str(folder),
                hint="Give the path of a folder with an agent.toml, such as examples/flights.",
            )
        place = str(folder.resolve())
    else:
        files, place = _kept(home, named), named
    if sum(map(len, files.values())) > FILES_BYTES_MAX:
        raise PackageError(
            "package.too_large",
            f"The files of this package have more than {FILES_BYTES_MAX} bytes.",
            place=place,
            hint="Keep data outside of the package, in the folder that its manifest names.",
        )
    return files, place


def _kept(home: Home, name: str) -> Mapping[str, bytes]:
    """The snapshot of that digest, or the newest one of a package of that name."""
    if is_digest(name):
        try:
            return PackageStore(home.packages).get(name)
        except StorageError as error:
            raise PackageError(
                "package.missing",
                f"The snapshot of the package cannot be used: {error.message}",
                place=error.place,
                hint="Name the package: its folder, or its name.",
            ) from None
    found: list[tuple[float, str]] = []
    if is_name(name) and home.packages.is_dir():
        for folder in home.packages.iterdir():
            if name_in(folder / MANIFEST) == name:
                found.append((folder.stat().st_mtime, folder.name))
    if not found:
        raise PackageError(
            "package.missing",
            f"There is no folder {name!r}, and no package of that name was run here before.",
            hint="Give the path of a folder with an agent.toml, such as examples/flights.",
        )
    return PackageStore(home.packages).get(max(found)[1])


def is_known(home: Home, named: str) -> bool:
    """Whether a word names a package: a folder, or one that was run here before."""
    if Path(named).is_dir():
        return True
    if not is_name(named) or not home.packages.is_dir():
        return False
    return any(name_in(folder / MANIFEST) == named for folder in home.packages.iterdir())


def snapshot_name(home: Home, digest: str) -> str | None:
    """The name of the package of a snapshot, ``None`` where the snapshot is gone."""
    return name_in(home.packages / digest / MANIFEST)


def name_in(manifest: Path) -> str | None:
    """The package's name in a manifest, ``None`` where there is none to be read."""
    try:
        data = tomllib.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # not a snapshot, or one that is damaged: it has no name to be found by
    head = data.get("package")
    return str(head.get("name")) if isinstance(head, dict) else None
