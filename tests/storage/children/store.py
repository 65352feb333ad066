"""Opens a store's environment and does what it is told, a line each. Arguments: folder, reader or writer.

put KEY VALUE · get KEY · fill COUNT BYTES · hold (an open LMDB read transaction, for good) · pid
"""

import sys
from pathlib import Path

from duly.protocol.wire.errors import StorageError
from duly.storage.lmdb_env import Environment

try:
    env = Environment.open(Path(sys.argv[1]), "duly.test", 1, ("things",), writer=sys.argv[2] == "writer")
except StorageError as error:
    print(error.code, error.message, flush=True)
    sys.exit(3)
print("open", flush=True)
held = []
for line in sys.stdin:
    word, *arguments = line.split()
    things = env.database("things")
    if word == "put":
        key, value = arguments[0].encode(), arguments[1].encode()
        env.write(
            lambda transaction, key=key, value=value: transaction.put(key, value, db=env.database("things"))
        )
        print("done", flush=True)
    elif word == "get":
        key = arguments[0].encode()
        value = env.read(lambda transaction, key=key: transaction.get(key, db=env.database("things")))
        print("none" if value is None else value.decode(), flush=True)
    elif word == "fill":
        count, size = map(int, arguments)

        def fill(transaction, count=count, size=size):
            for number in range(count):
                transaction.put(b"fill%08d" % number, b"x" * size, db=env.database("things"))

        env.write(fill)
        print("done", flush=True)
    elif word == "hold":
        held.append(env._handle._env.begin())
        print("holding", flush=True)
env.close()
