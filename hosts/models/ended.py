"""The runs that a model host makes no call for any more: whoever asks for one of them has not heard yet that it has ended."""

from __future__ import annotations

from duly.protocol.wire.errors import ModelError
from duly.protocol.wire.limits import MODEL_ENDED_RUNS_MAX


class EndedRuns:
    """Each is kept until its mandate expires, since after that no call of it is made anyway."""

    def __init__(self) -> None:
        self._until_ms: dict[str, int] = {}

    def add(self, run_id: str, until_ms: int, now_ms: int) -> None:
        """Remembers a run. Where there are too many, the one that ended first is forgotten."""
        if len(self._until_ms) >= MODEL_ENDED_RUNS_MAX:
            self._until_ms = {name: until for name, until in self._until_ms.items() if until >= now_ms}
        if len(self._until_ms) >= MODEL_ENDED_RUNS_MAX:
            del self._until_ms[next(iter(self._until_ms))]
        self._until_ms[run_id] = max(until_ms, self._until_ms.pop(run_id, 0))

    def check(self, run_id: str) -> None:
        """Raises ``ModelError`` ``model.cancelled`` for a run that has ended."""
        if run_id in self._until_ms:
            raise ModelError("model.cancelled", "The run has ended; no call of a model is made for it.")

    def __len__(self) -> int:
        return len(self._until_ms)
