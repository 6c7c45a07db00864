"""The table of authentication states."""

import itertools

import pytest

from twisted_kafka.network.connection import authentication_state as states
from twisted_kafka.network.connection.authentication_state import next_state
from twisted_kafka.network.state_table import IllegalTransitionError


def test_only_a_completed_evaluation_authenticates() -> None:
    for state, event in itertools.product(range(len(states.STATE_NAMES)), range(len(states.EVENT_NAMES))):
        try:
            following = next_state(state, event)
        except IllegalTransitionError:
            continue
        if following == states.AUTHENTICATED and state != states.AUTHENTICATED:
            assert event == states.COMPLETED
            assert state in states.EVALUATES


def test_failure_is_possible_in_each_state_and_final() -> None:
    for state in range(len(states.STATE_NAMES)):
        assert next_state(state, states.REFUSED) == states.FAILED
    for event in set(range(len(states.EVENT_NAMES))) - {states.REFUSED}:
        with pytest.raises(IllegalTransitionError):
            next_state(states.FAILED, event)
    assert states.SERVES[states.FAILED] == frozenset()


def test_all_apis_are_served_to_the_authenticated_alone() -> None:
    assert [state for state, served in enumerate(states.SERVES) if served is None] == [states.AUTHENTICATED]
