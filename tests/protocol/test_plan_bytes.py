"""A plan's canonical bytes: kept between uses, and never those of another plan."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.protocol.plan.ancestors import Ancestors
from duly.protocol.plan.plan import Plan
from duly.protocol.wire import canon
from duly.protocol.wire.errors import WireError
from plans import plan, ref, step, tool

READ = tool("r")


def chain(count: int) -> Plan:
    steps = [step("s1", READ, {"key": 0})]
    steps += [step(f"s{n}", READ, {"key": ref(f"s{n - 1}")}) for n in range(2, count + 1)]
    return plan(steps)


def test_bytes_and_digest_are_those_of_the_whole_encoding():
    one = chain(3)
    for _ in range(2):  # the second time from what was kept
        assert one.encoded() == canon.encode(one.to_data())
        assert one.content_digest() == canon.digest("plan", one.content())


def test_a_copy_under_another_number_has_its_own_bytes_and_the_same_digest():
    first = chain(2)
    first.encoded()
    second = first.model_copy(update={"plan_id": "p2", "version": 2, "origin": "cache"})
    assert second.steps is first.steps
    assert second.encoded() == canon.encode(second.to_data()) != first.encoded()
    assert second.content_digest() == first.content_digest()


def test_a_copy_with_other_steps_has_another_digest():
    first = chain(2)
    second = first.model_copy(update={"steps": first.steps[:1]})
    assert second.content_digest() != first.content_digest()
    assert second.encoded() == canon.encode(second.to_data())


def test_the_plan_of_bytes_is_equal_to_the_plan_that_was_encoded():
    one = chain(4)
    data = one.encoded()
    assert Plan.decoded(data) == one == Plan.model_validate(canon.decode(data))


def test_what_has_no_canonical_form_is_named_by_its_path():
    with pytest.raises(WireError) as caught:
        plan([step("s1", READ, {"key": 1 << 70})]).encoded()
    assert (caught.value.code, caught.value.place) == (
        "wire.integer_too_large",
        "/steps/0/tool_contract/arguments/key",
    )


@given(st.dictionaries(st.text("abcäö", max_size=3), st.integers() | st.lists(st.text("xy"))))
def test_entries_put_together_are_the_bytes_of_the_map(value):
    try:
        whole = canon.encode(value)
    except WireError as error:
        with pytest.raises(WireError) as caught:
            canon.encode_entries(value)
        assert (caught.value.code, caught.value.place) == (error.code, error.place)
    else:
        assert canon.join_entries(canon.encode_entries(value)) == whole


def test_the_depth_limit_is_the_same_for_entries():
    value: object = 1
    for _ in range(32):
        value = [value]
    with pytest.raises(WireError) as caught:
        canon.encode_entries({"deep": value})
    assert caught.value.code == "wire.too_deep"


def test_ancestors_are_direct_and_indirect_and_never_oneself():
    above = Ancestors(chain(5))
    assert above.come_before("s1", "s5")
    assert above.come_before("s4", "s5")
    assert not above.come_before("s5", "s5")
    assert not above.come_before("s5", "s1")
    assert not above.come_before("unknown", "s5")
