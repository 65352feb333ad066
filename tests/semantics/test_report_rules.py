"""What a report may say: its own text, values with a place, no verb above its level, nothing of what was withheld."""

from __future__ import annotations

from typing import Any

import pytest

from duly.hosts.tools.report import BUILDERS, made
from duly.protocol.judgement.report import Report, Statement, Value, choose, fill, say, shown
from duly.protocol.judgement.report_rules import faults_in
from duly.protocol.wire.errors import ToolError
from metric_steps import Steps, texts
from small_world import APRIL, FIXED_PARTS, MARCH, fixed_rows, world

OUTPUTS = {
    "s": {"n": 5, "rate": 12.3456, "who": "A", "flag": True},
    "d": {"segments": [{"contribution": 1.5}]},
}
LEVELS: Any = {"s": "observation", "d": "association"}
N = Value(value=5, unit="rows", source="s#/n")
PART = Value(value=1.5, unit="points", source="d#/segments/0/contribution")


def codes(*statements: Statement, status: Any = "complete") -> list[str]:
    report = Report(status=status, statements=list(statements))
    return [fault.code for fault in faults_in(report, OUTPUTS, LEVELS)]


def changed(statement: Statement, **fields: Any) -> Statement:
    return statement.model_copy(update=fields)


def test_a_good_statement() -> None:
    assert codes(say("observation", "observation", "There are {n} of them.", {"n": N})) == []
    assert codes(say("observation", "association", "It accounts for {part}.", {"part": PART})) == []


def test_a_text_that_is_not_its_template() -> None:
    good = say("observation", "observation", "There are {n} of them.", {"n": N})
    assert codes(changed(good, text="There are 6 of them.")) == ["report.text"]
    assert "report.text" in codes(changed(good, template="There are {m} of them."))


@pytest.mark.parametrize(
    ("value", "source"), [(6, "s#/n"), (5, "s#/m"), (5, "t#/n"), (5, "n"), (1, "s#/flag"), (True, "s#/n")]
)
def test_a_value_that_does_not_stand_there(value: Any, source: str) -> None:
    statement = say(
        "observation", "observation", "{n}", {"n": Value(value=value, unit="rows", source=source)}
    )
    assert "report.value" in codes(statement)


def test_a_number_without_a_value() -> None:
    assert codes(say("observation", "observation", "There are {n} of 7.", {"n": N})) == ["report.number"]
    assert codes(say("recommendation", "observation", "Look again at {n} within 7 days.", {"n": N})) == []


def test_levels() -> None:
    assert codes(say("observation", "association", "There are {n}.", {"n": N})) == ["report.level"]
    assert codes(say("observation", "causal", "It caused {part}.", {"part": PART})) == ["report.level"]
    assert codes(say("observation", None, "There are {n}.", {"n": N})) == ["report.level"]


@pytest.mark.parametrize(
    "words",
    ["caused", "was due to", "because of", "led to", "driven by", "resulted from", "is responsible for"],
)
def test_no_cause_without_an_experiment(words: str) -> None:
    assert codes(say("recommendation", "association", f"It {words} {{part}}.", {"part": PART})) == [
        "report.verb"
    ]


def test_no_association_from_an_observation() -> None:
    assert codes(say("observation", "observation", "It accounts for {n}.", {"n": N})) == ["report.verb"]


def test_artifacts_are_those_of_the_values() -> None:
    good = say("observation", "observation", "There are {n}.", {"n": N})
    assert codes(changed(good, artifacts=["s", "d"])) == ["report.artifacts"]
    assert "report.artifacts" in codes(say("observation", "observation", "Nothing.", {}))


def test_withheld_means_no_part_of_it() -> None:
    statement = say("observation", "association", "It accounts for {part}.", {"part": PART})
    assert codes(statement, status="withheld") == ["report.withheld"]


@pytest.mark.parametrize(
    ("value", "unit", "form", "text"),
    [
        (78.0361, "percent", "", "78.036 %"),
        (-8.8394, "points", "", "-8.839 points"),
        (2.7521, "points", "2n", "+2.75"),
        (21_950, "rows", "", "21,950"),
        (9_512, "flights", "", "9,512 flights"),
        ("2013-02-08", "date", "", "8 February 2013"),
        ("2013-02-08", "text", "", "2013-02-08"),
        (["A", "B", "C"], "text", "", "A, B and C"),
        ([], "text", "", "none"),
        (None, "points", "", "unknown"),
        (True, "text", "", "True"),
    ],
)
def test_how_values_are_shown(value: Any, unit: str, form: str, text: str) -> None:
    assert shown(Value(value=value, unit=unit, source="s#"), form) == text


@pytest.mark.parametrize(
    "template", ["{n.real}", "{n[0]}", "{n!r}", "{n:>99999999}", "{0}", "{}", "{n", "n}", "{n:{n}}", "{m}"]
)
def test_templates_hold_names_only(template: str) -> None:
    with pytest.raises(ToolError) as caught:
        fill(template, {"n": N})
    assert caught.value.code == "tool.bad_template"


def test_json() -> None:
    statement = say("observation", "observation", "There are {n}.", {"n": N}, "SELECT 1")
    report = Report(status="complete", statements=[statement], choices=[choose("Take {n}.", {"n": N})])
    assert report.to_json({"s": "ab" * 32}) == {
        "status": "complete",
        "statements": [
            {
                "kind": "observation",
                "text": "There are 5.",
                "level": "observation",
                "values": {"n": {"value": 5, "unit": "rows"}},
                "artifacts": ["ab" * 32],
                "query": "SELECT 1",
            }
        ],
        "choices": [{"text": "Take 5.", "values": {"n": {"value": 5, "unit": "rows"}}}],
    }


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Steps:
    found = Steps(world(tmp_path_factory.mktemp("world"), fixed_rows(), FIXED_PARTS))
    common = {"metric": "rate", "baseline": MARCH, "current": APRIL}
    found.run("complete", "metrics.completeness", **common)
    found.run("by_shop", "metrics.decompose", **common, dimension="shop")
    return found


@pytest.mark.parametrize(
    ("advice", "code"),
    [
        ({"when": "always", "text": "Look at {nothing}."}, "tool.bad_template"),
        ({"when": "on_tuesdays", "text": "Look."}, "tool.bad_template"),
        ({"when": "always", "text": "It was caused by {top}."}, "tool.bad_report"),
    ],
)
def test_a_template_of_a_playbook_that_says_too_much(steps: Steps, advice: Any, code: str) -> None:
    with pytest.raises(ToolError) as caught:
        steps.run("report", "report.diagnosis", evidence=["complete", "by_shop"], recommendations=[advice])
    assert caught.value.code == code
    assert caught.value.place


def test_conditions_decide(steps: Steps) -> None:
    advice = [
        {"when": ["fell", "worse"], "text": "worse"},
        {"when": "better", "text": "better"},
        {"when": "withheld", "text": "withheld"},
    ]
    report = steps.run("report", "report.diagnosis", evidence=["complete", "by_shop"], recommendations=advice)
    assert texts(report, "recommendation") == ["worse"]


@pytest.mark.parametrize(
    "output", [{}, {"kind": "value"}, {"kind": "completeness", "metric": 1}, {"kind": "segments"}]
)
@pytest.mark.parametrize("name", list(BUILDERS))
def test_evidence_that_is_none(name: str, output: dict[str, Any]) -> None:
    with pytest.raises(ToolError) as caught:
        made(BUILDERS[name], {"evidence": [{"step": "s", "output": output}]})
    assert caught.value.code == "tool.bad_evidence"
