"""What any code inside of Ray could send to an actor: each is answered with an error as data, and changes nothing."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.actors.messages import KINDS, AppendEvents, CancelRun, GrantedCall, RunCalls, TakeEpoch
from duly.protocol.authority.grant import Grant, arguments_bytes, arguments_digest
from duly.protocol.wire import canon
from duly.protocol.wire.envelope import Envelope, pack, unpack
from duly.protocol.wire.model import Model
from process_table import tree_below
from runtime_home import COMMAND_SECONDS_MAX, RuntimeHome

pytestmark = [pytest.mark.ray, pytest.mark.slow]
SPEAK = Path(__file__).parent / "children" / "speak_to_actors.py"
# Each actor by its name in Ray: its role, and a message that it takes from the harness.
ACTORS: dict[str, tuple[str, str, Model]] = {
    "planner": ("planner", "plan.bind", KINDS["plan.bind"](package="p", agent="a", request={})),
    "verifier": ("verifier", "verify.reads", KINDS["verify.reads"](package="p", steps=[])),
    "plan_cache": ("plan_cache", "cache.act", KINDS["cache.act"](action="stats")),
    "audit_journal": ("audit_journal", "journal.append", AppendEvents(count=0)),
    "executor-node-1-0": ("executor", "calls.cancel", CancelRun(run_id="r-nobody")),
}
DEEP = b"\x91" * 100_000 + b"\xc0"


def envelope(kind: str, body: Any, recipient: str, **more: Any) -> Envelope:
    data = body if isinstance(body, dict) else body.to_data()
    given = {"id": secrets.token_hex(16), "sender": "harness", "recipient": recipient, **more}
    return Envelope.model_validate({"kind": kind, "body": data, **given})


class Speaker:
    """Collects what to send, sends it in one process, and gives the codes of the answers."""

    def __init__(self, home: RuntimeHome, folder: Path) -> None:
        self._home = home
        self._folder = folder
        self._batches: list[dict[str, Any]] = []

    def add(self, actor: str, *envelopes: bytes, blobs: tuple[bytes, ...] = ()) -> None:
        self._batches.append(
            {
                "actor": actor,
                "envelopes": [one.hex() for one in envelopes],
                "blobs": [one.hex() for one in blobs],
            }
        )

    def codes(self) -> list[list[str]]:
        """The code of each answer, ``ok`` for one that is no error."""
        asked, answered = self._folder / "asked.json", self._folder / "answered.json"
        asked.write_text(json.dumps(self._batches))
        command = [sys.executable, "-P", str(SPEAK), self._address(), str(asked), str(answered)]
        environment = {
            **self._home.environment,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self._home.home.run / "ray.token"),
        }
        done = subprocess.run(
            command,
            env=environment,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [
            [_code(bytes.fromhex(one)) for one in answers] for answers in json.loads(answered.read_text())
        ]

    def _address(self) -> str:
        mark = "--gcs-address="
        for one in tree_below(self._home.supervisor()):
            for word in Path(f"/proc/{one.pid}/cmdline").read_text(errors="replace").split("\0"):
                if word.startswith(mark):
                    return word.removeprefix(mark)
        raise AssertionError("no process of Ray's names its address")


def _code(reply: bytes) -> str:
    _, body = unpack(reply, kinds=KINDS, recipient="harness")
    return str(body.error["code"]) if hasattr(body, "error") else "ok"


@pytest.fixture
def speaker(runtime: RuntimeHome, tmp_path: Path) -> Speaker:
    return Speaker(runtime, tmp_path)


def test_every_actor_refuses_what_is_no_message_of_the_harness_to_it(runtime, speaker):
    before = {(one["role"], one["pid"]) for one in runtime.processes()}
    expected = []
    for actor, (role, kind, body) in ACTORS.items():
        good = envelope(kind, body, role)
        other_role = "verifier" if role == "planner" else "planner"
        foreign = "journal.take_epoch" if role != "audit_journal" else "plan.bind"
        cases = {
            pack(envelope(kind, body, role, sender="executor")): "wire.wrong_sender",
            pack(envelope(kind, body, role, sender="client")): "wire.wrong_sender",
            pack(envelope(kind, body, other_role)): "wire.wrong_recipient",
            pack(envelope("calls.explode", {}, role)): "wire.unknown_kind",
            pack(envelope(foreign, {}, role)): "wire.unknown_kind",
            pack(envelope(kind, {**body.to_data(), "also": 1}, role)): "wire.bad_body",
            canon.encode({**good.to_data(), "also": 1}): "wire.bad_envelope",
            canon.encode({**good.to_data(), "v": 2}): "wire.bad_envelope",
            canon.encode(["no", "envelope"]): "wire.bad_envelope",
            pack(good) + b"\xc0": "wire.malformed",
            b"": "wire.malformed",
            bytes(range(256)): "wire.malformed",
            DEEP: "wire.too_deep",
            b"\xc6\xff\xff\xff\xff": "wire.malformed",  # four gigabytes are claimed
            b"\x00" * ((1 << 20) + 1): "wire.frame_too_large",
        }
        speaker.add(actor, *cases)
        expected.append(list(cases.values()))
    assert speaker.codes() == expected
    assert {(one["role"], one["pid"]) for one in runtime.processes()} == before, "an actor died of it"


def test_a_message_counts_once_and_a_bad_neighbour_does_not_spoil_it(speaker):
    good = {
        actor: pack(envelope(kind, body, role))
        for actor, (role, kind, body) in ACTORS.items()
        if kind != "plan.bind" and kind != "verify.reads"  # these two name a package that is not there
    }
    for actor, data in good.items():
        speaker.add(actor, b"\xc1", data, data)
        speaker.add(actor, data)
    replayed = [["wire.malformed", "ok", "wire.replayed"], ["wire.replayed"]]
    assert speaker.codes() == replayed * len(good)


def test_a_batch_carries_no_blobs_since_nobody_could_tell_whose_they_are(speaker):
    role, kind, body = ACTORS["audit_journal"]
    one, other = (pack(envelope(kind, body, role)) for _ in range(2))
    speaker.add("audit_journal", one, other, blobs=(b"x",))
    assert speaker.codes() == [["runtime.blobs", "runtime.blobs"]]


def test_grants_that_the_harness_did_not_sign_run_nothing(runtime, speaker):
    """Signed by somebody else, with other arguments than signed, and no grants at all."""
    data = arguments_bytes({"name": "left"})
    grant = Grant(
        run_id="r-forged", step_id="left", attempt=1, tool="things.look", descriptor="0" * 64, effect="read",
        package="0" * 64, plan="0" * 64, arguments=arguments_digest({"name": "left"}), host="read", epoch=10**6,
        issued_ms=0, expires_ms=1 << 50, deadline_ms=1_000, rows_max=0, nonce=secrets.token_hex(16),
    )  # fmt: skip
    signed = Grant.sign_all([grant], Ed25519PrivateKey.generate())
    calls = [GrantedCall(nonce=grant.nonce, blob=0, template=grant.arguments)]
    for grants in (signed, b"", b"\xc0", signed[:-1]):
        body = RunCalls(mode="serial", host="read", grants=grants, mandate=b"", calls=calls)
        speaker.add("executor-node-1-0", pack(envelope("calls.run", body, "executor")), blobs=(data,))
    codes = [code for (code,) in speaker.codes()]
    assert "ok" not in codes and "runtime.internal" not in codes
    log = runtime.duly("audit", "log", "--json")
    assert all(one["run_id"] != "r-forged" for one in log.lines)


def test_a_harness_whose_epoch_is_over_writes_no_event(runtime, speaker):
    """A second take-over makes the running harness an old one: it ends, and the next one takes the epoch after."""
    before = runtime.json("status")["epoch"]
    leaf = canon.encode(
        {
            "v": 1, "time_ms": 1, "run_id": "r-old", "kind": "run.cancelled", "epoch": before - 1, "cause": "",
            "facts": {"phase": "CANCELLED"}, "artifacts": {},
        }
    )  # fmt: skip
    append = envelope("journal.append", AppendEvents(count=1), "audit_journal")
    speaker.add("audit_journal", pack(append), blobs=(leaf,))
    take = envelope("journal.take_epoch", TakeEpoch(), "audit_journal")
    speaker.add("audit_journal", pack(take))
    assert speaker.codes() == [["log.stale_epoch"], ["ok"]]
    runtime.verified()
    outcome = runtime.ask(Path(__file__).parent.parent / "packages" / "holding", "look around")
    assert (outcome.code, outcome.result["phase"]) == (0, "COMPLETED")
    assert runtime.json("status")["epoch"] == before + 2
