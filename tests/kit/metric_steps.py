"""Runs metric and report tools the way a plan does, and verifies them the way the verifier does, in one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duly.actors.verifier.recompute import Claim, compare, reads_for
from duly.hosts.tools.duckdb_source import SourceFile, Sources
from duly.hosts.tools.metrics import ANSWERS
from duly.hosts.tools.metrics_cells import DataContext, normal
from duly.hosts.tools.report import BUILDERS, made
from duly.hosts.tools.tally import tally
from duly.protocol.judgement.checks import Check
from duly.protocol.plan.semantics import Semantics
from duly.protocol.plan.semantics_yaml import load


def context(semantics: bytes | Semantics, files: Mapping[str, Path]) -> DataContext:
    """The semantics over these files."""
    known = load(semantics, "semantics.yaml") if isinstance(semantics, bytes) else semantics
    return DataContext(known, Sources({name: SourceFile(path) for name, path in files.items()}))


@dataclass
class Steps:
    """Steps with their outputs. A report names the steps that it rests on in ``evidence``."""

    context: DataContext
    outputs: dict[str, Any] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)

    def run(self, step: str, tool: str, **arguments: Any) -> Any:
        kind, name = tool.split(".")
        if kind == "metrics":
            self.outputs[step] = normal(ANSWERS[name](self.context, arguments))
        else:
            evidence = [{"step": one, "output": self.outputs[one]} for one in arguments["evidence"]]
            arguments = {**arguments, "evidence": evidence}
            self.outputs[step] = made(BUILDERS[name], arguments)
        self.claims.append(Claim(step, tool, arguments))
        return self.outputs[step]

    def diagnose(
        self,
        metric: str,
        baseline: Mapping[str, Any],
        current: Mapping[str, Any],
        recommendations: Sequence[Mapping[str, Any]] = (),
    ) -> Any:
        """The steps of a metric diagnosis over every dimension of the metric; gives the report."""
        common = {"metric": metric, "baseline": baseline, "current": current}
        names = self.context.semantics.metrics[metric].dimensions
        certain = self.run("complete", "metrics.completeness", **common)["sign_certain"]
        for name in names:
            self.run(f"by_{name}", "metrics.decompose", **common, dimension=name, sign_certain=certain)
        for name in names:
            others = [other for other in names if other != name]
            self.run(
                f"in_{name}",
                "metrics.interact",
                **common,
                dimension=name,
                others=others,
                sign_certain=certain,
            )
        evidence = list(self.outputs)
        return self.run(
            "report", "report.diagnosis", evidence=evidence, recommendations=list(recommendations)
        )

    def tallies(self) -> dict[str, Any]:
        reads = reads_for(self.claims, self.context.semantics)
        return {read.read_id: tally(self.context.sources, read.arguments) for read in reads}

    def verify(self, tallies: Mapping[str, Any] | None = None) -> list[Check]:
        """Every check over the outputs as they are now."""
        known = self.tallies() if tallies is None else tallies
        return compare(self.claims, self.outputs, known, self.context.semantics)


def failed(checks: Sequence[Check]) -> list[Check]:
    return [check for check in checks if check.outcome == "fail"]


def texts(report: Mapping[str, Any], kind: str | None = None) -> list[str]:
    """The texts of a report's statements."""
    return [item["text"] for item in report["statements"] if kind in (None, item["kind"])]
