"""Keys in files: one private key a role, its public part for others, and the public keys of people who may approve.

    keys/<role>.key          PKCS#8 PEM, mode 0600, with or without a passphrase
    keys/public/<role>.pub   SubjectPublicKeyInfo PEM
    keys/people/<name>.pub   the same, of people whom this installation trusts

Trusted: yes, whoever may write here may act as these roles. May lose data: no; a lost key ends what it signed for.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from duly.protocol.wire.ed25519 import PUBLIC_KEY_BYTES, check_public_key, raw_public_key
from duly.protocol.wire.errors import AuthorityError, StorageError
from duly.protocol.wire.ids import is_name

from . import atomic_file
from .lmdb_faults import faults

_KEY_FILE_BYTES_MAX = 4_096
_UNREADABLE_BY = stat.S_IRWXG | stat.S_IRWXO


class KeyRing:
    """The keys in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def private(self, role: str, passphrase: bytes | None = None) -> Ed25519PrivateKey:
        """The private key of a role, generated when it is first asked for.

        Of several processes at once, one generates and all get the same key. Raises ``AuthorityError``:
        ``key.readable_by_others``, ``key.malformed``, ``key.passphrase``, ``key.mismatch``.
        """
        path = self._private_path(role)
        with faults(self._folder):
            if not path.exists():
                self._make_folder(self._folder)
                # Crash before the file has its name: no key yet. After it: a whole key, and the public part is
                # exported by the next call.
                atomic_file.create(path, _private_pem(Ed25519PrivateKey.generate(), passphrase))
            key = self.load(role, passphrase)
            self._export(role, raw_public_key(key))
        return key

    def load(self, role: str, passphrase: bytes | None = None) -> Ed25519PrivateKey:
        """The private key of a role that has one. Raises ``AuthorityError`` ``key.missing`` and as ``private``."""
        path = self._private_path(role)
        data = _read_private(path)
        try:
            key = serialization.load_pem_private_key(data, passphrase)
        except TypeError:
            raise _refused("key.passphrase", "This key file needs a passphrase, or has none.", path) from None
        except (ValueError, UnsupportedAlgorithm):
            code = "key.passphrase" if passphrase else "key.malformed"
            raise _refused(code, "This file does not open as a private key.", path) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise _refused(
                "key.malformed", "This file holds a private key of another kind than Ed25519.", path
            )
        return key

    def has(self, role: str) -> bool:
        """Whether the role has a private key here."""
        return self._private_path(role).exists()

    def public(self, role: str) -> bytes:
        """The 32 bytes of a role's exported public key. Raises ``AuthorityError`` ``key.missing`` and more."""
        return read_public_file(self._public_path(role))

    def register(self, role: str, public: bytes) -> None:
        """Notes the public key of a role whose private key is elsewhere (a host of another user or node).

        Raises ``AuthorityError``: ``key.small_order``, ``key.malformed``, ``key.mismatch`` for another key than noted.
        """
        check_public_key(public)
        with faults(self._folder):
            self._export(role, public)

    def trust(self, name: str, public: bytes) -> None:
        """Notes the public key of a person who may approve. Raises as ``register``."""
        check_public_key(public)
        with faults(self._folder):
            self._write_public(self._folder / "people", name, public)

    def people(self) -> dict[str, bytes]:
        """Name -> 32-byte public key of everybody trusted here; a broken file is an error, not an omission."""
        folder = self._folder / "people"
        with faults(folder):
            files = sorted(folder.glob("*.pub")) if folder.is_dir() else []
        return {file.stem: read_public_file(file) for file in files}

    def _private_path(self, role: str) -> Path:
        _check_name(role)
        return self._folder / f"{role}.key"

    def _public_path(self, role: str) -> Path:
        _check_name(role)
        return self._folder / "public" / f"{role}.pub"

    def _export(self, role: str, public: bytes) -> None:
        self._public_path(role)
        self._write_public(self._folder / "public", role, public)

    def _write_public(self, folder: Path, name: str, public: bytes) -> None:
        _check_name(name)
        self._make_folder(folder)
        path = folder / f"{name}.pub"
        if not path.exists():
            atomic_file.create(path, _public_pem(public), 0o644)
        if read_public_file(path) != public:
            raise _refused("key.mismatch", "Another public key stands under this name.", path)

    def _make_folder(self, folder: Path) -> None:
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def read_public_file(path: Path) -> bytes:
    """The 32 bytes of the public key in a file. Raises ``AuthorityError`` ``key.missing`` or as ``read_public``."""
    try:
        with path.open("rb") as file:
            data = file.read(_KEY_FILE_BYTES_MAX)
    except FileNotFoundError:
        raise _refused("key.missing", "There is no such public key.", path) from None
    except OSError as error:
        raise StorageError(
            "storage.denied", f"This key cannot be read: {error.strerror}.", place=str(path)
        ) from None
    try:
        return read_public(data)
    except AuthorityError as error:
        raise AuthorityError(error.code, error.message, place=str(path), hint=error.hint) from None


def read_public(data: bytes) -> bytes:
    """The 32 bytes of a public key given as PEM, as an OpenSSH line, as 64 hexadecimal digits or as base64.

    Raises ``AuthorityError``: ``key.malformed``, ``key.small_order``.
    """
    raw = _public_bytes(data.strip())
    check_public_key(raw)
    return raw


def _public_bytes(data: bytes) -> bytes:
    try:
        if data.startswith(b"-----BEGIN"):
            key: object = serialization.load_pem_public_key(data)
        elif data.startswith(b"ssh-"):
            key = serialization.load_ssh_public_key(data)
        elif len(data) == 2 * PUBLIC_KEY_BYTES:
            return bytes.fromhex(data.decode("ascii"))
        else:
            return base64.b64decode(data, validate=True)
    except (ValueError, UnsupportedAlgorithm, binascii.Error):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise AuthorityError(
            "key.malformed", "This is no Ed25519 public key in PEM, OpenSSH, hexadecimal or base64."
        )
    return key.public_bytes_raw()


def _read_private(path: Path) -> bytes:
    """The bytes of a private key's file, which must be a plain file that nobody else may read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise _refused("key.missing", "There is no such private key.", path) from None
    except OSError as error:
        raise StorageError(
            "storage.denied", f"This key cannot be read: {error.strerror}.", place=str(path)
        ) from None
    try:
        state = os.fstat(file)
        if not stat.S_ISREG(state.st_mode):
            raise _refused("key.malformed", "This private key is not a plain file.", path)
        if state.st_mode & _UNREADABLE_BY:
            raise AuthorityError(
                "key.readable_by_others",
                "This private key may be read by other users of this machine.",
                place=str(path),
                hint=f"Run `chmod 600 {path}` if you are sure that nobody has read it; else remove it.",
            )
        return os.read(file, _KEY_FILE_BYTES_MAX)
    finally:
        os.close(file)


def _private_pem(key: Ed25519PrivateKey, passphrase: bytes | None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        encryption = serialization.BestAvailableEncryption(passphrase)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def _public_pem(public: bytes) -> bytes:
    key = Ed25519PublicKey.from_public_bytes(public)
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _check_name(name: str) -> None:
    if not is_name(name):
        raise AuthorityError("key.name", f"{name[:80]!r} is no name for a key.")


def _refused(code: str, message: str, path: Path) -> AuthorityError:
    return AuthorityError(code, message, place=str(path))
