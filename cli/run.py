"""``duly run``: open the package, sign the mandate, submit, follow to where the run stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from duly.protocol.authority.mandate import Mandate
from duly.protocol.machine.run import Run
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Request, new_request
from duly.protocol.wire.errors import DulyError, PlanError, RequestError, StorageError
from duly.storage.home import Home

from . import exit_codes, follow, mandate, options, person
from .continuation import check_same_package, continued, replayed
from .layout import labelled, paragraph
from .mandate import Order
from .output import emit, fail, note, say
from .package import open_package
from .plan_file import read_plan
from .progress import Progress
from .records import Records
from .screen import JsonScreen, Screen, TextScreen
from .start import opened


@dataclass(frozen=True, slots=True)
class Asked:
    """What stands on the command line of route, plan and run, checked."""

    package: str
    request: Request
    order: Order
    plan: Plan | None = None
    yes: bool = False
    detach: bool = False
    json: bool = False
    continues: Run | None = None
    replays: Run | None = None


def asked(
    package: str,
    text: str,
    *,
    inputs: Sequence[str] = (),
    plan: str | None = None,
    budget: Sequence[str] = (),
    yes: bool = False,
    detach: bool = False,
    json: bool = False,
    shadow: bool = False,
    **settings: str | None,
) -> Asked:
    """Everything that can be wrong with a command line is found here, before anything is started."""
    check_settings(settings)
    order = Order(budget=options.budget(budget), shadow=shadow, **settings)
    request = new_request(text, options.parts(inputs))
    brought = None if plan is None else read_plan(Path(plan))
    return Asked(package, request, order, brought, yes, detach, json)


def wished(
    home: Home,
    from_run: str | None,
    package: str | None,
    text: str | None,
    given: Mapping[str, Any],
    replay: str | None = None,
) -> Asked:
    """What a command line of ``run`` asks for, with or without ``--from`` or ``--replay``. ``given`` is what ``asked``
    takes."""
    if replay is not None:
        if from_run or package or text:
            raise RequestError(
                "request.usage",
                "--replay takes request and package from the run that it names, and nothing else.",
            )
        return replayed(home, replay, given)
    if from_run is not None:
        return continued(home, from_run, package, text, given)
    if package is None or text is None:
        missing = "AGENT" if package is None else "REQUEST"
        raise RequestError("request.usage", f"Missing argument {missing!r}.", hint="Try `duly run --help`.")
    return asked(package, text, **given)


def check_settings(settings: Mapping[str, str | None]) -> None:
    """Raises ``RequestError`` ``request.bad_option`` for a word that an option does not have."""
    options.one_of("--tier", settings.get("tier"), options.TIERS)
    options.one_of("--planning", settings.get("planning"), options.PLANNINGS)
    options.one_of("--gate", settings.get("gate"), options.GATES)
    options.one_of("--schedule", settings.get("schedule"), options.SCHEDULES)


def run(home: Home, wish: Asked) -> int:
    """Runs a request; the exit code says how it stopped."""
    with opened(home) as door:
        package = open_package(door, home, wish.package)
    earlier = wish.continues or wish.replays
    if earlier is not None:
        check_same_package(home, earlier, package)
    order = mandate.draft(package, wish.request, wish.order, wish.plan)
    screen: Screen = JsonScreen() if wish.json else text_screen(home, order.run_id, order.budget)
    if not wish.json:
        say(labelled("request", wish.request.text))
        say(labelled("run", f"{order.run_id}, agent {order.agent} {order.agent_version}, tier {order.tier}"))
        if wish.continues is not None:
            say(
                labelled(
                    "from", f"{wish.continues.run_id}, {wish.continues.phase}; what still holds is used again"
                )
            )
        if wish.replays is not None:
            say(
                labelled("replay", f"{wish.replays.run_id}; no model is asked, its recorded answers are used")
            )
    authority_lines(order, json=wish.json)
    follower = follow.Follower(home, order.run_id, screen, person.key_of(home), _decider(wish))
    fields = submission(order, follower.key(), wish.request, wish.plan)
    if wish.replays is not None:
        fields["replay_of"] = wish.replays.run_id
    if wish.detach:
        return _detached(home, order.run_id, fields, json=wish.json)
    result = follower.request("submit", **fields)
    return conclude(follower, result, forced=wish.yes)


def submission(order: Mandate, key: Ed25519PrivateKey, request: Request, plan: Plan | None) -> dict[str, Any]:
    """The fields of a submission: the mandate, signed, and what it is about."""
    fields: dict[str, Any] = {
        "mandate": order.sign(key),
        "request": request.to_data(),
        "plan": None if plan is None else plan.to_data(),
    }
    if order.from_run is not None:
        fields["from_run"] = order.from_run
    return fields


def authority_lines(order: Mandate, *, json: bool) -> None:
    """Says what a mandate allows beyond the usual, before it is signed."""
    approved = mandate.approves(order)
    told = []
    if approved:
        tools = ", ".join(approved)
        told.append(
            f"No gate in tier {order.tier}: with this command you approve what these tools will do: {tools}."
        )
    if order.shadow:
        told.append(
            "Shadow: reads run; what writes is recorded as it would have happened, and does not happen."
        )
    for text in told:
        if json:
            note(text)
        else:
            say(paragraph(text))


def conclude(follower: follow.Follower, result: follow.Result, *, forced: bool = False) -> int:
    """Decides gates as far as somebody does, shows the result, and gives the exit code.

    With ``--yes`` a gate that the policy gives to other people stays open: that is said, and is no error of the run.
    """
    try:
        result = follower.settle(result)
    except DulyError as error:
        if not (forced and exit_codes.of_error(error) == exit_codes.REFUSED):
            raise
        fail(error, debug=False)
    follower.screen.result(result)
    return follow.exit_code(result)


def text_screen(home: Home, run_id: str, limits: dict[str, int] | None = None) -> TextScreen:
    """The screen of a person: progress with the plan, which is read from the stores when it was drafted."""

    def load_plan(seq: int) -> Plan | None:
        try:
            with Records.open(home) as records:
                data = records.attached(records.event(seq), "plan")
        except StorageError as error:
            note(f"The plan cannot be shown: {error.message}")
            return None
        return (
            None
            if data is None
            else Plan.from_data(data, error=PlanError, code="plan.malformed", what="The plan")
        )

    return TextScreen(home, Progress(load_plan, limits))


def _decider(wish: Asked) -> Callable[[], str]:
    if wish.yes:
        return follow.always
    return follow.ask if follow.is_interactive() and not wish.json else follow.nobody


def _detached(home: Home, run_id: str, fields: dict[str, Any], *, json: bool) -> int:
    """Submits and does not wait; the connection is left as soon as the run is accepted."""
    with opened(home) as door:
        for message in door.stream("submit", **fields, detach=True):
            if "accepted" in message or message.get("last"):
                break
    if json:
        emit({"run_id": run_id})
    else:
        say(labelled("run", f"{run_id} goes on in the background; look at it with duly show {run_id}"))
    return exit_codes.DONE
