"""What a planner's model is given for one draft: request, mission, limits, tools, definitions, catalogue, what was wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...plan.agent import AgentSpec
from ...plan.catalogue import Catalogue
from ...plan.descriptor import Descriptor
from ...plan.package import Package
from ...plan.request import Binding, Request
from ...wire.errors import Fault
from ...wire.limits import MODEL_HANDLE_BYTES_MAX, REQUEST_PARTS_MAX
from . import knowledge
from .handles import handle, readable
from .marked import message, size
from .tools import tools

_EARLIER_BYTES = 20_000


def request_of(request: Request) -> dict[str, Any]:
    """The request: its text whole, its parts as handles."""
    parts = [
        {"name": part.name[:200], **handle(part.value, MODEL_HANDLE_BYTES_MAX)}
        for part in request.parts[:REQUEST_PARTS_MAX]
    ]
    return {"text": request.text, "parts": parts} if parts else {"text": request.text}


def planner(
    *,
    request: Request,
    binding: Binding,
    package: Package,
    agent: AgentSpec,
    catalogue: Catalogue,
    descriptors: Mapping[str, Descriptor],
    limits: Mapping[str, int],
    guidance: Sequence[str],
    earlier: Sequence[tuple[Any, Sequence[Fault]]] = (),
) -> str:
    """The message of one draft. ``earlier`` holds the attempts before it, each a model's value and all of its faults."""
    names = knowledge.metrics_for(package.semantics, binding, request.text) if package.semantics else []
    metrics = [package.semantics.metrics[name] for name in names] if package.semantics else []
    cuts = list(dict.fromkeys(cut for metric in metrics for cut in metric.dimensions))
    sources = list(
        dict.fromkeys(
            source for name in names if package.semantics for source in package.semantics.sources_of(name)
        )
    )
    return message(
        {
            "request": request_of(request),
            "guidance": list(guidance),
            "agent": {"name": agent.name, "mission": agent.mission[:4_000]},
            "limits": dict(limits),
            "recognised": _recognised(package, binding) or None,
            "tools": tools(descriptors),
            "definitions": knowledge.definitions(package, binding, request.text),
            "sources": knowledge.sources(package, catalogue, sources or catalogue.sources) or None,
            "known_values": knowledge.dimensions(package, catalogue, cuts, request.text) or None,
            "earlier_attempts": [_attempt(value, faults) for value, faults in earlier],
        }
    )


def _recognised(package: Package, binding: Binding) -> dict[str, Any]:
    """What was bound without a model; values of a dimension of a sensitive source are left out."""
    found = dict(readable(binding.parameters))
    semantics = package.semantics
    sensitive = set(package.manifest.policy.sensitive_sources)
    if semantics is None or not sensitive:
        return found
    hidden = {
        name for name in semantics.dimensions if sensitive & knowledge.dimension_sources(semantics, name)
    }
    if found.get("compared_by") in hidden:
        found.pop("segments", None)
    filters = found.get("filters")
    if isinstance(filters, list):
        found["filters"] = [one for one in filters if one.get("dimension") not in hidden]
    return found


def _attempt(value: Any, faults: Sequence[Fault]) -> dict[str, Any]:
    """An attempt and every one of its faults. A value that is too long is left out; its faults name the places."""
    seen = readable(value)
    told = {"faults": [fault.to_data() for fault in faults]}
    return told if size(seen) > _EARLIER_BYTES else {"plan": seen, **told}
