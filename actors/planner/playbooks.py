"""Which playbook of a package a request is for: cues and recognised parts, weighed by the playbook's own file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.package import Package
from duly.protocol.plan.playbook import Feature, Playbook, ReadBackTemplate

from .pairs import pair_of
from .recognise import Findings
from .vocabulary import Vocabulary
from .whole_request import request_values
from .words import contains, stems_of


def tools_of(playbook: Playbook) -> set[str]:
    """Every tool that a playbook calls, those that read back included."""
    found = {step.tool for step in playbook.steps}
    for step in playbook.steps:
        if isinstance(step.verification.independent, ReadBackTemplate):
            found.add(step.verification.independent.read_back)
    return found


def usable(package: Package, agent: AgentSpec) -> list[Playbook]:
    """The playbooks whose tools the agent is granted, by name."""
    granted = set(agent.tools)
    return [playbook for _, playbook in sorted(package.playbooks.items()) if tools_of(playbook) <= granted]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A playbook, and the texts and numbers of the request that it has as a whole."""

    playbook: Playbook
    values: dict[str, Any] = field(default_factory=dict)


def choose(
    playbooks: Iterable[Playbook], text: str, found: Findings, vocabulary: Vocabulary | None
) -> Chosen | None:
    """The playbook whose whole request this is; else that with the highest score of those that reach their own least. Of
    equals the first by name."""
    some = sorted(playbooks, key=lambda playbook: playbook.name)
    for playbook in some:
        if playbook.match.request:
            values = request_values(playbook, text, found, vocabulary)
            if values is not None:
                return Chosen(playbook, values)
    features = features_of(found)
    scored = [(score(one, found, features), one) for one in some if one.match.cues]
    reached = [(points, playbook) for points, playbook in scored if points >= playbook.match.least]
    if not reached:
        return None
    most = max(points for points, _ in reached)
    return Chosen(next(playbook for points, playbook in reached if points == most))


def score(playbook: Playbook, found: Findings, features: set[Feature]) -> int:
    """The weights of the cues that stand in the text and of the recognised parts. Each counts once."""
    points = sum(cue.weight for cue in playbook.match.cues if contains(found.stems, cue.words))
    return points + sum(weight for feature, weight in playbook.match.found.items() if feature in features)


def features_of(found: Findings) -> set[Feature]:
    """What was recognised, as playbooks weigh it."""
    present: set[Feature] = set()
    if found.metrics:
        present.add("metric")
    if found.dimensions:
        present.add("dimension")
    if found.values:
        present.add("segment")
    distinct = {segment for mention in found.values for segment in mention.candidates}
    if any(
        len({s.value for s in distinct if s.dimension == name}) > 1
        for name in {s.dimension for s in distinct}
    ):
        present.add("segment_pair")
    if found.periods:
        present.add("period")
    pair = pair_of(found.words, found.periods)
    if (pair.current is not None and pair.baseline is not None) or pair.too_many:
        present.add("period_pair")
    return present


def cue_stems(playbooks: Iterable[Playbook]) -> frozenset[str]:
    """Every word of every cue: words that are no name of anything."""
    return frozenset(
        stem for playbook in playbooks for phrase in _phrases(playbook) for stem in stems_of(phrase)
    )


def _phrases(playbook: Playbook) -> Iterator[str]:
    for cue in playbook.match.cues:
        yield from cue.words
    yield from (piece for piece in playbook.match.request if isinstance(piece, str))
