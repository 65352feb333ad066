"""One thing that ``duly doctor`` found: what, whether it is good, what it means, and what to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "note", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """``note`` is worth knowing and stops nothing; ``broken`` is needed and does not work. ``hint`` says what to do."""

    group: str
    name: str
    state: State
    says: str
    hint: str = ""

    def to_json(self) -> dict[str, str]:
        return asdict(self)
