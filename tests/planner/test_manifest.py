"""A manifest says what is wrong with it, all of it, with file, line and field."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flights
from duly.protocol.plan.manifest import BUILT_IN_TOOLS, Manifest
from duly.protocol.plan.manifest_toml import parse_manifest
from duly.protocol.plan.toml_lines import lines_of
from duly.protocol.wire.errors import PackageError
from duly.protocol.wire.limits import PACKAGE_FILE_BYTES_MAX

GOOD = flights.package_files()["agent.toml"].decode()


def faults(text: str) -> dict[str, tuple[str, str]]:
    """Place → (code, message) of everything that is wrong."""
    with pytest.raises(PackageError) as caught:
        parse_manifest(text.encode(), "agent.toml")
    assert caught.value.place is not None
    assert caught.value.place.startswith("agent.toml")
    return {fault.path: (fault.code, fault.message) for fault in caught.value.faults}


def line_of(text: str, start: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), start=1) if line.startswith(start))


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) >= 1
    return GOOD.replace(old, new, 1)


def test_the_example_reads() -> None:
    manifest = parse_manifest(GOOD.encode(), "agent.toml")
    assert isinstance(manifest, Manifest)
    assert set(manifest.agents[0].tools or ()) == set(flights.descriptors()) - {"metrics.catalogue"}
    assert manifest.package.data == "examples/flights"


def test_the_built_in_tools_are_those_that_hosts_have() -> None:
    described = {name for name in flights.descriptors() if not name.startswith("incidents.")}
    assert described == {f"{kind}.{tool}" for kind in ("metrics", "report") for tool in BUILT_IN_TOOLS[kind]}
    assert {"incidents.append", "incidents.find"} <= set(flights.descriptors())


def test_an_agent_gets_its_defaults_filled_in() -> None:
    text = """
[package]
name = "p"
version = "1"
[agents.defaults]
planning = "always"
tier = "supervised"
tools = ["numbers.value"]
budget = { steps = 7, tool_calls = 9 }
[[agents.list]]
name = "a"
[[agents.list]]
name = "b"
tier = "assisted"
tools = []
[agents.list.budget]
steps = 20
[tools.numbers]
kind = "metrics"
"""
    manifest = parse_manifest(text.encode(), "agent.toml")
    first, second = (entry.resolved(manifest.defaults) for entry in manifest.agents)
    assert (first.planning, first.tier, first.tools) == ("always", "supervised", ["numbers.value"])
    assert (second.planning, second.tier, second.tools) == ("always", "assisted", [])
    assert (first.budget["steps"], second.budget["steps"]) == (7, 20)
    assert second.budget["tool_calls"] == 9
    assert second.budget["wall_seconds"] == 600
    assert manifest.package.data == "p"


def test_a_list_of_agents_without_defaults_reads_too() -> None:
    text = '[package]\nname = "p"\nversion = "1"\n[[agents]]\nname = "a"\n'
    assert (
        parse_manifest(text.encode(), "agent.toml")
        .agents[0]
        .resolved(parse_manifest(text.encode(), "agent.toml").defaults)
        .budget["steps"]
        == 15
    )


def test_both_spellings_at_once_are_explained() -> None:
    text = '[package]\nname = "p"\nversion = "1"\n[agents.defaults]\n[[agents]]\nname = "a"\n'
    ((place, (code, message)),) = faults(text).items()
    assert place == "agent.toml:5"
    assert code == "package.toml"
    assert "[[agents.list]]" in message


@pytest.mark.parametrize(
    ("old", "new", "where", "code", "says"),
    [
        ('tier = "assisted"', 'tier = "free"', "agents/defaults/tier", "package.manifest", "assisted"),
        ('tier = "assisted"', 'teir = "assisted"', "agents/defaults/teir", "package.manifest", "'tier'"),
        ('"metrics.value",', '"metrics.valeu",', "agents/list/0/tools/0", "package.unknown_tool", "'metrics.value'"),
        ('"metrics.value",', '"mail.send",', "agents/list/0/tools/0", "package.unknown_tool", "mail.send"),
        ('kind = "metrics"', 'kind = "metric"', "tools/metrics/kind", "package.manifest", "sqlite"),
        ('kind = "duckdb"', 'kind = "postgres"', "sources/flights/kind", "package.manifest", "duckdb"),
        ('data = "examples/flights"', 'data = "../flights"', "package/data", "package.manifest", "`..`"),
        ('data = "examples/flights"', 'data = "/tmp/flights"', "package/data", "package.manifest", "relative"),
        ('data = "examples/flights"', 'data = "Journal/x"', "package/data", "package.manifest", "duly's own"),
        ("steps = 60", 'steps = "abc"', "agents/list/0/budget/steps", "package.manifest", "integer"),
        ("steps = 60", "stesp = 60", "agents/list/0/budget", "package.manifest", "'stesp'"),
        ("steps = 60", "steps = 0", "agents/list/0/budget", "package.manifest", "at least 1"),
        ('file = "incidents.sqlite"', 'file = "../incidents.sqlite"', "tools/incidents/file", "package.manifest", "`..`"),
        ('type = "real"', 'type = "float"', "tools/incidents/columns/contribution/type", "package.manifest", "real"),
        ('file = "flights.parquet"', 'file = "../flights.parquet"', "sources/flights/file", "package.manifest", "`..`"),
        ('function = "prepare", ', "", "sources/flights/prepare/function", "package.manifest", "missing"),
        ("cost_line = 1_000_000", "cost_line = -1", "policy/cost_line", "package.manifest", "0"),
        ('tool = "metrics.decompose"', 'tool = "metrics.decomposed"', "policy/checks/1/tool", "package.unknown_tool", "decompose"),
        ("[policy]", 'sensitive = true\n[policy]\nsensitive_sources = ["people"]', "policy/sensitive_sources/0", "package.unknown_source", "people"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_its_place(old: str, new: str, where: str, code: str, says: str) -> None:
    found = faults(changed(old, new))
    matching = {place: fault for place, fault in found.items() if place.endswith(f": {where}")}
    assert matching, found
    ((place, fault),) = matching.items()
    assert fault[0] == code
    assert says in fault[1]
    assert place.startswith("agent.toml:")


def test_every_fault_is_named_at_once_with_its_line() -> None:
    text = changed('name = "flights"', 'name = "fl ights"').replace('name = "analyst"', 'nam = "analyst"')
    text = text.replace('table = "incidents"', 'table = "in cidents"')
    found = faults(text)
    assert f"agent.toml:{line_of(text, 'name = ')}: package/name" in found
    assert f"agent.toml:{line_of(text, 'nam = ')}: agents/list/0/nam" in found
    assert f"agent.toml:{line_of(text, '[[agents.list]]')}: agents/list/0/name" in found
    assert f"agent.toml:{line_of(text, 'table = ')}: tools/incidents/table" in found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[policy]", "[routing]\nthreshold = 10\n[policy]"),
        ("[policy]", "[policy]\nrouting_threshold = 10"),
        ('planning = "auto"', "weights = { step_budget = 100 }"),
        ("[agents.list.budget]", 'route_score = 3\n[agents.list.budget]'),
    ],
)  # fmt: skip
def test_the_route_has_no_setting(old: str, new: str) -> None:
    assert "package.routing_fixed" in {code for code, _ in faults(changed(old, new)).values()}


def test_models_with_address_and_secret() -> None:
    written = '[models]\nplanner = "openai:m"\nbase_url = "http://h:1/v1/"\napi_key = { secret = "KEY" }'
    models = parse_manifest(changed("[models]", written).encode(), "agent.toml").models
    assert (models.of("planner"), models.of("critic"), models.base_url) == ("openai:m", None, "http://h:1/v1")
    assert models.api_key is not None and models.api_key.secret == "KEY"
    assert models.named() == ["planner openai:m"]


@pytest.mark.parametrize(
    ("line", "field", "says"),
    [
        ('planner = "gpt"', "models/planner", "provider:name"),
        ('critic = "openai: x"', "models/critic", "provider:name"),
        ('planner = "openai:x"\nbase_url = "ftp://h"', "models/base_url", "address"),
        ('planner = "openai:x"\nbase_url = "http://me:secret@h/v1"', "models/base_url", "without user"),
        ('planner = "openai:x"\nbase_url = "http://h/v1?key=1"', "models/base_url", "address"),
        ('planner = "openai:x"\napi_key = "sk-canary"', "models/api_key", "does not stand in a package"),
        ('planner = "openai:x"\napi_key = { secret = "low" }', "models/api_key/secret", "pattern"),
        ('base_url = "http://h/v1"', "models", "name a planner"),
        ('planer = "openai:x"', "models/planer", "did you mean 'planner'"),
        ('planner = 3', "models/planner", "string"),
    ],
)  # fmt: skip
def test_a_fault_in_models_names_line_and_field(line: str, field: str, says: str) -> None:
    found = {
        place: message for place, (_, message) in faults(changed("[models]", "[models]\n" + line)).items()
    }
    (place,) = [place for place in found if place.endswith(": " + field)]
    assert re.match(r"agent\.toml:\d+: ", place)
    assert says.casefold() in found[place].casefold()
    assert "canary" not in str(found)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xff\xfe", "package.toml"),
        (b"[package", "package.toml"),
        (b"a = 1\na = 2", "package.toml"),
        (b"x = " + b"[" * 5_000 + b"]" * 5_000, "package.toml"),
        (b" " * (PACKAGE_FILE_BYTES_MAX + 1), "package.too_large"),
        (b"", "package.manifest"),
        (b"package = 3\nagents = 4\ntools = []\nsources = 1\npolicy = 2\nmodels = 3\n", "package.manifest"),
        (b"[tools]\nx = 3\n[sources]\ny = []\n[[agents]]\nx = 1\n[package]\nname = 3", "package.manifest"),
    ],
)
def test_what_is_no_manifest_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(PackageError) as caught:
        parse_manifest(data, "agent.toml")
    assert code in {fault.code for fault in caught.value.faults}


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_give_a_manifest_or_faults(data: bytes) -> None:
    with pytest.raises(PackageError) as caught:
        parse_manifest(data, "agent.toml")
    assert caught.value.faults


def test_lines_are_found_through_long_values() -> None:
    text = 'a = """\n[b]\nc = 1\n"""\n[d]\ne = [\n  1, # ]\n  "]",\n]\n\'f g\'.h = { i = 1 }\n[[j]]\nk = 1\n[[j]]\nk = 2\n[j.l]\nm = 3\n'
    assert lines_of(text) == {
        (): 1, ("a",): 1, ("d",): 5, ("d", "e"): 6, ("d", "f g"): 10, ("d", "f g", "h"): 10,
        ("j",): 11, ("j", 0): 11, ("j", 0, "k"): 12, ("j", 1): 13, ("j", 1, "k"): 14, ("j", 1, "l"): 15,
        ("j", 1, "l", "m"): 16,
    }  # fmt: skip


@given(st.text(alphabet="[]{}=\"'\\#\n.ab ", max_size=80))
def test_looking_for_lines_never_fails(text: str) -> None:
    assert lines_of(text)[()] == 1
