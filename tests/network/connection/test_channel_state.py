import pytest

from twisted_kafka.network.connection import channel_state as cs
from twisted_kafka.network.state_table import IllegalTransitionError

# One line per step: state, event, what follows; - where Kafka's broker, too, calls it an illegal state. The whole table.
TRANSCRIPT = """
NOT_MUTED                                 MUTE              MUTED
NOT_MUTED                                 UNMUTE            NOT_MUTED
NOT_MUTED                                 REQUEST_RECEIVED  MUTED_AND_RESPONSE_PENDING
NOT_MUTED                                 RESPONSE_SENT     -
NOT_MUTED                                 THROTTLE_STARTED  -
NOT_MUTED                                 THROTTLE_ENDED    -
NOT_MUTED                                 DISCONNECTED      CLOSED
MUTED                                     MUTE              MUTED
MUTED                                     UNMUTE            NOT_MUTED
MUTED                                     REQUEST_RECEIVED  MUTED_AND_RESPONSE_PENDING
MUTED                                     RESPONSE_SENT     -
MUTED                                     THROTTLE_STARTED  -
MUTED                                     THROTTLE_ENDED    -
MUTED                                     DISCONNECTED      CLOSED
MUTED_AND_RESPONSE_PENDING                MUTE              MUTED_AND_RESPONSE_PENDING
MUTED_AND_RESPONSE_PENDING                UNMUTE            MUTED_AND_RESPONSE_PENDING
MUTED_AND_RESPONSE_PENDING                REQUEST_RECEIVED  -
MUTED_AND_RESPONSE_PENDING                RESPONSE_SENT     MUTED
MUTED_AND_RESPONSE_PENDING                THROTTLE_STARTED  MUTED_AND_THROTTLED_AND_RESPONSE_PENDING
MUTED_AND_RESPONSE_PENDING                THROTTLE_ENDED    -
MUTED_AND_RESPONSE_PENDING                DISCONNECTED      CLOSED
MUTED_AND_THROTTLED                       MUTE              MUTED_AND_THROTTLED
MUTED_AND_THROTTLED                       UNMUTE            MUTED_AND_THROTTLED
MUTED_AND_THROTTLED                       REQUEST_RECEIVED  -
MUTED_AND_THROTTLED                       RESPONSE_SENT     -
MUTED_AND_THROTTLED                       THROTTLE_STARTED  -
MUTED_AND_THROTTLED                       THROTTLE_ENDED    MUTED
MUTED_AND_THROTTLED                       DISCONNECTED      CLOSED
MUTED_AND_THROTTLED_AND_RESPONSE_PENDING  MUTE              MUTED_AND_THROTTLED_AND_RESPONSE_PENDING
MUTED_AND_THROTTLED_AND_RESPONSE_PENDING  UNMUTE            MUTED_AND_THROTTLED_AND_RESPONSE_PENDING
MUTED_AND_THROTTLED_AND_RESPONSE_PENDING  REQUEST_RECEIVED  -
MUTED_AND_THROTTLED_AND_RESPONSE_PENDING  RESPONSE_SENT     MUTED_AND_THROTTLED
MUTED_AND_THROTTLED_AND_RESPONSE_PENDING  THROTTLE_STARTED  -
MUTED_AND_THROTTLED_AND_RESPONSE_PENDING  THROTTLE_ENDED    MUTED_AND_RESPONSE_PENDING
MUTED_AND_THROTTLED_AND_RESPONSE_PENDING  DISCONNECTED      CLOSED
CLOSED                                    MUTE              CLOSED
CLOSED                                    UNMUTE            CLOSED
CLOSED                                    REQUEST_RECEIVED  -
CLOSED                                    RESPONSE_SENT     CLOSED
CLOSED                                    THROTTLE_STARTED  CLOSED
CLOSED                                    THROTTLE_ENDED    CLOSED
CLOSED                                    DISCONNECTED      CLOSED
"""


def test_every_pair_of_state_and_event() -> None:
    seen = []
    for line in TRANSCRIPT.strip().splitlines():
        state, event, following = line.split()
        number, happens = cs.STATE_NAMES.index(state), cs.EVENT_NAMES.index(event)
        seen.append((number, happens))
        if following == "-":
            with pytest.raises(IllegalTransitionError, match=f"{event} in state {state}"):
                cs.next_state(number, happens)
        else:
            assert cs.STATE_NAMES[cs.next_state(number, happens)] == following, line
    assert seen == [(state, event) for state in range(len(cs.STATE_NAMES)) for event in range(len(cs.EVENT_NAMES))]


# What a throttled request goes through; either order of the answer and the throttling's end.
STORIES = """
REQUEST_RECEIVED THROTTLE_STARTED RESPONSE_SENT THROTTLE_ENDED UNMUTE
REQUEST_RECEIVED THROTTLE_STARTED THROTTLE_ENDED RESPONSE_SENT UNMUTE
MUTE REQUEST_RECEIVED MUTE RESPONSE_SENT REQUEST_RECEIVED RESPONSE_SENT UNMUTE
"""


@pytest.mark.parametrize("story", STORIES.strip().splitlines())
def test_stories_end_unmuted(story: str) -> None:
    state = cs.NOT_MUTED
    for event in story.split():
        assert state != cs.NOT_MUTED or event != "UNMUTE"
        state = cs.next_state(state, cs.EVENT_NAMES.index(event))
    assert state == cs.NOT_MUTED
