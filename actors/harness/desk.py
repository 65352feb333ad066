"""What the front door can be asked: submit, follow, decide, look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from duly import __version__
from duly.protocol.machine import gates
from duly.protocol.machine.run import Run
from duly.protocol.wire.errors import DulyError, RunError, WireError
from duly.storage.recovery import Recorded

from ..caller import Caller
from ..messages import CacheAct, CacheSaid
from .clock import Clock
from .core import HarnessCore
from .decisions import Decisions
from .fields import Fields, request_in, run_named
from .followers import Followers
from .packages import Packages
from .people import People
from .preview import Preview
from .submission import Submission
from .thinker import Thinker

Answer = Mapping[str, Any]


class Record(Protocol):
    """The journal and artifacts, to read."""

    def history(self, run_id: str) -> Iterable[Recorded]: ...

    def load(self, run_id: str) -> Run: ...

    def runs(self) -> list[dict[str, Any]]: ...


class Desk:
    def __init__(
        self,
        *,
        core: HarnessCore,
        followers: Followers,
        packages: Packages,
        submission: Submission,
        preview: Preview,
        thinker: Thinker,
        record: Record,
        caller: Caller,
        clock: Clock,
        people: People,
        about: Callable[[], Awaitable[dict[str, Any]]],
        again: Callable[[Run], Awaitable[None]],
        stop: Callable[[], None],
    ) -> None:
        self._core = core
        self._followers = followers
        self._packages = packages
        self._submission = submission
        self._preview = preview
        self._thinker = thinker
        self._record = record
        self._caller = caller
        self._clock = clock
        self._about = about
        self._again = again
        self._stop = stop
        self._ops: dict[str, Callable[[Fields], AsyncIterator[Answer]]] = {
            "hello": self._hello,
            "package.open": self._open,
            "route": self._route,
            "draft": self._draft,
            "submit": self._submit,
            "follow": self._follow,
            "gate": self._gate,
            "resume": self._resume,
            "runs": self._runs,
            "status": self._status,
            "cache": self._cache,
            "down": self._down,
            **Decisions(core, submission, record.history, people, clock, self._followed, self._run).ops(),
        }

    def serve(self, op: str, fields: Fields) -> AsyncIterator[Answer]:
        handler = self._ops.get(op)
        if handler is None:
            raise WireError("wire.unknown_op", f"There is no request {op[:40]!r}.")
        return handler(fields)

    async def _hello(self, fields: Fields) -> AsyncIterator[Answer]:
        about = await self._about()
        yield {
            **{name: about[name] for name in ("pid", "epoch", "home", "started_ms")},
            "version": __version__,
            "last": True,
        }

    async def _open(self, fields: Fields) -> AsyncIterator[Answer]:
        files = fields.get("files")
        if type(files) is not dict or any(type(data) is not bytes for data in files.values()):
            raise WireError("wire.bad_request", "A package is a map of file names to bytes.")
        opening = asyncio.ensure_future(self._packages.add(files, str(fields.get("place", "the package"))))
        done, _ = await asyncio.wait((opening,), timeout=0.5)
        if not done:
            yield {"progress": "opening the package and its sources (the first time they are prepared)"}
        opened = await opening
        agents = [opened.package.agent(entry.name) for entry in opened.package.manifest.agents]
        for agent in agents:
            opened.granted(agent)
        yield {
            "package": opened.digest,
            "name": opened.package.name,
            "version": opened.package.manifest.package.version,
            "agents": [agent.to_data() for agent in agents],
            "default_agent": agents[0].name,
            "descriptors": {name: one.to_data() for name, one in opened.descriptors.items()},
            "scope": opened.scope().to_data(),
            "has_model": bool(await self._thinker.model_of("planner", opened.digest)),
            "last": True,
        }

    async def _route(self, fields: Fields) -> AsyncIterator[Answer]:
        yield {**await self._preview.route(fields, request_in(fields)), "last": True}

    async def _draft(self, fields: Fields) -> AsyncIterator[Answer]:
        yield {**await self._preview.draft(fields, request_in(fields)), "last": True}

    async def _submit(self, fields: Fields) -> AsyncIterator[Answer]:
        order = await self._submission.take(fields, self._clock.now_ms())
        run_id = order.mandate.run_id
        if self._known(run_id):
            raise RunError("run.exists", f"There is a run {run_id} already.")

        async def begin() -> None:
            await self._core.post(
                run_id, lambda now, fresh: order.stimulus(now, fresh, self._core.epoch), person=True
            )

        accepted = False
        async for answer in self._followed(run_id, -1, begin):
            if not accepted:
                accepted = True
                yield {"accepted": run_id}
            yield answer

    async def _follow(self, fields: Fields) -> AsyncIterator[Answer]:
        run_id = run_named(fields)
        self._run(run_id)
        after = fields.get("after", -1)
        async for answer in self._followed(run_id, after if type(after) is int else -1, None):
            yield answer

    async def _followed(
        self, run_id: str, after: int, begin: Callable[[], Awaitable[None]] | None
    ) -> AsyncIterator[Answer]:
        async for answer in self._followers.follow(
            run_id,
            after=after,
            history=lambda: self._record.history(run_id),
            current=lambda: self._run(run_id),
            begin=begin,
        ):
            yield answer

    async def _gate(self, fields: Fields) -> AsyncIterator[Answer]:
        run = self._run(run_named(fields))
        view = gates.view(run)
        assert run.plan is not None
        yield {
            "run_id": run.run_id,
            "gate": view.gate_id,
            "kind": view.kind,
            "step_id": view.step_id,
            "plan": run.plan.to_data(),
            "before": run.previous_plan.to_data() if run.previous_plan and view.kind == "plan" else None,
            "plan_digest": run.plan_digest,
            "steps": {name: step.to_data() for name, step in view.steps.items()},
            "arguments": dict(view.arguments),
            "descriptors": {name: one.to_data() for name, one in run.descriptors.items()},
            "scope_digest": view.scope,
            "budget": dict(run.mandate.budget),
            "policy_digest": view.policy,
            "text": view.text,
            "shown": view.shown,
            "last": True,
        }

    async def _resume(self, fields: Fields) -> AsyncIterator[Answer]:
        """Every unfinished run goes on by itself when the harness starts; one that nothing could execute is tried again."""
        run_id = run_named(fields)
        await self._again(self._run(run_id))
        if fields.get("detach"):
            yield {"accepted": True, "last": True}
            return
        async for answer in self._follow(fields):
            yield answer

    async def _runs(self, fields: Fields) -> AsyncIterator[Answer]:
        yield {"runs": self._record.runs(), "last": True}

    async def _status(self, fields: Fields) -> AsyncIterator[Answer]:
        yield {**await self._about(), "last": True}

    async def _cache(self, fields: Fields) -> AsyncIterator[Answer]:
        act = CacheAct.from_data(
            {name: fields[name] for name in ("action", "max_age_days", "key") if name in fields},
            error=WireError,
            code="wire.bad_request",
            what="The request to the cache",
        )
        said, _ = await self._caller.ask("plan_cache", act, CacheSaid)
        yield {**said.data, "last": True}

    async def _down(self, fields: Fields) -> AsyncIterator[Answer]:
        yield {"accepted": True, "last": True}
        self._stop()

    def _known(self, run_id: str) -> bool:
        try:
            self._run(run_id)
        except DulyError as error:
            return error.code != "run.unknown"
        return True

    def _run(self, run_id: str) -> Run:
        found = self._core.runs.get(run_id)
        return found if found is not None else self._record.load(run_id)
