"""The executor's service: granted calls go to this node's hosts, signed results come back.

An executor checks what it can before it bothers a host (signature and epoch of the grants, digests of the arguments),
and adds nothing: it holds no credential and cannot change what was granted. A node that lacks the package of a grant
says so before anything runs; the harness then brings it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from duly.hosts.client import HostClient
from duly.protocol.authority.grant import Grant, arguments_digest_of
from duly.protocol.wire import canon
from duly.protocol.wire.envelope import Envelope
from duly.protocol.wire.errors import AuthorityError, DulyError, PackageError, WireError
from duly.storage.packages import PackageStore, digest

from ..host_calls import ask_patiently, run_patiently
from ..messages import (
    CallResult,
    CallsRan,
    CallsSettled,
    CancelRun,
    DescribePackage,
    Done,
    KeepPackage,
    PackageDescribed,
    RunCalls,
    SettleCalls,
)
from ..service import Reply, Service


class ExecutorService:
    """``hosts`` maps host classes to clients of this node's hosts; ``keys`` are the harness's public keys;
    ``packages`` are the snapshots that these hosts read."""

    def __init__(
        self,
        node: str,
        hosts: Mapping[str, HostClient],
        keys: Callable[[], Mapping[str, bytes]],
        packages: PackageStore,
    ) -> None:
        self._node = node
        self._hosts = hosts
        self._keys = keys
        self._packages = packages

    def service(self) -> Service:
        return Service(
            "executor",
            {
                RunCalls: self.run_calls,
                CancelRun: self.cancel,
                SettleCalls: self.settle,
                DescribePackage: self.describe,
                KeepPackage: self.keep,
            },
        )

    async def run_calls(self, body: RunCalls, blobs: list[bytes], envelope: Envelope) -> Reply:
        """Every call has a result; where the host was lost, those without one are left out."""
        self._check(body, blobs)
        host = self._hosts[body.host]
        arguments = [blobs[call.blob] for call in body.calls]
        receipts: list[bytes] = []
        results: list[CallResult] = []
        outputs: list[bytes] = []
        try:
            async for group in run_patiently(
                host,
                body.grants,
                arguments,
                mode=body.mode,
                mandate=body.mandate or None,
                approvals=body.approvals,
                templates={call.nonce: call.template for call in body.calls},
            ):
                receipts.append(group.receipts)
                for nonce in group.nonces:
                    results.append(_result(nonce, len(receipts) - 1, group.outputs, group.errors, outputs))
        except DulyError as error:
            if error.code != "runtime.host_lost":
                known = {result.nonce for result in results}
                refused = error.to_data()
                results += [
                    CallResult(nonce=c.nonce, error=refused) for c in body.calls if c.nonce not in known
                ]
        return Reply(CallsRan(node=self._node, receipts=receipts, results=results), outputs)

    def _check(self, body: RunCalls, blobs: list[bytes]) -> None:
        grants, _ = Grant.open_all(body.grants, self._keys())
        for package in {grant.package for grant in grants}:
            self._packages.path(package)
        by_nonce = {grant.nonce: grant for grant in grants}
        for call in body.calls:
            grant = by_nonce.get(call.nonce)
            if grant is None:
                raise AuthorityError("grant.missing", "A call came without its grant.")
            if not 0 <= call.blob < len(blobs):
                raise WireError("wire.blob_count", "A call names arguments that did not come.")
            if arguments_digest_of(blobs[call.blob]) != grant.arguments:
                raise AuthorityError(
                    "grant.args_mismatch", f"The arguments of {grant.step_id} are not the granted ones."
                )

    async def cancel(self, body: CancelRun, blobs: list[bytes], envelope: Envelope) -> Reply:
        """What runs is killed with its children. At the end of a run that goes for effects, too: nobody wants them any more,
        and the run has said that nobody knows of them. Their receipts come late and are only recorded."""
        for host in self._hosts.values():
            await host.cancel(body.run_id, force=body.ended)
        return Reply(Done())

    async def settle(self, body: SettleCalls, blobs: list[bytes], envelope: Envelope) -> Reply:
        """What the write host knows of effects whose results were lost on the way."""
        fates, groups = await ask_patiently(lambda: self._hosts["write"].settle(body.statement))
        results: list[CallResult] = []
        outputs: list[bytes] = []
        for number, group in enumerate(groups):
            for nonce in group.nonces:
                if fates.get(nonce) == "done":
                    results.append(_result(nonce, number, group.outputs, group.errors, outputs))
        ran = CallsRan(node=self._node, receipts=[group.receipts for group in groups], results=results)
        return Reply(CallsSettled(fates=fates, ran=ran), outputs)

    async def describe(self, body: DescribePackage, blobs: list[bytes], envelope: Envelope) -> Reply:
        """The descriptors of a package's tools, as the hosts of this node describe them."""
        described = await ask_patiently(lambda: self._hosts["read"].describe(body.package))
        found = {one.full_name: one.to_data() for one in described}
        return Reply(PackageDescribed(count=len(found)), [canon.encode(found)])

    async def keep(self, body: KeepPackage, blobs: list[bytes], envelope: Envelope) -> Reply:
        """Keeps a package snapshot for this node's hosts, which hash it once more when they read it."""
        if len(body.names) != len(blobs):
            raise WireError("wire.blob_count", f"{len(body.names)} files were announced, {len(blobs)} came.")
        files = dict(zip(body.names, blobs, strict=True))
        if digest(files) != body.package:
            raise PackageError("package.changed", "These files are not the snapshot that they came as.")
        self._packages.put(files)
        return Reply(Done())


def _result(
    nonce: str,
    receipt: int,
    group_outputs: Mapping[str, bytes],
    errors: Mapping[str, dict[str, Any]],
    outputs: list[bytes],
) -> CallResult:
    blob = None
    if nonce in group_outputs:
        outputs.append(group_outputs[nonce])
        blob = len(outputs) - 1
    return CallResult(nonce=nonce, receipt=receipt, blob=blob, error=errors.get(nonce))
