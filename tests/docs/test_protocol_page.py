"""docs/protocol.md says what the code does: events as the machine writes them, every pair of the table, every bound."""

from __future__ import annotations

import re

import pytest

from chance_world import World
from duly.actors.messages import KINDS as MESSAGES
from duly.protocol.authority.approval import Approval
from duly.protocol.authority.grant import Grant
from duly.protocol.authority.mandate import Mandate
from duly.protocol.authority.receipt import Receipt
from duly.protocol.machine.events import KINDS
from duly.protocol.machine.phases import Phase
from duly.protocol.machine.stimuli import STIMULI
from duly.protocol.machine.table import HANDLED, TABLE
from duly.protocol.wire import canon, limits
from source_tree import CHECKOUT

PAGE = (CHECKOUT / "docs/protocol.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def table(text: str) -> dict[str, list[str]]:
    """First cell → the others, of the rows that begin with a name in backquotes."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| `")]
    return {row[0].strip(" `"): [cell.strip() for cell in row[1:]] for row in rows}


def names(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def test_every_pair_of_phase_and_stimulus_stands_there():
    rows = table(section("Stimuli"))
    assert set(rows) == {one.kind for one in STIMULI}
    for stimulus in STIMULI:
        *cells, codes = rows[stimulus.kind]
        for phase, cell in zip(Phase, cells, strict=True):
            verb = TABLE[phase, stimulus.kind]
            assert (cell == "●") == (verb == HANDLED)
            assert verb == HANDLED or verb in names(codes)


def test_events_of_stories_have_exactly_the_facts_and_artifacts_of_the_page():
    """What chance writes stands on the page: the reading of the source misses nothing."""
    rows = {kind: (names(cells[0]), names(cells[1])) for kind, cells in table(section("Events")).items()}
    seen: dict[str, tuple[set[str], set[str]]] = {}
    for seed in range(80):
        world = World(seed)
        world.live()
        for entry in world.record.read_run("r1"):
            facts, artifacts = seen.setdefault(entry.event["kind"], (set(), set()))
            facts |= set(entry.event["facts"]) - {"phase", "elapsed_ms"}
            artifacts |= {re.sub(r"\.\d+$", ".N", name) for name in entry.event["artifacts"]}
    assert len(seen) > 20
    for kind, (facts, artifacts) in seen.items():
        assert facts <= rows[kind][0], f"{kind}: {facts - rows[kind][0]} is not on the page"
        assert artifacts <= rows[kind][1], f"{kind}: {artifacts - rows[kind][1]} is not on the page"


def test_every_kind_of_event_and_message_stands_there():
    assert names(section("Events")) >= KINDS
    assert set(table(section("Messages of the control plane"))) == set(MESSAGES)


@pytest.mark.parametrize("model", [Mandate, Approval, Grant, Receipt])
def test_every_field_of_a_signed_document_stands_there(model):
    text = section("Signed documents").split(f"### {model.payload_type}\n", 1)[1].split("\n### ", 1)[0]
    shown = {re.split(r"[?:]", name)[0] for name in names(" ".join(text.split()))}
    assert set(model.model_fields) <= shown


def test_the_golden_bytes_are_those_of_the_code():
    rows = table(section("Encoding"))
    assert rows["{'b': 1, 'a': [None, 2.0]}"][0].strip("`") == canon.encode({"b": 1, "a": [None, 2.0]}).hex(
        " "
    )
    assert rows["300"] == ["`cd 01 2c`"]
    assert canon.digest("plan", {"b": 1, "a": [None, 2.0]}) in PAGE


def test_every_bound_stands_there_with_a_reason():
    rows = table(section("Limits"))
    assert set(rows) == {name for name in vars(limits) if name.isupper()}
    for name, (value, reason) in rows.items():
        assert value and reason, f"{name} has no reason"
    assert rows["FRAME_BYTES_MAX"][0] == "1 MiB" and rows["STEPS_MAX"][0] == "2,000"


def test_a_bound_that_is_no_plain_number_is_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(CHECKOUT / "docs"))
    from limits_table import limits as read

    good = tmp_path / "limits.py"
    good.write_text("A_BYTES_MAX = (\n    3 << 10\n)  # why\nB_MAX = 7 * 24  # because\n", encoding="utf-8")
    assert [(one.name, one.value, one.reason) for one in read(good)] == [
        ("A_BYTES_MAX", "3 KiB", "why"),
        ("B_MAX", "168", "because"),
    ]
    good.write_text("A = min(1, 2)\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="no plain number"):
        read(good)


def test_every_weight_and_verdict_stands_there():
    assert len(table(section("After the verdict"))) == 4 and "`COMPLETED`" in section("After the verdict")
    assert re.findall(r"^\| (\d+) \| `[a-z_]+`", section("Routing"), re.MULTILINE) == [
        "30",
        "20",
        "20",
        "10",
        "10",
    ]
