"""``duly init``: what it makes is a package that runs, from words to a passing verdict."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.actors.planner.bind import bind
from duly.actors.planner.draft import draft
from duly.actors.verifier.recompute import Claim, compare, reads_for
from duly.cli.doctor_package import package as looked_at
from duly.cli.init_files import EXAMPLES, orders_csv
from duly.hosts.tools import registry
from duly.hosts.tools.context import CallContext, Tool
from duly.protocol.judgement.verdict import judge
from duly.protocol.plan import refs
from duly.protocol.plan.catalogue import Catalogue
from duly.protocol.plan.package import load_package
from duly.protocol.plan.request import new_request
from duly.storage.home import Home
from duly.storage.packages import PackageStore, read_folder


@pytest.fixture
def made(duly, tmp_path, capsys) -> Path:
    folder = tmp_path / "My Shop's"
    assert duly("init", str(folder)) == 0
    return folder


class World:
    """The package as hosts have it: a snapshot, its real tools, and the data folder. No host, no actor, no Ray."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        files = read_folder(folder)
        store = PackageStore(scratch / "packages")
        digest = store.put(files)
        self.snapshot = scratch / "packages" / digest
        self.package = load_package(files, str(folder))
        self.tools: dict[str, Tool] = registry.load(registry.open_package(self.snapshot, digest))
        self.data = scratch / "data"
        self.catalogue = Catalogue.model_validate(self.call("duly.survey", {}))

    def call(self, tool: str, arguments: Any, step: str = "none") -> Any:
        context = CallContext("r1", step, self.snapshot, self.data, self.data)
        return self.tools[tool].function(context, arguments)

    def run(self, text: str) -> tuple[dict[str, Any], Any]:
        """Outputs by step, and the verdict over the recomputation."""
        request, agent = new_request(text), self.package.agent()
        binding = bind(request, self.package, self.catalogue, agent)
        assert binding.question is None, binding.question
        descriptors = {name: self.tools[name].descriptor for name in agent.tools}
        mode: Any = "constrained" if binding.playbook is None else "orchestrated"
        plan = draft(request, binding, self.package, descriptors, agent, plan_id="p", mode=mode).plan
        outputs: dict[str, Any] = {}
        claims = []
        for step in plan.steps:
            arguments = refs.resolve(step.tool_contract.arguments, outputs)
            outputs[step.step_id] = self.call(str(step.tool), arguments, step.step_id)
            claims.append(Claim(step.step_id, str(step.tool), arguments))
        assert self.package.semantics is not None
        wanted = reads_for(claims, self.package.semantics)
        tallies = {read.read_id: self.call("verify.tally", read.arguments) for read in wanted}
        return outputs, judge(compare(claims, outputs, tallies, self.package.semantics))


@pytest.fixture
def world(made, tmp_path) -> World:
    return World(made, tmp_path / "world")


def test_the_first_example_comes_to_a_passing_verdict(world):
    outputs, verdict = world.run(EXAMPLES[0])
    assert verdict == ("pass", "")
    report = outputs["report"]
    said = {one["kind"]: one["text"] for one in report["statements"]}
    assert report["status"] == "complete" and outputs["completeness"]["certainty"] == "certain"
    assert said["recommendation"] == "Take up DE first; the other countries moved far less."
    assert {"decompose-country", "decompose-category"} <= set(outputs)


def test_the_second_keeps_a_reminder_that_reads_back_and_is_one_however_often(world):
    for _ in range(2):
        outputs, verdict = world.run(EXAMPLES[1])
        assert verdict == ("pass", "")
        kept = outputs["remind"]
        assert (kept["subject"], kept["about"]) == ("DE", "May 2024")
        assert world.call("desk.reminders", {"key": kept["key"]}) == {"subject": "DE", "about": "May 2024"}
    assert len(list((world.data / "reminders").iterdir())) == 1
    assert world.call("desk.reminders", {"key": "none"}) == {}


def test_the_third_is_one_checked_read(world):
    outputs, verdict = world.run(EXAMPLES[2])
    assert verdict == ("pass", "") and len(outputs) == 1
    (read,) = outputs.values()
    assert read["value"] == orders_csv().count(",2024,5,") == 186


def test_what_writes_is_declared_to_write(world):
    effects = {name: tool.descriptor.effect for name, tool in world.tools.items() if name.startswith("desk.")}
    assert effects == {"desk.remind": "write", "desk.reminders": "read"}
    assert all(tool.descriptor.description for tool in world.tools.values())


def test_doctor_finds_nothing_to_mend(made, home):
    found = list(looked_at(home, str(made), duckdb=True))
    assert {one.state for one in found} == {"ok"}, [one for one in found if one.state != "ok"]


def test_the_readme_has_ten_lines_and_commands_that_a_shell_reads(made):
    lines = (made / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 10
    import shlex

    commands = [shlex.split(line) for line in lines if line.startswith("    duly run")]
    assert [command[2:] for command in commands] == [[str(made), request] for request in EXAMPLES]


def test_the_name_is_the_folders_or_the_given_one(made, duly, tmp_path, capsys):
    assert load_package(read_folder(made), "x").name == "my-shop-s"
    capsys.readouterr()
    assert duly("init", str(tmp_path / "b"), "--name", "depot", "--json") == 0
    (line,) = capsys.readouterr().out.splitlines()
    data = json.loads(line)
    assert data["name"] == "depot" and "agent.toml" in data["files"] and data["requests"] == list(EXAMPLES)
    assert load_package(read_folder(tmp_path / "b"), "x").manifest.package.data == "depot"


def test_an_empty_folder_is_used_and_any_other_is_refused_untouched(duly, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert duly("init") == 0
    before = sorted(tmp_path.rglob("*"))
    assert duly("init") == 2
    assert "[request.folder]" in capsys.readouterr().err and sorted(tmp_path.rglob("*")) == before
    assert duly("init", str(tmp_path / "agent.toml")) == 2


@pytest.mark.parametrize("name", ["journal", "a b", "../x", ""])
def test_a_name_that_no_package_may_have_writes_nothing(name, duly, tmp_path, capsys):
    assert duly("init", str(tmp_path / "shop"), "--name", name) != 0
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err and not (tmp_path / "shop").exists()


def test_the_text_says_what_to_try_in_eighty_columns(duly, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert duly("init", "shop") == 0
    out = capsys.readouterr().out
    assert f"duly run shop '{EXAMPLES[0]}'" in out
    assert max(map(len, out.replace(str(tmp_path), "HERE").splitlines())) <= 80


@pytest.fixture
def runtime(duly_home: Path) -> Iterator[Home]:
    yield Home(duly_home)
    subprocess.run(
        [sys.executable, "-m", "duly.cli.entry", "down"], check=False, capture_output=True, timeout=60
    )


@pytest.mark.ray
@pytest.mark.slow
def test_the_first_example_runs_on_a_real_runtime(runtime, tmp_path):
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "duly.cli.entry", *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=240, cwd=tmp_path)

    assert call("init", "shop").returncode == 0
    done = call("run", "shop", EXAMPLES[0], "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["phase"] == "COMPLETED" and result["verdict"] == "pass"
    assert call("run", "shop", EXAMPLES[1], "--yes").returncode == 0
    counted = json.loads(call("metrics", "--json").stdout)
    assert counted["phases"] == {"COMPLETED": 2}
    assert (
        counted["metrics"]["state_consistency"]["value"]
        == counted["metrics"]["plan_adherence"]["value"]
        == 1.0
    )
