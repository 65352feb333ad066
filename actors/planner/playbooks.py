"""Which playbook of a package a request is for: cues and recognised parts, weighed by the playbook's own file."""

from __future__ import annotations

from collections.abc import Iterable

from duly.protocol.plan.agent import AgentSpec
from duly.protocol.plan.package import Package
from duly.protocol.plan.playbook import Feature, Playbook, ReadBackTemplate

from .pairs import pair_of
from .recognise import Findings
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


def choose(playbooks: Iterable[Playbook], found: Findings) -> Playbook | None:
    """The playbook with the highest score of those that reach their own least; of equals the first by name."""
    features = features_of(found)
    scored = [(score(playbook, found, features), playbook) for playbook in playbooks]
    reached = [(points, playbook) for points, playbook in scored if points >= playbook.match.least]
    if not reached:
        return None
    most = max(points for points, _ in reached)
    return min(
        (playbook for points, playbook in reached if points == most), key=lambda playbook: playbook.name
    )


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
        stem
        for playbook in playbooks
        for cue in playbook.match.cues
        for phrase in cue.words
        for stem in stems_of(phrase)
    )
