"""A real runtime that is killed on purpose, a person who gives commands until the run has ended, and what must hold."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from duly.cli import gate, mandate, person, session, start
from duly.cli.mandate import Opened, Order
from duly.cli.package import open_package
from duly.cli.records import Records
from duly.cli.supervisor_lock import supervisor_of
from duly.protocol.machine.run import Run
from duly.protocol.plan.plan import Plan
from duly.protocol.plan.request import Request, new_request
from duly.protocol.views.result import result_object
from duly.protocol.wire.errors import DulyError
from duly.storage.home import Home
from duly.storage.recovery import Recorded
from kill_gate import Boundary, KillGate
from kill_package import OBJECTIVE, WRITES, effects, the_plan, write_package
from kill_venv import make_interpreter
from process_table import leftovers, tree_below

COMMANDS_MAX = 40  # a person who has to give more is stuck
RUN_SECONDS_MAX = 240.0
GONE_SECONDS_MAX = 60.0
AWAY_SECONDS = 0.2
POLL_SECONDS = 0.05

# What is killed, by what `duly status` calls it. The supervisor takes its whole tree with it; "everything" is killed
# process by process at once.
TARGETS: dict[str, tuple[str, ...]] = {
    "harness": ("Harness",),
    "executor": ("Executor",),
    "journal": ("AuditJournal",),
    "verifier": ("Verifier",),
    "planner": ("Planner",),
    "plan cache": ("PlanCache",),
    "read host": ("host read",),
    "write host": ("host write",),
    "verify host": ("host verify",),
    "supervisor": ("supervisor",),
    "everything": (),
}
WHOLE = ("supervisor", "everything")  # a kill of these needs a new start of everything
PARTS = {role: 2 if role == "Executor" else 1 for roles in TARGETS.values() for role in roles}
TITLES = {"harness": "ray::Harness", "journal": "ray::AuditJournal"}  # as Ray names its workers to the kernel
AGAIN = Boundary("run.resumed", "before")


@dataclass
class Story:
    """One case: what was killed where, what the person did, how it ended, and what is wrong with that."""

    run_id: str
    reached: bool = False
    commands: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    result: Mapping[str, Any] = field(default_factory=dict)
    effects: Mapping[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0


class KillWorld:
    """``with KillWorld(folder) as world``: a data directory with its runtime. ``tier`` says whether gates wait."""

    def __init__(
        self, folder: Path, tier: str = "bounded_autonomous", settings: Mapping[str, str] | None = None
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="k", dir=folder))
        self.home = Home(self.folder / "h")
        self.tier = tier
        self._python = make_interpreter(self.folder / "v")
        self._settings = dict(settings or {})
        self._package = write_package(self.folder / "p")
        self._patches = contextlib.ExitStack()
        self._opened: Opened | None = None
        self._plan: Plan | None = None

    def __enter__(self) -> KillWorld:
        command = [str(self._python), "-P", "-m", "duly.hosts.supervisor", "--home", str(self.home.root)]
        self._patches.enter_context(mock.patch.object(start, "supervisor_command", lambda root: command))
        self._patches.enter_context(mock.patch.dict(os.environ, {"DULY_IDLE_SECONDS": "0", **self._settings}))
        self.home.prepare()
        self.gate = KillGate(self.home.root)
        with start.opened(self.home) as door:
            self._opened = open_package(door, self.home, str(self._package))
        self._plan = the_plan(self._opened.descriptors)
        return self

    def __exit__(self, *exception: object) -> None:
        self.gate.close()
        for watch in self._descriptors(self.now("supervisor")):
            signal.pidfd_send_signal(watch, signal.SIGTERM)
            _await_gone([watch])
        # A worker that Ray was just starting when its parents were killed is nobody's child.
        deadline = time.monotonic() + GONE_SECONDS_MAX
        while left := leftovers([str(self.folder)]):
            assert time.monotonic() < deadline, f"processes outlived their runtime: {left}"
            for one in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGKILL)  # its command names this world's own folder
            time.sleep(POLL_SECONDS)
        self._patches.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # processes

    def pids(self, target: str) -> list[int]:
        """The processes of a target now. Starts the runtime where none runs."""
        lines = self.whole()
        roles = TARGETS[target]
        return [line["pid"] for line in lines if not roles or line["role"] in roles]

    def whole(self) -> list[dict[str, Any]]:
        """What ``duly status`` lists once everything runs that belongs to a runtime, after what was killed is back."""
        deadline = time.monotonic() + RUN_SECONDS_MAX
        while True:
            with contextlib.suppress(DulyError), start.opened(self.home) as door:
                lines: list[dict[str, Any]] = door.call("status")["processes"]
                there = [line["role"] for line in lines if line["pid"]]
                if all(there.count(role) >= count for role, count in PARTS.items()):
                    return lines
            assert time.monotonic() < deadline, "the runtime does not become whole again"
            time.sleep(AWAY_SECONDS)

    def now(self, target: str) -> list[int]:
        """The processes of a target, the supervisor's tree looked through: for when the front door is not open."""
        top = supervisor_of(self.home)
        tree = set() if top is None else tree_below(top)
        if target == "supervisor":
            return [] if top is None else [top]
        return [one.pid for one in tree if one.command.startswith(TITLES.get(target, ""))]

    def watched(self, target: str) -> list[int]:
        """Descriptors of a target's processes. A number alone may soon be another process's."""
        return self._descriptors(self.pids(target))

    def _descriptors(self, pids: Sequence[int]) -> list[int]:
        """Descriptors of those of some processes that are in the supervisor's tree, before they are opened and after."""
        watches = {}
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                watches[pid] = os.pidfd_open(pid)
        ours = self.now("everything")
        for pid in watches.keys() - set(ours):
            os.close(watches.pop(pid))
        return list(watches.values())

    def kill(self, watches: Sequence[int]) -> None:
        """SIGKILL to each at once; returns when they are gone, and closes the descriptors."""
        for watch in watches:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(watch, signal.SIGKILL)
        _await_gone(watches)

    def kill_target(self, target: str, watches: Sequence[int] | None = None) -> None:
        """Kills a target: as it was watched, or as it is now. Of a supervisor the rest of the tree has to go by itself."""
        if watches is None or target == "everything":
            for watch in watches or ():
                os.close(watch)
            watches = self._descriptors(self.now(target))
        rest = self._descriptors(self.now("everything")) if target == "supervisor" else []
        self.kill(watches)
        _await_gone(rest)

    # one run

    def order(self) -> tuple[Any, Request, Plan]:
        """A mandate for a new run, its request and its plan."""
        assert self._opened is not None and self._plan is not None
        request = new_request(OBJECTIVE)
        return mandate.draft(self._opened, request, Order(tier=self.tier), self._plan), request, self._plan

    def case(self, target: str, boundary: Boundary | None, again: Boundary | None = None) -> Story:
        """One run during which a target is killed at a boundary (``None``: nothing is), driven to its end and judged.
        ``again``: the target is killed once more at that one, which comes after."""
        watches = self.watched(target) if boundary is not None else []
        story = self.interrupted(
            boundary, lambda: self.kill_target(target, watches), again, lambda: self.kill_target(target)
        )
        if not story.reached:
            for watch in watches:
                os.close(watch)
        return story

    def interrupted(
        self,
        boundary: Boundary | None,
        act: Callable[[], None],
        again: Boundary | None = None,
        act_again: Callable[[], None] = lambda: None,
    ) -> Story:
        """One run to its end, judged. While it is held at a boundary something is done to it."""
        begun = time.monotonic()
        signed, request, plan = self.order()
        story = Story(signed.run_id)
        self.gate.arm(signed.run_id, boundary)
        ends = threading.Event()
        commands = threading.Thread(
            target=self._person, args=(story, signed, request, plan, ends), daemon=True
        )
        commands.start()
        story.reached = self._reached(ends)
        if story.reached:
            act()
            self.gate.release(again)
            if again is not None and self._reached(ends):
                act_again()
        self.gate.release()
        commands.join(RUN_SECONDS_MAX)
        if commands.is_alive():
            story.faults.append(f"the person is still waiting after {RUN_SECONDS_MAX:.0f} s")
        else:
            self._judge(story)
        story.seconds = time.monotonic() - begun
        return story

    def _reached(self, person_ends: threading.Event) -> bool:
        """Whether the boundary holds somebody, before the person has nothing left to do."""
        deadline = time.monotonic() + RUN_SECONDS_MAX
        while not self.gate.reached.wait(POLL_SECONDS):
            if person_ends.is_set() or time.monotonic() > deadline:
                break
        return self.gate.reached.is_set()

    def _person(self, story: Story, signed: Any, request: Request, plan: Plan, ends: threading.Event) -> None:
        """Gives one command after the other, as somebody would who sees what each of them says."""
        key = person.key_of(self.home)
        submission = {"mandate": signed.sign(key()), "request": request.to_data(), "plan": plan.to_data()}
        op, fields = "submit", submission
        try:
            for _ in range(COMMANDS_MAX):
                story.commands.append(op)
                try:
                    result = self._command(story.run_id, op, fields)
                except DulyError as error:
                    story.commands[-1] += f" ({error.code})"
                    if error.code == "run.unknown":
                        op, fields = "submit", submission  # it was never accepted
                    else:
                        op, fields = "follow", {"after": -1}
                        time.sleep(AWAY_SECONDS)  # a person who reads an error
                    continue
                op, fields = self._next(story, result, key)
                if not op:
                    return
        finally:
            ends.set()

    def _command(self, run_id: str, op: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        with start.opened(self.home) as door:
            for message in door.stream(op, **{"run_id": run_id, **fields}):
                if message.get("last"):
                    return dict(message["result"])
        raise AssertionError("a stream ends with a last message")

    def _next(self, story: Story, result: Mapping[str, Any], key: Any) -> tuple[str, Mapping[str, Any]]:
        story.result = result
        if result["phase"] == "WAITING_APPROVAL":
            with start.opened(self.home) as door:
                waiting = gate.read(story.run_id, door.call("gate", run_id=story.run_id))
            return "approve", {"approval": gate.signed(waiting, key(), with_references=False)}
        if result["phase"] == "WAITING_INPUT":
            text = self._truth(story, result)
            return "answer", {"text": text}
        return "", {}

    def _truth(self, story: Story, result: Mapping[str, Any]) -> str:
        """The answer to a question about an effect, as the sink knows it."""
        needs = result["needs"] or {}
        story.asked.append(str(needs.get("text") or needs.get("question") or needs))
        run = self.replay(story.run_id)[0]
        assert run.asked is not None
        about, _, step_id = run.asked.about.partition(":")
        if about == "outcome":
            return "it happened" if effects(self.home.root, story.run_id).get(step_id) else "it did not"
        story.faults.append(f"asked about {run.asked.about}: {run.asked.question.text}")
        return "give up"

    # what must hold

    def replay(self, run_id: str) -> tuple[Run, list[Recorded]]:
        with Records.open(self.home) as records:
            return records.run(run_id)

    def _judge(self, story: Story) -> None:
        run, record = self.replay(story.run_id)
        story.effects = effects(self.home.root, story.run_id)
        for thing, count in story.effects.items():
            if count > 1:
                story.faults.append(f"{thing} happened {count} times")
        for one in record:
            step_id = one.event.facts.get("step_id")
            if one.event.kind == "step.succeeded" and step_id in WRITES and not story.effects.get(step_id):
                story.faults.append(f"{step_id} was reported done and did not happen")
        if run.phase != "COMPLETED":
            story.faults.append(f"the run ended {run.phase}: {run.reason}: {run.message}")
        elif missing := [name for name in WRITES if not story.effects.get(name)]:
            story.faults.append(f"COMPLETED without {missing}")
        replayed = result_object(run)
        told = {name: value for name, value in story.result.items() if name != "type"}
        if told != replayed:
            differs = [name for name in replayed if told.get(name) != replayed[name]]
            story.faults.append(f"the record gives another run than the harness had: {differs}")
        if run.budget.reserved:
            story.faults.append(f"reserved after the end: {dict(run.budget.reserved)}")
        report = session.verify_log(self.home.root)
        if not report.ok:
            story.faults.append(f"the log does not verify: {report.faults[:3]}")


def _await_gone(watches: Sequence[int]) -> None:
    deadline = time.monotonic() + GONE_SECONDS_MAX
    try:
        for watch in watches:
            gone = select.select([watch], [], [], max(0.0, deadline - time.monotonic()))[0]
            assert gone, "a killed process does not end"
    finally:
        for watch in watches:
            os.close(watch)


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """A temporary folder whose sockets have short paths."""
    folder = Path(
        tempfile.mkdtemp(prefix="km", dir=os.environ.get("DULY_KILL_FOLDER") or tempfile.gettempdir())
    )
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
