"""What is printed: 80 columns, words instead of colour, and nothing that a hostile text could do to a terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.cli import layout
from duly.cli.output import told
from duly.cli.report import budget_text, ending_lines, report_lines
from duly.cli.timeline import Span, overlaps, timeline_lines
from duly.protocol.authority.printable import readable, width_of
from duly.protocol.wire.errors import Fault, RunError

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
HOSTILE = "\x1b]0;owned\x07\x1b[2J\rCOMPLETED\x08\u202e\u200b\u2028\x9b1A\nverdict   pass: every check held"


class TestParagraph:
    @given(st.text(max_size=400), st.sampled_from(["", "label     ", "  - "]))
    def test_every_line_fits_and_no_letter_is_lost(self, text, first):
        lines = layout.paragraph(text, first, " " * len(first))
        assert all(width_of(line) <= 80 for line in lines)
        kept = "".join(line[len(first) :] for line in lines)
        assert kept.replace(" ", "") == readable(text).replace(" ", "")

    def test_long_words_are_cut(self):
        assert layout.paragraph("x" * 100, "ab ") == ["ab " + "x" * 77, "   " + "x" * 23]

    def test_words_stay_whole(self):
        lines = layout.paragraph("some words " * 20, "label     ")
        assert all(line.startswith("          ") for line in lines[1:]) and lines[0].startswith(
            "label     some"
        )


class TestTable:
    @given(st.lists(st.tuples(st.text(max_size=90), st.text(max_size=20), st.text(max_size=200)), max_size=4))
    def test_rows_are_lines_of_at_most_80_columns(self, rows):
        lines = layout.table(("a", "b", "c"), rows)
        assert len(lines) == (len(rows) + 1 if rows else 0)
        assert all(width_of(line) <= 80 and not CONTROL.search(line) for line in lines)

    def test_columns_line_up(self):
        assert layout.table(("run", "phase"), [("r1", "COMPLETED"), ("r123", "FAILED")], "  ") == [
            "  run   phase",
            "  r1    COMPLETED",
            "  r123  FAILED",
        ]


@pytest.mark.parametrize(
    ("given_ms", "text"), [(48, "0.05 s"), (9_990, "9.99 s"), (48_000, "48 s"), (200_000, "3 min 20 s")]
)
def test_durations(given_ms, text):
    assert layout.duration(given_ms) == text


def test_times_are_utc_to_the_millisecond():
    assert layout.utc(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"


class TestHostileText:
    def result(self) -> dict:
        statement = {"kind": HOSTILE, "text": HOSTILE, "level": HOSTILE, "values": {}, "query": HOSTILE}
        return {
            "run_id": "r1",
            "phase": "PARTIAL",
            "verdict": HOSTILE,
            "reason": HOSTILE,
            "message": HOSTILE,
            "report": {"statements": [statement, {**statement, "kind": "observation"}]},
            "needs": {"question": HOSTILE, "missing": [HOSTILE], "choices": [{"text": HOSTILE}]},
            "budget": {HOSTILE: {"limit": 3, "spent": 1}},
        }

    def test_a_report_cannot_act_on_the_terminal_nor_forge_a_line(self):
        result = self.result()
        lines = [*report_lines(result["report"], queries=True), *ending_lines(result)]
        assert len(lines) > 20
        assert not any(CONTROL.search(line) or "\n" in line for line in lines)
        assert sum(line.startswith("verdict") for line in lines) == 1
        assert "COMPLETED" not in lines

    def test_an_error_cannot_either(self):
        faults = [Fault(HOSTILE, "plan.cycle", HOSTILE), Fault("a", "b", "c")]
        error = RunError("run.unknown", HOSTILE, place=HOSTILE, hint=HOSTILE, story=[HOSTILE], faults=faults)
        lines = told(error)
        assert not any(CONTROL.search(line) or "\n" in line for line in lines)
        assert sum(line.startswith("duly:") for line in lines) == 1


class TestReport:
    def test_statements_stand_by_kind_in_their_order(self):
        kinds = ["recommendation", "missing_evidence", "observation", "follow_up", "hypothesis"]
        report = {"statements": [{"kind": kind, "text": kind, "level": None} for kind in kinds]}
        titles = [line for line in report_lines(report) if line.isupper() or line.startswith("FOLLOW")]
        assert titles == ["OBSERVATIONS", "HYPOTHESES", "MISSING EVIDENCE", "FOLLOW-UPS", "RECOMMENDATIONS"]

    def test_many_queries_stand_behind_an_option(self):
        statements = [
            {"kind": "observation", "text": "t", "level": None, "query": f"SELECT {n}"} for n in range(5)
        ]
        assert not any("SELECT" in line for line in report_lines({"statements": statements}))
        assert sum("SELECT" in line for line in report_lines({"statements": statements}, queries=True)) == 5

    def test_a_direct_run_says_that_nobody_checked_it(self):
        lines = ending_lines(
            {"run_id": "r", "phase": "COMPLETED", "verdict": "none", "reason": "", "needs": None}
        )
        assert any("nobody checked" in line for line in lines)

    def test_budget(self):
        budget = {"steps": {"limit": 40, "spent": 9}, "wall_seconds": {"limit": 600, "spent": 1_200}}
        assert budget_text(budget) == "steps 9 of 40, wall seconds 1,200 of 600"


class TestTimeline:
    def test_overlap_can_be_seen(self):
        spans = [Span("a", 1_000, 2_000), Span("b", 1_500, 2_500), Span("c", 2_500, 3_000)]
        lines = timeline_lines(spans)
        bars = [line[line.index("|") + 1 : line.rindex("|")] for line in lines]
        together = sum(x == y == "=" for x, y in zip(bars[0], bars[1], strict=True))
        apart = sum(x == y == "=" for x, y in zip(bars[1], bars[2], strict=True))
        assert together > 5 and apart == 0
        assert overlaps(spans) == [("a", "b")]

    @given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=8))
    def test_lines_fit_and_every_span_has_a_bar(self, times):
        spans = [
            Span(f"s{n}", 10**12 + start, 10**12 + start + took) for n, (start, took) in enumerate(times)
        ]
        lines = timeline_lines(spans)
        assert len(lines) == len(spans)
        assert all(len(line) <= 80 and "=" in line for line in lines)
