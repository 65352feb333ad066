"""The exit codes of the command line, in one table each (DESIGN 16)."""

from __future__ import annotations

from duly.protocol.wire.errors import DulyError

DONE = 0
INTERNAL = 1
USAGE = 2
REFUSED = 8

# Commands that follow a run end with the phase in which it stopped.
PHASES = {
    "COMPLETED": 0,
    "FAILED": 3,
    "PARTIAL": 4,
    "CANCELLED": 5,
    "WAITING_APPROVAL": 6,
    "WAITING_INPUT": 7,
}

# What an error means to a script, by its code, else by the code's first word. Usage is what the person can put right
# in the command line or in the files that it names; refused is what the system's state does not allow.
CODES = {
    "request": USAGE,
    "budget": USAGE,
    "package": USAGE,
    "plan": USAGE,
    "storage.absent": REFUSED,
    "tool.unknown": REFUSED,
    "run": REFUSED,
    "gate": REFUSED,
    "approval": REFUSED,
    "mandate": REFUSED,
    "key": REFUSED,
    "grant": REFUSED,
    "receipt": REFUSED,
    "log": REFUSED,
    "model": REFUSED,
    "tool": INTERNAL,
    "storage": INTERNAL,
    "runtime": INTERNAL,
    "wire": INTERNAL,
}


def of_error(error: DulyError) -> int:
    """The exit code of a command that ends with an error."""
    return CODES.get(error.code, CODES.get(error.code.partition(".")[0], INTERNAL))


def of_phase(phase: str) -> int:
    """The exit code of a command that followed a run to where it stopped."""
    return PHASES.get(phase, INTERNAL)
