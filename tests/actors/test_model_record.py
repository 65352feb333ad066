"""What the journal keeps of models: every call with its exact bytes, a direct run's transcript; and prompts that stay as
they were released."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from duly.actors.prompt import load
from duly.protocol.wire import canon
from mind import ALWAYS, CANARY, NEVER, answer, call, look, planned, think
from model_calls import calls_of, recorded
from runtime_home import Outcome
from scripted_model_server import refuses
from shoppers import write_package

pytestmark = [pytest.mark.ray, pytest.mark.slow]
# A released prompt never changes: another text is another file with the next version in its name (plan.v2.md), which is
# added here. The digest is what the journal says of each call.
RELEASED = {
    "planner/arguments.v1": "1ada26816acef45de4da8b068631b9b19c1ea9aecff8a660daec32e1ba0b3713",
    "planner/direct.v1": "2783e6bdcd5f96c15c10fa5ab02bbdf8e0fd4d2b1a0c4ffd40494baa3ed49c49",
    "planner/plan.v1": "c0e648804af4e6bdd03c2fd8b5bc4b97ba3de7a634cf6c6ede8adab0714c876d",
    "planner/reason.v1": "a800ca6127e4535c7cc9f5b1f7c8a18faff9df9bd4154430d1203d7ab18faffa",
    "verifier/critic.v1": "d91dfaaa20aaa94de1a04d02a36f26bfaa320ed9728a4e1c6cbdf8968e643a4b",
}
SAME = "a released prompt was changed: restore it, and give the new text the next version in its name"


class TestCalls:
    PURPOSES = ("plan", "arguments", "reason", "critic")

    @pytest.fixture
    def every(self, ask) -> Outcome:
        """A run that asks for everything but a turn."""
        outcome: Outcome = ask(
            "Tell me what the hills mean.",
            *ALWAYS,
            "--tier",
            "supervised",
            plan=planned(look("s1", "far"), look("s2", None, after=["s1"]), think("s3", "s1", "s2")),
            arguments={"arguments": {"name": "deep"}},
            answer={"answer": {"meaning": "much"}},
            review={"outcome": "pass", "corrections": []},
        )
        assert outcome.code == 0, outcome.err
        return outcome

    def test_each_is_there_with_the_bytes_that_the_server_saw_and_sent(self, every, home, model_server):
        calls = calls_of(home, every)
        assert tuple(one.facts["purpose"] for one in calls) == self.PURPOSES
        seen = model_server.requests[-len(calls) :]
        for one, asked in zip(calls, seen, strict=True):
            assert one.request["messages"] == asked.body["messages"] and asked.body["messages"]
            assert one.request == asked.body
            assert asked.headers["authorization"] == f"Bearer {CANARY}"
            assert CANARY not in str(one.request) and "authorization" not in str(one.request).lower()
            assert json.loads(one.artifacts["model_response"])["usage"]["total_tokens"] == 30
        assert canon.decode(calls[1].artifacts["model_value"]) == {"arguments": {"name": "deep"}}

    def test_each_names_prompt_model_parameters_tokens_and_time(self, every, home):
        for one in calls_of(home, every):
            facts = one.facts
            room = "verifier" if facts["purpose"] == "critic" else "planner"
            prompt = load(room, facts["purpose"])
            assert (facts["prompt"], facts["prompt_digest"]) == (prompt.full_name, prompt.digest)
            assert facts["prompt_digest"] == RELEASED[f"{room}/{facts['prompt']}"]
            assert one.request["messages"][0] == {"role": "system", "content": prompt.text}
            assert facts["model"] == ("openai:critic" if room == "verifier" else "openai:planner")
            assert facts["model"].endswith(one.request["model"]) and facts["mode"] == "strict"
            assert (facts["tokens_in"], facts["tokens_out"], facts["code"]) == (20, 10, "")
            assert 0 <= facts["duration_ms"] < 60_000 and len(facts["call"]) == 64
            parameters = dict(one.parameters)
            assert parameters.pop("requests") == 1, "no call was asked in another way first"
            assert parameters == {name: one.request.get(name) for name in ("max_tokens", "temperature")}

    def test_a_try_that_failed_is_there_too(self, ask, home):
        plan = planned(look("s1", "late"))
        outcome = ask("Tell me late.", *ALWAYS, plan=[refuses(500, "not now"), plan])
        first, second = calls_of(home, outcome)
        assert (first.facts["code"], second.facts["code"]) == ("model.unavailable", "")
        assert b"not now" in first.artifacts["model_response"]
        assert first.request == second.request and first.facts["call"] == second.facts["call"]
        kept = canon.decode(first.artifacts["model_value"])
        assert "500" in kept["message"] and "unfit" not in kept, "what failed and why, and no answer"


class TestTranscript:
    def test_a_direct_runs_is_an_artifact(self, ask, home):
        turns = [call("things.look", name="hills"), call("things.look"), answer("They are HILLS.")]
        turns.insert(2, call("things.look", name="far"))
        outcome = ask("Look at the hills.", *NEVER, turn=turns)
        assert outcome.code == 0, outcome.err
        with recorded(home, outcome) as (records, events):
            ended = next(event for event in events if event["kind"] == "direct.answered")
            told = records.attached(ended, "transcript")
            assert records.attached(ended, "answer") == outcome.result["answer"] == "They are HILLS."
        assert (told["request"], told["answer"]) == ("Look at the hills.", "They are HILLS.")
        made = [(one["tool"], one["arguments"], one["outcome"]) for one in told["turns"]]
        assert made == [
            ("things.look", {"name": "hills"}, "ok"),
            ("things.look", {"name": "far"}, "ok"),
        ]
        assert len(told["steps"]) == 2


class TestCatalogue:
    COLUMNS = ("Month", "VisitorType", "TrafficType", "Region", "Weekend", "Revenue")
    REQUEST = "What could be said of visitors to my shop?"

    def write(self, table: Path, visitors: list[str]) -> None:
        with table.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(self.COLUMNS)
            rows.writerows(["May", visitor, 1, 1, "FALSE", "TRUE"] for visitor in visitors)

    def asked(self, home, mind, package: Path) -> str:
        mind.says, mind.asked = {"plan": refuses(401, "enough")}, []
        home.ask(package, self.REQUEST, *ALWAYS)
        return mind.asked[0][1]

    def test_a_source_that_changes_reaches_the_next_prompt(self, home, mind, tmp_path):
        table = tmp_path / "sessions.csv"
        package = write_package(tmp_path / "shop", table)
        self.write(table, ["New_Visitor", "Returning_Visitor"])
        first = self.asked(home, mind, package)
        assert '"rows":2' in first and "Returning_Visitor" in first and "Wandering_Visitor" not in first
        assert self.asked(home, mind, package) == first
        self.write(table, ["New_Visitor", "Wandering_Visitor", "Wandering_Visitor"])
        second = self.asked(home, mind, package)
        assert '"rows":3' in second and "Wandering_Visitor" in second and "Returning_Visitor" not in second


class TestPrompts:
    def test_what_was_released_is_as_it_was(self):
        for name, digest in RELEASED.items():
            room, _, file = name.partition("/")
            prompt, _, version = file.partition(".")
            assert load(room, prompt, version).digest == digest, f"{name}: {SAME}"

    def test_every_prompt_is_released(self, checkout):
        found = {
            f"{path.parent.parent.name}/{path.stem}" for path in (checkout / "actors").glob("*/prompts/*.md")
        }
        assert found == set(RELEASED), SAME
