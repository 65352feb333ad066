"""guide, amend, resume, ``run --from`` and ``run --shadow``: what is signed and sent, and what is refused before that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duly.cli.session import Runtime
from duly.protocol.authority.mandate import Mandate
from duly.protocol.authority.signing import key_id
from duly.protocol.plan.plan import Plan
from duly.protocol.views.result import result_object
from duly.protocol.wire.errors import RequestError, RunError
from duly.storage.keys import KeyRing
from duly.storage.packages import PackageStore
from scripted_harness import writing_plan

MANIFEST = b'[package]\nname = "shop"\n'


def answered(door: Any, op: str, run_id: str) -> None:
    """The runtime takes a request and says where the run is."""
    door.override[op] = lambda request, reply: reply(
        {"result": result_object(door.harness.runs[run_id]), "last": True}
    )


def mandate_of(door: Any, home: Any, op: str) -> Mandate:
    """The mandate that was sent, which the person signed."""
    public = KeyRing(home.keys).public("person")
    return Mandate.open(door.asked(op)["mandate"], {key_id(public): public})[0]


@pytest.fixture
def waiting(duly, door, package, capsys) -> str:
    door.harness.plan = writing_plan
    assert duly("run", package, "Open a ticket.", "--input", "top=3", "--budget", "steps=9") == 6
    capsys.readouterr()
    return next(iter(door.harness.runs))


@pytest.fixture
def failed(duly, waiting, capsys) -> str:
    assert duly("reject", waiting) == 3
    capsys.readouterr()
    return waiting


class TestGuide:
    def test_the_text_is_sent_and_the_run_followed(self, waiting, duly, door, capsys):
        answered(door, "guide", waiting)
        assert duly("guide", waiting[:6], "Leave out the first week.", "--json") == 6
        assert door.asked("guide")["text"] == "Leave out the first week."
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["phase"] == "WAITING_APPROVAL"

    @pytest.mark.parametrize(
        ("text", "code"), [(" ", "request.empty"), ("x" * (1 << 17), "request.too_large")]
    )
    def test_no_text_and_too_much_are_refused_here(self, waiting, duly, door, capsys, text, code):
        assert duly("guide", waiting, text) == 2
        assert f"[{code}]" in capsys.readouterr().err and "guide" not in door.ops()


class TestAmend:
    def test_a_new_mandate_for_the_same_run_and_nothing_else(self, waiting, duly, door, home, capsys):
        answered(door, "amend", waiting)
        old = door.harness.runs[waiting].mandate
        assert duly("amend", waiting, "Close a ticket.") == 6
        new = mandate_of(door, home, "amend")
        request = door.asked("amend")["request"]
        assert request == {"text": "Close a ticket.", "parts": [{"name": "top", "value": 3}]}
        differs = {name for name in Mandate.model_fields if getattr(old, name) != getattr(new, name)}
        assert differs == {"request", "issued_ms", "expires_ms", "nonce"} and new.run_id == waiting
        out = capsys.readouterr().out
        assert "request   Open a ticket." in out and "becomes   Close a ticket." in out

    def test_parts_that_change_are_shown(self, waiting, duly, door, capsys):
        answered(door, "amend", waiting)
        assert duly("amend", waiting, "Open a ticket.", "--input", "top=5", "--input", "day=1") == 6
        out = capsys.readouterr().out
        assert "top: 3 becomes 5" in out and "day: not given becomes 1" in out

    def test_an_autonomous_run_says_again_what_its_mandate_approves(self, duly, door, package, capsys):
        door.harness.ask = True
        assert duly("run", package, "Open a ticket.", "--tier", "bounded_autonomous") == 7
        run_id = next(iter(door.harness.runs))
        answered(door, "amend", run_id)
        capsys.readouterr()
        assert duly("amend", run_id, "Open two tickets.") == 7
        assert "you approve what these tools will do: tickets.open" in " ".join(
            capsys.readouterr().out.split()
        )

    def test_hostile_words_stay_words(self, waiting, duly, door, capsys):
        answered(door, "amend", waiting)
        assert duly("amend", waiting, "x\x1b[2J\u202ey\nbecomes   nothing") == 6
        out = capsys.readouterr().out
        assert "\x1b" not in out and "\u202e" not in out and "\nbecomes   nothing" not in out

    def test_the_same_request_is_no_change(self, waiting, duly, door, capsys):
        assert duly("amend", waiting, "Open a ticket.") == 2
        assert "[request.unchanged]" in capsys.readouterr().err and "amend" not in door.ops()

    def test_what_has_ended_stays_as_it_is(self, failed, duly, door, capsys):
        assert duly("amend", failed, "Another.") == 8
        assert "[run.ended]" in capsys.readouterr().err and "amend" not in door.ops()


class TestResume:
    def test_a_run_is_asked_for_and_says_what_it_waits_for(self, waiting, duly, door, capsys):
        assert duly("resume", waiting) == 6
        assert door.asked("resume")["run_id"] == waiting
        assert f"an approval of its plan: look with `duly inbox {waiting}`" in " ".join(
            capsys.readouterr().out.split()
        )

    def test_json_is_that_of_a_followed_run(self, waiting, duly, door, capsys):
        assert duly("resume", waiting, "--json") == 6
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["type"] == "result"

    def test_without_a_name_every_run_that_has_not_ended(self, waiting, duly, door, package, capsys):
        door.harness.ask = True
        duly("run", package, "Which month?")
        door.harness.ask = False
        duly("run", package, "Open another.")
        done = list(door.harness.runs)[2]
        duly("reject", done)
        capsys.readouterr()
        assert duly("resume", "--json") == 0
        (line,) = capsys.readouterr().out.splitlines()
        runs = {one["run_id"]: one for one in json.loads(line)["runs"]}
        assert done not in runs and len(runs) == 2
        assert runs[waiting]["phase"] == "WAITING_APPROVAL" and "approval" in runs[waiting]["waits_for"]
        other = next(one for name, one in runs.items() if name != waiting)
        assert "Which month of 2013" in other["waits_for"]
        assert {request["run_id"] for request in door.requests if request["op"] == "resume"} == set(runs)
        assert duly("resume") == 0
        assert "2 runs not ended" in capsys.readouterr().out

    def test_one_that_nothing_can_go_on_with_says_so_and_hides_no_other(
        self, waiting, duly, door, package, capsys
    ):
        duly("run", package, "Open another.")
        other = list(door.harness.runs)[1]
        capsys.readouterr()

        def resumed(request: dict[str, Any], reply: Any) -> None:
            if request["run_id"] == waiting:
                raise RunError("run.no_executor", "The package of this run cannot be opened.")
            reply({"accepted": True, "last": True})

        door.override["resume"] = resumed
        assert duly("resume", "--json") == 0
        runs = {one["run_id"]: one for one in json.loads(capsys.readouterr().out)["runs"]}
        assert runs[waiting]["code"] == "run.no_executor" and "cannot be opened" in runs[waiting]["waits_for"]
        assert set(runs) == {waiting, other}

    def test_nothing_recorded_starts_nothing(self, duly, home, capsys):
        assert duly("resume", "--json") == 0
        assert json.loads(capsys.readouterr().out) == {"runs": []}
        assert not home.run.exists()

    def test_what_has_ended_is_refused_with_what_can_be_done(self, failed, duly, door, capsys):
        assert duly("resume", failed) == 8
        assert f"duly run --from {failed}" in capsys.readouterr().err


class TestFrom:
    @pytest.fixture
    def kept(self, home, door, monkeypatch) -> str:
        """The snapshot of the package, and a runtime that opens it under its digest."""
        digest = PackageStore(home.packages).put({"agent.toml": MANIFEST})
        opened = door._package_open

        def package_open(request: dict[str, Any], reply: Any) -> None:
            opened(
                request, lambda answer: reply({**answer, "package": digest} if answer.get("last") else answer)
            )

        door.override["package.open"] = package_open
        return digest

    def test_the_same_request_settings_and_snapshot_under_a_mandate_that_names_it(
        self, kept, failed, duly, door, home, capsys
    ):
        assert duly("run", "--from", failed[:7]) == 6
        new = mandate_of(door, home, "submit")
        old = door.harness.runs[failed].mandate
        assert new.from_run == failed and new.run_id != failed and door.asked("submit")["from_run"] == failed
        assert door.asked("submit")["request"] == door.harness.runs[failed].request.to_data()
        same = ("agent", "tier", "planning", "gate", "schedule", "budget", "package", "request")
        assert [getattr(new, name) for name in same] == [getattr(old, name) for name in same]
        assert door.asked("package.open")["files"] == {"agent.toml": MANIFEST}
        assert f"from      {failed}, FAILED" in capsys.readouterr().out

    def test_the_plan_that_a_person_brought_goes_on_too_unless_the_request_is_another(
        self, kept, duly, door, home, package, tmp_path, capsys
    ):
        file = tmp_path / "plan.json"
        file.write_text(json.dumps(writing_plan("Open a ticket.").to_data()), encoding="utf-8")
        assert duly("run", package, "Open a ticket.", "--plan", str(file)) == 6
        earlier = next(iter(door.harness.runs))
        assert duly("reject", earlier) == 3
        assert duly("run", "--from", earlier) == 6
        plan = Plan.model_validate(door.asked("submit")["plan"])
        assert plan.content() == door.harness.runs[earlier].plan.content() and plan.origin == "person"
        assert (plan.plan_id, plan.version) == ("plan", 1)
        assert mandate_of(door, home, "submit").plan == plan.content_digest()
        for changed in (("Open two.",), ("--input", "top=9")):
            duly("run", "--from", earlier, *changed)
            assert door.asked("submit")["plan"] is None

    def test_what_is_given_counts(self, kept, failed, duly, door, home, package, capsys):
        assert (
            duly(
                "run", package, "Open two.", "--from", failed, "--tier", "supervised", "--budget", "steps=20"
            )
            == 6
        )
        new = mandate_of(door, home, "submit")
        assert new.tier == "supervised" and new.budget["steps"] == 20
        assert door.asked("submit")["request"]["text"] == "Open two."
        assert door.asked("submit")["request"]["parts"] == [{"name": "top", "value": 3}]

    @pytest.mark.parametrize("how", ["folder", "name", "text"])
    def test_a_single_word_is_the_package_where_it_names_one(
        self, kept, failed, duly, door, package, capsys, how
    ):
        word = {"folder": package, "name": "shop", "text": "Open two."}[how]
        assert duly("run", word, "--from", failed) == 6
        text = door.asked("submit")["request"]["text"]
        assert text == ("Open two." if how == "text" else "Open a ticket.")

    def test_a_part_replaces_the_old_one_of_its_name(self, kept, failed, duly, door, capsys):
        assert duly("run", "--from", failed, "--input", "top=9", "--input", "more=x") == 6
        assert door.asked("submit")["request"]["parts"] == [
            {"name": "top", "value": 9},
            {"name": "more", "value": "x"},
        ]

    def test_another_package_is_refused(self, kept, failed, duly, door, tmp_path, capsys):
        inner = door.override["package.open"]
        door.override["package.open"] = lambda request, reply: inner(
            request, lambda answer: reply({**answer, "name": "bank"} if answer.get("last") else answer)
        )
        before = door.ops().count("submit")
        assert duly("run", "--from", failed) == 8
        assert "[run.other_package]" in capsys.readouterr().err and door.ops().count("submit") == before

    def test_what_has_not_ended_and_what_completed_are_refused(
        self, kept, waiting, duly, door, package, capsys
    ):
        assert duly("run", "--from", waiting) == 8
        assert "duly resume" in capsys.readouterr().err
        duly("approve", waiting, "--with-references")
        capsys.readouterr()
        assert duly("run", "--from", waiting) == 8
        assert "[run.not_continuable]" in capsys.readouterr().err

    @pytest.mark.parametrize("arguments", [["run"], ["run", "PACKAGE"]])
    def test_without_it_package_and_request_are_needed(self, duly, package, home, capsys, arguments):
        assert duly(*[package if one == "PACKAGE" else one for one in arguments]) == 2
        assert "[request.usage]" in capsys.readouterr().err and not home.run.exists()

    def test_a_snapshot_that_is_gone_needs_the_package_named(self, failed, duly, door, capsys):
        assert duly("run", "--from", failed) == 2
        err = capsys.readouterr().err
        assert "[package.missing]" in err and "Name the package" in err

    def test_an_unknown_run_is_refused_before_anything_starts(self, duly, home, capsys):
        assert duly("run", "--from", "r999") == 8
        assert "[run.unknown]" in capsys.readouterr().err and not home.run.exists()


class TestShadow:
    def test_the_mandate_says_so_and_approves_nothing(self, duly, door, package, home, capsys):
        duly(
            "run",
            package,
            "Open a ticket.",
            "--shadow",
            "--tier",
            "bounded_autonomous",
            "--schedule",
            "overlap",
        )
        signed = mandate_of(door, home, "submit")
        assert signed.shadow and signed.schedule == "overlap"
        out = " ".join(capsys.readouterr().out.split())
        assert "Shadow: reads run" in out and "you approve" not in out

    def test_without_the_option_a_mandate_is_none(self, duly, door, package, home, capsys):
        duly("run", package, "Which sold most?")
        assert not mandate_of(door, home, "submit").shadow


class TestPython:
    def test_the_same_from_python(self, waiting, door, home, capsys):
        runtime = Runtime(home.root)
        for op in ("edit", "guide", "amend", "resume"):
            answered(door, op, waiting)
        plan = runtime.waiting_plan(waiting)
        assert (
            runtime.edit(waiting, plan.model_copy(update={"allow_partial": True})).phase == "WAITING_APPROVAL"
        )
        assert door.asked("edit")["plan"]["allow_partial"] is True and door.asked("edit")["gate"]
        assert runtime.guide(waiting, "Less.").run_id == waiting and door.asked("guide")["text"] == "Less."
        assert runtime.amend(waiting, "Close it.").run_id == waiting
        assert mandate_of(door, home, "amend").run_id == waiting
        assert door.asked("amend")["request"]["parts"] == [{"name": "top", "value": 3}]
        assert runtime.resume(waiting).phase == "WAITING_APPROVAL"
        assert not capsys.readouterr().out

    async def asked(self, runtime: Runtime, run_id: str) -> list[str]:
        plan = runtime.waiting_plan(run_id)
        return [
            (await runtime.aedit(run_id, plan)).phase,
            (await runtime.aguide(run_id, "Less.")).phase,
            (await runtime.aamend(run_id, "Close it.")).phase,
            (await runtime.aresume(run_id)).phase,
        ]

    def test_and_without_blocking_an_event_loop(self, waiting, door, home):
        import asyncio

        for op in ("edit", "guide", "amend", "resume"):
            answered(door, op, waiting)
        assert asyncio.run(self.asked(Runtime(home.root), waiting)) == ["WAITING_APPROVAL"] * 4

    def test_continuing_and_shadow(self, failed, door, home, package):
        runtime = Runtime(home.root)
        result = runtime.run(package, from_run=failed, shadow=True)
        assert mandate_of(door, home, "submit").from_run == failed and mandate_of(door, home, "submit").shadow
        assert result.run_id != failed
        with pytest.raises(RequestError) as caught:
            runtime.run(package)
        assert caught.value.code == "request.usage"
        waits = runtime.run(package, "Open another.")
        with pytest.raises(RunError) as refused:
            runtime.run(from_run=waits.run_id)
        assert refused.value.code == "run.not_continuable"
