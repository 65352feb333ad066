"""From mentions of months to months that the data has, or to one precise question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from duly.protocol.plan.catalogue import MonthCoverage, coverage_text
from duly.protocol.plan.request import Question
from duly.protocol.plan.semantics import period_text
from duly.protocol.wire.limits import QUESTION_CHOICES_MAX

from .pairs import Pair
from .periods import Mention

Period = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Calendar:
    """The months that a source has, in order of time."""

    months: tuple[MonthCoverage, ...]

    def has(self, period: Period) -> bool:
        return any(month.period() == period for month in self.months)

    def years_of(self, month: int) -> list[int | None]:
        return [known.year for known in self.months if known.month == month]

    @property
    def has_years(self) -> bool:
        return any(month.year is not None for month in self.months)

    def text(self) -> str:
        return f"The data covers {coverage_text(list(self.months))}."

    def choices(self, first: int = 0) -> list[str]:
        """Months to choose from, those of the named month of the year first, then the latest."""
        ordered = sorted(self.months, key=lambda m: (m.month != first, -(m.year or 0) * 12 - m.month))
        return [period_text(month.period()) for month in ordered[:QUESTION_CHOICES_MAX]]


def resolve(
    mention: Mention, calendar: Calendar, name: str, year_hint: int | None = None
) -> Period | Question:
    """The month of the data that a mention means, or the question about the parameter ``name``."""
    if mention.kind != "month":
        return _undated(mention, calendar, name)
    if mention.has_day:
        whole = resolve(_whole(mention), calendar, name, year_hint)
        if isinstance(whole, Question):
            return whole
        text = f"Periods here are whole months, and {mention.text!r} is a day. Is {period_text(whole)} meant?"
        return Question(parameter=name, text=text, choices=[period_text(whole)])
    years = calendar.years_of(mention.month)
    if mention.year is not None:
        period: Period = {"year": mention.year, "month": mention.month}
        if mention.year in years:
            return period
        if not calendar.has_years and years:
            text = (
                f"The months of the data have no year, so {mention.text!r} cannot be told. {calendar.text()}"
            )
            return _which(text, calendar, name, mention.month)
        return _which(
            f"The data has no {period_text(period)}. {calendar.text()}", calendar, name, mention.month
        )
    if not years:
        text = f"The data has no {period_text({'year': None, 'month': mention.month})}. {calendar.text()}"
        return _which(text, calendar, name)
    if len(years) == 1:
        return {"year": years[0], "month": mention.month}
    if year_hint in years:
        return {"year": year_hint, "month": mention.month}
    month = period_text({"year": None, "month": mention.month})
    return _which(f"The data has {month} of several years. {calendar.text()}", calendar, name, mention.month)


def _whole(mention: Mention) -> Mention:
    return Mention("month", mention.start, mention.end, mention.text, mention.year, mention.month)


def _undated(mention: Mention, calendar: Calendar, name: str) -> Question:
    if mention.kind in ("unsupported", "year"):
        return _which(
            f"Periods here are single months, not {mention.text!r}. {calendar.text()}", calendar, name
        )
    return _which(
        f"{mention.text!r} needs a date, and no clock is asked here. {calendar.text()}", calendar, name
    )


def _which(text: str, calendar: Calendar, name: str, first: int = 0) -> Question:
    role = {"baseline": "Which month is the baseline?", "current": "Which month is meant?"}.get(
        name, "Which month is meant?"
    )
    return Question(parameter=name, text=f"{text} {role}", choices=calendar.choices(first))


def before(period: Period, calendar: Calendar, *, months: int) -> Period | None:
    """The month that lies ``months`` earlier, ``None`` where the data lacks it."""
    if period["year"] is None:
        if months >= period["month"]:
            return None  # without years nothing tells which December came before a January
        found: Period = {"year": None, "month": period["month"] - months}
    else:
        index = period["year"] * 12 + period["month"] - 1 - months
        found = {"year": index // 12, "month": index % 12 + 1}
    return found if calendar.has(found) else None


def resolve_pair(
    pair: Pair, calendar: Calendar, names: tuple[str, str, str], *, single: str
) -> dict[str, Period] | Question:
    """``{"baseline", "current"}`` of a pair, or the first question.

    ``names`` are the parameter and its baseline and current side, as a question names them. ``single`` says what one
    named month means: ``month_before`` takes the month before as the baseline, ``ask`` asks for it.
    """
    whole, baseline_name, current_name = names
    if pair.too_many:
        text = f"The request names several months ({', '.join(pair.too_many)}). Which two are compared?"
        return Question(parameter=whole, text=text, choices=[])
    if pair.current is None:
        text = f"Which two months are compared? {calendar.text()}"
        return Question(parameter=whole, text=text, choices=_pair_choices(calendar))
    current = resolve(pair.current, calendar, current_name, _hint(pair.baseline))
    if isinstance(current, Question):
        return current
    baseline = _baseline(pair, current, calendar, baseline_name, single)
    if isinstance(baseline, Question):
        return baseline
    if baseline == current:
        text = f"{period_text(current)} cannot be compared with itself. Which month is the baseline? {calendar.text()}"
        return Question(parameter=baseline_name, text=text, choices=calendar.choices())
    if pair.order == "by_time" and _index(baseline) > _index(current):
        baseline, current = current, baseline
    return {"baseline": baseline, "current": current}


def _baseline(pair: Pair, current: Period, calendar: Calendar, name: str, single: str) -> Period | Question:
    mention = pair.baseline
    if mention is not None and mention.kind not in ("month_before", "year_before"):
        return resolve(mention, calendar, name, _hint(pair.current))
    if mention is None and single != "month_before":
        text = f"Which month is {period_text(current)} compared with? {calendar.text()}"
        return Question(parameter=name, text=text, choices=calendar.choices())
    months = 12 if mention is not None and mention.kind == "year_before" else 1
    found = before(current, calendar, months=months)
    if found is not None:
        return found
    what = "the month a year before" if months == 12 else "the month before"
    text = (
        f"The data lacks {what} {period_text(current)}. {calendar.text()} "
        f"Which month is {period_text(current)} compared with?"
    )
    return Question(parameter=name, text=text, choices=calendar.choices())


def _hint(other: Mention | None) -> int | None:
    return other.year if other is not None and other.kind == "month" else None


def _index(period: Period) -> int:
    return int(period["year"] or 0) * 12 + int(period["month"])


def _pair_choices(calendar: Calendar) -> list[str]:
    """Each month against the one before, the latest first."""
    found = []
    for month in reversed(calendar.months):
        earlier = before(month.period(), calendar, months=1)
        if earlier is not None:
            found.append(f"{period_text(month.period())} against {period_text(earlier)}")
    return found[:QUESTION_CHOICES_MAX]


def one_month(
    found: Sequence[Mention], calendar: Calendar, name: str, *, optional: bool
) -> Period | None | Question:
    """The one month that a text names; ``None`` (everything) where it names none and may."""
    distinct: list[Mention] = []
    for mention in found:
        if not any(mention.kind == other.kind == "month" and mention.same_month(other) for other in distinct):
            distinct.append(mention)
    if not distinct and optional:
        return None
    if not distinct:
        return _which(calendar.text(), calendar, name)
    if len(distinct) > 1 and {mention.kind for mention in distinct} == {"month", "year"}:
        distinct = [mention for mention in distinct if mention.kind == "month"]
    if len(distinct) > 1:
        named = ", ".join(mention.text for mention in distinct[:12])
        return Question(
            parameter=name, text=f"One month is needed, and the request names {named}. Which one?"
        )
    only = distinct[0]
    if only.kind == "year" and optional and all(month.year == only.year for month in calendar.months):
        return None
    return resolve(only, calendar, name)
