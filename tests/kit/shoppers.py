"""The package over the shoppers table, which stays where it is: nothing of flights is in it."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "packages" / "shoppers"
TABLE = "online_shoppers/online_shoppers_intention.csv"
_PLACE = '"/put/in/by/the/test.csv"'


def package_files(table: Path) -> dict[str, bytes]:
    """The files of the package, its source located at ``table``."""
    files = {
        path.relative_to(FOLDER).as_posix(): path.read_bytes()
        for path in sorted(FOLDER.rglob("*"))
        if path.is_file()
    }
    manifest = files["agent.toml"].decode()
    assert _PLACE in manifest
    files["agent.toml"] = manifest.replace(_PLACE, json.dumps(str(table))).encode()
    return files


def write_package(folder: Path, table: Path) -> Path:
    """The package as a folder of its own, for a command line that takes one."""
    for name, data in package_files(table).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder
