"""Asks a key ring for the key of a role once told to, and says its public part. Arguments: folder, role."""

import sys
from pathlib import Path

from duly.storage.keys import KeyRing

print("ready", flush=True)
sys.stdin.readline()
print(KeyRing(Path(sys.argv[1])).private(sys.argv[2]).public_key().public_bytes_raw().hex(), flush=True)
