"""The route of a request: a pure rule over request, binding and agent. No model is asked.

Order of judgement (DESIGN 6): (1) something matches but does not bind: clarify; (2) ``never``: direct, ``always``:
plan; (3) under ``auto`` a planning cue in the request: plan; (4) one value of one known metric: constrained query;
(5) a score of at least 40: plan; (6) else direct. Without a model a matching playbook plans instead of direct, and
nothing matching is ``none``, which ends the run with ``model.none``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from pydantic import Field

from ..wire.errors import ModelError
from ..wire.model import Model
from .agent import AgentSpec
from .request import Binding, Request, RouteName

THRESHOLD = 40
STEP_BUDGET_ABOVE = 15
PARTS_ABOVE = 3
TOOLS_ABOVE = 4
CHARACTERS_ABOVE = 500
COST_LINE = 1_000_000
CUES = ("plan", "etape", "step", "sequence", "workflow", "pipeline")
WEIGHTS: tuple[tuple[str, int], ...] = (
    ("step_budget", 30),
    ("input_parts", 20),
    ("tools", 20),
    ("text_length", 10),
    ("mission_cue", 10),
)


class Weight(Model):
    """One weight of the score in hundredths, and whether it counted."""

    name: str
    weight: int
    counted: bool


class Route(Model):
    """Where a request goes, why, and what was counted on the way."""

    route: RouteName
    score: int
    weights: list[Weight] = Field(default_factory=list)
    reason: str


def has_cue(text: str) -> bool:
    """Whether a planning cue stands in a text as a whole run of letters (plural ``s`` allowed, case and accents aside)."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    words = "".join(c if c.isalpha() else " " for c in bare).split()
    return any(word in CUES or (word.endswith("s") and word[:-1] in CUES) for word in words)


def weigh(request: Request, agent: AgentSpec) -> list[Weight]:
    """Every weight with whether it counts. "Exceeds" is strict."""
    counted = {
        "step_budget": agent.budget.get("steps", 0) > STEP_BUDGET_ABOVE,
        "input_parts": request.part_count > PARTS_ABOVE,
        "tools": len(agent.tools) > TOOLS_ABOVE,
        "text_length": len(request.text) > CHARACTERS_ABOVE,
        "mission_cue": has_cue(agent.mission),
    }
    return [Weight(name=name, weight=weight, counted=counted[name]) for name, weight in WEIGHTS]


def choose(request: Request, binding: Binding, agent: AgentSpec, *, has_model: bool) -> Route:
    """The route of a request (see the module's docstring)."""
    weights = weigh(request, agent)
    score = sum(item.weight for item in weights if item.counted)
    route, reason = _judge(request, binding, agent, score)
    if route == "orchestrated" and binding.playbook is None and not has_model:
        route, reason = (
            ("constrained", reason)
            if binding.single_value
            else ("none", "no playbook matches, and there is no model")
        )
    if route == "direct" and not has_model:
        route, reason = _without_model(binding)
    return Route(route=route, score=score, weights=weights, reason=reason)


def _judge(request: Request, binding: Binding, agent: AgentSpec, score: int) -> tuple[RouteName, str]:
    if binding.matched and binding.question is not None:
        return "clarify", f"{binding.question.parameter} does not bind"
    if agent.planning == "never":
        return "direct", "planning = never"
    if agent.planning == "always":
        return "orchestrated", "planning = always"
    if has_cue(request.text):
        return "orchestrated", "the request has a planning cue"
    if binding.single_value and not binding.sensitive and binding.estimate_cost < COST_LINE:
        return "constrained", "one value of one known metric"
    if score >= THRESHOLD:
        return "orchestrated", f"the score {score} reaches {THRESHOLD}"
    return "direct", f"the score {score} is below {THRESHOLD}"


def _without_model(binding: Binding) -> tuple[RouteName, str]:
    if binding.playbook is not None:
        return "orchestrated", f"no model is set, and the playbook {binding.playbook} matches"
    if binding.single_value:
        return "constrained", "no model is set, and one read answers"
    return "none", "no playbook matches, and without a model nobody else plans or answers"


def nobody_plans(abilities: Iterable[str]) -> ModelError:
    """What somebody is told whose request goes the route ``none``. ``abilities`` are the package's, in words."""
    can = "; ".join(abilities) or "nothing without a model"
    return ModelError(
        "model.none",
        f"No playbook of this package matches the request, and no model is set. It can: {can}.",
        hint="Set a model: `duly model serve FILE` runs one here (extra duly[local]); or `duly down`, set DULY_MODEL_PLANNER "
        "(extra duly[models]) and `duly up`.",
    )
