"""``agent.toml``: bytes → ``Manifest``, every fault of the file at once, each with line and field."""

from __future__ import annotations

import difflib
import re
import tomllib
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ..wire.ids import is_name
from ..wire.limits import PACKAGE_FILE_BYTES_MAX
from . import expression
from .manifest import (
    TOOL_KINDS,
    AgentEntry,
    AgentSettings,
    Manifest,
    Models,
    PackageHead,
    Policy,
    SourceEntry,
    SqlTools,
    ToolServer,
    tool_names,
)
from .places import Path, Places, unknown
from .toml_lines import lines_of

_CODE = "package.manifest"
_SECTIONS = ("package", "agents", "tools", "sources", "models", "policy")
# Words by which somebody could try to change the route's fixed numbers.
_ROUTING = ("weight", "weights", "threshold", "routing", "route", "score", "cues")
_LINE = re.compile(r"at line (\d+)")
M = TypeVar("M", bound=BaseModel)


def parse_manifest(data: bytes, place: str) -> Manifest:
    """The manifest in ``data``; ``place`` is the file's name in errors.

    Raises ``PackageError`` with every fault. Codes: ``package.manifest`` (a field), ``package.toml`` (no TOML),
    ``package.too_large``, ``package.unknown_tool``, ``package.unknown_source``, ``package.expression`` (a condition of
    the policy), ``package.routing_fixed``.
    """
    tree, places = _read(data, place)
    if places.faults:
        raise places.refuse(_CODE, "The manifest has a fault")
    found = _Sections(tree, places)
    manifest = found.manifest()
    if manifest is None or places.faults:
        raise places.refuse(_CODE, "The manifest has a fault")
    return manifest


def _read(data: bytes, place: str) -> tuple[dict[str, Any], Places]:
    places = Places(place)
    if len(data) > PACKAGE_FILE_BYTES_MAX:
        places.add((), "package.too_large", f"The file exceeds {PACKAGE_FILE_BYTES_MAX} bytes.")
        return {}, places
    try:
        text = data.decode("utf-8")
        tree = tomllib.loads(text)
    except UnicodeDecodeError as error:
        places.add((), "package.toml", f"The file is not UTF-8 (byte {error.start}).")
        return {}, places
    except RecursionError:
        places.add((), "package.toml", "The file is nested too deeply.")
        return {}, places
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        where = _LINE.search(message)
        at = Places(f"{place}:{where.group(1)}" if where else place, {}, places.faults)
        hint = " Write [[agents.list]] beside [agents.defaults]." if "[[agents]]" in text else ""
        at.add((), "package.toml", f"This is no TOML: {message}.{hint}")
        return {}, places
    return tree, Places(place, lines_of(text))


class _Sections:
    """Each section on its own, so that a fault in one hides none in another."""

    def __init__(self, tree: dict[str, Any], places: Places) -> None:
        self.tree = tree
        self.places = places
        self.known_tools: list[str] = []
        self.known_servers: dict[str, ToolServer | None] = {}

    def manifest(self) -> Manifest | None:
        for name in self.tree:
            if name not in _SECTIONS:
                self.places.add((name,), *_no_field(name, _SECTIONS))
        package = self._package()
        tools = self._tools()
        sources = self._sources()
        defaults, agents = self._agents()
        policy = self._policy(list(sources))
        models = self.model(Models, self.table((), "models"), ("models",)) or Models()
        if self.places.faults or package is None:
            return None
        return Manifest(
            package=package,
            defaults=defaults,
            agents=agents,
            tools=tools,
            sources=sources,
            models=models,
            policy=policy,
        )

    def table(self, at: Path, name: str) -> dict[str, Any]:
        """A table below ``at``; ``{}`` and a fault where something else stands there."""
        here: Any = self.tree
        for part in at:
            here = here[part]
        found = here.get(name, {})
        if isinstance(found, dict):
            return found
        self.places.add((*at, name), _CODE, "A table of fields must stand here.")
        return {}

    def model(self, model: type[M], tree: Any, at: Path) -> M | None:
        """The model of a section, or ``None`` after its faults are noted."""
        try:
            return model.model_validate(tree)
        except ValidationError as problem:
            before = len(self.places.faults)
            self.places.add_model_faults(problem, tree, at, _CODE, model)
            self.places.faults[before:] = [
                type(fault)(fault.path, *_routing(fault.path, fault.code, fault.message))
                for fault in self.places.faults[before:]
            ]
            return None

    def _package(self) -> PackageHead | None:
        if "package" not in self.tree:
            self.places.add(("package",), _CODE, "The section [package] is missing.")
            return None
        head = dict(self.table((), "package"))
        head.setdefault("data", head.get("name"))
        return self.model(PackageHead, head, ("package",))

    def _tools(self) -> dict[str, ToolServer]:
        found: dict[str, ToolServer] = {}
        for name, tree in self.table((), "tools").items():
            self.known_servers[name] = None
            at: Path = ("tools", name)
            if not isinstance(tree, dict) or tree.get("kind") not in TOOL_KINDS:
                self.places.add((*at, "kind"), _CODE, f"`kind` is one of {', '.join(TOOL_KINDS)}.")
                continue
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", name):
                self.places.add(at, _CODE, "A server's name has letters, digits and _, a letter first.")
            server = self.model(TOOL_KINDS[tree["kind"]], tree, at)
            if server is not None:
                found[name] = self.known_servers[name] = server
                self.known_tools += [f"{name}.{tool}" for tool in tool_names(server)]
        return found

    def _sources(self) -> dict[str, SourceEntry]:
        found: dict[str, SourceEntry] = {}
        names = self.table((), "sources")
        for name, tree in names.items():
            at: Path = ("sources", name)
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", name):
                self.places.add(at, _CODE, "A source's name has letters, digits and _, a letter first.")
            source = self.model(SourceEntry, tree, at)
            if source is not None:
                found[name] = source
                self._source_path(source, at)
        for server, tools in self.known_servers.items():
            if isinstance(tools, SqlTools):
                for index, source_name in enumerate(tools.sources):
                    if source_name not in names:
                        message = unknown("source", source_name, names)
                        self.places.add(
                            ("tools", server, "sources", index), "package.unknown_source", message
                        )
        return found

    def _source_path(self, source: SourceEntry, at: Path) -> None:
        absolute = source.file.startswith("/")
        if "\0" in source.file or (not absolute and ".." in source.file.split("/")):
            self.places.add((*at, "file"), _CODE, "Give an absolute path, or a relative one without `..`.")
        if source.prepare is not None and (absolute or source.base != "data"):
            self.places.add((*at, "prepare"), _CODE, "A preparer writes into the data folder only.")
        elif source.prepare is not None and source.file not in source.prepare.outputs:
            self.places.add(
                (*at, "prepare", "outputs"), _CODE, f"The outputs lack the source's own file {source.file!r}."
            )

    def _agents(self) -> tuple[AgentSettings, list[AgentEntry]]:
        tree = self.tree.get("agents", {})
        at: Path = ("agents",)
        if isinstance(tree, list):
            entries, settings = tree, {}
        else:
            tree = self.table((), "agents")
            at = ("agents", "list")
            entries, settings = tree.get("list", []), tree.get("defaults", {})
            for name in tree:
                if name not in ("defaults", "list"):
                    self.places.add(("agents", name), *_no_field(name, ("defaults", "list")))
        defaults = self.model(AgentSettings, settings, ("agents", "defaults"))
        self._granted(settings, ("agents", "defaults"))
        agents: list[AgentEntry] = []
        if not isinstance(entries, list) or not entries:
            self.places.add(at, _CODE, "A package has at least one agent: [[agents.list]] with a name.")
            entries = []
        for index, entry in enumerate(entries):
            agent = self.model(AgentEntry, entry, (*at, index))
            self._granted(entry, (*at, index))
            if agent is not None and any(other.name == agent.name for other in agents):
                self.places.add((*at, index, "name"), _CODE, f"There are two agents {agent.name!r}.")
            if agent is not None:
                agents.append(agent)
        return defaults or AgentSettings(), agents

    def _granted(self, tree: Any, at: Path) -> None:
        """Tools by full name; those of a server that has faults of its own are not judged."""
        for field in ("tools", "gated_tools"):
            names = tree.get(field) if isinstance(tree, dict) else None
            for index, name in enumerate(names if isinstance(names, list) else ()):
                server = str(name).partition(".")[0]
                broken = server in self.known_servers and self.known_servers[server] is None
                if isinstance(name, str) and name not in self.known_tools and not broken:
                    message = unknown("tool", name, self.known_tools)
                    self.places.add((*at, field, index), "package.unknown_tool", message)

    def _policy(self, sources: list[str]) -> Policy:
        tree = self.table((), "policy")
        policy = self.model(Policy, tree, ("policy",)) or Policy()
        declared = list(self.table((), "sources"))
        for index, name in enumerate(policy.sensitive_sources):
            if name not in declared:
                at: Path = ("policy", "sensitive_sources", index)
                self.places.add(at, "package.unknown_source", unknown("source", name, declared))
        for index, check in enumerate(policy.checks):
            at = ("policy", "checks", index)
            if (check.tool is None) == (check.output is None):
                self.places.add(at, _CODE, "A check names either a tool or an output.")
            elif check.tool is not None and check.tool not in self.known_tools:
                message = unknown("tool", check.tool, self.known_tools)
                self.places.add((*at, "tool"), "package.unknown_tool", message)
            if not check.rules and not check.recompute:
                self.places.add(at, _CODE, "A check has rules, or recompute = true.")
        self._policy_gates(policy)
        return policy

    def _policy_gates(self, policy: Policy) -> None:
        for index, name in enumerate(policy.approvers):
            if not is_name(name):
                self.places.add(("policy", "approvers", index), _CODE, "This is no name of a key.")
        for index, gate in enumerate(policy.gates):
            at: Path = ("policy", "gates", index)
            if gate.tool not in self.known_tools:
                message = unknown("tool", gate.tool, self.known_tools)
                self.places.add((*at, "tool"), "package.unknown_tool", message)
            for sentence in expression.faults_of(gate.when) if gate.when is not None else ():
                self.places.add((*at, "when"), "package.expression", sentence)


def _no_field(name: str, known: tuple[str, ...]) -> tuple[str, str]:
    if _is_routing(name):
        return _fixed()
    near = difflib.get_close_matches(name, known, n=1)
    return _CODE, f"There is no such field here{f' (did you mean {near[0]!r}?)' if near else ''}."


def _routing(path: str, code: str, message: str) -> tuple[str, str]:
    """The fault of an unknown field, said in its own words where it is about the route's fixed numbers."""
    last = path.rpartition("/")[2].rpartition(" ")[2]
    if message.startswith("There is no such field") and _is_routing(last):
        return _fixed()
    return code, message


def _is_routing(name: str) -> bool:
    return any(word in _ROUTING for word in re.split(r"[_\W]", name.casefold()))


def _fixed() -> tuple[str, str]:
    return (
        "package.routing_fixed",
        "The weights and the threshold of the route are fixed in code; remove this.",
    )
