"""What `duly show` says of a run while a model works for it."""

from __future__ import annotations

from typing import Any

from answers import Answers
from driver import Driver
from duly.cli.show import run_lines
from duly.protocol.machine import effects
from duly.protocol.machine.run import Run
from duly.protocol.plan.request import Binding
from duly.protocol.views.result import result_object
from plans import table, tool


def test_a_model_that_is_asked_is_named_until_it_answers():
    shown: list[str] = []

    def turn(run: Run, order: effects.TakeTurn) -> Any:
        shown.extend(run_lines(run, [], result_object(run)))
        return "That is all."

    answers = Answers(bind=lambda run, order: Binding(), turn=turn)
    driver = Driver(
        answers, table(tool("look")), submitted={"has_model": True}, settings={"planning": "never"}
    )
    ended = driver.submit()
    assert "model     asked what to do next; no answer yet" in shown
    assert "model     asked" not in "\n".join(run_lines(ended, [], result_object(ended)))
