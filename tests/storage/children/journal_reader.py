"""Reads a journal with nothing but its public key, a line each. Arguments: folder, verifier key.

size · run RUN · runs · entry SEQ
"""

import sys
from pathlib import Path

from duly.protocol.log.checkpoint import VerifierKey
from duly.protocol.wire.errors import DulyError
from duly.storage.journal_reader import JournalReader

try:
    reader = JournalReader.open(Path(sys.argv[1]), [VerifierKey.parse(sys.argv[2])])
except DulyError as error:
    print(error.code, flush=True)
    sys.exit(3)
print("open", flush=True)
for line in sys.stdin:
    word, *arguments = line.split()
    try:
        if word == "size":
            checkpoint = reader.checkpoint()
            print(reader.size, checkpoint.root.hex() if checkpoint else "-", flush=True)
        elif word == "run":
            print(*[entry.seq for entry in reader.read_run(arguments[0])], flush=True)
        elif word == "runs":
            print(*[run.run_id for run in reader.runs()], flush=True)
        elif word == "entry":
            print(next(reader.entries([int(arguments[0])])).event["kind"], flush=True)
    except DulyError as error:
        print(error.code, error.place, flush=True)
reader.close()
