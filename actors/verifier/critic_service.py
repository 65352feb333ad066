"""The critic as a check: its word on a whole run, or why it gave none. A critic that fails is no pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duly.protocol.judgement.checks import Check
from duly.protocol.plan.plan import Plan
from duly.protocol.wire import tagged
from duly.protocol.wire.errors import DulyError

from ..messages import AskJudgement
from ..model_session import Asks
from ..model_terms import UseTold, told
from .critic import criticise

CHECK_ID = "critic"


class Critic:
    def __init__(self, host: Asks) -> None:
        self._host = host

    async def review(
        self,
        body: AskJudgement,
        plan: Plan,
        outputs: Mapping[str, Any],
        checks: Sequence[Check],
        blobs: Sequence[bytes],
    ) -> tuple[Check, list[UseTold], list[bytes]]:
        """The check, the calls that it took, and their bytes. ``outputs`` are tagged, by step."""
        assert body.terms is not None
        session = body.terms.session(body.package, self._host, blobs)
        try:
            word = await criticise(
                session,
                objective=plan.objective,
                plan=plan,
                outputs={name: tagged.from_tagged(value) for name, value in outputs.items()},
                checks=checks,
                withheld=body.withheld,
            )
        except DulyError as error:
            said = _check("not_run", f"{error.message} [{error.code}]")
        else:
            said = _check(word.outcome, "; ".join(word.corrections))
        back: list[bytes] = []
        return said, told(session.uses, back), back


def _check(outcome: Any, reason: str) -> Check:
    return Check(check_id=CHECK_ID, kind="critic", step_id="", outcome=outcome, reason=reason)
