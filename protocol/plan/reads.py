"""Which sources a call reads, by the package and not by whoever wrote the call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .descriptor import Descriptor
from .manifest import MetricTools, SqlTools
from .package import Package
from .plan import Plan, SourceInput
from .schedule import dependencies, levels


def sources_of(package: Package, tool: str, arguments: Any) -> list[str]:
    """The sources that a call of a tool may read.

    A metric tool reads those of its metric; where the metric is not known yet (no arguments, a reference), any of them.
    What a function of the package reads, nobody but itself knows: none is named.
    """
    entry = package.manifest.tools.get(tool.partition(".")[0])
    if isinstance(entry, SqlTools):
        return list(entry.sources)
    if not isinstance(entry, MetricTools) or package.semantics is None:
        return []
    metric = arguments.get("metric") if isinstance(arguments, dict) else None
    if isinstance(metric, str) and metric in package.semantics.metrics:
        return list(package.semantics.sources_of(metric))
    return sorted(package.semantics.sources)


def inputs_of(package: Package, tool: str, arguments: Any) -> list[SourceInput]:
    """``sources_of`` as a step names them, with the version of their meaning."""
    version = package.semantics.version if package.semantics is not None else ""
    return [
        SourceInput(source=source, semantic_version=version)
        for source in sources_of(package, tool, arguments)
    ]


def is_sensitive(package: Package, descriptor: Descriptor, arguments: Any) -> bool:
    """Whether what a call gives may hold values of a sensitive source."""
    sensitive = set(package.manifest.policy.sensitive_sources)
    return descriptor.sensitive or bool(
        sensitive.intersection(sources_of(package, descriptor.full_name, arguments))
    )


def sensitive_steps(package: Package, plan: Plan, descriptors: Mapping[str, Descriptor]) -> set[str]:
    """The steps whose outputs may hold values of a sensitive source: they read one, or they come after one that does.

    These are what is withheld from every model (``views/slices``).
    """
    found: set[str] = set()
    for level in levels(plan):
        for name in level:
            step = plan.step(name)
            descriptor = descriptors.get(step.tool or "")
            own = descriptor is not None and is_sensitive(package, descriptor, step.tool_contract.arguments)
            if own or found.intersection(dependencies(step)):
                found.add(name)
    return found
