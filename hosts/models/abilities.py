"""What a model server can do, as far as it has shown: ways to ask for JSON, and words it does not know."""

from __future__ import annotations

from dataclasses import dataclass, field

from duly.protocol.plan.model_call import OutputMode
from duly.protocol.wire.limits import MODEL_ANSWER_TOKENS_MAX

MODES: tuple[OutputMode, ...] = ("strict", "json", "text")  # from the firmest to the loosest
_SCHEMAS_UNTIL_CERTAIN = 2  # one schema may be too much for a grammar; two, and the way itself is not there


@dataclass(slots=True)
class Abilities:
    """Of one model at one address, for as long as the host lives: a server may have been replaced by the next start."""

    answer_tokens_max: int = MODEL_ANSWER_TOKENS_MAX
    temperature: bool = True
    completion_tokens: bool = False
    _refused: dict[OutputMode, set[str]] = field(default_factory=dict)
    _lacking: set[OutputMode] = field(default_factory=set)

    def mode_for(self, schema: str) -> OutputMode:
        """The firmest way that is left for the schema with this digest."""
        for mode in MODES:
            if mode not in self._lacking and schema not in self._refused.get(mode, ()):
                return mode
        return "text"

    def refuse(self, mode: OutputMode, schema: str) -> None:
        """The server does not take this schema in this way, or pays no heed to it."""
        refused = self._refused.setdefault(mode, set())
        refused.add(schema)
        if len(refused) >= _SCHEMAS_UNTIL_CERTAIN:
            self.lack(mode)

    def lack(self, mode: OutputMode) -> None:
        """The server does not have this way at all; plain text every server has."""
        if mode != "text":
            self._lacking.add(mode)
