"""Reads artifacts beside their writer, a line each. Argument: folder.

RUN DIGEST -> length and the first byte, or the error's code
"""

import sys
from pathlib import Path

from duly.protocol.wire.errors import DulyError
from duly.storage.artifacts import ArtifactStore

store = ArtifactStore.open(Path(sys.argv[1]), writer=False)
print("open", flush=True)
for line in sys.stdin:
    run_id, digest = line.split()
    try:
        data = store.get(run_id, digest)
        print(len(data), data[:1].hex(), flush=True)
    except DulyError as error:
        print(error.code, flush=True)
store.close()
