"""What holds in a data directory: folder, keys, runtime, log, and how much of all this one account could undo."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from duly.protocol.wire.errors import DulyError, RuntimeFault
from duly.storage.home import FOLDERS, Home

from .client import FrontDoor
from .doctor_machine import worn
from .finding import Finding
from .layout import count, moment
from .person import ROLE
from .records import Records
from .supervisor_lock import supervisor_of

FREE_BYTES_NEEDED = 64 << 20  # a journal's first map; less, and the first commit fails
FREE_BYTES_WISHED = 1 << 30
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def folder(home: Home) -> Iterator[Finding]:
    """The directory itself: whether it can be used, by whom it is held, and what is left on the disk."""
    root = home.root
    if not root.exists():
        above = next(path for path in root.parents if path.exists())
        if os.access(above, os.W_OK | os.X_OK):
            told = f"{root} is not there yet; the first run makes it"
            yield Finding("data", "folder", "note", told)
            yield _free(above)
        else:
            yield Finding("data", "folder", "broken", f"{root} cannot be made by this account", _elsewhere())
        return
    yield from _usable(home)
    yield _free(root)
    if not root.is_dir():
        return
    holder = supervisor_of(home)
    told = "nobody" if holder is None else f"the runtime of process {holder}"
    yield Finding("data", "held by", "ok", told)


def _usable(home: Home) -> Iterator[Finding]:
    """Owner, kind, mode and access of the folder and of duly's own folders in it."""
    faults = []
    for path in (home.root, *(home.root / name for name in FOLDERS)):
        try:
            state = os.stat(path) if path == home.root else os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        name = path.name if path != home.root else str(path)
        if not stat.S_ISDIR(state.st_mode):
            faults.append(f"{name} is no folder")
        elif state.st_uid != os.getuid():
            faults.append(f"{name} belongs to user {state.st_uid}")
        elif state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            faults.append(f"{name} may be written by others (mode {stat.S_IMODE(state.st_mode):04o})")
        elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            faults.append(f"{name} may not be written by you")
    if faults:
        yield Finding("data", "folder", "broken", "; ".join(faults), _elsewhere())
        return
    mode = stat.S_IMODE(os.stat(home.root).st_mode)
    told = f"{home.root}, mode {mode:04o}, writable"
    if mode & _OTHERS:
        yield Finding("data", "folder", "note", f"{told}, readable by others", f"`chmod 700 {home.root}`")
    else:
        yield Finding("data", "folder", "ok", told)


def _elsewhere() -> str:
    return "Set DULY_HOME, or --home, to a folder of your own."


def _free(path: Path) -> Finding:
    free = shutil.disk_usage(path).free
    told = f"{free / (1 << 30):,.1f} GiB on its disk"
    if free < FREE_BYTES_NEEDED:
        return Finding("data", "free", "broken", told, "Make room; nothing can be recorded on a full disk.")
    return Finding("data", "free", "ok" if free >= FREE_BYTES_WISHED else "note", told)


def keys(home: Home) -> Iterator[Finding]:
    """Every private key: who can read its file, and whether a passphrase guards it."""
    files = sorted(home.keys.glob("*.key")) if home.keys.is_dir() else []
    if not files:
        yield Finding("keys", "keys", "note", "none yet; the first run makes them")
    for path in files:
        state = os.lstat(path)
        mode = stat.S_IMODE(state.st_mode)
        told = f"mode {mode:04o}, {'behind a passphrase' if is_guarded(path) else 'no passphrase'}"
        if not stat.S_ISREG(state.st_mode):
            yield Finding(
                "keys", path.stem, "broken", "is no plain file", f"Remove {path} and put the key there."
            )
        elif mode & _OTHERS:
            hint = f"`chmod 600 {path}` if nobody has read it; else make a new key."
            yield Finding("keys", path.stem, "broken", f"{told}: other accounts can read it", hint)
        else:
            yield Finding("keys", path.stem, "ok", told)
    people = sorted(path.stem for path in (home.keys / "people").glob("*.pub"))
    if people:
        yield Finding("keys", "people", "ok", f"{', '.join(people)} may approve here")


def is_guarded(path: Path) -> bool:
    """Whether a private key's file is encrypted, by its first line."""
    try:
        with open(path, "rb") as file:
            return b"ENCRYPTED" in file.readline(100)
    except OSError:
        return False


def runtime(home: Home) -> tuple[list[Finding], Sequence[dict[str, Any]]]:
    """What runs here (asked at the front door, which starts nothing), and its processes."""
    try:
        with FrontDoor.connect(home.socket_path("front")) as door:
            hello = door.call("hello")
            processes = list(door.call("status").get("processes", ()))
    except RuntimeFault as fault:
        if fault.code == "runtime.absent":
            return [
                Finding("runtime", "runtime", "ok", "down; the first command that needs it starts it")
            ], ()
        return [_fault("runtime", "runtime", fault)], ()
    except DulyError as error:
        return [_fault("runtime", "runtime", error)], ()
    number = len(processes)
    told = f"up since {moment(hello['started_ms'])}, process {hello['pid']}, epoch {hello['epoch']}, "
    told += f"{number} {'process' if number == 1 else 'processes'}"
    found = [Finding("runtime", "runtime", "ok", told)]
    found += [
        Finding(
            "runtime",
            str(one["role"]),
            "broken",
            f"does not answer [{one['error']}]",
            "`duly down`, and again.",
        )
        for one in processes
        if one.get("error")
    ]
    for one in processes:
        if str(one["role"]).startswith("host ") and one.get("pid"):
            found.append(Finding("runtime", str(one["role"]), "ok", _wears(int(one["pid"]))))
    return found, processes


def _wears(pid: int) -> str:
    """What the kernel says of a running host."""
    known = worn(pid)
    if not known:
        return f"process {pid}, which does not show what it wears"
    words = [f"process {pid}, user {known['uid']}"]
    words.append("no new privileges" if known.get("NoNewPrivs") == "1" else "may gain privileges")
    words.append("seccomp filter" if known.get("Seccomp") == "2" else "no seccomp filter")
    if "own_network" in known:
        words.append("own network" if known["own_network"] == "yes" else "the machine's network")
    return ", ".join(words)


def log(home: Home) -> Finding:
    """The quick look: newest checkpoint, its signature, and the root of the tree under it."""
    if not home.journal.is_dir():
        return Finding("log", "log", "ok", "nothing is recorded yet")
    try:
        with Records.open(home) as records:
            checkpoint = records.journal.checkpoint()
            runs = len(records.journal.runs())
    except DulyError as error:
        return _fault("log", "log", error)
    size = 0 if checkpoint is None else checkpoint.size
    told = f"{count(size, 'event')}, {count(runs, 'run')}; newest checkpoint, signature and root agree"
    return Finding("log", "log", "ok", f"{told} (all of it: `duly audit verify`)")


def _fault(group: str, name: str, error: DulyError) -> Finding:
    return Finding(group, name, "broken", f"{error.message} [{error.code}]", error.hint or "")


def assurance(home: Home, processes: Sequence[dict[str, Any]]) -> tuple[str, Finding]:
    """The level that this installation really has, and why not the next one (docs/threat-model.md)."""
    lacks = []
    key = home.keys / f"{ROLE}.key"
    if key.exists() and not is_guarded(key):
        lacks.append("the person's key lies here without a passphrase")
    uids: dict[bool, set[str]] = {True: set(), False: set()}
    for one in processes:
        if one.get("pid"):
            uids[str(one["role"]).startswith("host ")].add(worn(int(one["pid"])).get("uid", ""))
    if not uids[True]:
        lacks.append(
            "no host runs that could be looked at, and hosts start under the account that starts them"
        )
    elif uids[True] & uids[False]:
        lacks.append("hosts run under the same account as Ray")
    if lacks:
        told = f"personal: code in one Ray worker could act as a host or as the person, since {' and '.join(lacks)}"
        return "personal", Finding(
            "assurance", "level", "note", told, "docs/threat-model.md says what it takes."
        )
    told = "separated: hosts have accounts of their own, and no unguarded key of the person lies here; no witness cosigns"
    return "separated", Finding("assurance", "level", "ok", told)
