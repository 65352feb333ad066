"""``duly amend``: another request for the same run. What changes is shown, a new mandate is signed, a new plan is made."""

from __future__ import annotations

from collections.abc import Sequence

from duly.protocol.plan.request import Request, new_request
from duly.protocol.wire.errors import RequestError
from duly.storage.home import Home

from . import mandate, options
from .continuation import refuse_ended
from .decide import follower_of
from .layout import labelled
from .output import say
from .records import run_recorded
from .run import authority_lines, conclude


def amend(home: Home, name: str, text: str, *, inputs: Sequence[str] = (), json: bool = False) -> int:
    """Gives a run another objective. Results that are still right are kept; the new plan waits at its gate again."""
    parts = options.parts(inputs)
    run = run_recorded(home, name)
    refuse_ended(run)
    request = new_request(text, parts or list(run.request.parts))
    if request.digest() == run.request.digest():
        raise RequestError("request.unchanged", "This is the request of the run already.")
    order = mandate.amended(run.mandate, request)
    follower = follower_of(home, run.run_id, json=json)
    if not json:
        say(change_lines(run.request, request))
        say(labelled("run", f"{run.run_id}, agent {order.agent} {order.agent_version}, tier {order.tier}"))
    authority_lines(order, json=json)
    result = follower.request(
        "amend", run_id=run.run_id, mandate=order.sign(follower.key()), request=request.to_data()
    )
    return conclude(follower, result)


def change_lines(before: Request, after: Request) -> list[str]:
    """The old and the new request, and every input part that differs."""
    lines = labelled("request", before.text)
    if before.text != after.text:
        lines += labelled("becomes", after.text)
    old = {part.name: part.value for part in before.parts}
    new = {part.name: part.value for part in after.parts}
    for name in sorted({*old, *new}):
        if name in old and name in new and repr(old[name]) == repr(new[name]):
            continue
        was = repr(old[name]) if name in old else "not given"
        lines += labelled("input", f"{name}: {was} becomes {repr(new[name]) if name in new else 'not given'}")
    return lines
