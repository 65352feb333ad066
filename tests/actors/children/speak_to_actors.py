"""Sends batches of bytes to actors of a running cluster, as any code inside of Ray could, and notes their answers.

    python speak_to_actors.py ADDRESS ASKED ANSWERED

``ASKED`` is a JSON file with a list of ``{"actor", "envelopes": [hex], "blobs": [hex]}``; ``ANSWERED`` becomes the list
of answers, each a list of hexadecimal envelopes. A process of its own, since Ray stays in the one that attached to it.
"""

import json
import os
import sys

import ray


def main() -> None:
    address, asked, answered = sys.argv[1:]
    ray.init(address=address, namespace="duly", log_to_driver=False, configure_logging=False)
    answers = []
    with open(asked, encoding="utf-8") as file:
        batches = json.load(file)
    for batch in batches:
        actor = ray.get_actor(batch["actor"], namespace="duly")
        sent = ([bytes.fromhex(one) for one in batch[name]] for name in ("envelopes", "blobs"))
        replies, _ = ray.get(actor.handle.remote(*sent), timeout=60)
        answers.append([one.hex() for one in replies])
    with open(answered, "w", encoding="utf-8") as file:
        json.dump(answers, file)
    os._exit(0)


if __name__ == "__main__":
    main()
