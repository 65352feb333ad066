"""Reading a SQLite file without being able to change it.

``mode=ro`` alone does not hold: a query can attach another file for writing, vacuum into one or switch pragmas. So an
authorizer, which SQLite asks while it compiles a statement, allows selecting, reading columns, recursion and functions
of a list, and nothing else.

Source: SQLite's documentation of ``sqlite3_set_authorizer``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from duly.protocol.wire.errors import ToolError

from .context import ToolFailure

BUSY_SECONDS = 5.0
_ACTIONS = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE))
FUNCTIONS = frozenset(
    "abs avg ceil ceiling changes coalesce concat count cume_dist date datetime dense_rank exp first_value floor format"
    " glob group_concat hex ifnull iif instr julianday lag last_value lead length like ln log log10 log2 lower ltrim max"
    " min mod nth_value ntile nullif percent_rank pi pow power printf quote rank replace round row_number rtrim sign"
    " sqrt strftime string_agg substr substring sum time total trim trunc typeof unicode unixepoch upper".split()
)


class SqliteReader:
    """A connection that can only read. ``rows`` runs one statement and gives (columns, rows, whether there were more)."""

    def __init__(self, path: Path) -> None:
        uri = "file:" + _escaped(str(path)) + "?mode=ro"
        try:
            self._connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)
        except sqlite3.Error as error:
            raise ToolError(
                "tool.source_missing", f"The file cannot be opened ({error}).", place=str(path)
            ) from None
        self._path = path
        self._connection.set_authorizer(_allowed)

    def __enter__(self) -> SqliteReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def rows(
        self, sql: str, values: Sequence[Any] = (), *, rows_max: int
    ) -> tuple[list[str], list[tuple[Any, ...]], bool]:
        """Raises ``ToolError``: ``tool.not_allowed``, ``tool.bad_query``, ``tool.source_damaged``, ``tool.busy``."""
        try:
            cursor = self._connection.execute(sql, values)
            names = [str(column[0]) for column in cursor.description or ()]
            found = cursor.fetchmany(rows_max + 1)
        except sqlite3.Error as error:
            raise fault_of(error, self._path) from None
        return names, found[:rows_max], len(found) > rows_max


def fault_of(error: sqlite3.Error, path: Path) -> ToolError:
    """What an error of the engine means for a call."""
    said = str(error)
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_AUTH or "not authorized" in said or "prohibited" in said:
        return ToolError("tool.not_allowed", f"The query may only read: {said}.", place=str(path))
    if code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return ToolFailure("tool.busy", "The file is being written by another process.", transient=True)
    if isinstance(error, sqlite3.DatabaseError) and code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return ToolError("tool.source_damaged", "This is no SQLite file, or a damaged one.", place=str(path))
    return ToolError("tool.bad_query", f"The query failed: {said}.", place=str(path))


def _allowed(
    action: int, first: str | None, second: str | None, database: str | None, trigger: str | None
) -> int:
    if action in _ACTIONS:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _escaped(path: str) -> str:
    """A path as part of a SQLite URI."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
