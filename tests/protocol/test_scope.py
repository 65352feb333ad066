"""Scopes: the subset test, and the smallest scope that holds two."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.plan.scope import Scope

NAMES = st.lists(st.sampled_from("abc"), max_size=3, unique=True)
SCOPES = st.builds(
    Scope, sources=NAMES, columns=NAMES, predicates=NAMES, hosts=NAMES, paths=NAMES, resources=NAMES
)
KINDS = ("sources", "columns", "hosts", "paths", "resources")


def test_an_empty_list_allows_nothing():
    assert Scope().within(Scope(sources=["flights"]))
    assert not Scope(sources=["flights"]).within(Scope())


def test_each_kind_counts_and_is_named():
    for kind in KINDS:
        assert Scope(**{kind: ["a", "b"]}).beyond(Scope(**{kind: ["a"]})) == [f"{kind}:b"]


def test_a_row_filter_narrows():
    wide, narrow = Scope(sources=["f"]), Scope(sources=["f"], predicates=["origin = 'JFK'"])
    assert narrow.within(wide) and not wide.within(narrow)
    assert wide.beyond(narrow) == ["predicates:origin = 'JFK'"]


def test_names_are_exact():
    for name in ("Flights", "flights ", "flight", "flights.x"):
        assert not Scope(sources=[name]).within(Scope(sources=["flights"]))


@given(SCOPES)
def test_within_itself(scope: Scope):
    assert scope.within(scope)


@given(SCOPES, SCOPES, SCOPES)
def test_within_is_transitive(one: Scope, two: Scope, three: Scope):
    if one.within(two) and two.within(three):
        assert one.within(three)


@given(SCOPES, SCOPES)
def test_united_holds_both_and_nothing_else(one: Scope, two: Scope):
    both = one.united(two)
    assert one.within(both) and two.within(both)
    for kind in KINDS:
        assert set(getattr(both, kind)) == {*getattr(one, kind), *getattr(two, kind)}
    assert set(both.predicates) == {*one.predicates} & {*two.predicates}
