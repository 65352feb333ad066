"""``duly run --from RUN``: a new run that goes on where an ended one stopped, with the same request and settings unless
others are given, and with every result of it that still holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duly.protocol.machine.phases import Phase
from duly.protocol.machine.run import Run
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Request, new_request
from duly.protocol.wire.errors import RequestError, RunError
from duly.storage.home import Home

from .mandate import Opened, Order
from .package import is_known, snapshot_name
from .records import run_recorded

if TYPE_CHECKING:
    from .run import Asked

CONTINUED = (Phase.PARTIAL, Phase.FAILED, Phase.CANCELLED)
_SETTINGS = ("agent", "tier", "planning", "gate", "schedule")


def words(home: Home, package: str | None, text: str | None) -> tuple[str | None, str | None]:
    """Package and request of a command line with ``--from``: a single word is the package where it names one, else it
    is the new request."""
    if package is not None and text is None and not is_known(home, package):
        return None, package
    return package, text


def continued(
    home: Home, name: str, package: str | None, text: str | None, given: Mapping[str, Any]
) -> Asked:
    """The wish to continue a run. ``given`` is what ``run.asked`` takes beside package and text.

    Raises ``RunError`` ``run.not_continuable`` for a run that has not ended, or that completed, and as ``run.asked``.
    """
    from . import run as command

    earlier = earlier_of(home, name)
    package, text = words(home, package, text)
    wish = command.asked(package or earlier.mandate.package, text or earlier.request.text, **given)
    order = order_after(earlier, wish.order)
    request = _request(earlier.request, wish.request, text)
    plan = wish.plan or (_brought(earlier) if request == earlier.request else None)
    return command.Asked(
        wish.package, request, order, plan, wish.yes, wish.detach, wish.json, continues=earlier
    )


def replayed(home: Home, name: str, given: Mapping[str, Any]) -> Asked:
    """The wish to run a request again with the recorded answers of its models: the same words, snapshot and settings."""
    from . import run as command

    earlier = run_recorded(home, name)
    wish = command.asked(earlier.mandate.package, earlier.request.text, **given)
    order = replace(order_after(earlier, wish.order), from_run=None)
    return command.Asked(
        wish.package, earlier.request, order, wish.plan, wish.yes, wish.detach, wish.json, replays=earlier
    )


def earlier_of(home: Home, name: str) -> Run:
    """The run that is to be continued. Raises ``RunError`` ``run.not_continuable``, and as ``Records.run``."""
    run = run_recorded(home, name)
    if run.phase in CONTINUED:
        return run
    if run.phase.ended:
        hint = f"Its report is final: see `duly show {run.run_id}`."
    else:
        hint = f"It has not ended: see `duly resume {run.run_id}`."
    raise RunError("run.not_continuable", f"Run {run.run_id} is {run.phase}.", hint=hint)


def order_after(earlier: Run, order: Order) -> Order:
    """The settings of an earlier run with those of ``order`` on top. Whether it writes is said anew each time."""
    old = earlier.mandate
    settings = {one: getattr(order, one) or getattr(old, one) for one in _SETTINGS}
    budget = {**old.budget, **order.budget}
    return Order(budget=budget, shadow=order.shadow, from_run=earlier.run_id, **settings)


def refuse_ended(run: Run) -> None:
    """Raises ``RunError`` ``run.ended`` where nothing goes on any more."""
    if run.phase.ended:
        raise RunError(
            "run.ended",
            f"Run {run.run_id} has ended: {run.phase}.",
            hint=f"`duly run --from {run.run_id}` begins another that uses its results."
            if run.phase in CONTINUED
            else None,
        )


def check_same_package(home: Home, earlier: Run, package: Opened) -> None:
    """Raises ``RunError`` ``run.other_package``: results of one package mean nothing to another."""
    name = snapshot_name(home, earlier.mandate.package)
    if name is not None and name != package.name:
        raise RunError(
            "run.other_package",
            f"Run {earlier.run_id} is of the package {name}, not of {package.name}.",
            hint="Leave AGENT out, or name the same package.",
        )


def _brought(earlier: Run) -> Plan | None:
    """The plan that a person brought to a run or made of its plan: no planner would find it again."""
    if earlier.plan is None or earlier.plan.origin != "person":
        return None
    data = earlier.plan.to_data()
    told = {name: value for name, value in data.items() if name not in ("version", "provenance")}
    return Plan.model_validate({**told, "plan_id": "plan"})


def _request(earlier: Request, given: Request, text: str | None) -> Request:
    """The old request letter for letter, unless a text or parts are given; a part replaces the old one of its name."""
    if text is None and not given.parts:
        return earlier
    parts = {part.name: part for part in (*earlier.parts, *given.parts)}
    try:
        return new_request(text or earlier.text, list(parts.values()))
    except RequestError as error:
        raise RequestError(error.code, error.message, place="--input", hint=error.hint) from None
