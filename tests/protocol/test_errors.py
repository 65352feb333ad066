"""Errors: one root, stable codes, and a way across processes as data."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.wire import canon, errors
from duly.protocol.wire.errors import DulyError, Fault, PlanError, error_from_data

CLASSES = sorted(
    (each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, DulyError)),
    key=lambda each: each.__name__,
)
plain = st.text(st.characters(codec="ascii"), max_size=20)
faults = st.builds(Fault, plain, plain, plain)
families = sorted(errors._FAMILIES)


def test_the_tree_is_the_module_docstring():
    """Who reads the docstring knows every class and every family of codes."""
    for each in CLASSES:
        assert each.__name__ in (errors.__doc__ or "")
        assert each.__doc__
        assert DulyError in each.__mro__
    for family in families:
        assert f"{family}.*" in (errors.__doc__ or "")
    assert {each for each in CLASSES if each is not DulyError} == set(errors._FAMILIES.values())


@given(
    st.sampled_from(families), plain, plain | st.none(), plain | st.none(), st.lists(plain), st.lists(faults)
)
def test_an_error_crosses_as_data(family, message, place, hint, story, found):
    made = error_from_data({"code": f"{family}.x", "message": message})
    error = type(made)(f"{family}.x", message, place=place, hint=hint, story=story, faults=found)
    back = error_from_data(canon.decode(canon.encode(error.to_data())))
    assert type(back) is type(error)
    assert back.to_data() == error.to_data()
    assert back.faults == tuple(found)
    assert str(back) == str(error)


def test_golden_data():
    """The shape stands in journals and crosses versions."""
    fault = Fault("steps/2/inputs", "plan.dangling_reference", "there is no step s9.")
    error = PlanError(
        "plan.invalid", "The plan has faults.", place="plan.yaml:4", hint="See below.", faults=[fault]
    )
    assert error.to_data() == {
        "code": "plan.invalid",
        "message": "The plan has faults.",
        "place": "plan.yaml:4",
        "hint": "See below.",
        "story": [],
        "faults": [
            {
                "path": "steps/2/inputs",
                "code": "plan.dangling_reference",
                "message": "there is no step s9.",
            }
        ],
    }
    assert str(error) == "plan.yaml:4: The plan has faults. See below. [plan.invalid]"
    assert str(fault) == "steps/2/inputs: there is no step s9. [plan.dangling_reference]"


def test_an_unknown_family_is_still_an_error_of_duly():
    back = error_from_data({"code": "later.thing", "message": "A newer version said this."})
    assert type(back) is DulyError
    assert back.code == "later.thing"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("through", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_a_copy_keeps_everything(kind, through):
    """Libraries copy and pickle exceptions (a test runner across its workers does): nothing may be lost then."""
    family = next((name for name, each in errors._FAMILIES.items() if each is kind), "later")
    error = kind(f"{family}.x", "A sentence.", place="here", hint="Do this.", story=["first", "then"])
    back = through(error)
    assert type(back) is kind
    assert back.to_data() == error.to_data()


def test_the_sentence_comes_without_none():
    assert str(DulyError("run.unknown", "There is no run r1.")) == "There is no run r1. [run.unknown]"
