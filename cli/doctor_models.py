"""What the language models can do that are set: one small call of each, made by its model host."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, get_args

from duly.hosts.models.client import ModelHostClient
from duly.protocol.plan.model_call import ModelRole
from duly.protocol.wire.errors import DulyError, error_from_data
from duly.protocol.wire.limits import MODEL_CHECK_SECONDS_MAX
from duly.storage.home import Home

from .finding import Finding

GROUP = "models"
ABLE = {
    "strict": "answers under a strict schema",
    "json": "has a JSON mode, and no strict schema: answers are validated, and wrong ones more frequent",
    "text": "has neither a strict schema nor a JSON mode: JSON is looked for in its text",
}


def models(home: Home, package: str) -> Iterator[Finding]:
    """One finding a role. ``package`` is the digest of a snapshot whose models count, empty for none."""
    names: dict[str, str] = {}
    for role in get_args(ModelRole):
        yield _finding(home, role, package, names)
    if names.get("critic") and names.get("critic") == names.get("planner"):
        told = "the critic is the planner's own model: it overlooks what the planner did"
        yield Finding(GROUP, "two models", "note", told, "Set another as DULY_MODEL_CRITIC where you can.")


def _finding(home: Home, role: ModelRole, package: str, names: dict[str, str]) -> Finding:
    """What one role's model can do; its name goes into ``names``."""
    try:
        said = asyncio.run(asyncio.wait_for(_asked(home, role, package, names), MODEL_CHECK_SECONDS_MAX))
    except DulyError as error:
        if error.code == "runtime.host_unreachable":
            told = "not asked: that needs a runtime, and none is up"
            return Finding(GROUP, role, "note", told, "Start one with `duly up`, and ask again.")
        return Finding(GROUP, role, "broken", f"{error.message} [{error.code}]", error.hint or "")
    except TimeoutError:
        return Finding(GROUP, role, "broken", f"no answer in {MODEL_CHECK_SECONDS_MAX} s")
    model = names[role] = said["model"]
    if not model:
        told = "none is set: playbooks plan" if role == "planner" else "none is set: nobody reviews"
        return Finding(GROUP, role, "ok", told)
    if said.get("error"):
        failed = error_from_data(said["error"])
        return Finding(GROUP, role, "broken", f"{model}: {failed.message} [{failed.code}]", failed.hint or "")
    return Finding(GROUP, role, "ok", f"{model} {ABLE.get(said['mode'], 'was asked above')}")


async def _asked(home: Home, role: ModelRole, package: str, names: dict[str, str]) -> dict[str, Any]:
    """The model's name and what the host found; nothing is called without a model, or with one that was asked already."""
    host = ModelHostClient(home.socket_path(f"model-{role}"))
    try:
        model = await host.which(package)
        if not model or model in names.values():
            return {"model": model, "mode": ""}
        return {"model": model, **await host.check(package)}
    finally:
        await host.close()
