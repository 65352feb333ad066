"""``duly doctor``: what it says is so, what is broken is said to be, and nothing is started, made or run by it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from duly.cli import doctor_home, doctor_machine, doctor_package
from duly.cli.doctor import look
from duly.cli.finding import Finding
from duly.storage.home import Home
from duly.storage.keys import KeyRing
from fake_front_door import FakeFrontDoor
from scripted_harness import ScriptedHarness
from source_tree import CHECKOUT


@pytest.fixture(autouse=True)
def _no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is asked once, by the test of that; the others need not start a process each."""
    monkeypatch.setattr("duly.cli.doctor_machine.probed", lambda: {"layers": {"non_dumpable": True}})


@pytest.fixture
def used(home: Home, duly: Any, package: str, capsys: pytest.CaptureFixture[str]) -> Home:
    """A home with one run, its runtime down."""
    door = FakeFrontDoor(ScriptedHarness(home))
    duly("run", package, "Which carrier sold most?")
    door.close()
    capsys.readouterr()
    return home


def told(home: Home, named: str | None = None) -> dict[str, Finding]:
    return {f"{one.group} {one.name}": one for one in look(home, named)[1]}


class TestCommand:
    def test_a_fresh_machine_is_usable_and_stays_as_it_is(self, duly, home, capsys):
        os.rmdir(home.root)
        assert duly("doctor", "--json") == 0
        (line,) = capsys.readouterr().out.splitlines()
        data = json.loads(line)
        assert data["usable"] and data["assurance"] == "personal" and data["home"] == str(home.root)
        assert {one["state"] for one in data["findings"]} <= {"ok", "note"}
        assert {"machine", "sandbox", "data", "keys", "runtime", "log", "assurance", "models"} == {
            one["group"] for one in data["findings"]
        }
        assert not home.root.exists()

    def test_the_text_fits_and_ends_with_the_judgement(self, duly, used, capsys):
        assert duly("doctor", str(CHECKOUT / "examples/flights")) == 0
        out = capsys.readouterr().out
        shown = out.replace(str(used.root), "HOME")
        assert out.endswith("\nUsable.\n") and "personal:" in out and "sources" not in out.splitlines()[0]
        assert max(map(len, shown.splitlines())) <= 80
        assert not (used.run / "supervisor.log").exists()

    def test_something_broken_gives_eight_and_says_what_to_do(self, duly, used, capsys):
        os.chmod(used.keys / "person.key", 0o644)
        assert duly("doctor") == 8
        out = " ".join(capsys.readouterr().out.split())
        assert "BROKEN person" in out and "`chmod 600" in out and "Not usable: 1 thing to mend" in out


class TestMachine:
    def test_the_engine_refuses_every_way_out(self):
        found = doctor_machine.engine_lock()
        assert found.state == "ok", found.says

    def test_an_engine_that_takes_one_is_broken(self, monkeypatch):
        monkeypatch.setattr(doctor_machine, "REACHES_OUT", ("INSTALL httpfs", "SELECT 1"))
        found = doctor_machine.engine_lock()
        assert found.state == "broken" and "SELECT 1" in found.says

    def test_a_package_that_is_missing(self, monkeypatch):
        monkeypatch.setattr(doctor_machine, "NEEDED", ("no-such-package-of-duly",))
        assert told(Home(Path("/nonexistent")))["machine no-such-package-of-duly"].state == "broken"

    def test_layers_are_claimed_only_where_hosts_put_them_on(self):
        found = {
            one.name: one
            for one in doctor_machine.sandbox({"layers": {"non_dumpable": True}, "landlock_abi": 5})
        }
        assert found["non_dumpable"].state == "ok" and found["non_dumpable"].says.startswith(
            "on in every host"
        )
        assert found["no_new_privileges"].says.startswith("not used by this version")
        assert found["landlock"].state == "note" and "ABI 5" in found["landlock"].says
        assert "the kernel has none" in found["seccomp"].says and "does not grant" in found["namespaces"].says
        refused = {one.name: one for one in doctor_machine.sandbox({"layers": {"non_dumpable": False}})}
        assert refused["non_dumpable"].says.startswith("this kernel does not grant it")
        worn = {one.name: one for one in doctor_machine.sandbox({"layers": {"landlock": True}})}
        assert worn["landlock"].state == "ok"

    def test_a_kernel_that_could_not_be_asked(self):
        (found,) = doctor_machine.sandbox({})
        assert found.state == "note" and "could not be asked" in found.says

    def test_what_a_process_wears_is_read_from_the_kernel(self):
        own = doctor_machine.worn(os.getpid())
        assert own["uid"] == str(os.getuid()) and own["NoNewPrivs"] in "01" and own["own_network"] == "no"
        assert doctor_machine.worn(2**22 + 1) == {}


def test_the_probe_tries_the_layers_that_hosts_put_on(monkeypatch):
    monkeypatch.undo()
    found = doctor_machine.probed()
    assert set(found) == {"layers", "landlock_abi", "seccomp", "user_namespaces", "uid"}
    assert (
        found["layers"] == {"non_dumpable": True, "no_new_privileges": True} and found["uid"] == os.getuid()
    )


class TestData:
    def test_a_used_home(self, used):
        found = told(used)
        assert found["data folder"].state == "ok" and "mode 0700" in found["data folder"].says
        assert found["data held by"].says == "nobody"
        assert found["keys person"].says == "mode 0600, no passphrase"
        assert "1 run;" in found["log log"].says and found["log log"].state == "ok"

    def test_a_folder_that_others_may_write(self, used):
        os.chmod(used.root, 0o777)
        assert told(used)["data folder"].state == "broken"
        os.chmod(used.root, 0o755)
        assert told(used)["data folder"].state == "note"

    def test_a_home_that_is_a_file(self, tmp_path):
        (tmp_path / "home").write_text("x", encoding="utf-8")
        assert "is no folder" in told(Home(tmp_path / "home"))["data folder"].says

    def test_a_full_disk(self, used, monkeypatch):
        usage = shutil.disk_usage(used.root)._replace(free=1 << 20)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
        assert told(used)["data free"].state == "broken"

    def test_a_key_with_a_passphrase(self, home):
        KeyRing(home.keys).private("person", b"secret words")
        assert told(home)["keys person"].says == "mode 0600, behind a passphrase"

    def test_a_key_that_is_a_link(self, used):
        os.rename(used.keys / "person.key", used.keys / "away")
        os.symlink("away", used.keys / "person.key")
        assert told(used)["keys person"].state == "broken"

    def test_a_damaged_log(self, used):
        file = used.journal / "data.mdb"
        parts = file.read_bytes().split(b"\xe2\x80\x94 ")  # before the signature of every note
        assert len(parts) > 1
        damaged = [part[:40] + bytes([part[40] ^ 1]) + part[41:] for part in parts[1:]]
        file.write_bytes(b"\xe2\x80\x94 ".join([parts[0], *damaged]))
        found = told(used)["log log"]
        assert found.state == "broken" and "[log." in found.says


class TestRuntime:
    def test_up(self, home, door):
        found = told(home)
        assert "up since" in found["runtime runtime"].says and found["runtime runtime"].state == "ok"

    def test_a_host_that_does_not_answer(self, home, door):
        hosts = [
            {"role": "host read", "pid": 0, "error": "runtime.absent"},
            {"role": "harness", "pid": os.getpid()},
        ]
        door.override["status"] = lambda request, reply: reply({"processes": hosts, "last": True})
        assert told(home)["runtime host read"].state == "broken"

    def test_a_host_shows_what_it_wears(self, home, door):
        hosts = [{"role": "host read", "pid": os.getpid()}]
        door.override["status"] = lambda request, reply: reply({"processes": hosts, "last": True})
        said = told(home)["runtime host read"].says
        assert f"user {os.getuid()}" in said and "the machine's network" in said


class TestAssurance:
    PROCESSES = [
        {"role": "harness", "pid": 1},
        {"role": "host read", "pid": 2},
        {"role": "host write", "pid": 3},
    ]

    def level(self, home: Home, monkeypatch: pytest.MonkeyPatch, *uids: str) -> tuple[str, str]:
        monkeypatch.setattr(doctor_home, "worn", lambda pid: {"uid": uids[pid - 1]})
        level, found = doctor_home.assurance(home, self.PROCESSES)
        return level, found.says

    def test_separated_needs_other_accounts_and_a_guarded_key(self, home, monkeypatch):
        KeyRing(home.keys).private("person", b"secret words")
        assert self.level(home, monkeypatch, "1000", "1001", "1002")[0] == "separated"
        level, says = self.level(home, monkeypatch, "1000", "1001", "1000")
        assert level == "personal" and "same account as Ray" in says

    def test_an_unguarded_key_makes_it_personal(self, used, monkeypatch):
        level, says = self.level(used, monkeypatch, "1000", "1001", "1002")
        assert level == "personal" and "without a passphrase" in says

    def test_nothing_that_runs_is_nothing_to_claim(self, home):
        assert doctor_home.assurance(home, [])[0] == "personal"


class TestPackage:
    MANIFEST = """
[package]
name = "shop"
version = "1"
data = "shop"
[[agents.list]]
name = "clerk"
mission = "Counts."
tools = ["own.count"]
[tools.own]
kind = "python"
functions = ["count"]
[sources.orders]
kind = "duckdb"
file = "orders.csv"
"""

    def found(self, home: Home, folder: Path, tools: str, *, duckdb: bool = True) -> dict[str, Finding]:
        (folder / "agent.toml").write_text(self.MANIFEST, encoding="utf-8")
        (folder / "tools.py").write_text(tools, encoding="utf-8")
        return {one.name: one for one in doctor_package.package(home, str(folder), duckdb=duckdb)}

    def test_the_example(self, home):
        found = told(home, str(CHECKOUT / "examples/flights"))
        assert found["package loads"].state == "ok" and "3 playbooks" in found["package loads"].says
        assert "prepare.py makes it" in found["package source flights"].says
        assert found["package models"].says.startswith("none:")
        assert found["package checks"].state == "ok"

    def test_tools_are_looked_for_and_never_run(self, home, tmp_path):
        ran = tmp_path / "ran"
        code = f'open({str(ran)!r}, "w")\nimport duly\n@duly.tool(effect="read")\ndef count(): "Counts."\n'
        found = self.found(home, tmp_path, code)
        assert found["tools own"].state == "ok" and not ran.exists()
        assert self.found(home, tmp_path, "def count(): pass")["tools own"].state == "broken"
        assert self.found(home, tmp_path, "def (")["tools own"].state == "broken"
        silent = self.found(home, tmp_path, "import duly\n@duly.tool\nasync def count(): pass")["tools own"]
        assert silent.state == "note" and "without a docstring: count" in silent.says

    def test_a_source_that_is_not_there(self, home, tmp_path):
        found = self.found(home, tmp_path, "")
        assert (
            found["source orders"].state == "broken"
            and "orders.csv is not there" in found["source orders"].says
        )
        home.data("shop").mkdir()
        (home.data("shop") / "orders.csv").write_text("a\n1\n", encoding="utf-8")
        assert self.found(home, tmp_path, "")["source orders"].state == "ok"
        assert self.found(home, tmp_path, "", duckdb=False)["engine"].state == "broken"

    def test_every_fault_of_a_package_is_said(self, home, duly, tmp_path, capsys):
        (tmp_path / "agent.toml").write_text("[package]\nname = 3\n", encoding="utf-8")
        assert duly("doctor", str(tmp_path), "--json") == 8
        findings = json.loads(capsys.readouterr().out)["findings"]
        assert [one["state"] for one in findings if one["group"] == "package"].count("broken") >= 2

    def test_a_package_that_nobody_knows(self, home):
        found = told(home, "nowhere")
        assert found["package loads"].state == "broken" and "[package.missing]" in found["package loads"].says
