"""Faults in how a step says that it will be checked: pointers of its rules, and the tool that reads a write back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..wire.errors import DulyError, Fault
from ..wire.plain_view import plain_view
from . import refs, schema
from .descriptor import Descriptor
from .plan import Nothing, ReadBack, Step


def faults_of(
    step: Step,
    path: str,
    descriptors: Mapping[str, Descriptor],
    digests: Mapping[str, str],
    known: frozenset[str],
) -> list[Fault]:
    """Everything that is wrong with a step's verification. ``known`` are the ids of the plan's steps."""
    where = f"{path}/verification"
    faults = [
        Fault(place, "plan.bad_pointer", f"{pointer!r} is no JSON Pointer: it begins with / or is empty.")
        for place, pointer in _pointers(step, where)
        if pointer and not pointer.startswith("/")
    ]
    independent = step.verification.independent
    descriptor = descriptors.get(step.tool or "")
    if isinstance(independent, ReadBack):
        return faults + _read_back(independent, f"{where}/independent", descriptors, digests, known)
    if step.kind == "tool" and descriptor is not None and not descriptor.reads_only:
        text = "a step that writes needs a check that reads back."
        faults.append(Fault(f"{where}/independent", "plan.no_read_back", text))
    return faults


def _pointers(step: Step, where: str) -> Iterator[tuple[str, str]]:
    acceptance = step.verification.acceptance
    if not isinstance(acceptance, Nothing):
        for index, rule in enumerate(acceptance):
            for name in ("path", "total", "other"):
                if hasattr(rule, name):
                    yield f"{where}/acceptance/{index}/{name}", getattr(rule, name)
    independent = step.verification.independent
    if isinstance(independent, ReadBack):
        for left, right in independent.agree.items():
            yield f"{where}/independent/agree", left
            yield f"{where}/independent/agree", right


def _read_back(
    contract: ReadBack,
    where: str,
    descriptors: Mapping[str, Descriptor],
    digests: Mapping[str, str],
    known: frozenset[str],
) -> list[Fault]:
    name = contract.read_back.full_name
    reader = descriptors.get(name)
    if reader is None or not reader.reads_only:
        return [Fault(where, "plan.read_back", f"{name} is no granted tool that only reads.")]
    if contract.read_back.descriptor != digests[name]:
        return [Fault(where, "plan.descriptor_changed", f"{name} is described differently now.")]
    # It runs when every step is done, so it may refer to any of them, to the very step it checks too.
    at = f"{where}/arguments"
    faults = refs.faults_in(contract.arguments, known, at)
    holes = [place.replace("/$$", "/$") for place, _ in refs.find(contract.arguments)]
    try:
        plain = plain_view(contract.arguments)
        return faults + schema.faults_of(plain, reader.input_schema, at, "plan.bad_arguments", holes)
    except DulyError as error:
        return [*faults, Fault(at, error.code, error.message)]
