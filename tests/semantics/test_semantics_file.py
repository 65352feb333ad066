"""``semantics.yaml``: what it may say, and that every fault names file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from duly.protocol.plan.predicate import Predicate
from duly.protocol.plan.semantics import Semantics, period_text
from duly.protocol.plan.semantics_yaml import load
from duly.protocol.wire.errors import PackageError, RequestError


@pytest.fixture(scope="module")
def text(checkout: Path) -> str:
    return (checkout / "examples/flights/semantics.yaml").read_text(encoding="utf-8")


def refusal(text: str) -> PackageError:
    with pytest.raises(PackageError) as caught:
        load(text.encode(), "semantics.yaml")
    assert caught.value.faults
    return caught.value


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def test_the_example_is_read(text: str) -> None:
    semantics = load(text.encode(), "semantics.yaml")
    assert set(semantics.metrics) == {
        "on_time_arrival_rate",
        "scheduled_flights",
        "departed_flights",
        "cancelled_share",
        "mean_arrival_delay",
    }
    assert Semantics.model_validate(semantics.to_data()) == semantics
    assert semantics.sources_of("on_time_arrival_rate") == ("flights", "airlines", "planes")
    assert "15" in semantics.metrics["on_time_arrival_rate"].definition_text()


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("op: not_null}]", "op: no_null}]", "metrics/on_time_arrival_rate/denominator/0/op"),
        ("kind: rate", "kind: rat", "metrics/on_time_arrival_rate/kind"),
        ("kind: columns", "kind: colums", "sources/flights/time"),
        ("dimensions: [origin", "dimensions: [orign", "metrics/on_time_arrival_rate/dimensions/0"),
        (
            "    source: flights\n    column: origin",
            "    source: flight\n    column: origin",
            "dimensions/origin/source",
        ),
        ("join: {source: planes", "join: {source: plans", "dimensions/maker/join/source"),
        ("    unknown: unknown", "    unknwon: unknown", "dimensions/maker/unknwon"),
        ("below: 18", "below: 12", "dimensions/day_part/buckets"),
        ("below: 12", "below: noon", "dimensions/day_part/buckets/ranges/0/below"),
        ("unit: percent", "unit: per cent", "metrics/on_time_arrival_rate"),
        (
            "observed_share_min: 0.75",
            "observed_share_min: 75",
            "metrics/on_time_arrival_rate/completeness/observed_share_min",
        ),
        ("{kind: range, min: 0, max: 100}", "{kind: range}", "metrics/on_time_arrival_rate/checks/1"),
        ("    value: arr_delay\n", "", "metrics/mean_arrival_delay"),
        ("synonyms: [airline, ", "synonyms: [maker, ", "dimensions/maker/synonyms"),
    ],
)
def test_a_fault_has_its_place(text: str, old: str, new: str, field: str) -> None:
    assert old in text
    fault = refusal(text.replace(old, new, 1)).faults[0]
    where, _, path = fault.path.partition(": ")
    assert path == field
    assert where.startswith("semantics.yaml:")
    assert 1 <= int(where.rpartition(":")[2]) <= text.count("\n") + 1


def test_the_line_is_the_line(text: str) -> None:
    fault = refusal(text.replace("op: not_null}]", "op: no_null}]", 1)).faults[0]
    assert fault.path.startswith(f"semantics.yaml:{line_of(text, 'op: not_null}]')}: ")


def test_all_faults_at_once(text: str) -> None:
    broken = text.replace("kind: rate", "kind: rat", 1).replace("op: is_null", "op: none", 1)
    assert len(refusal(broken).faults) >= 2


@pytest.mark.parametrize(
    "broken",
    [
        "version: [",
        "- a list",
        "version: 1\nversion: 2\n",
        "a: &x 1\nb: *x\n",
        "a: !!python/object/apply:os.system ['true']",
        "a: " + "[" * 500 + "]" * 500,
        "",
    ],
)
def test_what_is_no_plain_yaml(broken: str) -> None:
    assert refusal(broken).place is not None


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(PackageError):
        load(b"\xff\xfe\x00", "semantics.yaml")


def test_unknown_names_say_what_is_known(text: str) -> None:
    semantics = load(text.encode(), "semantics.yaml")
    with pytest.raises(RequestError) as caught:
        semantics.metric("profit")
    assert caught.value.code == "request.unknown_metric"
    assert "departed_flights" in str(caught.value.hint)
    with pytest.raises(RequestError) as caught:
        semantics.dimension_of("departed_flights", "colour")
    assert caught.value.code == "request.unknown_dimension"


@pytest.mark.parametrize(
    ("op", "value", "cell", "holds"),
    [
        ("=", "a", "a", True),
        ("!=", "a", None, False),
        ("<=", 15, 15, True),
        ("<", 15, 15, False),
        (">", 1, None, False),
        ("in", ("a", "b"), "b", True),
        ("not_null", None, 0, True),
        ("is_null", None, None, True),
        ("is_null", None, 0, False),
    ],
)
def test_predicates(op: str, value: object, cell: object, holds: bool) -> None:
    predicate = Predicate.model_validate({"column": "c", "op": op, "value": value})
    assert predicate.holds({"c": cell}) is holds


@pytest.mark.parametrize(
    "data",
    [
        {"column": "c", "op": "="},
        {"column": "c", "op": "in", "value": []},
        {"column": "c", "op": "is_null", "value": 1},
        {"column": "c", "op": "like", "value": "%"},
        {"column": "c", "op": "=", "value": [1]},
        {"column": "c", "op": "=", "value": 1, "sql": "1=1"},
    ],
)
def test_predicates_that_are_none(data: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Predicate.model_validate(data)


def test_periods_as_text() -> None:
    assert period_text({"year": 2013, "month": 6}) == "June 2013"
    assert period_text({"year": None, "month": 11}) == "November"
    assert period_text(None) == "all periods"
