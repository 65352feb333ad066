"""What crosses process boundaries and what is signed: errors, the encoding, the documents."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import page

from duly.protocol.authority.approval import Approval, ApprovedStep
from duly.protocol.authority.document import Document
from duly.protocol.authority.grant import Grant
from duly.protocol.authority.mandate import Mandate, MandatedTool
from duly.protocol.authority.plan_entry import PlanEntry
from duly.protocol.authority.receipt import Receipt
from duly.protocol.log.checkpoint import Checkpoint
from duly.protocol.wire import canon, ids
from duly.protocol.wire.errors import Fault, PlanError
from duly.protocol.wire.model import Model
from duly.protocol.wire.tagged import to_tagged

_DOCUMENTS: tuple[type[Document], ...] = (Mandate, Approval, Grant, Receipt, PlanEntry)
_PARTS: Mapping[type[Document], Sequence[type[Model]]] = {Mandate: [MandatedTool], Approval: [ApprovedStep]}


def errors() -> Iterator[str]:
    yield from ("", "## Errors", "")
    yield from page.prose(
        "An error crosses processes as data, never as a pickled exception: as the body of a message of kind `error`, or "
        "as `error` in the last answer of the front door. The class follows from the first word of the code."
    )
    fault = Fault("steps/1/inputs", "plan.cycle", "s2 and s3 wait for each other.")
    error = PlanError(
        "plan.cycle", "The plan has a cycle.", place="plan.json", hint="Remove one of them.", faults=[fault]
    )
    yield from ("", "```json", json.dumps(error.to_data(), indent=2), "```")


def encoding() -> Iterator[str]:
    yield from ("", "## Encoding", "")
    yield from page.prose(
        "Canonical msgpack: maps have text keys in sorted order and none twice, integers take their shortest form, texts "
        "are UTF-8 in NFC, floats are finite float64 and never −0.0, there are no extension types. A decoder encodes again "
        "what it read and requires equal bytes. What is signed holds no floats. A digest is the SHA-256 of "
        "`duly/v1/<domain>`, a zero byte and the bytes; an artifact's is the SHA-256 of its run's 16 bytes of salt and "
        "the bytes."
    )
    yield ""
    examples: Sequence[Any] = (
        None,
        True,
        7,
        -1,
        300,
        1.5,
        "é",
        b"\x00\x01",
        [1, "a"],
        {"b": 1, "a": [None, 2.0]},
    )
    rows = [[f"`{example!r}`", f"`{canon.encode(example).hex(' ')}`"] for example in examples]
    yield from page.rows(("value", "bytes"), rows)
    plan = {"b": 1, "a": [None, 2.0]}
    yield from ("", f'`digest("plan", {plan!r})` is', f"`{canon.digest('plan', plan)}`;")
    yield f'`salted_digest(b"0123456789abcdef", b"abc")` is `{ids.salted_digest(b"0123456789abcdef", b"abc")}`.'
    yield ""
    yield from page.prose(
        "Outputs of tools may hold more; what has no canonical form is tagged, and read back exactly:"
    )
    yield ""
    yield from page.rows(("value", "tagged"), _tagged())


def _tagged() -> Iterator[Sequence[str]]:
    values: Sequence[Any] = (
        Decimal("1.10"),
        1 << 64,
        float("nan"),
        b"\x00\x01",
        datetime.date(2013, 6, 1),
        (1, 2),
        {1: "a"},
        {"$ref": "no reference"},
    )
    for value in values:
        yield f"`{value!r}`", f"`{json.dumps(to_tagged(value))}`"


def signed() -> Iterator[str]:
    yield from ("", "## Signed documents", "")
    yield from page.prose(
        "Each is a DSSE envelope in canonical msgpack (`payload_type`, `payload`, `keyid`, `sig`), signed with Ed25519 over "
        "the payload together with its type; the key id is the first 16 hexadecimal digits of the SHA-256 of the public "
        "key. Times are milliseconds of wall time, digests 64 hexadecimal digits. Unknown fields are refused."
    )
    for model in _DOCUMENTS:
        yield from ("", f"### {model.payload_type}", "")
        yield from page.prose(page.whole(model.__doc__))
        yield ""
        yield from page.item(f"Fields: {page.fields(model)}")
        for part in _PARTS.get(model, ()):
            yield from page.item(f"`{part.__name__}`: {page.fields(part)}")
    checkpoint = Checkpoint("example", 2, bytes(32))
    yield from ("", "### checkpoint", "")
    yield from page.prose(
        "What the log's key signs about the whole log: a C2SP signed note over origin, number of entries and root of the "
        "RFC 6962 tree. Its text, for two entries and a root of zeros:"
    )
    yield from ("", "```text", *checkpoint.text().splitlines(), "```")
