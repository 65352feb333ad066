"""The key of a model's server, which that server sends back in every way it can, stands nowhere in a runtime."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from duly.actors.runtime.start import ray_temp
from duly.cli.records import Records
from duly.hosts.models.mask import MARK
from duly.protocol.wire import canon
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX
from key_forms import echo_of, forms_in, forms_of
from mind import ALWAYS, CANARY, NEVER, answer, call, look, planned
from process_table import tree_below
from runtime_home import Outcome, RuntimeHome
from scripted_model_server import Reply, refuses, says

pytestmark = [pytest.mark.ray, pytest.mark.slow]
ECHO = echo_of(CANARY)
SUPERVISED = ("--tier", "supervised")


def echoed(reply: Reply) -> Reply:
    """An answer whose headers say the key, too."""
    return dataclasses.replace(
        reply, headers={**reply.headers, "X-Echo": ECHO, "Set-Cookie": f"key={CANARY}"}
    )


def _turns(ask: Callable[..., Outcome]) -> Outcome:
    wish = call("things.look", name=f"hills {CANARY}")
    wish["turn"]["why"] = ECHO[:300]
    said = answer(f"It is {ECHO}")
    return ask("Say it.", *NEVER, turn=[echoed(refuses(503, ECHO)), echoed(says(wish)), echoed(says(said))])


def _plan(ask: Callable[..., Outcome]) -> Outcome:
    step = look("s1", "far", objective=f"Is it {CANARY}?")
    open_step = {**look("s2", None, after=["s1"]), "tool": "things.join"}
    filled = {"arguments": {"parts": [ECHO]}}
    review = {"outcome": "pass", "corrections": [ECHO[:300]]}
    return ask(
        "Plan it.",
        *ALWAYS,
        *SUPERVISED,
        plan=[says(f"no JSON: {ECHO}"), echoed(says(planned(step, open_step)))],
        arguments=echoed(says(filled)),
        review=echoed(says(review)),
    )


ENDS: dict[str, tuple[Callable[[Callable[..., Outcome]], Outcome], int]] = {
    "turns": (_turns, 0),
    "plan": (_plan, 0),
    "refused": (lambda ask: ask("Be refused.", *ALWAYS, plan=echoed(refuses(401, ECHO))), 3),
    "too long": (
        lambda ask: ask("Be long.", *ALWAYS, plan=echoed(refuses(400, f"context length {ECHO}"))),
        3,
    ),
    "no turn": (lambda ask: ask("Be silly.", *NEVER, turn=echoed(says({ECHO: ECHO}))), 3),
}


@pytest.fixture(scope="module")
def told() -> dict[str, Outcome]:
    """What each of the runs printed."""
    return {}


@pytest.fixture
def after(ask: Callable[..., Outcome], told: dict[str, Outcome], mind: Any) -> dict[str, Outcome]:
    """The runtime once the server has sent its key back in all of these runs."""
    for name, (run, code) in ENDS.items():
        if name not in told:
            outcome = run(ask)
            assert outcome.code == code and mind.asked, (name, outcome.result, outcome.err)
            told[name] = outcome
    return told


def test_the_search_finds_every_form_where_it_stands(tmp_path):
    assert len(forms_in(ECHO.encode(), CANARY)) == len(forms_of(CANARY)) >= 20
    assert forms_in(b"nothing of it " * 100, CANARY) == []
    pipe = subprocess.PIPE
    with subprocess.Popen(["cat"], stdin=pipe, stdout=pipe, env={"DULY_MODEL_API_KEY": CANARY}) as found:
        assert found.stdin is not None and found.stdout is not None
        found.stdin.write(b"here\n")
        found.stdin.flush()
        assert found.stdout.readline() == b"here\n"  # so it is the program by now, and not yet its starter
        assert forms_in(Path(f"/proc/{found.pid}/environ").read_bytes(), CANARY)


def test_no_command_says_it(after):
    for name, outcome in after.items():
        assert not forms_in((outcome.out + outcome.err).encode(), CANARY), name
        assert not forms_in(json.dumps(outcome.lines, ensure_ascii=False).encode(), CANARY), name
    assert MARK in after["turns"].result["answer"], "the echo did come, and was masked on the way"


def test_no_event_and_no_artifact_holds_it(after, home):
    seen = masked = 0
    for told in everything_recorded(home):
        assert not forms_in(told, CANARY)
        seen += 1
        masked += MARK.encode() in told
    assert seen > 100 and masked > 10, "the key was there to be taken out"


def everything_recorded(home: RuntimeHome) -> Iterator[bytes]:
    """Every event and artifact of every run: as bytes, as the text of its value, and with JSON escapes undone."""
    with Records.open(home.home) as records:
        for summary in records.journal.runs(1_000):
            for entry in records.journal.read_run(summary.run_id):
                yield canon.encode(entry.event)
                for digest in entry.event["artifacts"].values():
                    data = records.artifact_bytes(summary.run_id, digest)
                    assert data is not None
                    yield data
                    yield _text(data)


def _text(data: bytes) -> bytes:
    """What stands in an artifact, as a person would read it."""
    for read in (json.loads, lambda one: canon.decode(one, bytes_max=ARTIFACT_BYTES_MAX)):
        try:
            return str(read(data)).encode("utf-8", "replace")
        except Exception:  # it is written in the other way, or in none
            continue
    return data


def test_no_file_of_the_home_and_no_log_holds_it(after, home):
    folders = {home.root, ray_temp(home.home)}
    files = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    names = {path.name for path in files}
    kept = {path.parent.name for path in files if path.name == "data.mdb"}
    assert {"journal", "artifacts"} <= kept and "spent" in names
    assert sum(path.suffix in (".log", ".out", ".err") and path.stat().st_size > 0 for path in files) > 5
    for path in files:
        assert not forms_in(path.read_bytes(), CANARY), path


def test_no_environment_and_no_listing_below_the_supervisor_holds_it(after, home):
    """The supervisor's own environment is where the person put it; the model hosts have it by an inherited file."""
    top = home.supervisor()
    below = {one.pid for one in tree_below(top)} - {top}
    hosts = {one["pid"] for one in home.processes() if one["role"] in ("host planner", "host critic")}
    assert len(below) > 10 and len(hosts) == 2 and hosts < below
    for pid in below:
        assert not forms_in(_of(pid, "environ"), CANARY), _of(pid, "cmdline")
    assert sum(bool(_of(pid, "environ")) for pid in below) > 5, "this user may read them"
    every = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    assert top in every
    for pid in every:
        assert not forms_in(_of(pid, "cmdline"), CANARY), pid


def _of(pid: int, name: str) -> bytes:
    """A file of /proc; empty for one that this user may not read or that is gone."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
