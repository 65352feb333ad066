"""The manifest of an agent package: what ``agent.toml`` says. The models; ``manifest_toml`` reads them.

    [package]            name, version, data (the package's folder under $DULY_HOME)
    [agents.defaults]    settings of every agent
    [[agents.list]]      name, version, mission, tools, tier, planning, schedule, gate, budget
    [tools.<server>]     kind = metrics | report | sql | python | sqlite
    [sources.<name>]     kind = duckdb: a Parquet, CSV or DuckDB file, and what prepares it
    [models]             planner, critic, base_url, api_key (``model_settings``)
    [policy]             cost line, sensitive sources, approvers, gates, mandatory checks (``policy``)

TOML gives one key one type, so ``[agents.defaults]`` and ``[[agents]]`` cannot stand in one file; ``[[agents]]`` alone
is read as well. The weights and the threshold of the route are fixed in code (``route``): no field sets them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ..wire.limits import TOOL_TIMEOUT_SECONDS_MAX
from ..wire.model import Model
from .agent import BUDGET_NAMES, AgentSpec, GateMode, Planning, Schedule, Tier
from .model_settings import Models as Models
from .policy import Policy as Policy

OWN_FOLDERS = ("journal", "plan_cache", "artifacts", "packages", "keys", "run")
BUILT_IN_TOOLS: dict[str, tuple[str, ...]] = {
    "metrics": ("value", "completeness", "change", "decompose", "interact", "segments", "catalogue"),
    "report": ("value", "change", "diagnosis", "comparison"),
    "sql": ("query",),
    "sqlite": ("append", "find"),
}


def _safe_relative(text: str) -> str:
    parts = text.split("/")
    if (
        any(part in ("", ".", "..") for part in parts)
        or "\\" in text
        or ":" in text
        or not text.isprintable()
    ):
        raise ValueError("give a relative path with `/` and without `..`")
    return text


def _data_folder(text: str) -> str:
    if _safe_relative(text).split("/")[0].casefold() in OWN_FOLDERS:
        raise ValueError(f"the folders {', '.join(OWN_FOLDERS)} are duly's own; choose another name")
    return text


def _budget(amounts: dict[str, int]) -> dict[str, int]:
    for name, amount in amounts.items():
        if name not in BUDGET_NAMES:
            raise ValueError(f"there is no budget {name!r}; known: {', '.join(BUDGET_NAMES)}")
        if amount < 1:
            raise ValueError(f"the budget {name} is a whole number of at least 1")
    return amounts


RelativePath = Annotated[str, Field(min_length=1, max_length=400), AfterValidator(_safe_relative)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=64)]
ServerName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=64)]
Budget = Annotated[dict[str, int], AfterValidator(_budget)]
Seconds = Annotated[int, Field(ge=1, le=TOOL_TIMEOUT_SECONDS_MAX)]


class PackageHead(Model):
    """``[package]``. ``data`` is the package's folder under ``$DULY_HOME``; without it, the package's name."""

    name: Name
    version: str = Field(min_length=1, max_length=64)
    description: str = ""
    data: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_data_folder)]


class AgentSettings(Model):
    """What an agent may set; a field that it leaves out comes from ``[agents.defaults]``, then from ``AgentSpec``."""

    mission: str | None = None
    tools: list[str] | None = None
    tier: Tier | None = None
    planning: Planning | None = None
    schedule: Schedule | None = None
    gate: GateMode | None = None
    gate_ttl_seconds: int | None = Field(default=None, ge=1)
    gated_tools: list[str] | None = None
    budget: Budget = Field(default_factory=dict)


class AgentEntry(AgentSettings):
    """One agent of the package."""

    name: Name
    version: str = Field(default="1", min_length=1, max_length=64)

    def resolved(self, defaults: AgentSettings) -> AgentSpec:
        """The agent with every default filled in; budgets are filled in one by one."""
        names = set(AgentSettings.model_fields) - {"budget"}
        given = {
            name: value
            for settings in (defaults, self)
            for name, value in settings.model_dump(include=names, exclude_none=True).items()
        }
        budget = {**AgentSpec(name="", version="").budget, **defaults.budget, **self.budget}
        return AgentSpec(name=self.name, version=self.version, budget=budget, **given)


class MetricTools(Model):
    """The built-in metric tools over the semantics and sources of the package."""

    kind: Literal["metrics"] = "metrics"
    timeout_seconds: Seconds = 60


class ReportTools(Model):
    """The built-in tools that fill report templates from artifacts."""

    kind: Literal["report"] = "report"
    timeout_seconds: Seconds = 60


class SqlTools(Model):
    """``query``: one read-only query over the named sources."""

    kind: Literal["sql"] = "sql"
    sources: list[str] = Field(min_length=1)
    rows_max: int = Field(default=1_000, ge=1, le=100_000)
    timeout_seconds: Seconds = 60


class PythonTools(Model):
    """Functions of a file of the package that ``@duly.tool`` decorates; the decorator says what each is."""

    kind: Literal["python"] = "python"
    file: RelativePath = "tools.py"
    functions: list[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]] = Field(min_length=1)
    timeout_seconds: Seconds = 60


class RecordColumn(Model):
    """A column of a record. ``required`` columns are never null."""

    type: Literal["text", "integer", "real"] = "text"
    required: bool = True
    description: str = ""


class SqliteTools(Model):
    """``append`` writes one record into a table of a SQLite file, ``find`` reads records back.

    ``file`` lies in the package's data folder. The table keeps duly's idempotency key beside the record, so a second
    call with the same key writes nothing.
    """

    kind: Literal["sqlite"] = "sqlite"
    file: RelativePath
    table: ServerName
    columns: dict[ServerName, RecordColumn] = Field(min_length=1)
    timeout_seconds: Seconds = 30

    @property
    def resource(self) -> str:
        """What an append touches, as descriptors and scopes name it."""
        return f"sqlite:{self.table}"


ToolServer = MetricTools | ReportTools | SqlTools | PythonTools | SqliteTools
TOOL_KINDS: dict[str, type[ToolServer]] = {
    "metrics": MetricTools,
    "report": ReportTools,
    "sql": SqlTools,
    "python": PythonTools,
    "sqlite": SqliteTools,
}


def tool_names(server: ToolServer) -> tuple[str, ...]:
    """The names of the tools that a server has, without the server's own."""
    if isinstance(server, PythonTools):
        return tuple(server.functions)
    return BUILT_IN_TOOLS[server.kind]


class Prepare(Model):
    """What makes data files that are missing: a function of a file of the package, and what it leaves in the data folder."""

    file: RelativePath = "prepare.py"
    function: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    outputs: list[RelativePath] = Field(min_length=1)


class SourceEntry(Model):
    """Where a source lies. ``file`` is absolute, or relative to the data folder (``base = "package"``: to the package).

    ``table`` is the table inside a ``.duckdb`` file; ``nulls`` are the texts that mean null in a CSV.
    """

    kind: Literal["duckdb"] = "duckdb"
    file: str = Field(min_length=1, max_length=4_000)
    base: Literal["data", "package"] = "data"
    table: str | None = None
    nulls: list[str] = Field(default_factory=lambda: [""])
    prepare: Prepare | None = None


class Manifest(Model):
    """The whole of a package's ``agent.toml``."""

    package: PackageHead
    defaults: AgentSettings = Field(default_factory=AgentSettings)
    agents: list[AgentEntry] = Field(min_length=1)
    tools: dict[str, ToolServer] = Field(default_factory=dict)
    sources: dict[str, SourceEntry] = Field(default_factory=dict)
    models: Models = Field(default_factory=Models)
    policy: Policy = Field(default_factory=Policy)

    def tool_names(self) -> list[str]:
        """Every tool of the package as ``server.name``, in the order of the manifest."""
        return [f"{server}.{name}" for server, tools in self.tools.items() for name in tool_names(tools)]
