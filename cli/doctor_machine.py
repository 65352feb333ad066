"""What of this machine duly stands on: Python, packages, the engine's lock, the kernel, and what hosts put on."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata, util
from pathlib import Path
from typing import Any

from duly import __version__
from duly.protocol.wire.errors import ToolError

from .finding import Finding

PYTHON_MIN = (3, 11)
NEEDED = ("ray", "lmdb", "cryptography", "pydantic", "msgpack")
PROBE_SECONDS_MAX = 30
# What a locked engine must refuse, each a way to reach what is no source.
REACHES_OUT = (
    "SELECT * FROM read_csv('/etc/hostname', columns = {'line': 'VARCHAR'})",
    "SELECT * FROM glob('/etc/*')",
    "COPY (SELECT 1) TO '/dev/null'",
    "ATTACH '/tmp/duly-doctor.duckdb'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET memory_limit = '64GB'",
)
# Layers of a sandbox on Linux, as hosts name them where they put them on.
LAYERS: Mapping[str, str] = {
    "non_dumpable": "others of the same account cannot read a host's memory",
    "no_new_privileges": "no set-user-id program gains anything",
    "namespaces": "own users, mounts, processes and network",
    "landlock": "only named paths",
    "seccomp": "only named system calls",
}


def machine() -> Iterator[Finding]:
    """Everything about this machine, a data directory aside."""
    yield _python()
    for name in NEEDED:
        yield _package(name)
    yield _duckdb()
    if util.find_spec("duckdb") is not None:
        yield engine_lock()
    yield from sandbox(probed())


def _python() -> Finding:
    version = platform.python_version()
    told = f"{version} ({platform.python_implementation()}), duly {__version__}, {platform.system()} {platform.release()}"
    if sys.version_info[:2] < PYTHON_MIN:
        hint = f"Install Python {PYTHON_MIN[0]}.{PYTHON_MIN[1]} or newer, and duly in it."
        return Finding("machine", "python", "broken", told, hint)
    return Finding("machine", "python", "ok", told)


def _package(name: str) -> Finding:
    try:
        return Finding("machine", name, "ok", metadata.version(name))
    except metadata.PackageNotFoundError:
        hint = "Install duly again: `pip install --force-reinstall duly`."
        return Finding("machine", name, "broken", "is not installed, and nothing runs without it", hint)


def _duckdb() -> Finding:
    try:
        return Finding("machine", "duckdb", "ok", metadata.version("duckdb"))
    except metadata.PackageNotFoundError:
        hint = 'For packages with sources: `pip install "duly[duckdb]"`.'
        return Finding(
            "machine", "duckdb", "note", "is not installed; packages without sources need none", hint
        )


def engine_lock() -> Finding:
    """Tries what a locked engine must refuse."""
    from duly.hosts.tools.duckdb_source import Sources

    taken = []
    with Sources({}).open(isolated=True) as engine:
        for statement in REACHES_OUT:
            try:
                engine.rows(statement)
            except ToolError:
                continue
            taken.append(statement)
    if taken:
        told = f"took what it must refuse: {taken[0]}"
        hint = "Do not run packages of others here. Install a version of DuckDB that duly names, and report this."
        return Finding("machine", "engine lock", "broken", told, hint)
    return Finding("machine", "engine lock", "ok", f"refuses {len(REACHES_OUT)} ways out of its sources")


def probed() -> dict[str, Any]:
    """What the kernel grants, asked in another process. Empty where that process could not tell."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "duly.cli.doctor_probe"],
            check=True,
            capture_output=True,
            timeout=PROBE_SECONDS_MAX,
            cwd="/",
        )
        found = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def sandbox(found: Mapping[str, Any]) -> Iterator[Finding]:
    """The layers that hosts put on here, those that they do not, and what the kernel would offer for them."""
    if not found:
        told = "could not be asked: the process that tries it ended early"
        yield Finding("sandbox", "kernel", "note", told)
        return
    layers: Mapping[str, bool] = found.get("layers", {})
    for name, meaning in LAYERS.items():
        if layers.get(name):
            yield Finding("sandbox", name, "ok", f"on in every host: {meaning}")
        elif name in layers:
            yield Finding("sandbox", name, "note", f"this kernel does not grant it ({meaning})")
        else:
            yield Finding(
                "sandbox", name, "note", f"not used by this version ({meaning}); {offered(name, found)}"
            )


def offered(name: str, found: Mapping[str, Any]) -> str:
    """What the kernel has for a layer that is not used."""
    if name == "landlock":
        abi = int(found.get("landlock_abi", 0))
        return f"the kernel has ABI {abi}" if abi else "the kernel has none"
    if name == "seccomp":
        return "the kernel has it" if found.get("seccomp") else "the kernel has none"
    granted = "grants" if found.get("user_namespaces") else "does not grant"
    whose = "root" if found.get("uid") == 0 else "this account"
    return f"the kernel {granted} {whose} a user namespace"


def worn(pid: int) -> dict[str, str]:
    """What a running process wears, as the kernel tells: ``uid``, ``NoNewPrivs``, ``Seccomp``, and whether its
    namespaces are its own. Empty for a process that is gone or not told about."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    except OSError:
        return {}
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    found: dict[str, str] = {name: lines[name].strip() for name in ("NoNewPrivs", "Seccomp") if name in lines}
    found["uid"] = (lines.get("Uid", "").split() or [""])[0]
    try:
        own = os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
    except OSError:  # a non-dumpable process shows its namespaces to root alone
        return found
    return {**found, "own_network": "yes" if own else "no"}
