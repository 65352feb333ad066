"""Opens cut-off and scribbled copies of a store; must end with 0, whatever is in them. Arguments: store, folder, seed.

A process of its own, because the failure that this looks for is a signal.
"""

import random
import shutil
import sys
from pathlib import Path

from duly.protocol.wire.errors import StorageError
from duly.storage.lmdb_env import Environment

store, folder, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
whole = (store / "data.mdb").read_bytes()
chance = random.Random(seed)


def outcome(data: bytes, writer: bool) -> str:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "data.mdb").write_bytes(data)
    try:
        with Environment.open(folder, "duly.test", 1, ("things",), writer=writer) as env:
            return f"{sum(len(value) for _, value in env.read(lambda t: list(t.cursor(db=env.database('things')))))}"
    except StorageError as error:
        return error.code


full = outcome(whole, True)
assert full.isdigit(), full
cuts = sorted(
    {
        0,
        1,
        4_095,
        len(whole) - 1,
        *(chance.randrange(len(whole)) for _ in range(40)),
        *range(0, len(whole), 4_096 * 7),
    }
)
for cut in cuts:
    for writer in (True, False):
        got = outcome(whole[:cut], writer)
        # A free page at the very end may be missing: then everything is still there.
        assert got in ("storage.damaged", "storage.format") or (got == full and cut > 0.9 * len(whole)), (
            cut,
            got,
        )
for _ in range(60):
    data = bytearray(whole)
    page = chance.randrange(len(whole) // 4_096) * 4_096
    for _ in range(chance.choice((1, 1, 4, 64))):
        data[page + chance.randrange(64)] ^= 1 << chance.randrange(8)
    got = outcome(bytes(data), True)
    assert got.isdigit() or got in ("storage.damaged", "storage.format", "storage.schema"), got
print("done", flush=True)
