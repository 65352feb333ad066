"""Plan files that no person wrote: too large, too deep, read in two ways, or no files at all. Each ends at once."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from duly.cli.plan_file import read_plan
from duly.protocol.wire.errors import PlanError
from duly.protocol.wire.limits import FRAME_BYTES_MAX
from plans import plan, step, tool

SECONDS_MAX = 5.0  # a slow machine reads each in a tenth of it
GOOD = json.dumps(plan([step("s1", tool("a"), {"key": "x"})]).to_data())
FILES = {
    "a million steps": (
        "plan.json",
        '{"steps":[' + ",".join(['{"step_id":"a"}'] * 1_000_000) + "]}",
        "bytes",
    ),
    "deep JSON": ("plan.json", '{"steps":' + "[" * 200_000 + "]" * 200_000 + "}", "nested too deeply"),
    "a deep flow": ("plan.yaml", "steps: " + "[" * 100_000 + "]" * 100_000 + "\n", "nested too deeply"),
    "deep maps": ("plan.yaml", "steps: " + "{a: " * 100_000 + "}" * 100_000 + "\n", "nested too deeply"),
    "a deep block": ("plan.yaml", "steps:\n  " + "- " * 100_000 + "x\n", "nested too deeply"),
    "deep arguments": ("plan.json", GOOD.replace('"x"', '{"a":' * 400 + "1" + "}" * 400), "nested deeper"),
    "aliases": ("plan.yaml", "a: &a [x, x]\nb: &b [*a, *a]\n", "aliases"),
    "a key that stands twice": ("plan.json", GOOD[:-1] + ', "steps": []}', "'steps' stands twice"),
    "one in a step": ("plan.json", GOOD.replace('"kind"', '"objective": "y", "kind"', 1), "stands twice"),
    "many keys": (
        "plan.json",
        "{" + ",".join(f'"{n}":1' for n in range(90_000)) + ',"1":1}',
        "'1' stands twice",
    ),
    "a long key": ("plan.json", '{"' + "k" * 9_999 + '":1,"' + "k" * 9_999 + '":1}', "kkk' stands twice"),
    "no number": ("plan.json", GOOD.replace('"x"', "NaN"), "no canonical form"),
    "an endless number": ("plan.json", GOOD.replace('"x"', "1e999"), "no canonical form"),
    "a lone surrogate": ("plan.json", GOOD.replace('"x"', '"\\ud800"'), "surrogate"),
    "nothing": ("plan.json", "", "not JSON"),
    "a list": ("plan.yaml", "- 1\n", "a map of fields"),
}


@pytest.mark.parametrize("name", FILES)
def test_it_is_refused_at_once_and_says_why(tmp_path: Path, name: str):
    file, text, said = FILES[name]
    (tmp_path / file).write_text(text, encoding="utf-8")
    begun = time.monotonic()
    with pytest.raises(PlanError) as caught:
        read_plan(tmp_path / file)
    assert time.monotonic() - begun < SECONDS_MAX
    assert caught.value.code == "plan.file" and said in caught.value.message
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize("path", ["/dev/zero", "/", "/nowhere/plan.json"])
def test_what_is_no_file_is_refused(path: str):
    with pytest.raises(PlanError) as caught:
        read_plan(Path(path))
    assert caught.value.code == "plan.file"


def test_bytes_that_are_no_text_are_refused(tmp_path: Path):
    for number, data in enumerate((b"\xff\xfe\x00{", b'{"a": "\xff"}', b"\x00" * 100)):
        for kind in ("json", "yaml"):
            (tmp_path / f"{number}.{kind}").write_bytes(data)
            with pytest.raises(PlanError) as caught:
                read_plan(tmp_path / f"{number}.{kind}")
            assert caught.value.code == "plan.file"


def test_the_largest_file_that_is_read_is_no_larger_than_a_message(tmp_path: Path):
    (tmp_path / "plan.json").write_text(GOOD + " " * (FRAME_BYTES_MAX - len(GOOD)), encoding="utf-8")
    assert read_plan(tmp_path / "plan.json").steps[0].step_id == "s1"
