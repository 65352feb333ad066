"""The verifier's service: which reads it needs, and its judgement over a run's outputs.

What is checked comes from three places: the step's own contract, the package's policy (mandatory, whatever the plan
says), and the semantics, from which the recomputation is built. The verifier reads through a host of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duly.hosts.client import HostClient
from duly.protocol.authority.signing import peek_payload
from duly.protocol.judgement import checks as judgement
from duly.protocol.judgement import verdict
from duly.protocol.judgement.checks import Check
from duly.protocol.plan import refs
from duly.protocol.plan.descriptor import Descriptor
from duly.protocol.plan.package import Package, load_package
from duly.protocol.plan.plan import Plan, ReadBack, Recompute, Step
from duly.protocol.wire import canon, tagged
from duly.protocol.wire.envelope import Envelope
from duly.protocol.wire.errors import DulyError, PlanError, ToolError, WireError, error_from_data
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX, PACKAGES_CACHED_MAX

from ..host_calls import run_patiently
from ..messages import AskJudgement, AskReads, JudgementGiven, ReadsNamed
from ..model_terms import UseTold
from ..service import Reply, Service
from .critic_service import Critic
from .recompute import TALLY_TOOL, Claim, compare, reads_for

Loader = Callable[[str], Mapping[str, bytes]]
_RECOMPUTED_KINDS = ("metrics", "report")


@dataclass(frozen=True, slots=True)
class Material:
    """What there is to judge: the plan, tagged outputs and resolved arguments by step."""

    package: Package
    plan: Plan
    descriptors: Mapping[str, Descriptor]
    outputs: Mapping[str, Any]
    arguments: Mapping[str, Any]
    only: Collection[str] | None = None
    stated: Collection[str] = ()

    def concerns(self, step: Step) -> bool:
        """Whether a step has an output and is among those that are to be checked."""
        return step.step_id in self.outputs and self._wanted(step.step_id)

    def happened(self, step: Step) -> bool:
        """Whether a step is among those to be checked and was done: by its output, or by a person's word alone."""
        return (step.step_id in self.outputs or step.step_id in self.stated) and self._wanted(step.step_id)

    def only_stated(self) -> list[Step]:
        """The steps to be checked that only a person's word stands for."""
        return [
            step for step in self.plan.steps if step.step_id in self.stated and self._wanted(step.step_id)
        ]

    def _wanted(self, step_id: str) -> bool:
        return self.only is None or step_id in self.only

    def claims(self) -> list[Claim]:
        """The steps whose outputs the semantics can recompute."""
        found = []
        for step in self.plan.steps:
            kind = _kind(self.package, step)
            if kind in _RECOMPUTED_KINDS and self.concerns(step):
                name = step.tool_contract.tool.name if step.tool_contract.tool else ""
                arguments = tagged.from_tagged(self.arguments[step.step_id])
                found.append(Claim(step.step_id, f"{kind}.{name}", arguments))
        return found

    def read_backs(self) -> list[tuple[Step, dict[str, Any]]]:
        """The steps to be read back, each with the resolved arguments of its read-back."""
        found = []
        for step in self.plan.steps:
            contract = step.verification.independent
            if isinstance(contract, ReadBack) and self.happened(step):
                try:
                    found.append((step, refs.resolve(contract.arguments, self.outputs)))
                except PlanError:
                    continue  # judged as not run: there is nothing to read
        return found


class VerifierService:
    """``host`` is the verifier's own read-only host; ``load`` gives the files of a package snapshot."""

    def __init__(self, load: Loader, host: HostClient, critic: Critic | None = None) -> None:
        self._load = load
        self._host = host
        self._critic = critic
        self._packages: OrderedDict[str, Package] = OrderedDict()

    def service(self) -> Service:
        return Service("verifier", {AskReads: self.reads, AskJudgement: self.judge})

    async def reads(self, body: AskReads, blobs: list[bytes], envelope: Envelope) -> Reply:
        """The tallies and read-backs that a judgement needs; the harness grants them one by one."""
        material = self._material(body, blobs)
        wanted = [
            {
                "read_id": f"read_back:{step.step_id}",
                "tool": step.verification.independent.read_back.full_name,
                "arguments": arguments,
            }
            for step, arguments in material.read_backs()
            if isinstance(step.verification.independent, ReadBack)
        ]
        semantics = material.package.semantics
        if semantics is not None:
            wanted += [
                {"read_id": read.read_id, "tool": TALLY_TOOL, "arguments": tagged.to_tagged(read.arguments)}
                for read in reads_for(material.claims(), semantics)
            ]
        return Reply(ReadsNamed(reads=wanted))

    async def judge(self, body: AskJudgement, blobs: list[bytes], envelope: Envelope) -> Reply:
        """Every check with its outcome, and the verdict over them."""
        material = self._material(body, blobs)
        found = [check for step in material.plan.steps for check in self._step_checks(material, step)]
        read, rows = await self._run(body, blobs)
        found += self._independent(material, read)
        backed = {check.step_id for check in found if check.outcome == "pass"}
        found += [
            _not_run(step, f"stated:{step.step_id}", "only a person's word says that it happened")
            for step in material.only_stated()
            if step.step_id not in backed
        ]
        outcome, reason = verdict.judge(found)
        uses: list[UseTold] = []
        back: list[bytes] = []
        if outcome == "pass" and body.terms is not None and self._critic is not None:
            # Asked last, and only of what passed: its word can lower a judgement, and never raise one.
            said, uses, back = await self._critic.review(body, material.plan, material.outputs, found, blobs)
            found.append(said)
            outcome, reason = verdict.judge(found)
        checks = [check.to_data() for check in found]
        given = JudgementGiven(outcome=outcome, reason=reason, checks=checks, rows=rows, uses=uses)
        return Reply(given, back)

    def _step_checks(self, material: Material, step: Step) -> list[Check]:
        """Schema and rules of the step's contract, and the rules that the package demands of its tool."""
        if not material.concerns(step):
            return []
        output = material.outputs[step.step_id]
        found = judgement.check_output(step, output, material.descriptors.get(step.tool or ""))
        for demand in material.package.manifest.policy.checks:
            if demand.tool == step.tool or (demand.output and demand.output == step.output_contract.artifact):
                found += judgement.check_rules(step, "policy", demand.rules, output)
        return found

    def _independent(self, material: Material, read: Mapping[str, Any]) -> list[Check]:
        """Recomputation from the semantics, and what was read back."""
        semantics = material.package.semantics
        found: list[Check] = []
        if semantics is not None:
            tallies = {
                name: value if isinstance(value, DulyError) else tagged.from_tagged(value)
                for name, value in read.items()
            }
            outputs = {name: tagged.from_tagged(value) for name, value in material.outputs.items()}
            found += compare(material.claims(), outputs, tallies, semantics)
        found += _read_back_checks(material, read)
        return found + _demanded(material, found)

    async def _run(self, body: AskJudgement, blobs: list[bytes]) -> tuple[dict[str, Any], int]:
        """The outputs of the granted reads by their ids, or the errors with which they failed; and the rows they scanned.

        Raises ``runtime.host_lost`` where reads are left without a word: their grants are used, the harness gives new ones.
        """
        if body.grants is None:
            return {}, 0
        rows = 0
        names = {read.nonce: read.read_id for read in body.reads}
        found: dict[str, Any] = {}
        arguments = [blobs[read.blob] for read in body.reads]
        try:
            async for group in run_patiently(self._host, body.grants, arguments, mode="concurrent"):
                rows += _rows(group.receipts)
                for nonce in group.nonces:
                    if nonce in group.outputs:
                        found[names[nonce]] = canon.decode(group.outputs[nonce], bytes_max=ARTIFACT_BYTES_MAX)
                    elif nonce in group.errors:
                        found[names[nonce]] = error_from_data(group.errors[nonce])
        except DulyError as error:
            if error.code != "runtime.host_lost" or len(found) < len(names):
                raise
        lost = ToolError("tool.lost", "The verifier's host brought no result.")
        return {read_id: found.get(read_id, lost) for read_id in names.values()}, rows

    def _material(self, body: AskReads | AskJudgement, blobs: list[bytes]) -> Material:
        steps = body.steps
        if len(blobs) < 2 or any(max(one.output, one.arguments) >= len(blobs) for one in steps):
            raise WireError("wire.blob_count", "The message names blobs that did not come.")
        descriptors = canon.decode(blobs[1], bytes_max=ARTIFACT_BYTES_MAX)
        return Material(
            package=self._package(body.package),
            plan=Plan.decoded(blobs[0]),
            descriptors={name: Descriptor.model_validate(data) for name, data in descriptors.items()},
            outputs={
                one.step_id: canon.decode(blobs[one.output], bytes_max=ARTIFACT_BYTES_MAX)
                for one in steps
                if one.step_id not in body.stated
            },
            arguments={
                one.step_id: canon.decode(blobs[one.arguments], bytes_max=ARTIFACT_BYTES_MAX) for one in steps
            },
            only=body.only,
            stated=body.stated,
        )

    def _package(self, digest: str) -> Package:
        known = self._packages.get(digest)
        if known is None:
            known = self._packages[digest] = load_package(self._load(digest), "the package")
            if len(self._packages) > PACKAGES_CACHED_MAX:
                self._packages.popitem(last=False)
        return known


def _rows(receipts: bytes) -> int:
    """The rows that receipts of this verifier's own host speak of; for the budget, not for a judgement."""
    return sum(int(one["rows_scanned"]) for one in peek_payload(receipts, "receipt")["all"])


def _kind(package: Package, step: Step) -> str:
    """The kind of a step's tool server, as the manifest says; empty for a reason step."""
    tool = step.tool_contract.tool
    entry = package.manifest.tools.get(tool.server) if tool else None
    return entry.kind if entry is not None else ""


def _read_back_checks(material: Material, read: Mapping[str, Any]) -> list[Check]:
    """One check for every step that a plan wants read back, and for every write whatever the plan wants."""
    found = []
    for step in material.plan.steps:
        if not material.happened(step) or not isinstance(step.verification.independent, ReadBack):
            continue
        value = read.get(f"read_back:{step.step_id}")
        if value is None or isinstance(value, DulyError):
            reason = value.message if isinstance(value, DulyError) else "nothing could be read back"
            found.append(_not_run(step, f"read_back:{step.step_id}", reason))
        else:
            found.append(judgement.check_read_back(step, material.arguments[step.step_id], value))
    return found


def _demanded(material: Material, found: Sequence[Check]) -> list[Check]:
    """Recomputations that the policy or the plan demands and that nobody made: not run, and so no pass."""
    made = {check.step_id for check in found if check.kind == "recompute"}
    demanded = {demand.tool for demand in material.package.manifest.policy.checks if demand.recompute}
    return [
        _not_run(step, f"recompute:{step.step_id}", "nothing recomputes what this tool says")
        for step in material.plan.steps
        if material.concerns(step)
        and step.step_id not in made
        and (step.tool in demanded or isinstance(step.verification.independent, Recompute))
    ]


def _not_run(step: Step, check_id: str, reason: str) -> Check:
    return Check(check_id=check_id, kind="recompute", step_id=step.step_id, outcome="not_run", reason=reason)
