"""Signed notes: what is made, and everything that must be refused (attack list 8 to 11)."""

from __future__ import annotations

import base64
import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.log.checkpoint import Checkpoint, VerifierKey, parse_text, read_unverified, sign, verify
from duly.protocol.log.merkle import EMPTY_ROOT
from duly.protocol.wire.errors import AuthorityError, DulyError, LogError

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
ORIGIN = "duly.example/log"
ROOT = hashlib.sha256(b"root").digest()
CHECKPOINT = Checkpoint(ORIGIN, 7, ROOT)
VERIFIER = VerifierKey.of(ORIGIN, KEY)
NOTE = sign(CHECKPOINT, KEY)


def refused(note: bytes, *keys: VerifierKey) -> str:
    with pytest.raises(DulyError) as caught:
        verify(note, keys or (VERIFIER,))
    return caught.value.code


def resigned(text: str, name: str = ORIGIN, key: Ed25519PrivateKey = KEY) -> bytes:
    """A note over any text, with a signature that holds."""
    data = VerifierKey(name, key.public_key().public_bytes_raw()).key_id + key.sign(text.encode())
    return f"{text}\n\u2014 {name} {base64.b64encode(data).decode()}\n".encode()


def test_golden_note() -> None:
    assert NOTE.decode() == (
        "duly.example/log\n"
        "7\n"
        "SBNJTRN+FjG7owHVrKtue7eqdM4RhdRWVl71HXN2d7I=\n"
        "\n"
        "\u2014 duly.example/log pzxdskg1IQK1RrQLNvUczNK5LfeWeRPOm+s5yuqq98lde1EGGMMt71Z+rjQ+"
        "8fIcGF4F0pDsS/KXMtb1XOjxhrJ7vAo=\n"
    )
    assert str(VERIFIER) == "duly.example/log+a73c5db2+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4"


@pytest.mark.parametrize(
    ("text", "key_id"),
    [
        # Published keys of the Go checksum database and of the signed-note documentation.
        ("sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8", "033de0ae"),
        ("PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", "c74f20a3"),
    ],
)
def test_published_verifier_keys(text: str, key_id: str) -> None:
    key = VerifierKey.parse(text)
    assert key.key_id.hex() == key_id
    assert str(key) == text


def test_what_is_signed_verifies_and_is_the_text_with_its_newline() -> None:
    assert verify(NOTE, (VERIFIER,)) == CHECKPOINT
    assert read_unverified(NOTE) == CHECKPOINT
    text, _, line = NOTE.decode().partition("\n\n")
    data = base64.b64decode(line.split(" ")[2])
    KEY.public_key().verify(data[4:], (text + "\n").encode())
    assert data[:4] == hashlib.sha256(ORIGIN.encode() + b"\n\x01" + VERIFIER.public).digest()[:4]


@given(st.integers(1, (1 << 63) - 1), st.binary(min_size=32, max_size=32))
def test_round_trip(size: int, root: bytes) -> None:
    checkpoint = Checkpoint(ORIGIN, size, root)
    assert verify(sign(checkpoint, KEY), (VERIFIER,)) == checkpoint


def test_extension_lines_are_kept_and_signed() -> None:
    checkpoint = Checkpoint(ORIGIN, 7, ROOT, ("epoch 4",))
    assert verify(sign(checkpoint, KEY), (VERIFIER,)) == checkpoint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\n7\n", b"\r\n7\r\n"),
        (b"\n7\n", b"\n7\t\n"),
        (b"duly", b"du\0ly"),
        (b"duly", b"du\x7fly"),
        (b"duly", b"du\xffly"),
        (b"duly", b"du\xed\xa0\x80ly"),
        ("\u2014 ".encode(), b"- "),
        ("\u2014 ".encode(), "\u2013 ".encode()),
        (b"=\n\n", b"=\n"),
        ("\u2014 duly.example/log ".encode(), "\u2014 duly+example/log ".encode()),
        ("\u2014 duly.example/log ".encode(), "\u2014 duly\u00a0example/log ".encode()),
        ("\u2014 duly.example/log ".encode(), "\u2014  ".encode()),
        ("\u2014 duly.example/log ".encode(), "\u2014 duly.example/log !".encode()),
    ],
)
def test_bytes_that_are_no_note(old: bytes, new: bytes) -> None:
    assert old in NOTE
    code = refused(NOTE.replace(old, new))
    assert code in ("log.note", "log.key_name")


def test_a_note_needs_its_last_newline_and_a_signature() -> None:
    assert refused(NOTE[:-1]) == "log.note"
    assert refused(NOTE + b"\n") == "log.note"
    assert refused(CHECKPOINT.text().encode()) == "log.note"
    assert refused(CHECKPOINT.text().encode() + b"\n") == "log.note"
    assert refused(b"") == "log.note"


def test_non_minimal_base64_is_refused() -> None:
    # The last character before "=" holds two bits that a decoder ignores.
    text, _, line = NOTE.decode().rpartition(" ")
    flipped = line.replace("=\n", "").rstrip()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = alphabet[alphabet.index(flipped[-1]) ^ 1]
    changed = f"{text} {flipped[:-1]}{other}=\n".encode()
    assert base64.b64decode(changed.split(b" ")[2]) == base64.b64decode(line)
    assert refused(changed) == "log.note"


@pytest.mark.parametrize(
    "text",
    [
        f"{ORIGIN}\n07\n{base64.b64encode(ROOT).decode()}\n",
        f"{ORIGIN}\n+7\n{base64.b64encode(ROOT).decode()}\n",
        f"{ORIGIN}\n-7\n{base64.b64encode(ROOT).decode()}\n",
        f"{ORIGIN}\n 7\n{base64.b64encode(ROOT).decode()}\n",
        f"{ORIGIN}\n7_0\n{base64.b64encode(ROOT).decode()}\n",
        f"{ORIGIN}\n\u0667\n{base64.b64encode(ROOT).decode()}\n",
        f"{ORIGIN}\n9223372036854775808\n{base64.b64encode(ROOT).decode()}\n",
        f"{ORIGIN}\n{'9' * 5_000}\n{base64.b64encode(ROOT).decode()}\n",
        f"{ORIGIN}\n\n{base64.b64encode(ROOT).decode()}\n",
        f"{ORIGIN}\n7\n{base64.b64encode(ROOT[:31]).decode()}\n",
        f"{ORIGIN}\n7\n{base64.b64encode(ROOT + b'x').decode()}\n",
        f"{ORIGIN}\n7\n{base64.b64encode(ROOT).decode().rstrip('=')}\n",
        f"{ORIGIN}\n7\n",
        f"{ORIGIN}\n0\n{base64.b64encode(ROOT).decode()}\n",
    ],
)
def test_signed_texts_that_are_no_checkpoint(text: str) -> None:
    assert refused(resigned(text)) == "log.checkpoint"


def test_an_empty_log_has_the_empty_root() -> None:
    assert verify(sign(Checkpoint(ORIGIN, 0, EMPTY_ROOT), KEY), (VERIFIER,)).size == 0


def test_an_empty_origin_or_extension_is_refused() -> None:
    with pytest.raises(LogError, match="origin is empty"):
        parse_text(f"\n7\n{base64.b64encode(ROOT).decode()}\n")
    with pytest.raises(LogError, match="extension line"):
        parse_text(f"{ORIGIN}\n7\n{base64.b64encode(ROOT).decode()}\n\nmore\n")


def test_a_known_key_with_a_bad_signature_refuses_the_note() -> None:
    good_line = NOTE.decode().rpartition("\n\n")[2]
    bad = base64.b64encode(VERIFIER.key_id + bytes(64)).decode()
    assert refused(f"{CHECKPOINT.text()}\n\u2014 {ORIGIN} {bad}\n".encode()) == "log.signature"
    # Neither a good signature before it nor one after it helps.
    assert refused(f"{CHECKPOINT.text()}\n{good_line}\u2014 {ORIGIN} {bad}\n".encode()) == "log.signature"
    assert refused(f"{CHECKPOINT.text()}\n\u2014 {ORIGIN} {bad}\n{good_line}".encode()) == "log.signature"


@given(st.integers(0, len(CHECKPOINT.text()) - 1), st.integers(0, 7))
def test_a_flipped_bit_of_the_text_is_refused(at: int, bit: int) -> None:
    changed = bytearray(NOTE)
    changed[at] ^= 1 << bit
    with pytest.raises(DulyError):
        verify(bytes(changed), (VERIFIER,))


def test_unknown_keys_are_ignored() -> None:
    stranger = base64.b64encode(b"\1\2\3\4" + b"anything at all").decode()
    note = NOTE.decode().replace("\n\n", f"\n\n\u2014 stranger.example {stranger}\n").encode()
    assert verify(note, (VERIFIER,)) == CHECKPOINT
    assert refused(note, VerifierKey.of(ORIGIN, OTHER)) == "log.unsigned"


def test_sixteen_further_signatures_are_accepted_and_a_hundred_and_one_refused() -> None:
    def with_strangers(count: int) -> bytes:
        line = f"\u2014 stranger.example {base64.b64encode(b'abcd' + bytes(64)).decode()}\n"
        return NOTE + (line * count).encode()

    assert verify(with_strangers(16), (VERIFIER,)) == CHECKPOINT
    assert verify(with_strangers(99), (VERIFIER,)) == CHECKPOINT
    assert refused(with_strangers(100)) == "log.note"


def test_a_note_of_a_megabyte_is_refused_before_it_is_read() -> None:
    assert refused(b"x" * (1 << 20) + NOTE) == "log.note"


def test_the_same_key_under_another_origin_is_another_verifier() -> None:
    elsewhere = VerifierKey.of("other.example/log", KEY)
    assert elsewhere.key_id != VERIFIER.key_id
    assert refused(NOTE, elsewhere) == "log.unsigned"
    # A true signature of this log's key over a text that names another log, under either name.
    text = Checkpoint("other.example/log", 7, ROOT).text()
    assert refused(resigned(text, ORIGIN)) == "log.unsigned"
    assert refused(resigned(CHECKPOINT.text(), "other.example/log"), VERIFIER, elsewhere) == "log.unsigned"


def test_a_cosignature_does_not_pass_for_the_logs_signature() -> None:
    public = KEY.public_key().public_bytes_raw()
    key_id = hashlib.sha256(ORIGIN.encode() + b"\n\x04" + public).digest()[:4]
    time = (1_790_000_000).to_bytes(8, "big")
    message = b"cosignature/v1\ntime 1790000000\n" + CHECKPOINT.text().encode()
    line = base64.b64encode(key_id + time + KEY.sign(message)).decode()
    assert refused(f"{CHECKPOINT.text()}\n\u2014 {ORIGIN} {line}\n".encode()) == "log.unsigned"
    # The same bytes under the key id of the log's signature have the wrong length for one.
    line = base64.b64encode(VERIFIER.key_id + time + KEY.sign(message)).decode()
    assert refused(f"{CHECKPOINT.text()}\n\u2014 {ORIGIN} {line}\n".encode()) == "log.signature"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "duly",
        "duly+00000000",
        f"duly+00000000+{base64.b64encode(b'1' + bytes(31)).decode()}",
        str(VERIFIER).replace("+", "+0", 1),
        str(VERIFIER).replace("duly", "dull"),
        str(VERIFIER)[:-1],
        " " + str(VERIFIER).replace("duly", "du ly"),
        str(VERIFIER).replace("+AQ", "+BA"),
    ],
)
def test_texts_that_are_no_verifier_key(text: str) -> None:
    with pytest.raises(DulyError) as caught:
        VerifierKey.parse(text)
    assert caught.value.code in ("log.verifier_key", "log.key_name", "key.malformed")


def test_a_small_order_key_is_refused_where_it_is_named_and_where_it_is_used() -> None:
    identity = (1).to_bytes(32, "little")
    key = VerifierKey(ORIGIN, identity)
    with pytest.raises(AuthorityError, match="small order"):
        VerifierKey.parse(str(key))
    # Under this key the library takes one fixed signature for every text.
    line = base64.b64encode(key.key_id + identity + bytes(32)).decode()
    note = f"{CHECKPOINT.text()}\n\u2014 {ORIGIN} {line}\n".encode()
    assert refused(note, key) == "key.small_order"


def test_a_signer_needs_a_proper_name() -> None:
    for name in ("", "a b", "a+b", "a\nb", "a\u2003b"):
        with pytest.raises(LogError) as caught:
            VerifierKey.of(name, KEY)
        assert caught.value.code == "log.key_name"


@given(st.binary(max_size=400))
def test_any_bytes_are_judged(data: bytes) -> None:
    with pytest.raises(LogError):
        verify(data, (VERIFIER,))
