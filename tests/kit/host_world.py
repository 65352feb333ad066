"""A real tool host for tests: its process, a package of Python tools, and a harness and a person who sign."""

from __future__ import annotations

import asyncio
import os
import secrets as random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.hosts import confinement, secrets
from duly.hosts.admission import EpochStatement
from duly.hosts.client import HostClient
from duly.hosts.config import HostConfig
from duly.protocol.authority.approval import Approval, ApprovedStep
from duly.protocol.authority.grant import Grant, arguments_bytes, arguments_digest_of
from duly.protocol.authority.mandate import Mandate, MandatedTool
from duly.protocol.authority.receipt import Receipt
from duly.protocol.authority.signing import key_id, public_bytes
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.wire import canon, tagged
from duly.protocol.wire.ids import digest_bytes

RUN = "run-1"
PLAN = "0" * 64
STARTS_SECONDS_MAX = 20.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Granted:
    """A grant, the argument bytes that it is for, and where these differ the digest of what stands in the plan."""

    grant: Grant
    data: bytes
    template: str | None = None


@dataclass(frozen=True)
class Ran:
    """What came back for one grant. ``output`` is the value, its tags read."""

    receipt: Receipt
    output: Any = None
    error: Mapping[str, Any] = field(default_factory=dict)

    @property
    def code(self) -> str:
        return self.receipt.code


class HostWorld:
    """``start`` runs a host of one class; ``client`` talks to it; ``grant`` and ``run`` do what a harness would."""

    def __init__(self, host: str = "read", *, secret_values: Mapping[str, str] | None = None) -> None:
        base = Path(os.environ["DULY_HOME"]).parent  # short enough for a socket, and watched for leftovers
        self.home = Path(tempfile.mkdtemp(prefix="w", dir=base))
        self.host = host
        self.harness = Ed25519PrivateKey.generate()
        self.person = Ed25519PrivateKey.generate()
        self.key = Ed25519PrivateKey.generate()
        self.epoch = 1
        self.package = ""
        self.tools: dict[str, Descriptor] = {}
        self.process: subprocess.Popen[bytes] | None = None
        (self.home / "packages").mkdir()
        secrets.write_public_key(self.home / "keys/people/ada.pub", public_bytes(self.person))
        self.config = HostConfig(
            name=host,
            host_class=host,
            socket=str(self.home / "h.sock"),
            private_key=self.key.private_bytes_raw(),
            harness_keys=[public_bytes(self.harness)],
            people_places=[str(self.home / "keys/people")],
            home=str(self.home),
            packages=str(self.home / "packages"),
            state=str(self.home / "state"),
            scratch=str(self.home / "scratch"),
            secrets=dict(secret_values or {}),
        )

    def start(self, **environment: str) -> None:
        """Starts the process and waits for the byte that says that its socket is open."""
        config, (ready, told) = secrets.hand_over(self.config.encode()), os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "duly.hosts.server", str(config), str(os.getpid()), str(told)],
            pass_fds=[config, told],
            env={**confinement.clean_environment(str(self.home)), **environment},
            cwd="/",
        )
        os.close(config)
        os.close(told)
        said = os.read(ready, 1)
        os.close(ready)
        assert said == b"1", "the host did not start"

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(STARTS_SECONDS_MAX)
            self.process = None

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def add_package(self, files: Mapping[str, str]) -> str:
        """Keeps a snapshot and makes it the package of the grants to come."""
        data = {name: text.encode("utf-8") for name, text in files.items()}
        self.package = canon.digest(
            "package", {name: digest_bytes("package.file", one) for name, one in data.items()}
        )
        folder = self.home / "packages" / self.package
        folder.mkdir(exist_ok=True)
        for name, one in data.items():
            (folder / name).write_bytes(one)
        return self.package

    @asynccontextmanager
    async def client(self) -> AsyncIterator[HostClient]:
        """A connection; the tools of the package are asked for once."""
        client = HostClient(self.config.socket)
        try:
            if self.package and not self.tools:
                self.tools = {one.full_name: one for one in await client.describe(self.package)}
            yield client
        finally:
            await client.close()

    def grant(self, tool: str, given: Any = None, step: str = "s1", **changes: Any) -> Granted:
        """What the harness would sign for a call; ``changes`` are fields of the grant that a test bends."""
        descriptor = self.tools.get(tool, next(iter(self.tools.values())))
        data = arguments_bytes({} if given is None else given)
        now = now_ms()
        fields: dict[str, Any] = {
            "run_id": RUN,
            "step_id": step,
            "attempt": 1,
            "tool": tool,
            "descriptor": descriptor.digest(),
            "effect": descriptor.effect,
            "package": self.package,
            "plan": PLAN,
            "arguments": arguments_digest_of(data),
            "host": self.host,
            "epoch": self.epoch,
            "issued_ms": now,
            "expires_ms": now + 60_000,
            "deadline_ms": descriptor.timeout_seconds * 1_000,
            "rows_max": 0,
            "nonce": random.token_hex(16),
        }
        return Granted(Grant(**{**fields, **changes}), data)

    def signed(self, granted: Sequence[Granted]) -> bytes:
        return Grant.sign_all([one.grant for one in granted], self.harness)

    def mandate(self, *tools: str, **changes: Any) -> bytes:
        """What the submitter would sign for a run with these tools."""
        now = now_ms()
        fields: dict[str, Any] = {
            "run_id": RUN,
            "agent": "clerk",
            "agent_version": "1",
            "package": self.package,
            "request": "",
            "tier": "assisted",
            "planning": "auto",
            "gate": "consequential",
            "schedule": "levels",
            "tools": {
                name: MandatedTool(descriptor=self.tools[name].digest(), effect=self.tools[name].effect)
                for name in tools
            },
            "budget": {},
            "issued_ms": now,
            "expires_ms": now + 60_000,
            "nonce": random.token_hex(16),
        }
        return Mandate(**{**fields, **changes}).sign(self.person)

    def approval(self, granted: Granted, *, template: str | None = None, **changes: Any) -> bytes:
        """What an approver would sign for one step, with its resolved arguments or its template."""
        step = ApprovedStep(
            tool=granted.grant.tool,
            descriptor=granted.grant.descriptor,
            arguments=template or granted.grant.arguments,
            template=template is not None,
        )
        fields: dict[str, Any] = {
            "run_id": RUN,
            "gate": "g1",
            "kind": "plan",
            "plan": PLAN,
            "steps": {granted.grant.step_id: step},
            "scope": "",
            "budget": {},
            "policy": "",
            "shown": "",
            "expires_ms": now_ms() + 60_000,
            "nonce": random.token_hex(16),
        }
        return Approval(**{**fields, **changes}).sign(self.person)

    def mark(self, name: str) -> Callable[[], Awaitable[bytes]]:
        """A named pipe in the data directory: a tool writes to it, and who awaits the result knows that it did."""
        os.mkfifo(self.home / name)
        return lambda: asyncio.to_thread((self.home / name).read_bytes)

    def epoch_statement(self, epoch: int) -> bytes:
        return EpochStatement(epoch=epoch, host=self.host).sign(self.harness)

    async def run(
        self, client: HostClient, granted: Sequence[Granted], *, mode: str = "serial", **warrant: Any
    ) -> list[Ran]:
        """Runs a dispatch and gives the results in the order of the grants; every receipt is checked."""
        trusted = {key_id(public_bytes(self.key)): public_bytes(self.key)}
        found: dict[str, Ran] = {}
        templates = {one.grant.nonce: one.template for one in granted if one.template is not None}
        async for group in client.run(
            self.signed(granted), [one.data for one in granted], mode=mode, templates=templates, **warrant
        ):
            receipts, _ = Receipt.open_all(group.receipts, trusted)
            assert [one.grant for one in receipts] == group.nonces
            for receipt in receipts:
                output = group.outputs.get(receipt.grant)
                assert receipt.grant not in found, "two receipts for one grant"
                value = tagged.from_tagged(canon.decode(output, bytes_max=1 << 26)) if output else None
                found[receipt.grant] = Ran(receipt, value, group.errors.get(receipt.grant, {}))
                if receipt.outcome == "ok":
                    grant = next(one.grant for one in granted if one.grant.nonce == receipt.grant)
                    receipt.check(grant, output, receipt.arguments)
        return [found[one.grant.nonce] for one in granted]


MANIFEST = """
[package]
name = "shed"
version = "1"
data = "shed"

[[agents]]
name = "clerk"
tools = []

[tools.shed]
kind = "python"
functions = [{functions}]
timeout_seconds = 20
"""


def python_package(source: str, *functions: str) -> dict[str, str]:
    """The files of a package whose tools are functions of ``source``."""
    names = ", ".join(f'"{name}"' for name in functions)
    return {
        "agent.toml": MANIFEST.format(functions=names),
        "tools.py": "from duly.hosts.tools.python import tool\n" + source,
    }
