"""A playbook says what is wrong with it with file, line and field."""

from __future__ import annotations

import pytest

import flights
from duly.protocol.plan.package import load_package
from duly.protocol.plan.playbook_yaml import parse_playbook
from duly.protocol.wire.errors import PackageError

NAMES = ("metric_diagnosis", "segment_comparison", "open_incident")
GOOD = flights.package_files()["playbooks/metric_diagnosis.yaml"].decode()
INCIDENT = flights.package_files()["playbooks/open_incident.yaml"].decode()
TOOLS = flights.package().manifest.tool_names()


def faults(text: str) -> dict[str, tuple[str, str]]:
    with pytest.raises(PackageError) as caught:
        parse_playbook(text.encode(), "p.yaml", tools=TOOLS)
    return {fault.path: (fault.code, fault.message) for fault in caught.value.faults}


def changed(old: str, new: str, text: str = GOOD) -> str:
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_read(name: str) -> None:
    data = flights.package_files()[f"playbooks/{name}.yaml"]
    playbook = parse_playbook(data, "p.yaml", tools=TOOLS)
    assert playbook.name == name
    assert playbook.task_class == ("open" if name == "metric_diagnosis" else "deterministic")
    assert playbook.allow_partial == (name == "metric_diagnosis")


@pytest.mark.parametrize(
    ("old", "new", "where", "code", "says"),
    [
        ("metrics.completeness\n", "metrics.completness\n", "steps/0/tool", "package.unknown_tool", "'metrics.completeness'"),
        ("metric: {$param: metric}", "metric: {$param: metrics}", "steps/0/arguments/metric", "package.unknown_parameter", "'metric'"),
        ("{$param: item}, \"account", "{$param: thing}, \"account", "steps/1/objective/1", "package.unknown_parameter", "thing"),
        ('"completeness#/sign_certain"', '"complete#/sign_certain"', "steps/1/arguments/sign_certain", "package.unknown_step", "'completeness'"),
        ('"completeness#/sign_certain"', '"sign_certain"', "steps/1/arguments/sign_certain", "package.playbook", "no reference"),
        ('"completeness#/sign_certain"', '"report#/status"', "steps/1", "package.playbook_cycle", "report"),
        ("foreach: dimensions", "foreach: metric", "steps/1/foreach", "package.unknown_parameter", "dimensions"),
        ("[completeness, decompose, interact]", "[completeness, decomposed]", "steps/3/arguments/evidence/$evidence", "package.unknown_step", "'decompose'"),
        ("report: report", "report: reports", "report", "package.unknown_step", "'report'"),
        ("report: report", "report: decompose", "report", "package.playbook", "one step"),
        ("  - id: interact", "  - id: decompose", "steps/2/id", "package.playbook", "twice"),
        ("task_class: open", "task_class: closed", "task_class", "package.playbook", "deterministic"),
        ("allow_partial: true", "allow_partal: true", "allow_partal", "package.playbook", "'allow_partial'"),
        ("least: 4", "least: 0", "match/least", "package.playbook", "1"),
        ("kind: filters", "kind: filter", "parameters/filters/kind", "package.playbook", "filters"),
        ("filters: {kind: filters}", "filters: {kind: filters, single: month_before}", "parameters/filters/single", "package.playbook", "period pair"),
        ("  metric: {kind: metric}\n", "", "parameters/dimensions", "package.playbook", "metric"),
        ("[{do: retry, attempts: 2}, replan]", "[{do: retry, attempts: 2}]", "steps/0/on_failure", "package.playbook", "destination"),
        ("rule: not_null, path: /status", "rule: not_nul, path: /status", "steps/1/verification/acceptance/0", "package.playbook", ""),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_its_place(old: str, new: str, where: str, code: str, says: str) -> None:
    text = changed(old, new)
    found = faults(text)
    matching = {place: fault for place, fault in found.items() if place.endswith(f": {where}")}
    assert matching, found
    place, fault = next(iter(matching.items()))
    assert fault[0] == code
    assert says in fault[1]
    line = int(place.split(":")[1])
    assert 1 <= line <= text.count("\n") + 1


def test_a_cycle_names_its_steps_and_line() -> None:
    text = changed("  - id: completeness\n", "  - id: completeness\n    after: [interact]\n")
    ((place, (code, message)),) = faults(text).items()
    assert code == "package.playbook_cycle"
    assert place == f"p.yaml:{text[: text.index('  - id: completeness')].count(chr(10)) + 1}: steps/0"
    assert all(name in message for name in ("completeness", "decompose", "interact", "report"))


def test_a_reference_inside_of_a_text_is_a_fault_and_a_price_is_none() -> None:
    inside = changed("status: open", 'status: "see ${decompose#/top/note} first"', INCIDENT)
    assert {code for code, _ in faults(inside).values()} == {"package.playbook"}
    parse_playbook(
        changed("status: open", 'status: "costs $100-$200"', INCIDENT).encode(), "p.yaml", tools=TOOLS
    )


def test_an_unknown_tool_that_reads_back_is_named() -> None:
    found = faults(changed("read_back: incidents.find", "read_back: incidents.seek", INCIDENT))
    ((place, (code, _)),) = found.items()
    assert (code, place.split(": ")[1]) == (
        "package.unknown_tool",
        "steps/1/verification/independent/read_back",
    )


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"\xff", b"a: [", b"a: &x 1\nb: *x", b"!!python/object:os.system x: 1", b"a: 1\na: 2",
        b"x: " + b"[" * 3_000, b"- " * 50 + b"x", b"name: 2013-02-30\n", b"? [a]\n: b",
    ],
)  # fmt: skip
def test_what_is_no_plain_yaml_is_refused(data: bytes) -> None:
    with pytest.raises(PackageError) as caught:
        parse_playbook(data, "p.yaml")
    assert caught.value.faults[0].path.startswith("p.yaml")


def test_a_package_names_the_faults_of_all_its_files() -> None:
    files = dict(flights.package_files())
    files["agent.toml"] = files["agent.toml"].replace(b'tier = "assisted"', b'tier = "free"')
    files["semantics.yaml"] = files["semantics.yaml"].replace(b"kind: rate", b"kind: ratio")
    files["playbooks/open_incident.yaml"] += b"fallbacks: [nothing]\n"
    files["playbooks/metric_diagnosis.yaml"] = b"name: [\n"
    del files["prepare.py"]
    with pytest.raises(PackageError) as caught:
        load_package(files, "here")
    places = " ".join(fault.path for fault in caught.value.faults)
    for name in ("here/agent.toml", "here/semantics.yaml", "here/playbooks/metric_diagnosis.yaml"):
        assert name in places
    assert caught.value.code == "package.invalid"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda files: files.pop("agent.toml"), "no agent.toml"),
        (lambda files: files.pop("semantics.yaml"), "semantics.yaml"),
        (lambda files: files.pop("prepare.py"), "'prepare.py'"),
        (lambda files: files.update({"playbooks/copy.yaml": INCIDENT.encode()}), "already"),
        (lambda files: files.update({"playbooks/open_incident.yaml": INCIDENT.encode() + b"fallbacks: [metric_diag]\n"}), "'metric_diagnosis'"),
        (lambda files: files.update({"playbooks/open_incident.yaml": INCIDENT.replace("default: on_time_arrival_rate", "default: on_time").encode()}), "on_time"),
        (lambda files: files.update({"agent.toml": files["agent.toml"].replace(b"[sources.planes]", b"[sources.planets]")}), "[sources.planes]"),
        (lambda files: files.update({f"f{n}.txt": b"" for n in range(600)}), "files"),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_together_are_named(change: object, says: str) -> None:
    files = dict(flights.package_files())
    change(files)  # type: ignore[operator]
    with pytest.raises(PackageError) as caught:
        load_package(files, "here")
    assert says in str(caught.value) + " ".join(map(str, caught.value.faults))


def test_digests_pin_each_part() -> None:
    files = dict(flights.package_files())
    before = load_package(files, "here")
    files["agent.toml"] += b"\n# a remark\n"
    files["playbooks/open_incident.yaml"] += b"\n# a remark\n"
    after = load_package(files, "there")
    assert before.digest != after.digest
    assert before.manifest_digest() != after.manifest_digest()
    assert before.policy_digest() == after.policy_digest()
    assert before.semantics_digest() == after.semantics_digest()
    assert before.playbook_digest("open_incident") != after.playbook_digest("open_incident")
    assert before.playbook_digest("metric_diagnosis") == after.playbook_digest("metric_diagnosis")
    with pytest.raises(PackageError, match="analyst"):
        before.agent("analist")
