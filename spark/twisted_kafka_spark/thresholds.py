"""When something is a finding: every threshold, in this one place.

A finding that lasts needs at least `MINUTES_FLOOR` minutes: with fewer, quiet days gave false alarms.
"""

from __future__ import annotations

MINUTES_FLOOR = 2
"""Minutes that an anomaly or a storm must last."""
MAD_FACTOR = 8.0
"""How many median absolute deviations from the period's median an unusual minute is away."""
MINUTE_FLOOR = 30
"""Requests of one client and API in a minute below which nothing is a storm."""

THROTTLED_REQUESTS_FLOOR = 20
THROTTLED_SHARE = 0.05
"""Share of a client's requests that a quota held back."""
THROTTLED_MEAN_US = 10_000

ERRORS_A_MINUTE_FLOOR = 20
ERRORS_SHARE = 0.05
"""Share of the API's requests of those minutes that failed."""
EXPECTED_ERRORS = frozenset(
    {
        "REBALANCE_IN_PROGRESS",
        "MEMBER_ID_REQUIRED",
        "UNKNOWN_MEMBER_ID",
        "ILLEGAL_GENERATION",
        "FETCH_SESSION_ID_NOT_FOUND",
        "INVALID_FETCH_SESSION_EPOCH",
        "UNSUPPORTED_VERSION",
    }
)
"""Errors that are part of a protocol: a rebalance or a new session tells itself with them."""

REBALANCE_APIS = ("JoinGroup", "SyncGroup", "LeaveGroup")
REBALANCES_A_MINUTE = 40
"""Joins, syncs and leaves of one client in a minute."""

METADATA_A_MINUTE = 300
COMMITS_A_MINUTE = 600
COMMITS_PER_FETCH = 0.9
"""A consumer that commits about as often as it fetches commits each batch by itself."""
FETCHES_A_MINUTE = 6000
FETCH_EMPTY_SHARE = 0.5
"""Share of a client's fetches that brought nothing, from which many fetches are a storm."""
NEW_CONNECTIONS_FLOOR = 30
"""New connections of one client in a minute."""

IDLE_FETCHES_FLOOR = 500
IDLE_SHARE = 0.98
"""Share of a client's fetches over the period that brought nothing."""

TINY_BATCHES_FLOOR = 2000
TINY_BATCH_BYTES = 400
"""Mean bytes of what one produce request brings; a batch's own header has 61."""

SKEW_TOPICS_FLOOR = 10
SKEW_SHARE = 0.8
"""Share of all produced bytes that go to one of many topics."""
SKEW_NODES_SHARE = 0.75
"""Share of the requests that one of several brokers answers."""
SKEW_REQUESTS_FLOOR = 10_000

SLOW_REQUESTS_A_MINUTE = 8
SLOW_FLOOR_US = 10_000
"""Mean time of a phase in a minute below which it is not slow, whatever its median is."""
TRAFFIC_FLOOR_A_MINUTE = 200
TRAFFIC_FACTOR = 3.0
"""How many times the median an API's requests of a minute are before traffic itself is unusual."""
OLD_VERSION_FLOOR = 1
"""Requests of a version that Kafka 4 refuses; one is enough, for that client will stop working."""
UNREADABLE_SHARE = 0.01
"""Share of the lines that could not be read."""
