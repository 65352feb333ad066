"""What holds of one agent package, looked at without running any of its code."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from duly.protocol.plan.manifest import PythonTools, SourceEntry, tool_names
from duly.protocol.plan.package import Package, load_package
from duly.protocol.wire.errors import DulyError
from duly.storage.home import Home

from .finding import Finding
from .layout import count
from .output import FAULTS_SHOWN_MAX
from .package import files_of

GROUP = "package"


def package(home: Home, named: str, *, duckdb: bool) -> Iterator[Finding]:
    """Loads, sources, tools, checks, models of a package. ``duckdb``: whether the engine for sources is there."""
    try:
        files, place = files_of(home, named)
        loaded = load_package(files, place)
    except DulyError as error:
        yield Finding(GROUP, "loads", "broken", f"{error.message} [{error.code}]", error.hint or "")
        for fault in error.faults[:FAULTS_SHOWN_MAX]:
            yield Finding(GROUP, "fault", "broken", str(fault))
        return
    head = loaded.manifest.package
    told = f"{head.name} {head.version}, {count(len(loaded.manifest.agents), 'agent')}, "
    told += f"{count(len(loaded.playbooks), 'playbook')}, digest {loaded.digest[:16]}"
    yield Finding(GROUP, "loads", "ok", told)
    yield from _sources(home, loaded, Path(named), duckdb=duckdb)
    yield from _tools(loaded, files)
    yield _checks(loaded)
    yield _models(loaded)


def digest_of(home: Home, named: str | None) -> str:
    """The digest of a package's snapshot, empty where none is named or it does not load."""
    try:
        return load_package(*files_of(home, named)).digest if named is not None else ""
    except DulyError:
        return ""


def _sources(home: Home, loaded: Package, folder: Path, *, duckdb: bool) -> Iterator[Finding]:
    """Whether every source is there, or will be made."""
    sources = loaded.manifest.sources
    if sources and not duckdb:
        hint = 'Install it: `pip install "duly[duckdb]"`.'
        yield Finding(GROUP, "engine", "broken", "its sources need DuckDB, which is not installed", hint)
    data = home.data(loaded.manifest.package.data)
    for name, entry in sources.items():
        path = (folder if entry.base == "package" else data) / entry.file
        if path.is_file():
            yield Finding(GROUP, f"source {name}", "ok", f"{path} ({path.stat().st_size:,} bytes)")
        else:
            yield _absent(name, entry, path)


def _absent(name: str, entry: SourceEntry, path: Path) -> Finding:
    if entry.prepare is not None:
        told = f"not there yet; {entry.prepare.file} makes it at the first run"
        return Finding(GROUP, f"source {name}", "note", told)
    hint = f"Put the file there, or correct [sources.{name}] of agent.toml."
    return Finding(GROUP, f"source {name}", "broken", f"{path} is not there", hint)


def _tools(loaded: Package, files: Mapping[str, bytes]) -> Iterator[Finding]:
    """Every server with its tools; functions of the package are looked for in its file, not called."""
    for name, server in loaded.manifest.tools.items():
        names = tool_names(server)
        told = f"{server.kind}: {', '.join(names)}"
        if not isinstance(server, PythonTools):
            yield Finding(GROUP, f"tools {name}", "ok", told)
            continue
        marked = marked_functions(files.get(server.file, b""))
        absent = [one for one in names if one not in marked]
        if absent:
            hint = f"Define it in {server.file} and put @duly.tool above it."
            yield Finding(
                GROUP, f"tools {name}", "broken", f"{server.file} has no tool {', '.join(absent)}", hint
            )
        else:
            silent = [one for one in names if not marked[one]]
            more = f"; without a docstring: {', '.join(silent)}" if silent else ""
            yield Finding(GROUP, f"tools {name}", "note" if silent else "ok", told + more)


def marked_functions(source: bytes) -> dict[str, bool]:
    """Functions of a Python file that a decorator marks as tools, and whether each is described. Nothing is run."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            named = [
                ast.unparse(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list
            ]
            if any(one in ("tool", "duly.tool") for one in named):
                found[node.name] = bool(ast.get_docstring(node))
    return found


def _checks(loaded: Package) -> Finding:
    """What is checked whatever a plan says."""
    metrics = {} if loaded.semantics is None else loaded.semantics.metrics
    demanded = sum(len(metric.checks) for metric in metrics.values()) + len(loaded.manifest.policy.checks)
    bare = [name for name, metric in metrics.items() if not metric.checks]
    told = f"{count(demanded, 'demand')} beyond the schema, over {count(len(metrics), 'metric')}"
    if bare:
        hint = "Give each metric of semantics.yaml its checks; a plan can only add to them."
        return Finding(GROUP, "checks", "note", f"{told}; none for {', '.join(bare)}", hint)
    return Finding(GROUP, "checks", "ok", told)


def _models(loaded: Package) -> Finding:
    if named := loaded.manifest.models.named():
        return Finding(GROUP, "models", "ok", ", ".join(named))
    told = "none: playbooks plan, rules and recomputation verify"
    if loaded.playbooks or loaded.semantics is not None:
        return Finding(GROUP, "models", "ok", told)
    return Finding(GROUP, "models", "note", "none, and no playbook or metric: nothing can be planned here")
