"""A tool that keeps to LMDB's locks and knows nothing of duly's: grows a store. Argument: folder."""

import sys

import lmdb

with lmdb.open(sys.argv[1], map_size=1 << 24, max_dbs=4) as env:
    things = env.open_db(b"things")
    with env.begin(write=True, db=things) as transaction:
        for number in range(300):
            transaction.put(b"tool%d" % number, bytes(4_000))
print("done", flush=True)
