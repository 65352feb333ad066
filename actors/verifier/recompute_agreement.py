"""Whether an output says what was recomputed: every field, with the tolerance of the package for numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

# Beside the package's tolerance, which is absolute: a float is the nearest to an exact number only relative to its size.
RELATIVE_SLACK = Fraction(1, 10**12)


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where an output is not what was recomputed."""

    path: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"{self.path} is {self.got}, recomputed {self.expected}"


def differences(
    expected: Any, got: Any, tolerance: Fraction, without: frozenset[str] = frozenset()
) -> list[Difference]:
    """Every difference, in the order of the output. ``without`` names fields at the top that are not recomputed."""
    found: list[Difference] = []
    if isinstance(got, Mapping):
        got = {key: item for key, item in got.items() if key not in without}
    _walk(expected, got, tolerance, "", found)
    return found


def _walk(expected: Any, got: Any, tolerance: Fraction, path: str, found: list[Difference]) -> None:
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        for key in [*expected, *(key for key in got if key not in expected)]:
            if key not in got or key not in expected:
                found.append(Difference(f"{path}/{key}", _shown(expected.get(key)), _shown(got.get(key))))
            else:
                _walk(expected[key], got[key], tolerance, f"{path}/{key}", found)
    elif isinstance(expected, list) and isinstance(got, list):
        if len(expected) != len(got):
            found.append(Difference(path, f"{len(expected)} items", f"{len(got)} items"))
        for index, (left, right) in enumerate(zip(expected, got, strict=False)):
            _walk(left, right, tolerance, f"{path}/{index}", found)
    elif not _same(expected, got, tolerance):
        found.append(Difference(path, _shown(expected), _shown(got)))


def _same(expected: Any, got: Any, tolerance: Fraction) -> bool:
    if isinstance(expected, Fraction):
        if type(got) not in (int, float) or not math.isfinite(got):
            return False
        slack = tolerance + (abs(expected) * RELATIVE_SLACK if type(got) is float else 0)
        return abs(Fraction(got) - expected) <= slack
    return type(expected) is type(got) and bool(expected == got)


def _shown(value: Any) -> str:
    if isinstance(value, Fraction):
        return str(value.numerator) if value.denominator == 1 else repr(float(value))
    if isinstance(value, Mapping | list):
        return f"{'a map' if isinstance(value, Mapping) else 'a list'} of {len(value)}"
    return repr(value)[:120]
