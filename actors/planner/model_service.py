"""The planner's work with its model: drafts, arguments, reason steps, turns; every call told back, failed ones too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.plan import Step
from duly.protocol.plan.request import Binding, Request
from duly.protocol.plan.scope import Scope
from duly.protocol.views.slices.work import Turn
from duly.protocol.wire import canon, tagged
from duly.protocol.wire.envelope import Envelope
from duly.protocol.wire.errors import DulyError, RequestError, WireError
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX

from ..messages import AskDraft, PlanDrafted
from ..model_messages import AskArguments, AskReason, AskTurn, ModelAnswered
from ..model_session import Asks, Session
from ..model_terms import ModelTerms, told
from ..service import Handler, Reply
from .model.arguments import extract_arguments
from .model.direct import Answer, next_turn
from .model.plan import draft_plan
from .model.reason import reason
from .service import PlannerService, catalogue_in, descriptors_in, provenance_of


class ModelPlanner:
    """Answers the messages that need a model. ``planner`` knows the packages."""

    def __init__(self, planner: PlannerService, host: Asks) -> None:
        self._planner = planner
        self._host = host

    def handlers(self) -> dict[type[Any], Handler]:
        return {
            AskArguments: self.arguments,
            AskReason: self.reason,
            AskTurn: self.turn,
        }

    async def draft(self, body: AskDraft, blobs: Sequence[bytes]) -> Reply:
        """A plan that a model made, valid, or what was wrong with the last of its drafts."""
        assert body.terms is not None
        session = self._session(body.package, body.terms, blobs)
        package = self._planner.package(body.package)
        request = _request(body.request)
        try:
            plan = await draft_plan(
                session,
                request=request,
                binding=Binding.from_data(
                    body.binding, error=WireError, code="wire.bad_body", what="The binding"
                ),
                package=package,
                agent=package.agent(body.agent),
                catalogue=catalogue_in(blobs),
                descriptors=descriptors_in(blobs),
                plan_id=body.plan_id,
                version=body.version,
                provenance=provenance_of(body),
                guidance=body.guidance,
                left=body.left,
                scope=None
                if body.scope is None
                else Scope.from_data(body.scope, error=WireError, code="wire.bad_body", what="The scope"),
            )
        except DulyError as error:
            back: list[bytes] = []
            return Reply(PlanDrafted(error=error.to_data(), uses=told(session.uses, back)), back)
        back = [canon.encode(plan.to_data())]
        return Reply(PlanDrafted(has_plan=True, uses=told(session.uses, back)), back)

    async def arguments(self, body: AskArguments, blobs: list[bytes], envelope: Envelope) -> Reply:
        """The arguments of a step, valid and tagged."""
        step, descriptor = _step(body.step), _descriptor(body.descriptor)

        async def work(session: Session) -> Any:
            return await extract_arguments(
                session,
                step=step,
                descriptor=descriptor,
                request=_request(body.request),
                inputs=_inputs(blobs),
                withheld=body.withheld,
            )

        return await self._answer(body.package, body.terms, blobs, work)

    async def reason(self, body: AskReason, blobs: list[bytes], envelope: Envelope) -> Reply:
        """The output of a reason step, valid under its schema."""
        step = _step(body.step)

        async def work(session: Session) -> Any:
            value = await reason(session, step=step, inputs=_inputs(blobs), withheld=body.withheld)
            return tagged.to_tagged(value)

        return await self._answer(body.package, body.terms, blobs, work)

    async def turn(self, body: AskTurn, blobs: list[bytes], envelope: Envelope) -> Reply:
        """The next turn of a direct run."""
        package = self._planner.package(body.package)
        turns = [Turn(**one) for one in canon.decode(blobs[1], bytes_max=ARTIFACT_BYTES_MAX)]

        async def work(session: Session) -> Any:
            said = await next_turn(
                session,
                request=_request(body.request),
                agent=package.agent(body.agent),
                descriptors=_descriptors(blobs[0]),
                turns=turns,
                last=body.last,
            )
            if isinstance(said, Answer):
                return {"answer": said.text}
            return {"tool": said.tool, "arguments": said.arguments, "why": said.why}

        return await self._answer(body.package, body.terms, blobs, work)

    async def _answer(
        self,
        package: str,
        terms: ModelTerms,
        blobs: Sequence[bytes],
        work: Callable[[Session], Awaitable[Any]],
    ) -> Reply:
        session = self._session(package, terms, blobs)
        try:
            back = [canon.encode(await work(session))]
        except DulyError as error:
            back = []
            return Reply(ModelAnswered(error=error.to_data(), uses=told(session.uses, back)), back)
        return Reply(ModelAnswered(uses=told(session.uses, back)), back)

    def _session(self, package: str, terms: ModelTerms, blobs: Sequence[bytes]) -> Session:
        return terms.session(package, self._host, blobs)


def _request(data: dict[str, Any]) -> Request:
    return Request.from_data(data, error=RequestError, code="request.malformed", what="The request")


def _step(data: dict[str, Any]) -> Step:
    return Step.from_data(data, error=WireError, code="wire.bad_body", what="The step")


def _descriptor(data: Any) -> Descriptor:
    return Descriptor.from_data(data, error=WireError, code="wire.bad_body", what="A descriptor")


def _descriptors(data: bytes) -> dict[str, Descriptor]:
    found = canon.decode(data, bytes_max=ARTIFACT_BYTES_MAX)
    return {str(name): _descriptor(one) for name, one in found.items()}


def _inputs(blobs: Sequence[bytes]) -> dict[str, Any]:
    """The plain inputs by name."""
    found = canon.decode(blobs[0], bytes_max=ARTIFACT_BYTES_MAX)
    return {str(name): tagged.from_tagged(value) for name, value in found.items()}
