"""The thresholds of findings that a file of rules may change, and those of the cells.

A number that says what a series looks like, and nothing about a site, is beside the code that uses it. A finding about a period
requires at least `MINUTES_FLOOR` minutes: with fewer, there were false alarms on quiet days.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

MINUTES_FLOOR = 2
"""The minimum duration of an anomaly or a storm, in minutes."""
NEARLY = 0.6
"""The share of a limit from which a minute does not end a span."""
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
THROTTLED_TOGETHER = 5
"""Clients that are throttled in the same time and make one finding."""
THROTTLED_OF_ALL_TIME = 0.05
THROTTLED_OF_ALL_FLOOR_US = 600_000_000
"""A client that was throttled for so long, and for this share of the time that all requests took, however few of them were."""

ERRORS_A_MINUTE_FLOOR = 20
ERRORS_SHARE = 0.05
"""Share of the API's requests in those minutes that failed."""
FAILURES_FLOOR = 20
FAILING_MINUTES = 15
"""Failed requests of a client with one error, and the minutes that they last: slow, but steady."""
FAILURES_SOON = 60
"""The same in fewer minutes."""
FAILING_SHARE = 0.2
"""Share of a client's requests that fail; of refusals by the authorizer each counts."""
LOSSES = frozenset(
    {
        *("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "CORRUPT_MESSAGE", "INVALID_TIMESTAMP"),
        *("OUT_OF_ORDER_SEQUENCE_NUMBER", "PRODUCER_FENCED", "INVALID_REQUIRED_ACKS", "POLICY_VIOLATION"),
        *("UNSUPPORTED_COMPRESSION_TYPE", "UNSUPPORTED_FOR_MESSAGE_FORMAT", "OFFSET_METADATA_TOO_LARGE", "KAFKA_STORAGE_ERROR"),
        *("UNKNOWN_SERVER_ERROR", "FENCED_INSTANCE_ID", "INVALID_RECORD_STATE"),
    }
)
"""Errors that a client does not try again, or in vain, each for its family: its work is lost, so that each counts."""
RARELY_MINUTES = 180
"""How long one account has an error now and then that hardly anybody else has."""
LOST_FLOOR = 10
"""Failed requests of a client with one of these errors."""
REFUSED_TOPICS = 5
"""Topics that a principal asks for and is refused: it tries one after the other."""
CAUSE_BEFORE = datetime.timedelta(minutes=20)
"""The time in which a change of the cluster may explain an incident after it."""
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
IDLE_SHARE, IDLE_WAITS_US = 0.98, 300_000
"""Share of a client's fetches over the period that returned nothing, and the mean time that they wait if all is well."""

TINY_BATCHES_FLOOR, TINY_BATCHES_A_MINUTE = 2000, 60
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
"""Requests about a partition in an hour, by API; partitions with fewer requests are not counted separately, except these:"""
WRITTEN_FLOOR, WRITTEN_PARTITIONS = 6, 64
"""Writes to a partition in an hour, and from which partition of a topic on the usual floor is theirs, too."""
SKEW_HOURS, SKEW_HOURS_REQUESTS = 3, 150
"""Hours in which a topic is written, and requests to a partition in the hours in which it is hot."""
SKEW_NODES_SHARE = 0.75
"""Share of the requests that one of several brokers handles."""
SKEW_REQUESTS_FLOOR = 10_000

SLOW_MINUTES = 3
"""The minimum duration of slowness: a pause of seconds may be in two minutes."""
SLOW_REQUESTS_A_MINUTE = 8
SLOW_FLOOR_US = 10_000
"""A phase with at least this mean time in a minute is slow, if the time is unusual."""
SLOW_FACTOR = 5.0
SLOW_RELATIVE_FLOOR_US = 1_000
"""A phase with at least this mean time is slow, too, if that is `SLOW_FACTOR` times the usual time."""
SLOW_LASTING_FACTOR, SLOW_LASTING_MINUTES = 3.0, 15
"""How many times as long as usual a phase takes on a broker if it does so for this many minutes."""
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
"""Logins from one address, or one network, that failed; a client with a wrong password makes as many in minutes."""
FAILED_LOGINS_OF_ALL, FAILED_LOGINS_A_MINUTE, LOGIN_GAP_MINUTES = 60, 0.5, 30
"""Failed logins from any addresses: their number, the number in a minute, and the longest gap between them."""


LEAST_SLOTS = 24
"""Slots of five minutes without which a client has no past to be compared with."""
CLIENT_PEAK_FLOOR, CLIENT_PEAK_FACTOR = 100, 5.0
"""Requests of an API by one client in five minutes, and how many times its usual number they are."""
BULK_FLOOR_BYTES, BULK_FACTOR = 500_000, 5.0
"""Bytes that a client reads or writes in five minutes, and how many times its usual number they are."""
PEAK_SHARE = 0.15
"""Share of all requests of the API, or all bytes, that it has then."""
NEWCOMERS_FACTOR, NEWCOMERS_BEYOND, NEWCOMERS_FLOOR, NEWCOMERS_BULK = 4.0, 1.5, 60, 25.0
"""The same for a client without a past: how many times the usual number of all clients, and how many times what the others have in
their busiest hours; the requests in five minutes; and how many times the others' bytes, as a nightly job is the largest anyway."""
RISES_BEYOND = 2.5
"""How many times as much as the others a client rises: if all rise, it is the time of day."""
SMALLER_BATCHES, SMALL_BATCHES_FLOOR = 5.0, 60
"""How many times smaller the batches of a producer become, and the least number of requests in five minutes."""

STEADY_SLOTS = 18
"""Slots in which a client has requests before it falls silent."""
SILENT_SLOTS, GONE_SLOTS = 3, 6
"""Slots without a request, before the next one and up to the end of the period."""
GONE_AFTER_SLOTS = 72
"""Slots that a client was there before it is gone for good; a job that runs for two hours has ended. One that comes back was there
for as long as it then is not."""
SILENCE_BEYOND = 3
"""How many times as long as any other gap they are."""
SILENT_REQUESTS = 30
"""The requests that must have been expected in that time."""
RHYTHM_RUNS = 8
"""Runs of a job, the times between which are about equal, that make a rhythm."""
ABSENT_MINUTES = 4
"""Minutes without a request to a broker: more than a planned restart takes."""
UNREAD_US, UNREAD_FETCHES = 3_600_000_000, 30
"""How long a topic has had no reader, and the number of fetches that was expected in that time."""

OPENED_A_SLOT, OPENED_ALWAYS, OPENED_SLOTS, OPENED_FLOOR = 8, 20, 12, 120
"""Connections of a client in five minutes, the same if it does so all day, how many slots this lasts, the connections in all."""
REQUESTS_OF_LEAKED = 8
"""Requests for each connection that is opened: with more, the connections are used."""
REBALANCE_GAP_MINUTES, REBALANCES_FLOOR, REBALANCING_MINUTES = 20, 8, 20
"""The most minutes between rebalances of a group, how many there are, and how long that lasts."""
STORM_ROUNDS, STORM_MINUTES = 6, 3
"""Joins of each member in a storm, and its length: a deployment of many members takes a few minutes, and few joins of each."""

CHANGES_IN_HOURS = 5
"""Hours of a day in which a principal changes the cluster, if that is its work."""
TURNS_OF_A_FIGHT = 6
"""Changes of the same, each by another principal than the one before."""
SESSION_US = 1_800_000_000
"""The most time between changes that are reported together."""
CHANGE_OVERLAP_US, CHANGED_REQUESTS, CHANGED_TOGETHER = 900_000_000, 5, 3
"""How long both versions of a client may be there, the requests of each, and the clients that are reported one by one."""
BROAD_TOPICS, BROAD_FACTOR, BROAD_SHARE = 20, 4.0, 0.3
"""Topics that a principal reads, how many times what others read, and the share of the period in which it does."""
BROAD_OF_ALL, BROAD_LEAST, BROAD_PERIOD_US = 0.5, 5, 7_200_000_000
"""Share of all topics that are read which one client reads, instead of `BROAD_TOPICS`, their least number, and the least period."""
CHANGED_FACTOR, CHANGED_SIZE, CHANGED_SLOTS, CHANGED_REQUESTS_FLOOR = 3.5, 2.5, 9, 60
"""How many times more, or less, a client does from some time on; how many times larger, or smaller, its writes are; the slots of
five minutes before and after that; and the requests that it sends more, or less."""
UNLIKE_ITSELF = 2.2
"""How many times as much, as long or as large as usual anything is, for half an hour or longer."""
EXPIRED_FLOOR, EXPIRED_SHARE = 20, 0.05
"""Records of a share group's member whose locks expired, and their share of all records that it acquired."""
UNACKNOWLEDGED_FLOOR, UNACKNOWLEDGED_US = 50, 600_000_000
"""Records that a member acquired without acknowledging any, and the time from the first to the last of them."""
ACCOUNT_KNOWN_US = 3_600_000_000
"""The time after which another program of an account, or another topic of a client, is new."""
NEW_WRITES, NEW_WRITES_OF_A_PERSON = 3, 60
"""Writes of a new account to a topic of others: the fewest, and the most that somebody makes by hand."""
MANY_NAMES, MANY_NAMES_US = 30, 1_800_000_000
"""Topics that a principal creates, or groups that it uses, and the least time in which it does: a setup is faster."""
FEWER_LEADERS, FEWER_LEADERS_MINUTES = 0.25, 40
"""The share of its usual part of all requests that a broker without leaders has at most, and how long."""
RESTLESS_ROUNDS, RESTLESS_SLOTS = 4, 6
"""Slots of five minutes in which brokers change leaders or replicas in sync, and the slots from the first to the last of them."""
SILENT_TOGETHER_MINUTES = 5
"""How long clients of several services are silent at the same time: longer than the deployment of one."""
CAUGHT_UP_FACTOR = 2.5
"""How many times as many bytes as later a reader that comes late gets on average while it catches up."""
UNREACHED_MINUTES, UNREACHED_REQUESTS = 30, 20
"""How long a client sends nothing to one of its brokers, and the number of requests that was expected there in that time."""
UNWRITTEN_HOURS, UNWRITTEN_REQUESTS = 2, 60
"""How long nobody writes to one of a topic's partitions, and the number of writes that was expected there in that time."""
SHORT_ABSENCES, SHORT_ABSENCE_GAP_MINUTES = 3, 40
"""Absences of a broker that are each too short for a finding, and the most minutes between them."""


HISTORY_DAYS = 3
"""Days of history without which nothing is compared with earlier days."""
UNLIKE_FLOOR, UNLIKE_FACTOR, UNLIKE_HOURS = 60, 3.0, 2
"""Requests of a client in an hour, how many times less or more than in any of the same hours before, and the hours in a row."""

_OF_CELLS = ("MINUTE_FLOOR", "PARTITION_FLOOR", "WRITTEN_FLOOR", "WRITTEN_PARTITIONS", "SKEWED_PARTITIONS")
CHANGEABLE = tuple(
    name for name, value in list(globals().items()) if name.isupper() and isinstance(value, int | float) and name not in _OF_CELLS
)
"""The thresholds that a file of rules may change: only findings use them, cells do not."""


@contextmanager
def changed(values: Mapping[str, float]) -> Iterator[None]:
    """Change thresholds while findings are searched in this process."""
    before = {name: globals()[name] for name in values}
    globals().update(values)
    try:
        yield
    finally:
        globals().update(before)
