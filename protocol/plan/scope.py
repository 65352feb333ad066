"""What a plan may touch, and whether one scope lies within another."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from ..wire.model import Model


class Scope(Model):
    """Names a plan may touch. An empty list allows nothing of its kind.

    ``predicates`` are row filters, written as texts; they narrow: more predicates mean fewer rows.
    """

    sources: list[str] = Field(default_factory=list)
    columns: list[str] = Field(default_factory=list)
    predicates: list[str] = Field(default_factory=list)
    hosts: list[str] = Field(default_factory=list)
    paths: list[str] = Field(default_factory=list)
    resources: list[str] = Field(default_factory=list)

    def within(self, wider: Scope) -> bool:
        """Whether everything that this scope allows is allowed by ``wider``."""
        return not self.beyond(wider)

    def beyond(self, wider: Scope) -> list[str]:
        """What this scope allows and ``wider`` does not, as texts such as ``sources:planes``."""
        excess = [
            f"{kind}:{name}"
            for kind in ("sources", "columns", "hosts", "paths", "resources")
            for name in getattr(self, kind)
            if name not in getattr(wider, kind)
        ]
        return excess + [f"predicates:{text}" for text in wider.predicates if text not in self.predicates]

    def united(self, other: Self) -> Scope:
        """The smallest scope that holds both. A row filter stays only where both have it."""
        names = {
            kind: sorted({*getattr(self, kind), *getattr(other, kind)})
            for kind in ("sources", "columns", "hosts", "paths", "resources")
        }
        return Scope(**names, predicates=[text for text in self.predicates if text in other.predicates])
