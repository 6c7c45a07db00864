"""What a node's connection may do when: one table. (Kafka: ConnectionState, ClusterConnectionStates.)

A node is DISCONNECTED until something is to be sent to it. BACKOFF ends when the pause after the last attempt is over;
CONNECTING lasts until the connection is there and, with TLS, safe; then the versions of its APIs are asked for, unless the
client does without. Only in READY requests are sent.
"""

from typing import Final

DISCONNECTED: Final = 0
BACKOFF: Final = 1
CONNECTING: Final = 2
CHECKING_API_VERSIONS: Final = 3
READY: Final = 4

WAIT: Final = 0
CONNECT: Final = 1
CHECK_API_VERSIONS: Final = 2
BE_READY: Final = 3
LOSE: Final = 4

STATE_NAMES: Final = ("DISCONNECTED", "BACKOFF", "CONNECTING", "CHECKING_API_VERSIONS", "READY")
EVENT_NAMES: Final = ("WAIT", "CONNECT", "CHECK_API_VERSIONS", "BE_READY", "LOSE")

ILLEGAL: Final = -1

# fmt: off
TRANSITIONS: Final[tuple[tuple[int, int, int, int, int], ...]] = (
    # WAIT    CONNECT     CHECK_API_VERSIONS     BE_READY  LOSE
    (BACKOFF, CONNECTING, ILLEGAL,               ILLEGAL,  ILLEGAL),       # DISCONNECTED
    (ILLEGAL, CONNECTING, ILLEGAL,               ILLEGAL,  DISCONNECTED),  # BACKOFF
    (ILLEGAL, ILLEGAL,    CHECKING_API_VERSIONS, READY,    DISCONNECTED),  # CONNECTING
    (ILLEGAL, ILLEGAL,    CHECKING_API_VERSIONS, READY,    DISCONNECTED),  # CHECKING_API_VERSIONS
    (ILLEGAL, ILLEGAL,    ILLEGAL,               ILLEGAL,  DISCONNECTED),  # READY
)
# fmt: on


class IllegalTransitionError(Exception):
    """An event came that cannot come in this state."""


def next_state(state: int, event: int) -> int:
    """Return the state after ``event``; raises IllegalTransitionError for a pair that the table does not allow."""
    following = TRANSITIONS[state][event]
    if following == ILLEGAL:
        raise IllegalTransitionError(f"{EVENT_NAMES[event]} in state {STATE_NAMES[state]}")
    return following
