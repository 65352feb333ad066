"""What connects to a host and does not speak its language gets a code and a closed connection; the host lives on."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import stat
from collections.abc import Iterator

import pytest

from duly.hosts.framing import FrameParser, frame, peer_uid
from duly.protocol.wire.limits import FRAME_BYTES_MAX
from host_world import HostWorld, python_package


@pytest.fixture(scope="module")
def world() -> Iterator[HostWorld]:
    world = HostWorld("read")
    world.add_package(python_package('@tool(effect="read")\ndef look() -> int:\n    return 1\n', "look"))
    world.start()
    yield world
    world.close()


def _answers(world: HostWorld, data: bytes) -> list[dict]:
    """Everything that the host says to these bytes until it closes."""
    parser, found = FrameParser(), []
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(10)
        peer.connect(world.config.socket)
        try:
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before it had all of it: its answer can still be read
        try:
            while received := peer.recv(1 << 16):
                found += [message for message, _ in parser.feed(received)]
        except ConnectionResetError:
            return found
    return found


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


HOSTILE = {
    "wire.frame_too_large": b"\xff\xff\xff\xff",
    "wire.too_deep": _sized(b"\x81\xa1a" + b"\x91" * 100_000),
    "wire.malformed": _sized(random.Random(7).randbytes(500)),
    "wire.not_canonical": _sized(b"\x82\xa1b\x01\xa1a\x01"),
    "wire.bad_blobs": _sized(b"\x81\xa5blobs\xa1x"),
}


@pytest.mark.parametrize("code", HOSTILE)
def test_rubbish_is_answered_with_its_code_and_the_host_lives_on(world, code):
    (answer,) = _answers(world, HOSTILE[code])
    assert (answer["op"], answer["error"]["code"]) == ("error", code)

    async def hello():
        async with world.client() as client:
            return (await client.hello())["pid"]

    assert world.process is not None
    assert asyncio.run(hello()) == world.process.pid


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"op": "rule", "id": 1}, "wire.unknown_kind"),
        ({"op": "hello"}, "wire.bad_body"),
        ({"op": "hello", "id": "one"}, "wire.bad_body"),
        ({"op": "run", "id": 1}, "wire.bad_body"),
        ({"op": "run", "id": 1, "mode": "serial"}, "wire.bad_body"),
        ({"op": "run", "id": 1, "mode": "serial", "grants": b"rubbish"}, "grant.malformed"),
        ({"op": "epoch", "id": 1}, "epoch.malformed"),
        ({"op": "describe", "id": 1, "package": "../.."}, "tool.unknown_package"),
    ],
)
def test_a_request_that_is_none_has_its_code(world, message, code):
    (answer,) = _answers(world, b"".join(frame(message)))
    assert answer["error"]["code"] == code


def test_four_megabytes_of_empty_arrays_cost_no_memory(world):
    assert world.process is not None

    def peak() -> int:
        with open(f"/proc/{world.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

    before = peak()
    arrays = b"\xdd" + (FRAME_BYTES_MAX - 8).to_bytes(4, "big") + b"\x90" * (FRAME_BYTES_MAX - 8)
    for data in (
        _sized(arrays * 4),
        _sized(arrays),
        b"\xff\xff\xff\xff" + arrays,
        _sized(b"\x81\xa1a" + arrays),
    ):
        assert _answers(world, data)[0]["error"]["code"].startswith("wire.")
    # In kB. One frame of nothing but empty arrays is the worst that the cap lets through: 70 bytes a byte, twice.
    assert peak() - before < 250_000


def test_the_socket_is_for_this_user_only(world):
    assert stat.S_IMODE(os.stat(world.config.socket).st_mode) == 0o600
    one, other = socket.socketpair()
    with one, other:
        assert peer_uid(one) == os.getuid()


def test_a_peer_of_another_user_is_not_heard(world):
    if os.getuid() != 0:
        pytest.skip("only root can act as another user")
    code = (
        "import os, socket\n"
        "peer = socket.socket(socket.AF_UNIX)\n"
        "peer.connect('h.sock')\n"
        "os._exit(0 if peer.recv(1) == b'' else 1)\n"
    )
    os.chmod(world.home, 0o711)  # the host looks at the peer itself, also where the files would let it in
    os.chmod(world.config.socket, 0o666)
    child = os.fork()
    if child == 0:
        os.chdir(world.home)
        os.setuid(65534)
        os.execv("/proc/self/exe", ["python", "-S", "-c", code])
    _, status = os.waitpid(child, 0)
    os.chmod(world.config.socket, 0o600)
    assert os.waitstatus_to_exitcode(status) == 0
