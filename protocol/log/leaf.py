"""What one entry of the journal is: the canonical msgpack map of an event.

    {"artifacts": {name: digest}, "cause": id, "epoch": int, "facts": {…}, "kind": str, "run_id": str or "",
     "seq": int, "time_ms": int, "v": 1}

Whoever journals gives the event without ``seq``; the journal alone numbers. ``seq`` is put into the bytes where the
canonical order wants it, so an event is encoded once, by the process that made it.

``facts`` holds ids, numbers, codes and digests. Free text, arguments, outputs and plans are artifacts: a leaf can never
be erased.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgpack

from ..wire import canon
from ..wire.errors import LogError, WireError
from ..wire.ids import is_digest, is_name
from ..wire.limits import LEAF_BYTES_MAX

VERSION = 1
FIELDS = ("artifacts", "cause", "epoch", "facts", "kind", "run_id", "seq", "time_ms", "v")
FIELDS_WITHOUT_SEQ = tuple(name for name in FIELDS if name != "seq")

_MAP_OF_9 = b"\x89"
_SEQ_KEY = b"\xa3seq"
_TAIL_BYTES = (
    len(b"\xa7time_ms") + 9 + len(b"\xa1v\x01")
)  # behind ``seq``; a time since 1970 takes nine bytes
_INT_MAX = (1 << 63) - 1
_TYPES = (dict, str, int, dict, str, str, int, int)
_DRAFT_BYTES_MAX = LEAF_BYTES_MAX - len(_SEQ_KEY) - 9

_SCALARS = frozenset((str, int, bool, type(None)))
_new_draft = (
    tuple.__new__
)  # what a named tuple's own constructor calls; a fifth of a microsecond for each event
_DIGEST_LENGTHS = frozenset((64,))
_is_name = lru_cache(maxsize=4_096)(is_name)  # kinds are few, and the runs of a group repeat
unpackb: Callable[[bytes], Any] = msgpack.unpackb
pack: Callable[[Any], bytes] = msgpack.Packer(use_bin_type=True, autoreset=True).pack


class Draft(NamedTuple):
    """An event that was looked at and has no number yet: what its index needs, its bytes, and where ``seq`` goes in
    them, counted from their end."""

    run_id: str
    kind: str
    epoch: int
    time_ms: int
    data: bytes
    after_seq: int

    def leaf(self, seq: int) -> bytes:
        """The entry under number ``seq``."""
        return leaf_bytes(self.data, self.after_seq, seq)


def leaf_bytes(data: bytes, after_seq: int, seq: int) -> bytes:
    """The entry of a draft's bytes: one field more, ``seq``, where the canonical order wants it."""
    return b"".join((_MAP_OF_9, data[1:-after_seq], _SEQ_KEY, pack(seq), data[-after_seq:]))


def draft(event: Mapping[str, Any] | bytes) -> Draft:
    """The draft of an event, given as a map or as its canonical bytes, without ``seq``.

    Raises ``LogError``: ``log.event`` (a field is missing, unknown or of a wrong type), ``log.leaf_too_large``; and
    ``WireError`` where the bytes are not canonical.
    """
    data = event if type(event) is bytes else canon.encode(dict(event))  # type: ignore[arg-type]
    if len(data) > _DRAFT_BYTES_MAX:
        raise LogError(
            "log.leaf_too_large",
            f"An event has at most {_DRAFT_BYTES_MAX} bytes, this one has {len(data)}.",
            hint="Keep text, arguments and outputs as artifacts and name their digests.",
        )
    value = _unpacked(data)
    if type(value) is not dict:
        value = canon.decode(data)
        _check_fields(value, FIELDS_WITHOUT_SEQ)
    if not _is_plain(value) or pack(value) != data:
        # Rare: texts beyond ASCII, nested facts. The general decoder tells whether the bytes are canonical.
        canon.decode(data)
        _check_fields(value, FIELDS_WITHOUT_SEQ)
    _, _, epoch, _, kind, run_id, time_ms, _ = value.values()
    after_seq = _TAIL_BYTES if time_ms >> 32 else _TAIL_BYTES - 9 + len(pack(time_ms))
    return _new_draft(Draft, (run_id, kind, epoch, time_ms, data, after_seq))


def read_leaf(data: bytes, seq: int) -> dict[str, Any]:
    """The event in an entry, every rule checked. Raises ``LogError`` ``log.event`` naming the entry."""
    try:
        value = _unpacked(data)
        if len(data) > LEAF_BYTES_MAX or not _is_plain_leaf(value) or pack(value) != data:
            value = canon.decode(data, bytes_max=LEAF_BYTES_MAX)
            _check_fields(value, FIELDS)
    except (WireError, LogError) as error:
        raise LogError("log.event", error.message, place=f"entry {seq}") from None
    if value["seq"] != seq:
        raise LogError("log.event", f"The entry calls itself number {value['seq']}.", place=f"entry {seq}")
    return dict(value)


def unpack(data: bytes) -> Any:
    """The value of msgpack bytes that this process or the tree vouches for, such as an entry whose hash was compared."""
    return unpackb(data)


def _unpacked(data: bytes) -> Any:
    """The value of msgpack bytes, canonical or not; None for what is no msgpack, for the general decoder to name."""
    try:
        return unpackb(data)
    except (ValueError, TypeError, RecursionError, OverflowError, msgpack.UnpackException):
        return None


def _is_plain_leaf(value: Any) -> bool:
    if type(value) is not dict or tuple(value) != FIELDS or type(value["seq"]) is not int or value["seq"] < 0:
        return False
    return _is_plain({name: item for name, item in value.items() if name != "seq"})


def _is_plain(value: dict[str, Any]) -> bool:
    """Whether an event is sound and of the common shape: keys in order, flat facts, integers and ASCII texts.

    This is `_check_fields` for the hot path (a third of the time of a group goes here); what it does not recognise is
    looked at again there.
    """
    if tuple(value) != FIELDS_WITHOUT_SEQ or tuple(map(type, value.values())) != _TYPES:
        return False
    artifacts, cause, epoch, facts, kind, run_id, time_ms, version = value.values()
    if version != VERSION or not 0 <= epoch <= _INT_MAX or not 0 <= time_ms <= _INT_MAX:
        return False
    if not _is_name(kind) or not (_is_name(run_id) or run_id == ""):
        return False
    facts_values = facts.values()
    if not _SCALARS.issuperset(map(type, facts_values)):
        return False
    try:
        if list(facts) != sorted(facts) or (len(artifacts) > 1 and list(artifacts) != sorted(artifacts)):
            return False
        digests = "".join(artifacts.values())
        if bytes.fromhex(digests).hex() != digests or not _DIGEST_LENGTHS.issuperset(
            map(len, artifacts.values())
        ):
            return False
        return "".join(
            [cause, *facts, *artifacts, *[item for item in facts_values if type(item) is str]]
        ).isascii()
    except (TypeError, ValueError):  # a key that is no text, an artifact that is no digest
        return False


def _check_fields(value: Any, fields: tuple[str, ...]) -> None:
    if type(value) is not dict or tuple(value) != fields:
        raise LogError("log.event", f"An event has exactly the fields {', '.join(fields)}.")
    if value["v"] != VERSION or type(value["v"]) is not int:
        raise LogError("log.event", f"An event of version {value['v']!r} is not known here.")
    for name in ("epoch", "time_ms", *(("seq",) if "seq" in fields else ())):
        if type(value[name]) is not int or not 0 <= value[name] <= _INT_MAX:
            raise LogError("log.event", f"The field {name} is a whole number from 0 on.")
    if type(value["kind"]) is not str or not is_name(value["kind"]):
        raise LogError("log.event", "The field kind is a name such as step.started.")
    if type(value["run_id"]) is not str or (value["run_id"] and not is_name(value["run_id"])):
        raise LogError("log.event", "The field run_id is an id or empty.")
    if (
        type(value["cause"]) is not str
        or type(value["facts"]) is not dict
        or type(value["artifacts"]) is not dict
    ):
        raise LogError("log.event", "The field cause is an id; facts and artifacts are maps.")
    for name, digest in value["artifacts"].items():
        if type(digest) is not str or not is_digest(digest):
            raise LogError("log.event", f"The artifact {name!r} is not named by a digest.")
