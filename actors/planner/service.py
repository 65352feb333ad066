"""The planner's service: ``plan.bind`` and ``plan.draft`` over package snapshots.

It holds no credential, reads no data and dispatches nothing: packages come from a loader by their digest, catalogue and
descriptors come as bytes beside the message.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from duly.protocol.plan import validate
from duly.protocol.plan.catalogue import Catalogue
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.package import Package, load_package
from duly.protocol.plan.plan import Provenance
from duly.protocol.plan.request import Binding, Request
from duly.protocol.wire import canon
from duly.protocol.wire.errors import PlanError, RequestError, WireError
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX, PACKAGES_CACHED_MAX

from ..messages import AskBinding, AskDraft, BindingFound, PlanDrafted
from .bind import bind
from .draft import draft
from .guide import guided

Loader = Callable[[str], Mapping[str, bytes]]


class PlannerService:
    """Answers the two messages of the planner. ``load`` gives the files of a snapshot by its digest."""

    def __init__(self, load: Loader) -> None:
        self._load = load
        self._packages: OrderedDict[str, Package] = OrderedDict()

    def bind(self, body: AskBinding, blobs: Sequence[bytes]) -> BindingFound:
        """The binding of a request. Blob 0 is the catalogue."""
        package = self.package(body.package)
        found = bind(
            _request(body.request), package, catalogue_in(blobs), package.agent(body.agent), body.answers
        )
        return BindingFound(binding=found.to_data())

    def draft(self, body: AskDraft, blobs: Sequence[bytes]) -> tuple[PlanDrafted, list[bytes]]:
        """A plan, the question that stands in its way, or why there is none. Blob 1 holds the descriptors."""
        package = self.package(body.package)
        agent = package.agent(body.agent)
        request = _request(body.request)
        binding = Binding.from_data(body.binding, error=WireError, code="wire.bad_body", what="The binding")
        descriptors = descriptors_in(blobs)
        try:
            if body.guidance:
                binding = guided(request, binding, package, catalogue_in(blobs), agent, body.guidance)
            if binding.question is not None:
                return PlanDrafted(question=binding.question.to_data()), []
            drafted = draft(
                request,
                binding,
                package,
                descriptors,
                agent,
                plan_id=body.plan_id,
                version=body.version,
                provenance=provenance_of(body),
                exclude_playbooks=body.exclude,
                mode=body.mode,
            )
            validate.check(drafted.plan, descriptors)
        except (PlanError, RequestError) as error:
            return PlanDrafted(playbook=binding.playbook or "", error=error.to_data()), []
        plan = canon.encode(drafted.plan.to_data())
        return PlanDrafted(playbook=drafted.playbook, has_plan=True), [plan]

    def package(self, digest: str) -> Package:
        """The package of a snapshot; the last few are kept. Raises ``PackageError`` and what the loader raises."""
        known = self._packages.get(digest)
        if known is None:
            known = load_package(self._load(digest), "the package")
            self._packages[digest] = known
            if len(self._packages) > PACKAGES_CACHED_MAX:
                self._packages.popitem(last=False)
        self._packages.move_to_end(digest)
        return known


def _request(data: Mapping[str, Any]) -> Request:
    return Request.from_data(data, error=RequestError, code="request.malformed", what="The request")


def _blob(blobs: Sequence[bytes], index: int) -> Any:
    if index >= len(blobs):
        raise WireError("wire.blob_count", "The message names blobs that did not come.")
    return canon.decode(blobs[index], bytes_max=ARTIFACT_BYTES_MAX)


def catalogue_in(blobs: Sequence[bytes]) -> Catalogue:
    """The catalogue that came with a message, as blob 0."""
    data = _blob(blobs, 0)
    return Catalogue.from_data(data, error=WireError, code="wire.bad_body", what="The catalogue")


def descriptors_in(blobs: Sequence[bytes]) -> dict[str, Descriptor]:
    """The descriptors that came with a message, as blob 1."""
    data = _blob(blobs, 1)
    if not isinstance(data, dict):
        raise WireError("wire.bad_body", "The descriptors are no map.")
    return {
        str(name): Descriptor.from_data(entry, error=WireError, code="wire.bad_body", what="A descriptor")
        for name, entry in data.items()
    }


def provenance_of(body: AskDraft) -> Provenance:
    """How the plan that is asked for comes to be."""
    if body.replan == 0:
        return Provenance()
    return Provenance(kind="replan", number=body.replan, reason=body.reason)
