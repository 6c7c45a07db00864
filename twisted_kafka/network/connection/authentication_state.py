"""How far the SASL authentication of a connection has come: one table, nothing else.

The rule: nothing but ApiVersions, SaslHandshake and SaslAuthenticate is served before AUTHENTICATED, each in its turn, and there is
one way there: COMPLETED, in a state in which the mechanism evaluates tokens. FAILED is final. A client that re-authenticates
(KIP-368) is served nothing else meanwhile.

After a handshake of version 0, tokens come as frames without a header (``EXPECTS_TOKEN``).

(Kafka: ``SaslState`` of SaslServerAuthenticator. Its INITIAL_REQUEST, for clients of Kafka 0.9 that begin with a Kerberos token, is
missing. A session that has ended is not a state: the time says so.)
"""

from typing import Final

from twisted_kafka.network.state_table import ILLEGAL, StateTable
from twisted_kafka.protocol.api import ApiKey

# States
HANDSHAKE_OR_VERSIONS: Final = 0
HANDSHAKE: Final = 1
AUTHENTICATE: Final = 2
TOKENS: Final = 3
AUTHENTICATED: Final = 4
REAUTHENTICATION_HANDSHAKE: Final = 5
REAUTHENTICATE: Final = 6
REAUTHENTICATION_TOKENS: Final = 7
FAILED: Final = 8

# Events
VERSIONS_TOLD: Final = 0
MECHANISM_CHOSEN: Final = 1
MECHANISM_CHOSEN_V0: Final = 2
TOKEN_ACCEPTED: Final = 3
COMPLETED: Final = 4
REAUTHENTICATION_BEGUN: Final = 5
REFUSED: Final = 6

STATE_NAMES: Final = (
    "HANDSHAKE_OR_VERSIONS",
    "HANDSHAKE",
    "AUTHENTICATE",
    "TOKENS",
    "AUTHENTICATED",
    "REAUTHENTICATION_HANDSHAKE",
    "REAUTHENTICATE",
    "REAUTHENTICATION_TOKENS",
    "FAILED",
)
EVENT_NAMES: Final = (
    "VERSIONS_TOLD",
    "MECHANISM_CHOSEN",
    "MECHANISM_CHOSEN_V0",
    "TOKEN_ACCEPTED",
    "COMPLETED",
    "REAUTHENTICATION_BEGUN",
    "REFUSED",
)

# Short names for the table.
_NO: Final = ILLEGAL
_AUTH: Final = AUTHENTICATE
_DONE: Final = AUTHENTICATED
_AGAIN: Final = REAUTHENTICATION_HANDSHAKE
_RE: Final = REAUTHENTICATE
_RE_TOKENS: Final = REAUTHENTICATION_TOKENS

# fmt: off
TRANSITIONS: Final[tuple[tuple[int, int, int, int, int, int, int], ...]] = (
    # VERSIONS_TOLD MECHANISM_CHOSEN CHOSEN_V0   TOKEN_ACCEPTED COMPLETED REAUTHENTICATION_BEGUN REFUSED
    (HANDSHAKE,     _AUTH,           TOKENS,     _NO,           _NO,      _NO,                   FAILED),  # HANDSHAKE_OR_VERSIONS
    (_NO,           _AUTH,           TOKENS,     _NO,           _NO,      _NO,                   FAILED),  # HANDSHAKE
    (_NO,           _NO,             _NO,        _AUTH,         _DONE,    _NO,                   FAILED),  # AUTHENTICATE
    (_NO,           _NO,             _NO,        TOKENS,        _DONE,    _NO,                   FAILED),  # TOKENS
    (_DONE,         _NO,             _NO,        _NO,           _NO,      _AGAIN,                FAILED),  # AUTHENTICATED
    (_NO,           _RE,             _RE_TOKENS, _NO,           _NO,      _NO,                   FAILED),  # REAUTHENTICATION_...
    (_NO,           _NO,             _NO,        _RE,           _DONE,    _NO,                   FAILED),  # REAUTHENTICATE
    (_NO,           _NO,             _NO,        _RE_TOKENS,    _DONE,    _NO,                   FAILED),  # ..._TOKENS
    (_NO,           _NO,             _NO,        _NO,           _NO,      _NO,                   FAILED),  # FAILED
)
# fmt: on

SERVES: Final[tuple[frozenset[int] | None, ...]] = (
    frozenset((int(ApiKey.API_VERSIONS), int(ApiKey.SASL_HANDSHAKE))),
    frozenset((int(ApiKey.SASL_HANDSHAKE),)),
    frozenset((int(ApiKey.SASL_AUTHENTICATE),)),
    frozenset(),
    None,
    frozenset((int(ApiKey.SASL_HANDSHAKE),)),
    frozenset((int(ApiKey.SASL_AUTHENTICATE),)),
    frozenset(),
    frozenset(),
)
"""The APIs that are served in each state; None for all."""

EXPECTS_TOKEN: Final = (TOKENS, REAUTHENTICATION_TOKENS)
"""The states in which the next frame is always a token."""

EVALUATES: Final = (AUTHENTICATE, TOKENS, REAUTHENTICATE, REAUTHENTICATION_TOKENS)
"""The states in which a mechanism evaluates tokens."""

next_state: Final = StateTable(STATE_NAMES, EVENT_NAMES, TRANSITIONS).next_state
"""Returns the next state after an event; raises IllegalTransitionError."""
