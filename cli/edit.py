"""``duly edit``: a person's own version of the plan that waits, validated, sent, and shown at its gate again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from duly.protocol.plan.plan import Plan
from duly.protocol.wire.errors import DulyError, PlanError, RequestError, RunError
from duly.storage.home import Home

from . import exit_codes, follow, plan_file
from .decide import follower_of
from .editor import EditedFile
from .gate import WaitingGate
from .output import fail, say, told
from .plan_text import plan_text
from .run import conclude

AGAIN = "Type e to open the editor again, anything else to leave the plan as it waits: "
_SEQ_MAX = (1 << 62) - 1  # after every event: only the run's state is wanted


def edit(home: Home, name: str, *, file: str | None = None, show: bool = False, json: bool = False) -> int:
    """Edits the plan at a run's plan gate: in the person's editor, or as ``file`` holds it. ``show`` prints its text."""
    if file is None and not show and (json or not follow.is_interactive()):
        raise RequestError(
            "request.no_terminal",
            "There is no terminal to edit at.",
            hint="Write the plan to a file with `duly edit RUN --print`, change it, and give it with --file.",
        )
    changed = None if file is None else plan_file.read_bytes(Path(file))
    follower = follower_of(home, name, json=json)
    waiting = follower.waiting_gate()
    if waiting.kind != "plan":
        raise RunError(
            "run.not_editable",
            f"What waits is step {waiting.step_id}, not a plan.",
            hint="Reject it with --feedback, and another plan is made.",
        )
    if file is not None and changed is not None:
        return _sent_file(follower, waiting, Path(file), changed)
    text = plan_text(waiting.plan, waiting.descriptors, run_id=waiting.run_id, version=waiting.plan.version)
    if show:
        say(text.splitlines())
        return exit_codes.DONE
    return _in_editor(follower, waiting, text)


def send(follower: follow.Follower, waiting: WaitingGate, read: Callable[[], Plan]) -> follow.Result | None:
    """Sends an edited plan; ``None`` where it is the one that waits. Raises ``PlanError`` with every fault."""
    plan = read()
    if plan.content_digest() == waiting.plan.content_digest():
        return None
    return follower.request("edit", run_id=waiting.run_id, gate=waiting.gate, plan=plan.to_data())


def _sent_file(follower: follow.Follower, waiting: WaitingGate, path: Path, data: bytes) -> int:
    """The plan of a file. What is wrong with it is a refusal: the plan that waits stays."""
    try:
        result = send(
            follower, waiting, lambda: plan_file.edited(path, data, waiting.plan, waiting.descriptors)
        )
    except PlanError as error:
        fail(plan_file.located(error, path, data) if _is_remote(error) else error, debug=False)
        return exit_codes.REFUSED
    return _shown_again(follower, result)


def _in_editor(follower: follow.Follower, waiting: WaitingGate, text: str) -> int:
    """Opens the editor until the plan is valid, or the person leaves it. A text that was changed is never lost."""
    with EditedFile(f"plan-{waiting.run_id}.yaml", text) as file:
        try:
            while True:
                data = file.open()
                try:
                    result = (
                        None
                        if data == file.original
                        else send(follower, waiting, _reader(file, data, waiting))
                    )
                    break
                except PlanError as error:
                    say(told(plan_file.located(error, file.path, data) if _is_remote(error) else error))
                if follow.typed(AGAIN).lower() not in ("e", "edit"):
                    say(f"Nothing was sent. Your text is kept in {file.keep()}")
                    return exit_codes.REFUSED
        except DulyError:
            if file.is_changed:
                say(f"Your text is kept in {file.keep()}")
            raise
    return _shown_again(follower, result)


def _reader(file: EditedFile, data: bytes, waiting: WaitingGate) -> Callable[[], Plan]:
    return lambda: plan_file.edited(file.path, data, waiting.plan, waiting.descriptors)


def _is_remote(error: PlanError) -> bool:
    """Whether the faults come from the harness, which knows no file."""
    return error.code != "plan.file"


def _shown_again(follower: follow.Follower, result: follow.Result | None) -> int:
    if result is None:
        follower.screen.say("Nothing changed; the plan waits as before.")
        result = follower.request("follow", run_id=follower.run_id, after=_SEQ_MAX)
        follower.screen.result(result)
        return follow.exit_code(result)
    return conclude(follower, result)
