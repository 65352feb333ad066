"""What the machine asks about a single call before or after it: the policy's conditions, and a write's probe."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from duly.protocol.machine import effects, stimuli
from duly.protocol.machine.run import Run
from duly.protocol.machine.stimuli import Stimulus
from duly.protocol.plan import policy
from duly.protocol.wire import canon, tagged
from duly.protocol.wire.errors import DulyError
from duly.protocol.wire.limits import ARTIFACT_BYTES_MAX

from .grants import Wanted
from .one_read import OneRead
from .packages import Packages

Make = Callable[[int, str], Stimulus]
log = logging.getLogger("duly")


class Questions:
    def __init__(self, reads: OneRead, packages: Packages) -> None:
        self._reads = reads
        self._packages = packages

    async def probe(self, run: Run, order: effects.Probe) -> Make:
        """Whether a write happened. A probe answers with ``happened``, and with ``output`` where it knows the result."""
        try:
            outcome = await self._reads.run(
                replace(Wanted.of(order.call), effect="read"),
                run_id=run.run_id,
                package=run.mandate.package,
                plan=run.plan_digest,
                rows_max=order.call.rows_max,
            )
        except DulyError as error:
            code = error.code
            return lambda now, fresh: stimuli.Probed(
                now_ms=now, fresh=fresh, step_id=order.step_id, outcome="unknown", code=code
            )
        said = canon.decode(outcome.output or b"\xc0", bytes_max=ARTIFACT_BYTES_MAX)
        happened = said.get("happened") if isinstance(said, dict) else None
        output = canon.encode(said["output"]) if happened is True and "output" in said else None
        return lambda now, fresh: stimuli.Probed(
            now_ms=now,
            fresh=fresh,
            step_id=order.step_id,
            outcome="happened" if happened is True else "did_not_happen" if happened is False else "unknown",
            output=output or (outcome.output if happened is True else None),
            receipt=outcome.receipt,
            code="" if isinstance(happened, bool) else "tool.bad_probe",
            rows=outcome.rows,
        )

    async def policy(self, run: Run, order: effects.JudgePolicy) -> Make:
        """Whether the conditions gate a call. Where nobody can say, the gate asks."""
        said = None
        try:
            opened = await self._packages.get(run.mandate.package)
            descriptor = opened.descriptors[policy.TOOL]
            question = policy.question(run.mandate.package, order.expressions, order.facts)
            outcome = await self._reads.run(
                Wanted(
                    step_id="policy",
                    attempt=1,
                    tool=policy.TOOL,
                    descriptor=descriptor.digest(),
                    effect="read",
                    arguments=question,
                    timeout_seconds=descriptor.timeout_seconds,
                ),
                run_id=run.run_id,
                package=run.mandate.package,
                plan=run.plan_digest,
            )
            said = tagged.from_tagged(canon.decode(outcome.output or b"\xc0", bytes_max=ARTIFACT_BYTES_MAX))
        except (DulyError, KeyError) as error:
            log.warning("the policy could not be asked about step %s: %s", order.step_id, error)
        gated, code = policy.judged(order.expressions, said)
        return lambda now, fresh: stimuli.PolicyJudged(
            now_ms=now, fresh=fresh, step_id=order.step_id, gated=gated, code=code
        )
