"""Whether a channel may process its next request: one table, nothing else.

The rule: a channel that has received a request stays muted until the response is sent and throttling is over. It is also muted
while its processor has no room for another request. A muted channel processes no requests; the bytes that it receives wait.

An ILLEGAL transition is a bug: it raises IllegalTransitionError, and the connection is closed. MUTE and UNMUTE are legal in every
state, so that a caller does not need to know why else a channel is muted.

(Kafka: ``ChannelMuteState`` and ``ChannelMuteEvent`` of KafkaChannel, with its ``mute`` and ``maybeUnmute`` as events.)
"""

from typing import Final

from twisted_kafka.network.state_table import ILLEGAL, StateTable

# States. Up to MUTED, no request is in flight and the channel is not throttled.
NOT_MUTED = 0
MUTED = 1
MUTED_AND_RESPONSE_PENDING = 2
MUTED_AND_THROTTLED = 3
MUTED_AND_THROTTLED_AND_RESPONSE_PENDING = 4
CLOSED = 5

# Events
MUTE = 0
UNMUTE = 1
REQUEST_RECEIVED = 2
RESPONSE_SENT = 3
THROTTLE_STARTED = 4
THROTTLE_ENDED = 5
DISCONNECTED = 6

STATE_NAMES = (
    "NOT_MUTED",
    "MUTED",
    "MUTED_AND_RESPONSE_PENDING",
    "MUTED_AND_THROTTLED",
    "MUTED_AND_THROTTLED_AND_RESPONSE_PENDING",
    "CLOSED",
)
EVENT_NAMES = ("MUTE", "UNMUTE", "REQUEST_RECEIVED", "RESPONSE_SENT", "THROTTLE_STARTED", "THROTTLE_ENDED", "DISCONNECTED")

# Short names for the table.
_PENDING = MUTED_AND_RESPONSE_PENDING
_THROTTLED = MUTED_AND_THROTTLED
_BOTH = MUTED_AND_THROTTLED_AND_RESPONSE_PENDING

# A closed channel stays closed whatever happens: requests are completed after their client has disconnected.
# fmt: off
TRANSITIONS: tuple[tuple[int, int, int, int, int, int, int], ...] = (
    # MUTE       UNMUTE      REQUEST_RECEIVED  RESPONSE_SENT  THROTTLE_STARTED  THROTTLE_ENDED  DISCONNECTED
    (MUTED,      NOT_MUTED,  _PENDING,         ILLEGAL,       ILLEGAL,          ILLEGAL,        CLOSED),  # NOT_MUTED
    (MUTED,      NOT_MUTED,  _PENDING,         ILLEGAL,       ILLEGAL,          ILLEGAL,        CLOSED),  # MUTED
    (_PENDING,   _PENDING,   ILLEGAL,          MUTED,         _BOTH,            ILLEGAL,        CLOSED),  # ..._RESPONSE_PENDING
    (_THROTTLED, _THROTTLED, ILLEGAL,          ILLEGAL,       ILLEGAL,          MUTED,          CLOSED),  # ..._THROTTLED
    (_BOTH,      _BOTH,      ILLEGAL,          _THROTTLED,    ILLEGAL,          _PENDING,       CLOSED),  # both
    (CLOSED,     CLOSED,     ILLEGAL,          CLOSED,        CLOSED,           CLOSED,         CLOSED),  # CLOSED
)
# fmt: on

next_state: Final = StateTable(STATE_NAMES, EVENT_NAMES, TRANSITIONS).next_state
"""Returns the next state after an event; raises IllegalTransitionError."""
