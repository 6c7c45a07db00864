"""The states of the connection to a node: one table. (Kafka: ConnectionState, and NodeConnectionState in ClusterConnectionStates.)

A node is DISCONNECTED until there is a request to send. BACKOFF lasts until the delay after the last attempt is over, CONNECTING
until the connection is established, including the TLS handshake. CHECKING_API_VERSIONS is skipped if the client does not discover
versions. Requests are sent in READY only.
"""

from typing import Final

from twisted_kafka.network.state_table import ILLEGAL, StateTable

DISCONNECTED: Final = 0
BACKOFF: Final = 1
CONNECTING: Final = 2
CHECKING_API_VERSIONS: Final = 3
READY: Final = 4

BACK_OFF: Final = 0
CONNECT: Final = 1
CHECK_API_VERSIONS: Final = 2
BECOME_READY: Final = 3
DISCONNECT: Final = 4

STATE_NAMES: Final = ("DISCONNECTED", "BACKOFF", "CONNECTING", "CHECKING_API_VERSIONS", "READY")
EVENT_NAMES: Final = ("BACK_OFF", "CONNECT", "CHECK_API_VERSIONS", "BECOME_READY", "DISCONNECT")

# fmt: off
TRANSITIONS: Final[tuple[tuple[int, int, int, int, int], ...]] = (
    # BACK_OFF CONNECT     CHECK_API_VERSIONS     BECOME_READY DISCONNECT
    (BACKOFF,  CONNECTING, ILLEGAL,               ILLEGAL,     ILLEGAL),       # DISCONNECTED
    (ILLEGAL,  CONNECTING, ILLEGAL,               ILLEGAL,     DISCONNECTED),  # BACKOFF
    (ILLEGAL,  ILLEGAL,    CHECKING_API_VERSIONS, READY,       DISCONNECTED),  # CONNECTING
    (ILLEGAL,  ILLEGAL,    CHECKING_API_VERSIONS, READY,       DISCONNECTED),  # CHECKING_API_VERSIONS
    (ILLEGAL,  ILLEGAL,    ILLEGAL,               ILLEGAL,     DISCONNECTED),  # READY
)
# fmt: on

next_state: Final = StateTable(STATE_NAMES, EVENT_NAMES, TRANSITIONS).next_state
"""Returns the next state after an event; raises IllegalTransitionError."""
