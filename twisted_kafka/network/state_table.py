"""State machines as tables: a row for each state, a column for each event, in it the state that follows."""

from collections.abc import Sequence
from typing import Final

ILLEGAL: Final = -1
"""In a table: the event is not allowed in this state."""


class IllegalTransitionError(Exception):
    """An event that is not allowed in the current state."""


class StateTable:
    """One table. States and events are numbers; their names are for errors."""

    def __init__(self, state_names: Sequence[str], event_names: Sequence[str], transitions: Sequence[Sequence[int]]) -> None:
        self._state_names = state_names
        self._event_names = event_names
        self._transitions = transitions

    def next_state(self, state: int, event: int) -> int:
        """Return the state after ``event``; raises IllegalTransitionError."""
        following = self._transitions[state][event]
        if following == ILLEGAL:
            raise IllegalTransitionError(f"{self._event_names[event]} in state {self._state_names[state]}")
        return following
