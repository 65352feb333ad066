"""Which commands there are, how each explains itself, and how each is refused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.main import get_command

from duly.cli import entry, exit_codes
from duly.cli.app import app
from duly.protocol.wire.errors import RunError, error_from_data

COMMANDS = [
    *"route plan run approve reject answer cancel runs show inbox up down status".split(),
    *"init watch report metrics doctor".split(),
    *"edit guide amend resume".split(),
    *("cache stats", "cache list", "cache show", "cache evict", "cache clear"),
    *("audit log", "audit verify", "tools list", "model serve", "node start", "node stop"),
]


def known() -> list[str]:
    found = []
    for name, command in get_command(app).commands.items():
        inner = getattr(command, "commands", None)
        found += [name] if inner is None else [f"{name} {one}" for one in inner]
    return found


def test_these_are_all_commands():
    assert sorted(known()) == sorted(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command, capsys):
    assert entry.main([*command.split(), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    example = lines[lines.index("  Example:") + 2]
    assert example.startswith(f"      duly {command}"), "the example stands on one line"
    assert any("--home" in line for line in lines) and any("--json" in line for line in lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_is_a_usage_error_with_a_hint(command, capsys):
    assert entry.main([*command.split(), "--frobnicate"]) == 2
    err = capsys.readouterr().err
    assert "[request.usage]" in err and f"Try `duly {command} --help`." in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["frobnicate"], 2, "request.usage"),
        (["run", "x"], 2, "request.usage"),
        (["run", "PACKAGE", "  "], 2, "request.empty"),
        (["run", "PACKAGE", "x" * (1 << 20)], 2, "request.too_large"),
        (["run", "PACKAGE", "x", "--budget", "steps=abc"], 2, "budget.bad_value"),
        (["run", "PACKAGE", "x", "--budget", "steps=0"], 2, "budget.bad_value"),
        (["run", "PACKAGE", "x", "--budget", "steps=" + "9" * 5_000], 2, "budget.bad_value"),
        (["run", "PACKAGE", "x", "--budget", "steps"], 2, "budget.bad_option"),
        (["run", "PACKAGE", "x", "--budget", "stepz=3"], 2, "budget.unknown"),
        (["run", "PACKAGE", "x", "--tier", "wild"], 2, "request.bad_option"),
        (["run", "PACKAGE", "x", "--planning", "maybe"], 2, "request.bad_option"),
        (["run", "PACKAGE", "x", "--gate", "never"], 2, "request.bad_option"),
        (["run", "PACKAGE", "x", "--schedule", "chaos"], 2, "request.bad_option"),
        (["run", "PACKAGE", "x", "--input", "name"], 2, "request.bad_input"),
        (["run", "PACKAGE", "x", "--input", "a=1", "--input", "a=2"], 2, "request.bad_input"),
        (["run", "PACKAGE", "x", "--input", "a=123456789012345678901234567890"], 2, "request.bad_input"),
        (["run", "PACKAGE", "x", "--plan", "missing.json"], 2, "plan.file"),
        (["show", "r999"], 8, "storage.absent"),
        (["approve", "r999"], 8, "run.unknown"),
        (["answer", "r999", "x"], 8, "run.unknown"),
        (["answer", "r999", " "], 2, "request.empty"),
        (["cache", "show", "ff"], 8, "run.unknown_entry"),
        (["audit", "verify"], 8, "storage.absent"),
        (["runs", "--home", " "], 1, "storage.home"),
    ],
)
def test_mistakes_have_a_code_a_sentence_and_no_traceback(arguments, code, told, package, home, capsys):
    """None of these starts a runtime: there is nothing at the front door, and nothing is made."""
    given = [package if one == "PACKAGE" else one for one in arguments]
    assert entry.main(given) == code
    captured = capsys.readouterr()
    assert f"[{told}]" in captured.err and "Traceback" not in captured.err and captured.out == ""
    assert not home.run.exists()


def test_a_folder_without_a_manifest_is_said_to_be_none(door, tmp_path, capsys):
    assert entry.main(["run", str(tmp_path), "x"]) == 2
    assert "[package.missing]" in capsys.readouterr().err
    assert entry.main(["run", "no-such-package", "x"]) == 2
    assert "[package.missing]" in capsys.readouterr().err


def test_debug_shows_the_traceback_wherever_it_stands(capsys, home):
    assert entry.main(["show", "--debug", "r999"]) == 8
    assert "Traceback" in capsys.readouterr().err


def test_debug_behind_two_dashes_is_a_text():
    assert entry.without_debug(["answer", "r1", "--", "--debug"]) == (
        ["answer", "r1", "--", "--debug"],
        False,
    )


class TestFastPath:
    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (["runs"], entry.Plain("runs")),
            (["runs", "--json", "--limit", "5"], entry.Plain("runs", None, True, 5)),
            (["status", "--home", "x"], entry.Plain("status", "x")),
            (["runs", "--help"], None),
            (["runs", "--limit", "x"], None),
            (["runs", "--limit", "0"], None),
            (["status", "--limit", "5"], None),
            (["show"], None),
            ([], None),
        ],
    )
    def test_only_plain_forms_take_it(self, arguments, expected):
        assert entry.plain(arguments) == expected

    @pytest.mark.parametrize("command", ["runs", "status"])
    def test_it_imports_neither_typer_nor_pydantic_nor_ray(self, command, door, duly, package, capsys):
        duly("run", package, "Which sold most?")
        program = (
            "import sys; from duly.cli import entry; code = entry.main([sys.argv[1], '--json']); "
            "heavy = {'typer', 'click', 'pydantic', 'rich', 'ray', 'duckdb', 'yaml'} & set(sys.modules); "
            "sys.exit(f'imported {heavy}' if heavy else code)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, command], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr

    def test_no_command_imports_ray_or_rich(self, door, package, home):
        program = (
            "import sys; from duly.cli import entry; code = entry.main(['run', sys.argv[1], 'x', '--json']); "
            "heavy = {'rich', 'ray', 'duckdb'} & set(sys.modules); "
            "sys.exit(f'imported {heavy}' if heavy else code)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, package], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr


class TestExitCodes:
    def test_phases(self):
        phases = "COMPLETED FAILED PARTIAL CANCELLED WAITING_APPROVAL WAITING_INPUT".split()
        assert [exit_codes.of_phase(phase) for phase in phases] == [0, 3, 4, 5, 6, 7]

    @pytest.mark.parametrize(
        ("code", "expected"),
        [
            ("request.empty", 2),
            ("package.missing", 2),
            ("run.unknown", 8),
            ("gate.already_decided", 8),
            ("log.entry_changed", 8),
            ("storage.full", 1),
            ("storage.absent", 8),
            ("runtime.lost", 1),
            ("never.heard", 1),
        ],
    )
    def test_errors(self, code, expected):
        assert exit_codes.of_error(error_from_data({"code": code, "message": "x"})) == expected


def test_a_reader_that_leaves_is_no_error(door, duly, package, capsys):
    duly("run", package, "Which sold most?")
    shell = f'{sys.executable} -m duly.cli.entry audit log --json | head -n 1; exit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(
        ["bash", "-c", shell], capture_output=True, text=True, timeout=60, check=False, env=os.environ
    )
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr and done.stdout.count("\n") == 1


def test_errors_of_the_runtime_are_shown_with_place_faults_and_hint(door, duly, package, capsys):
    error = RunError("run.unknown", "Nothing.", place="here", hint="Do this.").to_data()
    error["faults"] = [{"path": "steps/1", "code": "plan.cycle", "message": "a cycle."}]
    door.override["package.open"] = lambda request, reply: reply({"error": error, "last": True})
    assert duly("tools", "list", package) == 8
    err = capsys.readouterr().err.splitlines()
    assert err == [
        "duly: Nothing. [run.unknown]",
        "      at here",
        "      - steps/1: a cycle. [plan.cycle]",
        "      Do this.",
    ]
