"""What laying batches over others yields, compared with a state for each offset."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from twisted_kafka.share_coordinator.state_batches import StateBatch, combine


def batch(first: int, length: int, state: int, count: int) -> StateBatch:
    return StateBatch(first, first + length, state, count)


BATCHES = st.lists(st.builds(batch, st.integers(0, 30), st.integers(0, 10), st.sampled_from([0, 2, 3, 4]), st.integers(0, 3)))


@given(BATCHES, BATCHES, st.integers(-1, 35))
def test_each_offset_has_the_state_with_the_greatest_count(old: list[StateBatch], new: list[StateBatch], start_offset: int) -> None:
    expected: dict[int, tuple[int, int]] = {}
    for each in old + new:
        for offset in range(each.first_offset, each.last_offset + 1):
            info = each.delivery_count, each.delivery_state
            expected[offset] = max(info, expected.get(offset, info))
    combined = combine(combine((), old, -1), new, start_offset)
    found = {
        offset: (each.delivery_count, each.delivery_state)
        for each in combined
        for offset in range(each.first_offset, each.last_offset + 1)
    }
    assert found == {offset: info for offset, info in expected.items() if offset >= start_offset}


@given(BATCHES, st.integers(-1, 35))
def test_batches_are_sorted_disjoint_and_as_few_as_possible(some: list[StateBatch], start_offset: int) -> None:
    combined = combine((), some, start_offset)
    for before, after in pairwise(combined):
        assert before.last_offset < after.first_offset
        assert before.last_offset + 1 < after.first_offset or before[2:] != after[2:]
