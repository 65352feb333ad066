"""What a supervisor starts in one data directory: the hosts with their keys and secrets, then the runtime on top."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.authority.grant import HostClass
from duly.protocol.authority.signing import key_id, public_bytes
from duly.protocol.plan.model_call import ModelRole
from duly.protocol.wire.limits import (
    HOST_STARTS_SECONDS_MAX,
    RUNTIME_STOPS_SECONDS_MAX,
    SOCKET_PATH_BYTES_MAX,
)

from . import confinement, secrets
from .child import ChildSpec
from .config import HostConfig
from .models.config import ModelHostConfig
from .models.settings_file import FILE as MODELS_FILE

HOST_CLASSES: tuple[HostClass, ...] = get_args(HostClass)
MODEL_ROLES: tuple[ModelRole, ...] = get_args(ModelRole)
RUNTIME_MODULE = "duly.actors.runtime.start"
RUNTIME_SETTINGS = ("DULY_IDLE_SECONDS",)  # of the launcher's environment; nothing else goes on to Ray


@dataclass(frozen=True, slots=True)
class Installation:
    """The folders of one data directory, as ``storage/home`` names them."""

    home: Path

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def keys(self) -> Path:
        return self.home / "keys"

    def socket(self, name: str) -> Path:
        """Where the socket of a host lies; the rule is that of ``storage/home``, which hosts do not import."""
        path = self.run / f"{name}.sock"
        if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
            return path
        folder = Path(tempfile.gettempdir()) / f"duly-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}.sock"

    def model_socket(self, role: ModelRole) -> Path:
        """Where the socket of a model host lies: the name is ``model-planner`` or ``model-critic``."""
        return self.socket(f"model-{role}")


def host_children(installation: Installation, environment: Mapping[str, str]) -> list[ChildSpec]:
    """One child for each class of host. Makes their keys and writes the public parts to ``keys/hosts``."""
    harness = _harness_key(installation)
    return [_host(installation, name, harness, _secrets_of(name, environment)) for name in HOST_CLASSES]


def model_children(installation: Installation, environment: Mapping[str, str]) -> list[ChildSpec]:
    """The model hosts. They are always there: whether a package names a model is known only when it is opened."""
    return [_model_host(installation, role, environment) for role in MODEL_ROLES]


def runtime_children(installation: Installation, environment: Mapping[str, str]) -> list[ChildSpec]:
    """What runs on the hosts: Ray and the actors, started by a module of the actors' room in a process of its own."""
    settings = {name: environment[name] for name in RUNTIME_SETTINGS if name in environment}
    return [
        ChildSpec(
            "runtime",
            [sys.executable, "-P", "-m", RUNTIME_MODULE, "--home", str(installation.home)],
            {**confinement.clean_environment(str(installation.home)), **settings},
            restart="stop",
            stop_seconds_max=RUNTIME_STOPS_SECONDS_MAX,
            warded=True,
        )
    ]


def _host(
    installation: Installation, name: HostClass, harness: bytes, secret_values: dict[str, str]
) -> ChildSpec:
    key = Ed25519PrivateKey.generate()
    _announce(installation.keys / "hosts", name, public_bytes(key))
    config = HostConfig(
        name=name,
        host_class=name,
        socket=str(installation.socket(name)),
        private_key=key.private_bytes_raw(),
        harness_keys=[harness],
        people_places=_people(installation),
        home=str(installation.home),
        packages=str(installation.home / "packages"),
        state=str(installation.keys / "hosts" / f"{name}.state"),
        scratch=str(installation.run / "scratch" / name),
        secrets=secret_values,
    )
    return ChildSpec(
        f"host {name}",
        [sys.executable, "-P", "-m", "duly.hosts.server", "{config_fd}", "{parent}", "{ready_fd}"],
        confinement.clean_environment(str(installation.home)),
        handed=config.encode(),
        ready_seconds_max=HOST_STARTS_SECONDS_MAX,
    )


def _model_host(installation: Installation, role: ModelRole, environment: Mapping[str, str]) -> ChildSpec:
    model = environment.get(f"DULY_MODEL_{role.upper()}", "").strip()
    # Address and key belong to a model that the same environment names; alone they are for nobody.
    given = (
        {}
        if not model
        else {
            "model": model,
            "base_url": environment.get("DULY_MODEL_BASE_URL", "").strip(),
            "api_key": environment.get("DULY_MODEL_API_KEY", "").strip(),
        }
    )
    config = ModelHostConfig(
        role=role,
        socket=str(installation.model_socket(role)),
        people_places=_people(installation),
        packages=str(installation.home / "packages"),
        ledger=str(installation.keys / "hosts" / "models.state" / "spent"),
        settings=str(installation.home / MODELS_FILE),
        secrets=_secrets_of(role, environment),
        **given,
    )
    return ChildSpec(
        f"model host {role}",
        [sys.executable, "-P", "-m", "duly.hosts.models.server", "{config_fd}", "{parent}"],
        confinement.clean_environment(str(installation.home)),
        handed=config.encode(),  # nothing waits for it to be ready: the runtime takes longer to start than it does
    )


def _people(installation: Installation) -> list[str]:
    """Where the public keys of people lie."""
    return [str(installation.keys / "people"), str(installation.keys / "public" / "person.pub")]


def _harness_key(installation: Installation) -> bytes:
    """The public key of the harness: of its own on the head, where it is made; else the one that was brought here."""
    private, public = installation.keys / "harness.key", installation.keys / "public" / "harness.pub"
    if public.is_file() and not private.exists():
        return secrets.read_public_keys([str(public)])[0]
    return public_bytes(secrets.private_key(private))


def _announce(folder: Path, name: str, public: bytes) -> None:
    """The key of now under the host's name, and under its id for receipts that are looked at later.

    A host's private key lives as long as its supervisor, so an old public key can only vouch for old receipts.
    """
    secrets.write_public_key(folder / f"{name}.pub", public)
    secrets.write_public_key(folder / f"{name}.{key_id(public)}.pub", public)


def _secrets_of(name: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The credentials of one class of host: ``DULY_READ_SECRET_<NAME>``, ``DULY_WRITE_SECRET_<NAME>`` and so on."""
    prefix = f"DULY_{name.upper()}_SECRET_"
    return {key[len(prefix) :]: value for key, value in environment.items() if key.startswith(prefix)}
