"""Calls of models that never were, as runs record them."""

from __future__ import annotations

from typing import Any

from duly.protocol.plan.model_call import ModelUse, Purpose, Used
from duly.protocol.wire.errors import RuntimeFault
from duly.protocol.wire.ids import digest_bytes


def used(tokens: int = 10, cost: int = 0, purpose: Purpose = "plan", code: str = "") -> Used:
    """One call that took so many tokens."""
    use = ModelUse(
        purpose=purpose,
        prompt=f"{purpose}.v1",
        prompt_digest=digest_bytes("prompt", purpose.encode()),
        model="scripted:model",
        mode="strict",
        parameters={"temperature": 0},
        tokens_in=tokens,
        tokens_out=0,
        cost=cost,
        duration_ms=5,
        code=code,
    )
    return Used(use=use, call=digest_bytes("call", b"call"), request=b"{}", response=b"{}", value=b"\xc0")


class NoModel:
    """A model host that no setting names a model for."""

    async def which(self, package: str) -> str:
        return ""

    async def cancel(self, run_id: str, ended_until_ms: int = 0) -> int:
        return 0

    async def ask(self, package: str, run_id: str, call: Any, mandate: bytes) -> Any:
        raise RuntimeFault("runtime.host_unreachable", "There is no model here.")
