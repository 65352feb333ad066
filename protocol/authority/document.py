"""The base of the signed documents: a model that signs itself and is read back only through its signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError

from ..wire import model as wire_model
from ..wire.errors import AuthorityError
from . import signing


class Document(wire_model.Model):
    """A signed document of one ``payload_type``. Integers and texts only; times are milliseconds of wall time."""

    payload_type: ClassVar[str]

    def sign(self, private: Ed25519PrivateKey) -> bytes:
        """The DSSE envelope of this document."""
        return signing.sign(private, self.payload_type, self.to_data())

    @classmethod
    def open(cls, envelope: bytes, keys: Mapping[str, bytes]) -> tuple[Self, str]:
        """The document of an envelope signed by one of ``keys``, and the signer's key id. See ``signing.verify``."""
        payload, keyid = signing.verify(envelope, keys, cls.payload_type)
        return cls.read(payload), keyid

    @classmethod
    def sign_all(cls, documents: Sequence[Self], private: Ed25519PrivateKey) -> bytes:
        """One envelope over several documents: one signature a level, not one a step."""
        return signing.sign(
            private, cls.payload_type, {"all": [document.to_data() for document in documents]}
        )

    @classmethod
    def open_all(cls, envelope: bytes, keys: Mapping[str, bytes]) -> tuple[list[Self], str]:
        """The documents of an envelope that ``sign_all`` made, and the signer's key id."""
        payload, keyid = signing.verify(envelope, keys, cls.payload_type)
        documents = payload.get("all")
        if set(payload) != {"all"} or type(documents) is not list:
            raise AuthorityError(f"{cls.payload_type}.malformed", f"This is no list of {cls.payload_type}s.")
        return [cls.read(document) for document in documents], keyid

    @classmethod
    def peek(cls, envelope: bytes) -> Self:
        """The document with its signature unchecked: only for showing, never for deciding."""
        return cls.read(signing.peek_payload(envelope, cls.payload_type))

    @classmethod
    def read(cls, payload: object) -> Self:
        try:
            return cls.model_validate(payload)
        except ValidationError as problem:
            faults = wire_model.faults_of(problem, f"{cls.payload_type}.malformed")
            raise AuthorityError(
                f"{cls.payload_type}.malformed",
                f"This {cls.payload_type} has wrong fields: {faults[0]}",
                faults=faults,
            ) from None
