"""Text and values from elsewhere as lines: complete, reversible, and unable to act on a terminal."""

from __future__ import annotations

import re
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.authority.argument_lines import text_lines, value_lines
from duly.protocol.authority.printable import columns, escape, is_plain_letter, readable, units, wrapped

ASCII = set(string.printable) - set("\t\r\x0b\x0c")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), 1 << 63)
    | st.floats(allow_nan=False)
    | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


class TestEscape:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("plain ASCII, kept.", "plain ASCII, kept."),
            ("\u202e", "\\u{202e}"),
            ("é", "é\\u{e9}"),
            ("я", "я\\u{44f}"),
            ("\\u{202e}", "\\\\u{202e}"),
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\x1b]8;;x\x07", "\\u{1b}]8;;x\\u{7}"),
            ("\x00\x7f\x9b", "\\u{0}\\u{7f}\\u{9b}"),
            ("\u200b\u200d\ufeff\u2028", "\\u{200b}\\u{200d}\\u{feff}\\u{2028}"),
            ("e\u0301", "e\\u{301}"),
            ("\u05d0", "\\u{5d0}"),  # right to left: would move its neighbours
            ("\u0627", "\\u{627}"),
            ("\u3164\uffa0\u115f", "\\u{3164}\\u{ffa0}\\u{115f}"),  # letters without ink
            ("\u00a0\u00ad", "\\u{a0}\\u{ad}"),
            ("\ud800", "\\u{d800}"),
            ("🙂", "\\u{1f642}"),
        ],
    )
    def test_each_kind(self, text: str, shown: str) -> None:
        assert escape(text) == shown

    @given(st.text(), st.text())
    def test_different_texts_look_different(self, one: str, other: str) -> None:
        assert (escape(one) == escape(other)) == (one == other)

    @given(st.text(alphabet="\\u{}20e\u202eé"))
    def test_an_escape_can_be_read_back(self, text: str) -> None:
        def back(match: re.Match[str]) -> str:
            return "\\" if match.group(1) is None else chr(int(match.group(1), 16))

        assert re.sub(r"[^\x00-\x7f]?(?:\\u\{([0-9a-f]+)\}|\\\\)", back, escape(text)) == text

    @given(st.text())
    def test_only_printable_ascii_and_plain_letters(self, text: str) -> None:
        for text_shown in (escape(text),):
            assert all(" " <= c <= "~" or is_plain_letter(c) for c in text_shown)

    @given(st.text())
    def test_readable_keeps_nothing_that_moves_hides_or_reorders(self, text: str) -> None:
        assert not re.search(
            "[\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202f\u2060-\u2069\ufeff\ud800-\udfff]",
            readable(text),
        )

    def test_readable_keeps_the_signs_of_reports(self) -> None:
        text = "São Paulo – «−8.839 %» × 2, 東京 ≤ 5 €"
        assert readable(text) == text


class TestWrapped:
    @given(st.text(alphabet=" aé\u202e東", max_size=300))
    def test_lines_fit_and_add_up(self, text: str) -> None:
        lines = wrapped(units(text), "| ", "|>")
        assert all(sum(columns(c) for c in line) <= 80 for line in lines)
        assert lines[0].startswith("| ") and all(line.startswith("|>") for line in lines[1:])
        assert "".join(line[2:] for line in lines) == escape(text)

    def test_no_break_inside_an_escape(self) -> None:
        lines = wrapped(units("\u202e" * 60), "| ", "|>")
        assert all(re.fullmatch(r"\|[ >](\\u\{202e\})+", line) for line in lines)

    def test_a_blank_never_ends_a_line(self) -> None:
        lines = wrapped(units("word " * 60), "| ", "|>")
        assert not any(line.endswith(" ") for line in lines[:-1])


class TestValues:
    def test_each_kind_of_value(self) -> None:
        value = {
            "n": 1,
            "x": 1.0,
            "yes": True,
            "none": None,
            "empty": {},
            "text": 'say "hi"',
            "list": [1, "a", None],
            "deep": [{"k": [[]]}],
            "odd key": 1,
            "from": {"$ref": "s1#/rows/0"},
            "data": b"\x00\x01",
            "lines": "one\ntwo\n",
            "tag": {"$decimal": "1.10"},
            "denormal": {"$text": "ZcyB"},
        }
        assert value_lines(value) == [
            "| data = 2 bytes, base64 AAE=",
            "| deep[0].k[0] = []",
            '| denormal = text outside normal form "e\\u{301}"',
            "| empty = {}",
            "| from <- output of step s1 at /rows/0",
            "| lines = text of 2 lines and 8 characters",
            '| 1: "one\\n"',
            '| 2: "two\\n"',
            '| list = [1, "a", null]',
            "| n = 1",
            "| none = null",
            '| "odd key" = 1',
            '| tag."$decimal" = "1.10"',
            '| text = "say \\"hi\\""',
            "| x = 1.0",
            "| yes = true",
        ]

    @given(VALUES, VALUES)
    def test_different_values_give_different_lines(self, one: Any, other: Any) -> None:
        same = repr(_sorted(one)) == repr(_sorted(other))
        assert (value_lines(one, "a") == value_lines(other, "a")) == same

    @given(VALUES)
    def test_every_line_is_marked_and_fits(self, value: Any) -> None:
        for line in value_lines(value, "a"):
            assert line.startswith(("| ", "|>")) and len(line) <= 80
            assert all(c in ASCII or is_plain_letter(c) for c in line) and "\n" not in line

    def test_ten_thousand_lines_are_shown_with_numbers(self) -> None:
        lines = value_lines({"body": "\n".join(f"line {n}" for n in range(10_000))})
        assert lines[0] == "| body = text of 10,000 lines and 98,889 characters"
        assert len(lines) == 10_001
        assert lines[-1] == '| 10000: "line 9999"'

    def test_a_long_line_says_how_long_it_is(self) -> None:
        lines = text_lines("x" * 300)
        assert lines[0] == "| text of 1 line and 300 characters"
        assert sum(line.count("x") for line in lines[1:]) == 300


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
