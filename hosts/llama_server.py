"""A llama.cpp server over one model file, in a process of its own: the child of ``duly model serve``.

    python -m duly.hosts.llama_server FILE --port N --context N --threads N --name NAME

Listens on loopback alone and prints one line of JSON when it is ready, with its address, or when it could not be; what
llama.cpp says goes to standard error. It ends when its standard input does, so it never outlives its parent, however
that one ends. Nothing of the model ever runs in another process of duly.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from typing import Any

LOOPBACK = "127.0.0.1"
PROMPTS_KEPT_MIB = (
    512  # prompts that begin alike (every try of a plan) are read once; llama.cpp's own default is 8 GiB
)
LOG_WARNINGS = 2  # llama.cpp's word for errors and warnings: its log would otherwise grow with every request


def main(arguments: list[str] | None = None) -> int:
    """Serves until standard input ends. Status 1 where the server cannot be started; the line says why."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    for name in ("--port", "--context", "--threads"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--name", required=True)
    given = parser.parse_args(arguments)
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever native code prints is no line of ours
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        import xllamacpp

        server = xllamacpp.Server(_parameters(xllamacpp, given))
    except (RuntimeError, ImportError) as error:
        print(json.dumps({"state": "failed", "why": str(error)}), file=told, flush=True)
        return 1
    print(json.dumps({"state": "ready", "address": server.listening_address}), file=told, flush=True)
    threading.Event().wait()  # the server works in threads of its own; the other thread ends this process
    return 0


def _parameters(library: Any, given: argparse.Namespace) -> Any:
    """One slot, so that a call has the whole context; nothing beside the API; no page of a browser may read it."""
    asked = library.CommonParams()
    asked.model.path = given.file
    asked.model_alias = {given.name}
    asked.hostnames = [LOOPBACK]
    asked.port = given.port
    asked.n_ctx = given.context
    asked.n_parallel = 1
    asked.cache_ram_mib = PROMPTS_KEPT_MIB
    asked.verbosity = LOG_WARNINGS
    asked.offline = True
    asked.ui = False
    asked.endpoint_slots = False  # shows the prompts of others
    asked.cors_origins = ""
    if given.threads:
        asked.cpuparams.n_threads = given.threads
        asked.cpuparams_batch.n_threads = given.threads
    return asked


def _end_with_parent() -> None:
    """Waits until the parent closes our standard input, or is gone. What is being answered then has nobody to hear it."""
    while os.read(0, 4_096):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
