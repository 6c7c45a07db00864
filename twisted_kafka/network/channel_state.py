"""Whether a channel may take its next request: one table, nothing else.

A channel that has a request under way is muted until the response is sent and no throttling lasts. What is not in the
table must not happen: it raises IllegalTransitionError, and the connection is closed. (Kafka: ``ChannelMuteState`` and
``ChannelMuteEvent`` of KafkaChannel; its plain MUTED state, which lasts for a moment only, has no counterpart here.)
"""

# States
NOT_MUTED = 0
RESPONSE_PENDING = 1
THROTTLED = 2
THROTTLED_AND_RESPONSE_PENDING = 3
CLOSED = 4

# Events
REQUEST_RECEIVED = 0
RESPONSE_SENT = 1
THROTTLE_STARTED = 2
THROTTLE_ENDED = 3
DISCONNECTED = 4

STATE_NAMES = ("NOT_MUTED", "RESPONSE_PENDING", "THROTTLED", "THROTTLED_AND_RESPONSE_PENDING", "CLOSED")
EVENT_NAMES = ("REQUEST_RECEIVED", "RESPONSE_SENT", "THROTTLE_STARTED", "THROTTLE_ENDED", "DISCONNECTED")

ILLEGAL = -1

# A closed channel stays closed whatever still arrives for it: responses are completed after their client has gone.
TRANSITIONS: tuple[tuple[int, int, int, int, int], ...] = (
    # REQUEST_RECEIVED  RESPONSE_SENT  THROTTLE_STARTED                THROTTLE_ENDED    DISCONNECTED
    (RESPONSE_PENDING, ILLEGAL, THROTTLED, ILLEGAL, CLOSED),  # NOT_MUTED
    (ILLEGAL, NOT_MUTED, THROTTLED_AND_RESPONSE_PENDING, ILLEGAL, CLOSED),  # RESPONSE_PENDING
    (ILLEGAL, ILLEGAL, ILLEGAL, NOT_MUTED, CLOSED),  # THROTTLED
    (ILLEGAL, THROTTLED, ILLEGAL, RESPONSE_PENDING, CLOSED),  # THROTTLED_AND_RESPONSE_PENDING
    (ILLEGAL, CLOSED, CLOSED, CLOSED, CLOSED),  # CLOSED
)


class IllegalTransitionError(Exception):
    """An event came that cannot come in this state."""


def next_state(state: int, event: int) -> int:
    """Return the state after ``event``; raises IllegalTransitionError for a pair that the table does not have."""
    following = TRANSITIONS[state][event]
    if following == ILLEGAL:
        raise IllegalTransitionError(f"{EVENT_NAMES[event]} in state {STATE_NAMES[state]}")
    return following
