"""Appends groups to a journal until it is killed; says the last number of each group once ``append`` has returned.

Arguments: folder, seed. Every event tells its group and how many events that has.
"""

import random
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.storage.journal import Journal

folder, seed = Path(sys.argv[1]), int(sys.argv[2])
chance = random.Random(seed)
journal = Journal.open(folder, Ed25519PrivateKey.from_private_bytes(bytes(range(32))), "duly.test/log")
epoch = journal.take_epoch()
print(journal.size - 1, flush=True)
group = journal.size
while True:
    count = chance.choice((1, 2, 3, 17, 64))
    padding = "x" * chance.choice((0, 10, 3_000))
    events = [
        {
            "v": 1,
            "time_ms": 1_790_000_000_000 + group,
            "run_id": f"run-{chance.randrange(5)}",
            "kind": "step.succeeded",
            "epoch": epoch,
            "cause": "m-1",
            "facts": {"group": group, "of": count, "padding": padding},
            "artifacts": {},
        }
        for _ in range(count)
    ]
    print(journal.append(events)[-1], flush=True)
    group += 1
