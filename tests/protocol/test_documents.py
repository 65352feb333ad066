"""Mandate, approval, grant, receipt, plan entry: read back only through their signature, and what each refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.authority.approval import Approval, ApprovedStep
from duly.protocol.authority.document import Document
from duly.protocol.authority.grant import (
    Grant,
    arguments_bytes,
    arguments_digest,
    arguments_digest_of,
    idempotency_key,
)
from duly.protocol.authority.mandate import Mandate, MandatedTool
from duly.protocol.authority.plan_entry import PlanEntry
from duly.protocol.authority.receipt import Receipt, output_digest
from duly.protocol.authority.signing import key_id, public_bytes, sign
from duly.protocol.wire import canon
from duly.protocol.wire.errors import AuthorityError

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
KEYS = {key_id(public_bytes(KEY)): public_bytes(KEY)}
D = "0" * 64
ARGUMENTS = arguments_bytes({"key": 1})

MANDATE = Mandate(
    run_id="r1",
    agent="a",
    agent_version="1",
    package=D,
    request=D,
    tier="assisted",
    planning="auto",
    gate="consequential",
    schedule="levels",
    tools={"t.a": MandatedTool(descriptor=D, effect="read")},
    budget={"steps": 5},
    issued_ms=1_000,
    expires_ms=2_000,
    nonce="n1",
)
APPROVAL = Approval(
    run_id="r1",
    gate="g-1",
    kind="plan",
    plan=D,
    steps={"s1": ApprovedStep(tool="t.a", descriptor=D, arguments=D, template=False)},
    scope=D,
    budget={"steps": 5},
    policy="",
    shown=D,
    expires_ms=2_000,
    nonce="n1",
)
GRANT = Grant(
    run_id="r1",
    step_id="s1",
    attempt=1,
    tool="t.a",
    descriptor=D,
    effect="read",
    package=D,
    plan=D,
    arguments=arguments_digest_of(ARGUMENTS),
    host="read",
    epoch=3,
    issued_ms=1_000_000,
    expires_ms=1_300_000,
    deadline_ms=10_000,
    rows_max=100,
    nonce="n1",
)
OUTPUT = canon.encode({"key": 1})
RECEIPT = Receipt(
    run_id="r1",
    step_id="s1",
    attempt=1,
    grant="n1",
    host="h1",
    epoch=3,
    outcome="ok",
    arguments=GRANT.arguments,
    output=output_digest(OUTPUT),
    started_ms=1,
    ended_ms=2,
    duration_us=1_000,
)
ENTRY = PlanEntry(
    key=D, plan=b"p", plan_digest=D, request=b"r", facts={}, run_id="r1", verdict_seq=7, created_ms=1
)
ALL: list[Document] = [MANDATE, APPROVAL, GRANT, RECEIPT, ENTRY]


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(AuthorityError) as caught:
        call()
    return caught.value.code


@pytest.mark.parametrize("document", ALL, ids=lambda one: one.payload_type)
class TestEach:
    def test_there_and_back(self, document: Document):
        assert type(document).open(document.sign(KEY), KEYS) == (document, key_id(public_bytes(KEY)))
        assert type(document).peek(document.sign(KEY)) == document

    def test_many_under_one_signature(self, document: Document):
        opened, keyid = type(document).open_all(type(document).sign_all([document, document], KEY), KEYS)
        assert opened == [document, document] and keyid in KEYS

    def test_one_and_many_do_not_pose_as_each_other(self, document: Document):
        kind = type(document)
        code = f"{document.payload_type}.malformed"
        assert refused(lambda: kind.open(kind.sign_all([document], KEY), KEYS)) == code
        assert refused(lambda: kind.open_all(document.sign(KEY), KEYS)) == code

    def test_unknown_missing_and_mistyped_fields(self, document: Document):
        kind, data = type(document), document.to_data()
        first = next(iter(data))
        for wrong in (
            {**data, "admin": 1},
            {k: v for k, v in data.items() if k != "run_id"},
            {**data, first: []},
        ):
            envelope = sign(KEY, document.payload_type, wrong)
            assert refused(lambda: kind.open(envelope, KEYS)) == f"{document.payload_type}.malformed"  # noqa: B023

    def test_a_strangers_key(self, document: Document):
        stranger = Ed25519PrivateKey.from_private_bytes(bytes(reversed(range(32))))
        assert refused(lambda: type(document).open(document.sign(stranger), KEYS)) == (
            f"{document.payload_type}.unknown_key"
        )

    def test_every_other_type_is_refused(self, document: Document):
        for other in ALL:
            if other is not document:
                code = refused(lambda: type(document).open(other.sign(KEY), KEYS))  # noqa: B023
                assert code == f"{document.payload_type}.wrong_type"

    def test_no_value_is_repeated_in_the_error(self, document: Document):
        envelope = sign(KEY, document.payload_type, {**document.to_data(), "run_id": ["topsecret"]})
        with pytest.raises(AuthorityError) as caught:
            type(document).open(envelope, KEYS)
        assert "topsecret" not in str(caught.value.to_data())


class TestMandate:
    def test_of_another_run_or_expired(self):
        MANDATE.check(run_id="r1", now_ms=2_000)
        assert refused(lambda: MANDATE.check(run_id="r2", now_ms=1)) == "mandate.other_run"
        assert refused(lambda: MANDATE.check(run_id="r1", now_ms=2_001)) == "mandate.expired"

    def test_a_tool_is_named_with_its_descriptor(self):
        assert MANDATE.names("t.a", D)
        assert not MANDATE.names("t.a", "1" * 64) and not MANDATE.names("t.b", D)

    def test_an_unknown_tier_is_no_tier(self):
        envelope = sign(KEY, "mandate", {**MANDATE.to_data(), "tier": "autonomous"})
        assert refused(lambda: Mandate.open(envelope, KEYS)) == "mandate.malformed"


class TestGrant:
    def check(self, grant: Grant = GRANT, **changes: Any) -> None:
        fits: dict[str, Any] = {"host": "read", "arguments": ARGUMENTS, "epoch_seen": 3, "now_ms": 1_100_000}
        grant.check(**{**fits, **changes})

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"host": "write"}, "grant.other_host"),
            ({"host": "verify"}, "grant.other_host"),
            ({"epoch_seen": 4}, "grant.stale_epoch"),
            ({"now_ms": 1_300_001}, "grant.expired"),
            ({"now_ms": 939_999}, "grant.from_the_future"),
            ({"arguments": arguments_bytes({"key": 2})}, "grant.args_mismatch"),
            ({"arguments": ARGUMENTS + b"\xc0"}, "grant.args_mismatch"),
            ({"arguments": b""}, "grant.args_mismatch"),
        ],
    )
    def test_anything_else_is_refused(self, changes: dict[str, Any], code: str):
        self.check()
        assert refused(lambda: self.check(**changes)) == code

    def test_borders(self):
        for changes in ({"epoch_seen": 0}, {"now_ms": 1_300_000}, {"now_ms": 940_000}):
            self.check(**changes)

    def test_arguments_are_known_by_their_canonical_bytes(self):
        assert arguments_digest({"b": 1, "a": 2}) == arguments_digest({"a": 2, "b": 1})
        assert len({arguments_digest(v) for v in ({"a": 1}, {"a": 1.0}, {"a": "1"}, {"a": None}, {})}) == 5

    def test_an_idempotency_key_is_for_one_effect(self):
        base = {"run_id": "r1", "tool": "t.w", "resource": "sqlite:x", "arguments": D}
        keys = {idempotency_key(**base)}
        keys |= {idempotency_key(**{**base, name: "other"}) for name in base}
        assert len(keys) == 5
        assert idempotency_key(**base) == idempotency_key(**base)


class TestReceipt:
    def check(
        self, receipt: Receipt, output: bytes | None = OUTPUT, arguments: str = GRANT.arguments
    ) -> None:
        receipt.check(GRANT, output, arguments)

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"run_id": "r2"}, "receipt.other_grant"),
            ({"step_id": "s2"}, "receipt.other_grant"),
            ({"attempt": 2}, "receipt.other_grant"),
            ({"grant": "n2"}, "receipt.other_grant"),
            ({"arguments": D}, "receipt.args_mismatch"),
            ({"output": D}, "receipt.output_mismatch"),
        ],
    )
    def test_anything_else_is_refused(self, changes: dict[str, Any], code: str):
        self.check(RECEIPT)
        assert refused(lambda: self.check(RECEIPT.model_copy(update=changes))) == code

    def test_a_good_outcome_has_an_output(self):
        assert refused(lambda: self.check(RECEIPT, None)) == "receipt.output_mismatch"
        self.check(RECEIPT.model_copy(update={"outcome": "error", "output": ""}), None)

    def test_other_arguments_than_those_that_were_to_be_run(self):
        assert refused(lambda: self.check(RECEIPT, OUTPUT, D)) == "receipt.args_mismatch"


def test_a_plan_entry_has_no_place_for_an_approval():
    assert not [name for name in PlanEntry.model_fields if "approv" in name or "mandate" in name]
