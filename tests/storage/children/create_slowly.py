"""Stops for good at a named point of creating a journal, so that it can be killed there. Arguments: folder, point."""

import os
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.storage import lmdb_env, lmdb_file
from duly.storage.journal import Journal


def stop(*arguments: object) -> None:
    print("now", flush=True)
    sys.stdin.read()
    os._exit(1)


if sys.argv[2] == "0":
    lmdb_env._fill = stop
elif sys.argv[2] == "1":
    lmdb_file.sync_path = stop
else:
    lmdb_file.os.rename = stop
Journal.open(Path(sys.argv[1]), Ed25519PrivateKey.from_private_bytes(bytes(range(32))), "duly.test/log")
