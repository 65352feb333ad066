"""``duly route``, ``plan``, ``tools list``: what would happen, without running anything."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from json import dumps as to_json
from pathlib import Path
from typing import Any

from duly.protocol.authority.rendering import render_preview
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Question
from duly.protocol.plan.route import THRESHOLD
from duly.protocol.wire.errors import ModelError, PlanError, RunError
from duly.storage.home import Home

from . import exit_codes, mandate, person, plan_save
from .layout import bold, duration, labelled, paragraph, table
from .mandate import Opened
from .output import emit, note, say
from .package import open_package
from .progress import plan_lines
from .run import Asked
from .start import opened
from .thinking import Pace


def route(home: Home, wish: Asked) -> int:
    """How a request would be judged: route, score, and every weight with whether it counted."""
    with opened(home) as door:
        package = open_package(door, home, wish.package)
        agent = package.agent(wish.order.agent)
        answer = door.call(
            "route",
            package=package.digest,
            agent=agent.name,
            planning=wish.order.planning,
            **wish.request.to_data(),
        )
    found, binding = answer["route"], answer["binding"]
    if wish.json:
        emit(
            {
                "route": found["route"],
                "score": found["score"],
                "weights": found["weights"],
                "reason": found["reason"],
                "binding": binding,
            }
        )
        return exit_codes.DONE
    lines = [*labelled("route", str(found["route"])), *labelled("because", str(found["reason"]))]
    lines += labelled("score", f"{found['score']} of {THRESHOLD} that make a plan under planning = auto")
    rows = [
        (str(one["weight"]), str(one["name"]).replace("_", " "), "counted" if one["counted"] else "-")
        for one in found["weights"]
    ]
    lines += ["", *table(("weight", "when", "counted"), rows, "  "), ""]
    say([*lines, *_binding_lines(binding)])
    return exit_codes.DONE


def plan(home: Home, wish: Asked, *, full: bool = False, save: str | None = None) -> int:
    """The plan of a request, not run. Exit code 8 where there is none, with the question or what the package can do.

    ``save`` names the file of a playbook to be written.
    """
    with opened(home) as door:
        package = open_package(door, home, wish.package)
        agent = package.agent(wish.order.agent)
        fields: dict[str, Any] = wish.request.to_data()
        if package.has_model:  # asking it takes tokens, which a person signs for
            order = mandate.draft(package, wish.request, replace(wish.order, agent=agent.name), None)
            fields["mandate"] = order.sign(person.key_of(home)())
        answer = door.call("draft", idle=_drafting(), package=package.digest, agent=agent.name, **fields)
    data, question = answer.get("plan"), answer.get("question")
    saved = None
    if save is not None and data is not None:
        saved = plan_save.save(save, _plan(data), home, wish.package, package.descriptors)
    if wish.json:
        told = {"plan": data, "question": question, "digest": _digest(data)}
        if saved is not None:
            told |= {"playbook": str(saved.file), "parameters": saved.parameters}
        emit(told)
        return exit_codes.DONE if data is not None else exit_codes.REFUSED
    if data is None:
        _refuse(package, question)
    drafted = _plan(data)
    if full:
        say(render_preview(drafted, package.descriptors).splitlines())
    else:
        say(plan_lines(drafted))
    say(labelled("digest", str(_digest(data))))
    if saved is not None:
        say(labelled("playbook", str(saved.file)))
        say(labelled("plans", saved.takes))
        if saved.file.resolve().parent != (Path(wish.package) / "playbooks").resolve():
            say(
                paragraph(
                    "Put it into the folder playbooks/ of the package, and it plans requests like this one."
                )
            )
    return exit_codes.DONE


def _drafting(clock: Callable[[], float] = time.monotonic) -> Callable[[], None]:
    """Tells a person who waits for a plan, a model's in most cases, now and then for how long it has been drafted."""
    began, pace = clock(), Pace()

    def idle() -> None:
        waited = int((clock() - began) * 1_000)
        if pace.is_due(waited):
            note(f"The plan is still being drafted after {duration(waited, whole=True)}.")

    return idle


def tools(home: Home, wish: str, agent_name: str | None, *, json: bool = False) -> int:
    """The tools that an agent is granted, with what each may do."""
    with opened(home) as door:
        package = open_package(door, home, wish)
        agent = package.agent(agent_name)
    granted = [package.descriptors[name] for name in agent.tools if name in package.descriptors]
    if json:
        emit({"agent": agent.name, "tools": [_tool(one) for one in granted]})
        return exit_codes.DONE
    rows = [(one.full_name, one.effect, one.resource or "-", one.description) for one in granted]
    say(bold(f"Tools of agent {agent.name}"))
    say(table(("tool", "effect", "resource", "description"), rows, whole=True))
    return exit_codes.DONE


def _tool(descriptor: Descriptor) -> dict[str, Any]:
    return {**descriptor.to_data(), "full_name": descriptor.full_name, "digest": descriptor.digest()}


def _plan(data: Any) -> Plan:
    return Plan.from_data(data, error=PlanError, code="plan.malformed", what="The plan")


def _digest(data: Any) -> str | None:
    return None if data is None else str(_plan(data).content_digest())


def _refuse(package: Opened, question: Any) -> None:
    if question is None:
        raise ModelError(
            "model.none",
            f"No playbook of the package {package.name} matches, and there is no model to plan with.",
        )
    asked = Question.from_data(question, error=PlanError, code="plan.malformed", what="The question")
    choices = ", ".join(asked.choices)
    raise RunError("run.question", asked.text, hint=f"Possible: {choices}." if choices else None)


def _binding_lines(binding: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for name in ("playbook", "metric"):
        if binding.get(name):
            lines += labelled(name, str(binding[name]))
    for name, value in (binding.get("parameters") or {}).items():
        lines += labelled("with", f"{name} = {to_json(value)}")
    question = binding.get("question")
    if question:
        lines += labelled("question", str(question.get("text", "")))
        if question.get("choices"):
            lines += paragraph(", ".join(map(str, question["choices"])), " " * 10)
    return lines
