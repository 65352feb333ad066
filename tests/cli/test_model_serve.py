"""``duly model serve``: a real llama.cpp server over a real small model, its setting, and everything that can be wrong."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.cli.model_file import name_of
from duly.cli.supervisor_lock import has_ended
from duly.storage.home import Home
from local_model import model_file

READY_SECONDS_MAX = 60
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


class Serving:
    """A running command, and what it said when it was ready."""

    def __init__(self, home: Home, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "duly.cli.entry", "model", "serve", str(model_file())]
            + ["--home", str(home.root), "--context", "1024", "--json", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], READY_SECONDS_MAX)
        assert readable, "the server is not ready in time"
        self.said: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.setting = Path(self.said["setting"])

    def end(self, wish: signal.Signals) -> tuple[int, str]:
        """Sends a signal and waits: the exit code, and what was said on standard error."""
        self.process.send_signal(wish)
        return self.waited()

    def waited(self) -> tuple[int, str]:
        told = self.process.communicate(timeout=30)[1]
        return self.process.returncode, told


@pytest.fixture
def served(home: Home) -> Iterator[Callable[..., Serving]]:
    """Starts the command; whatever a test leaves running is ended."""
    started: list[Serving] = []

    def start(*arguments: str) -> Serving:
        started.append(Serving(home, *arguments))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.end(signal.SIGTERM)


def asked(base_url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.mark.slow
class TestServing:
    def test_it_serves_under_a_schema_and_leaves_nothing_behind(self, served):
        one = served()
        assert one.said["base_url"].startswith("http://127.0.0.1:") and one.said["ready"]
        assert stat.S_IMODE(one.setting.stat().st_mode) == 0o600
        assert tomllib.loads(one.setting.read_text()) == {
            "planner": "openai:SmolLM2-135M-Instruct.Q4_1",
            "critic": "openai:SmolLM2-135M-Instruct.Q4_1",
            "base_url": one.said["base_url"],
        }
        form = {"type": "json_schema", "json_schema": {"name": "p", "strict": True, "schema": SCHEMA}}
        text = {"role": "user", "content": "Name a person and their age."}
        answer = asked(
            one.said["base_url"],
            {"model": "any", "messages": [text], "max_tokens": 200, "response_format": form, "seed": 1},
        )
        assert answer["usage"]["prompt_tokens"] > 0
        value = json.loads(answer["choices"][0]["message"]["content"])
        assert set(value) == {"name", "age"} and isinstance(value["age"], int)
        code, told = one.end(signal.SIGINT)
        assert code == 0 and "has ended" in told and "Traceback" not in told
        assert not one.setting.exists() and has_ended(one.said["pid"], 5)

    def test_it_takes_a_closed_terminal_and_sigterm_as_ctrl_c(self, served):
        for wish in (signal.SIGHUP, signal.SIGTERM):
            one = served()
            assert one.end(wish)[0] == 0
            assert not one.setting.exists() and has_ended(one.said["pid"], 5)

    def test_a_setting_that_a_person_wrote_meanwhile_stays(self, served):
        one = served()
        one.setting.write_text('planner = "openai:other"\n')
        assert one.end(signal.SIGINT)[0] == 0
        assert one.setting.read_text() == 'planner = "openai:other"\n'

    def test_one_server_a_data_directory(self, served, duly, capsys):
        one = served()
        assert duly("model", "serve", str(model_file())) == 8
        assert "[model.served]" in capsys.readouterr().err
        assert one.setting.exists()

    def test_a_server_that_dies_is_said_to_have_and_unset(self, served):
        one = served()
        os.kill(one.said["pid"], signal.SIGKILL)
        code, told = one.waited()
        assert code == 8 and "[model.server_ended]" in told and "signal 9" in told
        assert not one.setting.exists()

    def test_the_server_ends_with_a_killed_parent_and_the_next_takes_the_setting_over(self, served):
        one = served()
        one.end(signal.SIGKILL)
        assert has_ended(one.said["pid"], 10) and one.setting.exists()
        other = served()
        assert other.setting == one.setting and other.said["base_url"] in other.setting.read_text()

    def test_the_port_is_the_one_asked_for_and_no_page_of_a_browser_may_read_it(self, served):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        one = served("--port", str(port))
        assert one.said["base_url"] == f"http://127.0.0.1:{port}/v1"
        request = urllib.request.Request(
            f"{one.said['base_url']}/models", headers={"Origin": "http://a.example"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.headers.get("Access-Control-Allow-Origin") in (None, "")

    def test_a_file_that_is_cut_off_is_refused_with_what_llama_cpp_says(self, duly, home, tmp_path, capsys):
        cut = tmp_path / "cut.gguf"
        cut.write_bytes(model_file().read_bytes()[: 4 << 20])
        assert duly("model", "serve", str(cut)) == 8
        told = capsys.readouterr().err
        assert "[model.load_failed]" in told and "incomplete" in told and "model_server.log" in told
        assert not (home.root / "models.toml").exists()


class TestRefused:
    @pytest.fixture(autouse=True)
    def _installed(self, monkeypatch):
        """None of these comes as far as llama.cpp."""
        monkeypatch.setattr("duly.cli.local_server.importlib.util.find_spec", lambda name: name)

    @pytest.fixture
    def gguf(self, tmp_path):
        path = tmp_path / "some.gguf"
        path.write_bytes(b"GGUF and no more")
        return str(path)

    def test_what_is_no_model_file(self, duly, tmp_path, capsys):
        (tmp_path / "text.gguf").write_text("hello")
        (tmp_path / "empty.gguf").touch()
        for name, code in (
            ("absent", "model_file"),
            (".", "model_file"),
            ("text.gguf", "model_format"),
            ("empty.gguf", "model_format"),
        ):
            assert duly("model", "serve", str(tmp_path / name)) == 2
            assert f"[request.{code}]" in capsys.readouterr().err

    def test_a_taken_port(self, duly, gguf, capsys):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            assert duly("model", "serve", gguf, "--port", str(taken.getsockname()[1])) == 8
        assert "[model.port_taken]" in capsys.readouterr().err

    def test_a_setting_of_a_person_is_not_overwritten(self, duly, home, gguf, capsys):
        path = home.root / "models.toml"
        path.write_text('planner = "openai:mine"\n')
        assert duly("model", "serve", gguf) == 8
        assert "[model.setting_kept]" in capsys.readouterr().err
        assert path.read_text() == 'planner = "openai:mine"\n'

    def test_a_missing_extra_is_named_with_its_command(self, duly, gguf, monkeypatch, capsys):
        monkeypatch.setattr("duly.cli.local_server.importlib.util.find_spec", lambda name: None)
        assert duly("model", "serve", gguf) == 8
        told = capsys.readouterr().err
        assert "[model.extra_missing]" in told and 'pip install "duly[local]"' in told


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("Qwen2.5-7B-Instruct.Q4_K_M.gguf", "Qwen2.5-7B-Instruct.Q4_K_M"),
        ("my model (1).gguf", "my-model-1"),
        ("ü.gguf", "model"),
        ("x" * 200 + ".gguf", "x" * 64),
    ],
)
def test_a_model_is_called_as_its_file_in_plain_letters(file, name):
    assert name_of(Path("/somewhere") / file) == name
