"""All thresholds of the findings.

A finding about a period requires at least `MINUTES_FLOOR` minutes: with fewer, there were false alarms on quiet days.
"""

from __future__ import annotations

MINUTES_FLOOR = 2
"""The minimum duration of an anomaly or a storm, in minutes."""
MAD_FACTOR = 8.0
"""The number of median absolute deviations by which an unusual minute exceeds the period's median."""
MINUTE_FLOOR = 30
"""The minimum number of requests of a client and API in a minute of a storm."""

THROTTLED_REQUESTS_FLOOR = 20
THROTTLED_SHARE = 0.05
"""Share of a client's requests that were throttled."""
THROTTLED_MEAN_US = 10_000
THROTTLED_TIME_SHARE = 0.5
"""Share of a connection's time that it was throttled, however few of its requests were."""
THROTTLED_TIME_FLOOR_US = 60_000_000
THROTTLED_OF_ALL_TIME = 0.05
THROTTLED_OF_ALL_FLOOR_US = 600_000_000
"""A client that was throttled for so long, and for this share of the time that all requests took, however few of them were."""

ERRORS_A_MINUTE_FLOOR = 20
ERRORS_SHARE = 0.05
"""Share of the API's requests in those minutes that failed."""
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
"""Errors that are part of a protocol, for example to signal a rebalance or to require a new session."""
RETRY_ERRORS = frozenset(
    {
        "COORDINATOR_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "NOT_COORDINATOR",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_OR_FOLLOWER",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "OFFSET_NOT_AVAILABLE",
        "CONCURRENT_TRANSACTIONS",
        "UNSTABLE_OFFSET_COMMIT",
        "FENCED_MEMBER_EPOCH",
        "STALE_MEMBER_EPOCH",
        "UNKNOWN_SUBSCRIPTION_ID",
        "ELECTION_NOT_NEEDED",
    }
)
"""Errors that ask a client to look for the leader or coordinator again, or to wait for it. A few are part of each start and each
move; a burst of them is a finding."""
PROBING_ERRORS = frozenset(
    {
        ("Metadata", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("ConsumerGroupDescribe", "GROUP_ID_NOT_FOUND"),
        ("ShareGroupDescribe", "GROUP_ID_NOT_FOUND"),
        ("DescribeAcls", "SECURITY_DISABLED"),
    }
)
"""APIs and errors that answer a client's question: whether a topic exists yet, of which type a group is, whether there are ACLs."""

REBALANCE_APIS = ("JoinGroup", "SyncGroup", "LeaveGroup")
REBALANCES_A_MINUTE = 40
"""Joins, syncs and leaves of one client in a minute."""

STORM_APIS = frozenset({*REBALANCE_APIS, "Metadata", "OffsetCommit", "Fetch"})
"""The APIs whose requests are counted by client and minute."""

METADATA_A_MINUTE = 300
COMMITS_A_MINUTE = 600
COMMITS_PER_FETCH = 0.9
"""A consumer that commits about as often as it fetches commits every batch separately."""
FETCHES_A_MINUTE = 6000
FETCH_EMPTY_SHARE = 0.5
"""The minimum share of a client's fetches that returned nothing in a storm."""
NEW_CONNECTIONS_FLOOR = 30
"""New connections of one client in a minute."""

IDLE_FETCHES_FLOOR = 500
IDLE_SHARE = 0.98
"""Share of a client's fetches over the period that returned nothing."""

TINY_BATCHES_FLOOR = 2000
TINY_BATCH_BYTES = 400
"""Mean bytes of record batches in a produce request; the header of a batch takes 61."""

SKEW_TOPICS_FLOOR = 10
SKEW_SHARE = 0.8
"""Share of all produced bytes that one of many topics receives."""
SKEW_PARTITION_SHARE, SKEW_PARTITION_FACTOR = 0.5, 2.0
"""Share of the bytes produced to a topic that one of its partitions receives, which is this many times an equal share, too."""
SKEW_PARTITION_REQUESTS_FLOOR = 1_000
"""Produce requests to such a partition."""
SKEW_PARTITION_OF_ALL = 0.02
"""Share of all produced bytes that its topic receives; `SKEWED_PARTITIONS` are all that there can be."""
SKEWED_PARTITIONS = round(1 / (SKEW_PARTITION_OF_ALL * SKEW_PARTITION_SHARE))
PARTITION_FLOOR = 60
"""Requests about a partition in an hour, by API; partitions with fewer requests are not counted separately."""
SKEW_NODES_SHARE = 0.75
"""Share of the requests that one of several brokers handles."""
SKEW_REQUESTS_FLOOR = 10_000

SLOW_REQUESTS_A_MINUTE = 8
SLOW_FLOOR_US = 10_000
"""A phase with at least this mean time in a minute is slow, if the time is unusual."""
SLOW_FACTOR = 5.0
SLOW_RELATIVE_FLOOR_US = 1_000
"""A phase with at least this mean time is slow, too, if that is `SLOW_FACTOR` times the usual time."""
TRAFFIC_FLOOR_A_MINUTE = 200
TRAFFIC_FACTOR = 3.0
"""The factor by which an API's requests in a minute must exceed the median to be unusual traffic."""
OLD_VERSION_FLOOR = 1
"""Requests with a version that Kafka 4 does not support; one is enough, because that client will stop working."""
UNREADABLE_SHARE = 0.01
"""Share of the lines that could not be parsed."""

TIMED_OUT_FLOOR = 1
"""Transactions of one id that timed out; one is enough, because consumers waited for it until then."""
HANGING_SLACK_US = 60_000_000
"""How much longer than its timeout a transaction is open without being used before it counts as left: the coordinator looks for
timeouts every 10 s."""
UNKNOWN_TIMEOUT_US = 900_000_000
"""The timeout of an id whose InitProducerId is not in the period: the default of transaction.max.timeout.ms."""
ABORTS_FLOOR = 10
"""Transactions of one id that ended."""
ABORTS_SHARE = 0.5
"""Share of them that their producer aborted, or that were aborted because a new producer came; timeouts are another finding."""

FAILED_LOGINS_FLOOR = 20
"""Logins from one address that failed; a client with a wrong password makes as many in minutes."""
