"""How messages travel over a stream socket: a length, a canonical msgpack map, and raw blobs behind it.

    u32 big-endian length ‖ canonical msgpack map ‖ blob ‖ blob ‖ …

The map's optional key ``blobs`` lists the byte lengths of the blobs. The map has at most ``FRAME_BYTES_MAX`` bytes, the
blobs of one message together at most ``ARTIFACT_BYTES_MAX``. A claimed length is checked before a byte of it is
buffered, so a peer that claims 4 GB costs nothing.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import msgpack

from duly.protocol.wire import canon
from duly.protocol.wire.errors import WireError
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX, BLOBS_PER_MESSAGE_MAX, FRAME_BYTES_MAX

Message = dict[str, Any]
Frame = tuple[Message, list[bytes]]

_LENGTH = struct.Struct(">I")
READ_BYTES = 1 << 18


def frame(message: Message, blobs: Sequence[bytes] = (), *, canonical: bool = True) -> list[bytes]:
    """The parts of one message, to be written one after the other.

    ``canonical=False`` is for the link between a host and its own worker, where nothing is signed or digested and the
    strict form would cost more than the call. Raises ``WireError`` ``wire.frame_too_large``.
    """
    if blobs:
        message = {**message, "blobs": [len(blob) for blob in blobs]}
    body = canon.encode(message) if canonical else msgpack.packb(message, use_bin_type=True)
    if len(body) > FRAME_BYTES_MAX or sum(map(len, blobs)) > ARTIFACT_BYTES_MAX:
        raise WireError(
            "wire.frame_too_large",
            f"A message of {len(body)} bytes with blobs of {sum(map(len, blobs))} exceeds the limits of a frame.",
            hint="Send fewer calls in one message.",
        )
    return [_LENGTH.pack(len(body)) + body, *blobs]


class FrameParser:
    """Bytes in, messages out; keeps what is incomplete. Raises ``WireError`` and is of no use afterwards."""

    def __init__(self, *, canonical: bool = True) -> None:
        self._canonical = canonical
        self._buffer = bytearray()
        self._position = 0
        self._message: Message | None = None
        self._sizes: list[int] = []
        self._need = _LENGTH.size

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Every message that is complete with these bytes."""
        self._buffer += data
        while True:
            complete = self._next()
            if complete is None:
                break
            yield complete
        if self._position:
            del self._buffer[: self._position]
            self._position = 0

    @property
    def partial(self) -> bool:
        """Whether a message has begun and not ended."""
        return bool(self._buffer) or self._message is not None

    def _next(self) -> Frame | None:
        if self._message is None and not self._read_message():
            return None
        if len(self._buffer) - self._position < self._need:
            return None
        blobs = []
        for size in self._sizes:
            blobs.append(bytes(memoryview(self._buffer)[self._position : self._position + size]))
            self._position += size
        message, self._message = self._message, None
        assert message is not None
        return message, blobs

    def _read_message(self) -> bool:
        available = len(self._buffer) - self._position
        if available < _LENGTH.size:
            return False
        (length,) = _LENGTH.unpack_from(self._buffer, self._position)
        if length > FRAME_BYTES_MAX:
            raise WireError(
                "wire.frame_too_large", f"A frame of {length} bytes exceeds the limit of {FRAME_BYTES_MAX}."
            )
        if available < _LENGTH.size + length:
            return False
        start = self._position + _LENGTH.size
        body = bytes(memoryview(self._buffer)[start : start + length])
        self._position = start + length
        self._message = self._decoded(body)
        self._sizes = _blob_sizes(self._message)
        self._need = sum(self._sizes)
        return True

    def _decoded(self, body: bytes) -> Message:
        if not (body[:1] in (b"\xde", b"\xdf") or b"\x80" <= body[:1] <= b"\x8f"):
            raise WireError("wire.malformed", "A message is a map.")  # before a single object is made of it
        if self._canonical:
            value = canon.decode(body)
        else:
            try:
                value = msgpack.unpackb(body, raw=False, strict_map_key=True)
            except (ValueError, TypeError, msgpack.UnpackException) as error:
                raise WireError(
                    "wire.malformed", f"A worker sent no message: {type(error).__name__}."
                ) from None
        assert type(value) is dict
        return value


def _blob_sizes(message: Message) -> list[int]:
    sizes = message.pop("blobs", [])
    if type(sizes) is not list or any(type(size) is not int or size < 0 for size in sizes):
        raise WireError("wire.bad_blobs", "`blobs` is a list of byte lengths.")
    if len(sizes) > BLOBS_PER_MESSAGE_MAX or sum(sizes) > ARTIFACT_BYTES_MAX:
        raise WireError(
            "wire.frame_too_large",
            f"{len(sizes)} blobs of {sum(sizes)} bytes exceed the limits of one message.",
        )
    return sizes


class BlockingFrames:
    """Messages over a blocking stream socket: for workers, which have one thing to do at a time."""

    def __init__(self, sock: socket.socket, *, canonical: bool = True) -> None:
        self._socket = sock
        self._canonical = canonical
        self._parser = FrameParser(canonical=canonical)
        self._ready: list[Frame] = []

    def read(self) -> Frame | None:
        """The next message, ``None`` when the peer has closed."""
        while not self._ready:
            data = self._socket.recv(READ_BYTES)
            if not data:
                return None
            self._ready = list(self._parser.feed(data))
            self._ready.reverse()
        return self._ready.pop()

    def write(self, message: Message, blobs: Sequence[bytes] = ()) -> None:
        """Sends one message; several threads need a lock around it."""
        self._socket.sendall(b"".join(frame(message, blobs, canonical=self._canonical)))


def peer_uid(sock: socket.socket) -> int:
    """The user id of the process at the other end of a Unix socket, as the kernel recorded it."""
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(uid)
