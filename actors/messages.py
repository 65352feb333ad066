"""The messages of the control plane: which kind has which body, and who takes it.

Bytes that may be large (arguments, outputs, plans with their outputs) travel beside the envelopes as blobs; a body
names a blob by its index in the message's list.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from duly.protocol.wire.model import Model

from .model_messages import AskArguments, AskReason, AskTurn, ModelAnswered
from .model_terms import ModelTerms, UseTold


class Failed(Model):
    """The reply in place of any other: an error as data."""

    error: dict[str, Any]


class AskBinding(Model):
    """To the planner. Blob 0 is the catalogue."""

    package: str
    agent: str
    request: dict[str, Any]
    answers: dict[str, str] = Field(default_factory=dict)


class AskDraft(Model):
    """To the planner. Blob 0 is the catalogue, blob 1 the descriptors.

    With ``terms`` a model makes the plan, within ``left`` of the budget and ``scope`` of the mandate.
    """

    package: str
    agent: str
    request: dict[str, Any]
    binding: dict[str, Any]
    mode: Literal["constrained", "orchestrated"]
    plan_id: str
    version: int
    replan: int
    reason: str
    exclude: list[str] = Field(default_factory=list)
    guidance: list[str] = Field(default_factory=list)
    left: dict[str, int] = Field(default_factory=dict)
    scope: dict[str, Any] | None = None
    terms: ModelTerms | None = None


class BindingFound(Model):
    binding: dict[str, Any]


class PlanDrafted(Model):
    """Blob 0 is the plan, where there is one. ``uses`` are the calls of a model that it took."""

    playbook: str = ""
    question: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    has_plan: bool = False
    uses: list[UseTold] = Field(default_factory=list)


class GrantedCall(Model):
    """One call of a dispatch: the grant's nonce, the blob of its argument bytes, the digest of its template."""

    nonce: str
    blob: int
    template: str


class RunCalls(Model):
    """To an executor: run these granted calls on this node's host of a class."""

    mode: Literal["concurrent", "serial"]
    host: Literal["read", "write"]
    grants: bytes
    mandate: bytes
    approvals: list[bytes] = Field(default_factory=list)
    calls: list[GrantedCall]


class CallResult(Model):
    """What an executor can say of a call; ``blob`` is the output's. ``receipt`` is an index into ``receipts``."""

    nonce: str
    receipt: int | None = None
    blob: int | None = None
    error: dict[str, Any] | None = None


class CallsRan(Model):
    node: str
    receipts: list[bytes]
    results: list[CallResult]


class SettleCalls(Model):
    """To an executor of the harness's node: ask the write host what became of effects (a signed ``Settlement``)."""

    statement: bytes


class CallsSettled(Model):
    """Fates by nonce (``void``, ``done``, ``unknown``), and the results of those that are done."""

    fates: dict[str, str]
    ran: CallsRan


class DescribePackage(Model):
    """To an executor: the descriptors of a package's tools, as this node's hosts describe them."""

    package: str


class PackageDescribed(Model):
    """Blob 0 holds the descriptors: full name to data."""

    count: int


class KeepPackage(Model):
    """To an executor whose node lacks a package snapshot: its files. Blob i is the file ``names[i]``."""

    package: str
    names: list[str]


class CancelRun(Model):
    """To an executor: nobody waits for the calls of this run. ``ended``: its effects are ended too, and none starts."""

    run_id: str
    ended: bool = False


class Done(Model):
    pass


class StepOutput(Model):
    """A finished step given to the verifier: its output's blob and its resolved arguments' blob."""

    step_id: str
    output: int
    arguments: int


class AskReads(Model):
    """To the verifier: which reads do you need? Blob 0 is the plan, blob 1 the descriptors."""

    package: str
    steps: list[StepOutput]
    only: list[str] | None = None
    stated: list[str] = Field(default_factory=list)


class ReadsNamed(Model):
    """The verifier's reads: ``{read_id, tool, arguments}`` each."""

    reads: list[dict[str, Any]]


class GrantedRead(Model):
    read_id: str
    nonce: str
    blob: int


class AskJudgement(Model):
    """To the verifier: judge. Its reads come granted; blob 0 is the plan, blob 1 the descriptors. With ``terms`` the critic
    is asked too.

    Of the ``stated`` steps only a person says that they happened: they have no output, and can be read back all the same.
    """

    package: str
    steps: list[StepOutput]
    only: list[str] | None = None
    missing: list[str] = Field(default_factory=list)
    stated: list[str] = Field(default_factory=list)
    grants: bytes | None = None
    reads: list[GrantedRead] = Field(default_factory=list)
    withheld: list[str] = Field(default_factory=list)
    terms: ModelTerms | None = None


class JudgementGiven(Model):
    """``rows`` is what the verifier's reads scanned, ``uses`` the critic's calls."""

    outcome: Literal["pass", "fail", "inconclusive"]
    reason: str
    checks: list[dict[str, Any]]
    rows: int = 0
    uses: list[UseTold] = Field(default_factory=list)


class LookUp(Model):
    """To the plan cache. ``facts`` are what an entry must agree with (see ``protocol/plan/cache_entry``)."""

    key: str
    facts: dict[str, Any]


class LookedUp(Model):
    """Blob 0 is the plan of a hit."""

    outcome: Literal["hit", "stale", "miss"]
    reasons: list[str] = Field(default_factory=list)
    tampered: bool = False


class StoreEntry(Model):
    """To the plan cache: a signed entry."""

    key: str
    entry: bytes


class CacheAct(Model):
    action: Literal["evict", "clear", "stats", "list", "show"]
    max_age_days: int = 7
    key: str = ""


class CacheSaid(Model):
    data: dict[str, Any]


class AppendEvents(Model):
    """To the journal: blobs are leaves without their numbers, in order."""

    count: int


class Appended(Model):
    seqs: list[int]


class TakeEpoch(Model):
    pass


class EpochTaken(Model):
    epoch: int


KINDS: dict[str, type[Model]] = {
    "error": Failed,
    "plan.bind": AskBinding,
    "plan.bound": BindingFound,
    "plan.draft": AskDraft,
    "plan.drafted": PlanDrafted,
    "model.arguments": AskArguments,
    "model.reason": AskReason,
    "model.turn": AskTurn,
    "model.answered": ModelAnswered,
    "calls.run": RunCalls,
    "calls.ran": CallsRan,
    "calls.cancel": CancelRun,
    "calls.settle": SettleCalls,
    "calls.settled": CallsSettled,
    "package.keep": KeepPackage,
    "package.describe": DescribePackage,
    "package.described": PackageDescribed,
    "done": Done,
    "verify.reads": AskReads,
    "verify.reads_named": ReadsNamed,
    "verify.judge": AskJudgement,
    "verify.judged": JudgementGiven,
    "cache.look_up": LookUp,
    "cache.looked_up": LookedUp,
    "cache.store": StoreEntry,
    "cache.act": CacheAct,
    "cache.said": CacheSaid,
    "journal.append": AppendEvents,
    "journal.appended": Appended,
    "journal.take_epoch": TakeEpoch,
    "journal.epoch_taken": EpochTaken,
}
NAMES: dict[type[Model], str] = {model: kind for kind, model in KINDS.items()}
