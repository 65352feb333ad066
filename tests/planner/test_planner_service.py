"""The planner's two messages, over packages by digest; whatever is wrong comes back as data."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

import flights
from duly.actors.messages import AskBinding, AskDraft, BindingFound
from duly.actors.planner.actor import planner_service
from duly.actors.planner.service import PlannerService
from duly.actors.service import read_reply
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import new_request
from duly.protocol.wire import canon
from duly.protocol.wire.envelope import Envelope, pack
from duly.protocol.wire.errors import DulyError, StorageError, WireError
from model_uses import NoModel

FLAGSHIP = "On-time arrivals fell in June compared with May. Find the cause and recommend what to do."
CATALOGUE = canon.encode(flights.catalogue().to_data())
DESCRIPTORS = canon.encode({name: found.to_data() for name, found in flights.descriptors().items()})


class Store:
    """Snapshots by digest, and how often they were asked for."""

    def __init__(self) -> None:
        self.loads = 0

    def __call__(self, digest: str) -> Mapping[str, bytes]:
        self.loads += 1
        if digest != flights.package().digest:
            raise StorageError("storage.package_missing", "There is no such package.")
        return flights.package_files()


def service() -> PlannerService:
    return PlannerService(Store())


def ask(text: str, **more: Any) -> AskBinding:
    fields: dict[str, Any] = {
        "package": flights.package().digest,
        "agent": "analyst",
        "request": new_request(text).to_data(),
    }
    return AskBinding(**(fields | more))


def order(planner: PlannerService, text: str, **more: Any) -> AskDraft:
    fields: dict[str, Any] = {
        **ask(text).to_data(),
        "binding": planner.bind(ask(text), [CATALOGUE]).binding,
        "mode": "orchestrated",
        "plan_id": "p-r1",
        "version": 1,
        "replan": 0,
        "reason": "",
    }
    del fields["answers"]
    return AskDraft(**(fields | more))


def test_a_request_is_bound_and_drafted() -> None:
    planner = service()
    reply, blobs = planner.draft(order(planner, FLAGSHIP), [CATALOGUE, DESCRIPTORS])
    assert (reply.playbook, reply.has_plan, reply.error, reply.question) == (
        "metric_diagnosis",
        True,
        None,
        None,
    )
    plan = Plan.model_validate(canon.decode(blobs[0]))
    assert (plan.plan_id, plan.version, plan.provenance.kind) == ("p-r1", 1, "initial")


def test_the_service_answers_envelopes_and_gives_errors_as_data() -> None:
    def envelope(number: int, body: AskBinding) -> bytes:
        return pack(
            Envelope(
                id=f"m{number}", kind="plan.bind", sender="harness", recipient="planner", body=body.to_data()
            )
        )

    handler = planner_service(service(), NoModel())
    good = asyncio.run(handler.handle([envelope(1, ask(FLAGSHIP))], [CATALOGUE]))
    bad = asyncio.run(handler.handle([envelope(2, ask(FLAGSHIP, agent="nobody"))], [CATALOGUE]))
    bare = asyncio.run(handler.handle([envelope(3, ask(FLAGSHIP))], []))
    assert isinstance(read_reply(good[0][0]), BindingFound)
    for (replies, _), code in ((bad, "package.unknown_agent"), (bare, "wire.blob_count")):
        with pytest.raises(DulyError) as caught:
            read_reply(replies[0])
        assert caught.value.code == code


def test_a_snapshot_is_read_once() -> None:
    store = Store()
    planner = PlannerService(store)
    for _ in range(3):
        planner.bind(ask(FLAGSHIP), [CATALOGUE])
    assert store.loads == 1


def test_an_answer_binds() -> None:
    planner = service()
    text = "Why did on-time arrivals fall last month?"
    asked = planner.bind(ask(text), [CATALOGUE]).binding["question"]
    assert asked["parameter"] == "current"
    bound = planner.bind(ask(text, answers={"current": "June"}), [CATALOGUE]).binding
    assert bound["question"] is None


def test_a_replan_without_another_way_says_so() -> None:
    planner = service()
    body = order(planner, FLAGSHIP, exclude=["metric_diagnosis"], replan=1, reason="verification", version=2)
    reply, blobs = planner.draft(body, [CATALOGUE, DESCRIPTORS])
    assert not reply.has_plan and blobs == []
    assert reply.error is not None
    assert reply.error["code"] == "plan.no_alternative"


def test_guidance_is_taken_into_account() -> None:
    planner = service()
    body = order(
        planner, FLAGSHIP, guidance=["Compare with April instead."], replan=1, reason="gate", version=2
    )
    reply, blobs = planner.draft(body, [CATALOGUE, DESCRIPTORS])
    plan = Plan.model_validate(canon.decode(blobs[0]))
    assert reply.has_plan
    assert (plan.steps[0].tool_contract.arguments or {})["baseline"] == {"year": 2013, "month": 4}
    assert (plan.provenance.kind, plan.provenance.number, plan.provenance.reason) == ("replan", 1, "gate")


def test_guidance_can_raise_a_question() -> None:
    planner = service()
    body = order(planner, FLAGSHIP, guidance=["Compare with April 2012."])
    reply, _ = planner.draft(body, [CATALOGUE, DESCRIPTORS])
    assert not reply.has_plan
    assert reply.question is not None
    assert "April 2012" in reply.question["text"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"package": "0" * 64}, "storage.package_missing"),
        ({"agent": "nobody"}, "package.unknown_agent"),
        ({"request": {"txt": "x"}}, "request.malformed"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_code(change: dict[str, Any], code: str) -> None:
    with pytest.raises(DulyError) as caught:
        service().bind(ask(FLAGSHIP, **change), [CATALOGUE])
    assert caught.value.code == code


@pytest.mark.parametrize("blob", [b"", b"\xc1", canon.encode({"sources": 3}), canon.encode([])])
def test_a_catalogue_that_is_none_is_refused(blob: bytes) -> None:
    with pytest.raises(WireError):
        service().bind(ask(FLAGSHIP), [blob])
