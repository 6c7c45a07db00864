import pytest

from twisted_kafka.network import channel_state as cs

# One line per step: state, event, what follows. The whole table, as a reader would draw it.
TRANSCRIPT = """
NOT_MUTED                       REQUEST_RECEIVED   RESPONSE_PENDING
NOT_MUTED                       RESPONSE_SENT      -
NOT_MUTED                       THROTTLE_STARTED   THROTTLED
NOT_MUTED                       THROTTLE_ENDED     -
NOT_MUTED                       DISCONNECTED       CLOSED
RESPONSE_PENDING                REQUEST_RECEIVED   -
RESPONSE_PENDING                RESPONSE_SENT      NOT_MUTED
RESPONSE_PENDING                THROTTLE_STARTED   THROTTLED_AND_RESPONSE_PENDING
RESPONSE_PENDING                THROTTLE_ENDED     -
RESPONSE_PENDING                DISCONNECTED       CLOSED
THROTTLED                       REQUEST_RECEIVED   -
THROTTLED                       RESPONSE_SENT      -
THROTTLED                       THROTTLE_STARTED   -
THROTTLED                       THROTTLE_ENDED     NOT_MUTED
THROTTLED                       DISCONNECTED       CLOSED
THROTTLED_AND_RESPONSE_PENDING  REQUEST_RECEIVED   -
THROTTLED_AND_RESPONSE_PENDING  RESPONSE_SENT      THROTTLED
THROTTLED_AND_RESPONSE_PENDING  THROTTLE_STARTED   -
THROTTLED_AND_RESPONSE_PENDING  THROTTLE_ENDED     RESPONSE_PENDING
THROTTLED_AND_RESPONSE_PENDING  DISCONNECTED       CLOSED
CLOSED                          REQUEST_RECEIVED   -
CLOSED                          RESPONSE_SENT      CLOSED
CLOSED                          THROTTLE_STARTED   CLOSED
CLOSED                          THROTTLE_ENDED     CLOSED
CLOSED                          DISCONNECTED       CLOSED
"""


@pytest.mark.parametrize("line", TRANSCRIPT.strip().splitlines())
def test_every_pair_of_state_and_event(line: str) -> None:
    state, event, following = line.split()
    number, happens = cs.STATE_NAMES.index(state), cs.EVENT_NAMES.index(event)
    if following == "-":
        with pytest.raises(cs.IllegalTransitionError, match=f"{event} in state {state}"):
            cs.next_state(number, happens)
    else:
        assert cs.STATE_NAMES[cs.next_state(number, happens)] == following


def test_the_transcript_has_the_whole_table() -> None:
    assert len(TRANSCRIPT.strip().splitlines()) == len(cs.STATE_NAMES) * len(cs.EVENT_NAMES)
