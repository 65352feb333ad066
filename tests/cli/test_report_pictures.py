"""The pictures of the report: every outcome by sign and word, times to scale with pauses cut out, bars from zero."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from duly.cli.report_dossier import Step
from duly.cli.report_svg_parts import parts_svg
from duly.cli.report_svg_plan import NODES_MAX, OUTCOMES, outcome, plan_svg, sign
from duly.cli.report_svg_time import CUT, LEFT, scale_of, time_svg
from duly.cli.timeline import Span
from duly.protocol.views.contributions import Contributions, Part

STEP = Step("s1", 1, "t.read", "read", "Why", (), "succeeded", "", "pass", 1, 1_000, 2_000)


def chain(count: int) -> list[Step]:
    """Steps one after the other, each a second long."""
    return [
        replace(STEP, step_id=f"s{n}", level=n + 1, needs=(f"s{n - 1}",) if n else (), started_ms=1_000 * (n + 1),
                ended_ms=1_000 * (n + 2))
        for n in range(count)
    ]  # fmt: skip


class TestPlan:
    @pytest.mark.parametrize("status", sorted(OUTCOMES))
    def test_every_outcome_has_a_word_and_a_sign(self, status):
        class_, mark, word = outcome(replace(STEP, status=status, checked=""))
        picture = plan_svg([replace(STEP, status=status, checked="", code="tool.x")])
        assert f"{word} [tool.x]" in picture
        assert sign(mark, 28, 43, class_) in picture

    def test_signs_differ_in_shape_and_not_in_colour_alone(self):
        shapes = {mark: sign(mark, 0, 0, "x") for mark in ("tick", "cross", "dash", "question", "ring")}
        assert len(set(shapes.values())) == 5

    def test_a_failed_check_outweighs_that_the_step_ran(self):
        assert outcome(replace(STEP, checked="fail")) == ("bad", "cross", "check failed")
        assert outcome(replace(STEP, status="new"))[2] == "new"

    def test_what_acts_is_marked(self):
        assert 'class="acts"' not in plan_svg([STEP])
        assert 'class="acts"' in plan_svg([replace(STEP, effect="write")])

    def test_levels_go_from_left_to_right(self):
        picture = plan_svg(chain(4))
        places = [float(x) for x in re.findall(r'<rect x="([0-9.]+)" y="[0-9.]+" width="208"', picture)]
        assert places == sorted(places) and len(set(places)) == 4

    def test_a_line_that_follows_from_others_is_left_out_and_that_is_said(self):
        steps = chain(3)
        assert plan_svg(steps).count('<path d="M') - 3 == 2 and "left out" not in plan_svg(steps)
        more = [*steps[:2], replace(steps[2], needs=("s0", "s1"))]
        assert plan_svg(more).count('<path d="M') - 3 == 2 and "left out" in plan_svg(more)

    def test_a_large_plan_is_cut_and_that_is_said(self):
        steps = [replace(STEP, step_id=f"s{n}") for n in range(NODES_MAX + 50)]
        picture = plan_svg(steps)
        assert picture.count('class="node') == NODES_MAX and f"The first {NODES_MAX} of 200 steps" in picture

    def test_no_plan_no_picture(self):
        assert plan_svg([]) == "" and time_svg([]) == ""


class TestTime:
    def test_bars_are_to_scale(self):
        scale = scale_of([Span("a", 0, 1_000), Span("b", 500, 2_000)])
        assert scale.pieces == ((0, 2_000),)
        assert scale.x(0) == LEFT and scale.x(1_000) - LEFT == pytest.approx((scale.x(2_000) - LEFT) / 2)

    def test_a_long_pause_is_cut_out_and_a_short_one_is_not(self):
        day = 86_400_000
        scale = scale_of([Span("a", 0, 1_000), Span("b", 2_000, 3_000), Span("c", day, day + 2_000)])
        assert scale.pieces == ((0, 3_000), (day, day + 2_000))
        assert scale.x(day) - scale.x(3_000) == pytest.approx(CUT)
        steps = [STEP, replace(STEP, step_id="s2", started_ms=day, ended_ms=day + 1_000)]
        assert "is left out" in time_svg(steps)

    def test_what_ran_together_is_counted(self):
        together = [
            STEP,
            replace(STEP, step_id="s2"),
            replace(STEP, step_id="s3", started_ms=2_000, ended_ms=3_000),
        ]
        assert "2 steps ran at the same time" in time_svg(together)
        assert "No two steps overlapped." in time_svg(chain(3))

    def test_the_verification_has_its_bar(self):
        assert "verification" in time_svg([STEP], Span("verification", 2_000, 5_000))

    def test_a_step_of_no_length_is_still_seen(self):
        widths = re.findall(r'width="([0-9.]+)" height="17"', time_svg([replace(STEP, ended_ms=1_000)]))
        assert [float(width) for width in widths] == [2.0]


class TestParts:
    def chart(self, *values: tuple[float, float, float], **more: Any) -> Contributions:
        parts = tuple(Part(f"p{n}", "", *value) for n, value in enumerate(values))
        return Contributions("s1", "shops", -3.0, "points", parts, **more)

    def bars(self, picture: str) -> list[tuple[float, float]]:
        return [
            (float(x), float(width))
            for x, width in re.findall(
                r'<rect x="([0-9.]+)" y="[0-9.]+" width="([0-9.]+)" height="14"', picture
            )
        ]

    def test_bars_begin_at_zero_and_are_as_long_as_their_values(self):
        (left, long), (right, short) = self.bars(parts_svg([self.chart((-4.0, -5.0, -3.0), (2.0, 1.0, 3.0))]))
        assert long == pytest.approx(2 * short, rel=0.01) and left + long == pytest.approx(right, abs=0.02)

    def test_charts_of_one_unit_share_their_scale(self):
        pictures = parts_svg([self.chart((-4.0, -4.0, -4.0)), self.chart((-1.0, -1.0, -1.0))])
        (_, long), (_, short) = self.bars(pictures)
        assert long == pytest.approx(4 * short, rel=0.01)

    def test_numbers_stand_beside_the_bars(self):
        picture = parts_svg([self.chart((-4.0, -5.0, 0.25), more=3, rest=-0.5)])
        assert "-4.000 [-5.000, +0.250]" in picture
        assert "and 3 segments more, together -0.500 points" in picture
        assert "to the change of -3.000 points" in picture

    def test_nothing_but_zeros_is_drawn_without_dividing_by_it(self):
        assert "<svg" in parts_svg([self.chart((0.0, 0.0, 0.0))])
