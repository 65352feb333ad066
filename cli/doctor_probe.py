"""What the kernel grants a process here, tried in a process of its own: the layers cannot be taken off again.

Prints one JSON object. ``layers`` are those that every host puts on at its start (``hosts/confinement``), true where
they hold. The others are what this kernel offers, whether duly uses it or not.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

from duly.hosts.confinement import harden

_CLONE_NEWUSER = 0x1000_0000
_LANDLOCK_CREATE_RULESET = 444  # the same number on every architecture
_LANDLOCK_VERSION = 1
_PR_GET_SECCOMP = 21


def probe() -> dict[str, Any]:
    """The findings. Changes this process for good."""
    uid = os.getuid()
    if not sys.platform.startswith("linux"):
        return {"layers": harden(), "landlock_abi": 0, "seccomp": False, "user_namespaces": False, "uid": uid}
    libc = ctypes.CDLL(None, use_errno=True)
    landlock = libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION)
    seccomp = libc.prctl(_PR_GET_SECCOMP, 0, 0, 0, 0)
    layers = harden()
    return {
        "layers": layers,
        "landlock_abi": max(0, landlock),
        "seccomp": seccomp >= 0,
        "user_namespaces": libc.unshare(_CLONE_NEWUSER) == 0,
        "uid": uid,
    }


if __name__ == "__main__":
    print(json.dumps(probe()))
