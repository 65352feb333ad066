"""A real model host for tests: its process, a package that names models, and a person who signs mandates."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.hosts import confinement, secrets
from duly.hosts.models.client import ModelAnswer, ModelHostClient
from duly.hosts.models.config import ModelHostConfig
from duly.protocol.authority.mandate import Mandate
from duly.protocol.authority.signing import public_bytes
from duly.protocol.plan.model_call import ModelCall, ModelMessage
from duly.protocol.wire import canon
from duly.protocol.wire.ids import digest_bytes
from host_world import now_ms

T = TypeVar("T")
RUN = "run-1"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"answer": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}
MANIFEST = '[package]\nname = "asked"\nversion = "1"\n[[agents.list]]\nname = "a"\n[models]\n'


def call_of(
    text: str = "How many?", *, schema: Mapping[str, Any] = SCHEMA, tokens: int = 5_000, seconds: int = 20
) -> ModelCall:
    """A call with one text of the system and one of the user."""
    return ModelCall(
        purpose="reason",
        prompt="test.v1",
        prompt_digest=digest_bytes("model.prompt", b"test"),
        messages=[ModelMessage(role="system", text="You count."), ModelMessage(role="user", text=text)],
        schema_name="count",
        json_schema=dict(schema),
        tokens_max=tokens,
        seconds_max=seconds,
    )


class ModelHostWorld:
    """``start`` runs a host; ``ask`` makes a call as a planner would. ``given`` are fields of the configuration."""

    def __init__(self, role: str = "planner", **given: Any) -> None:
        base = Path(os.environ["DULY_HOME"]).parent  # short enough for a socket, and watched for leftovers
        self.home = Path(tempfile.mkdtemp(prefix="m", dir=base))
        self.person = Ed25519PrivateKey.generate()
        (self.home / "packages").mkdir()
        secrets.write_public_key(self.home / "keys/people/ada.pub", public_bytes(self.person))
        self.config = ModelHostConfig(
            **{
                "role": role,
                "socket": str(self.home / "m.sock"),
                "people_places": [str(self.home / "keys/people")],
                "packages": str(self.home / "packages"),
                "ledger": str(self.home / "keys/hosts/models.state/spent"),
                "settings": str(self.home / "models.toml"),
                **given,
            }
        )
        self.process: subprocess.Popen[bytes] | None = None
        self.run_id = RUN
        self._settings = 0
        self.package = self.add_package("")

    def __enter__(self) -> ModelHostWorld:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, **environment: str) -> None:
        """Starts the process and waits for the byte that says that its socket is open."""
        config, (ready, told) = secrets.hand_over(self.config.encode()), os.pipe()
        argv = [
            sys.executable,
            "-P",
            "-m",
            "duly.hosts.models.server",
            str(config),
            str(os.getpid()),
            str(told),
        ]
        with open(self.home / "log", "ab") as log:
            self.process = subprocess.Popen(
                argv,
                pass_fds=[config, told],
                env={**confinement.clean_environment(str(self.home)), **environment},
                cwd="/",
                stderr=log,
            )
        os.close(config)
        os.close(told)
        said = os.read(ready, 1)
        os.close(ready)
        assert said == b"1", "the model host did not start"

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(20)
            self.process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def add_package(self, models: str) -> str:
        """Keeps a snapshot whose ``[models]`` says this, and makes it the package of the calls to come."""
        data = {"agent.toml": (MANIFEST + models).encode()}
        self.package = canon.digest(
            "package", {name: digest_bytes("package.file", one) for name, one in data.items()}
        )
        folder = self.home / "packages" / self.package
        folder.mkdir(exist_ok=True)
        (folder / "agent.toml").write_bytes(data["agent.toml"])
        return self.package

    def mandate(self, *, signed_by: Ed25519PrivateKey | None = None, **changes: Any) -> bytes:
        """The person's signed order for the run; ``changes`` are fields that a test bends."""
        fields = {
            "run_id": self.run_id,
            "agent": "a",
            "agent_version": "1",
            "package": self.package,
            "request": "r",
            "tier": "assisted",
            "planning": "auto",
            "gate": "consequential",
            "schedule": "levels",
            "tools": {},
            "budget": {"model_tokens": 100_000, "cost": 1_000_000},
            "issued_ms": now_ms(),
            "expires_ms": now_ms() + 3_600_000,
            "nonce": "n",
            **changes,
        }
        return Mandate(**fields).sign(signed_by or self.person)

    def renew(self, base_url: str, key: str = "") -> str:
        """A model that this host has never met, at this address, for a run that has spent nothing; gives its name."""
        self._settings += 1
        self.run_id = f"run-{self._settings}"
        model = f"openai:model-{self._settings}"
        self.write_settings(
            planner=model, critic=model, base_url=base_url, **({"api_key": key} if key else {})
        )
        return model

    def write_settings(self, **fields: str) -> None:
        """``models.toml`` with these fields."""
        path = Path(self.config.settings)
        path.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in fields.items()))
        path.chmod(0o600)

    def ask(self, call: ModelCall | None = None, *, mandate: bytes | None = None) -> ModelAnswer:
        """One call on a connection of its own."""
        return self.ask_all([call or call_of()], mandate=mandate)[0]

    def ask_all(self, calls: Sequence[ModelCall], *, mandate: bytes | None = None) -> list[ModelAnswer]:
        """Calls one after the other on one connection."""
        order = mandate if mandate is not None else self.mandate()

        async def asked(client: ModelHostClient) -> list[ModelAnswer]:
            return [await client.ask(self.package, self.run_id, call, order) for call in calls]

        return self.talk(asked)

    def talk(self, told: Callable[[ModelHostClient], Awaitable[T]]) -> T:
        """Runs ``told`` with a client of this host."""

        async def talked() -> T:
            client = ModelHostClient(self.config.socket)
            try:
                return await told(client)
            finally:
                await client.close()

        return asyncio.run(talked())

    def spent(self) -> tuple[int, int]:
        """What the ledger holds for the run: tokens, cost."""
        tokens = cost = 0
        for line in Path(self.config.ledger).read_text().splitlines():
            _, run, some, more = line.split(" ")
            if run == self.run_id:
                tokens, cost = tokens + int(some), cost + int(more)
        return tokens, cost
