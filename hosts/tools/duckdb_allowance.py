"""How many rows one call may scan."""

from __future__ import annotations

from dataclasses import dataclass

from duly.protocol.wire.errors import ToolError


@dataclass(slots=True)
class Allowance:
    """How many rows may be scanned (0: as many as there are), and how many were."""

    rows_max: int = 0
    scanned: int = 0

    def charge(self, rows: int) -> None:
        if self.rows_max and self.scanned + rows > self.rows_max:
            raise ToolError(
                "tool.rows_exceeded",
                f"This needs {self.scanned + rows} rows; the call may scan {self.rows_max}.",
                hint="Raise the budget rows_scanned, or ask for less.",
            )
        self.scanned += rows
