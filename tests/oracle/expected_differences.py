"""Where this broker's answers differ from Apache Kafka 3.9's on purpose; docs/compatibility.md explains each.

A pattern is matched against ``scenario vN: step request path``; what it names may differ, anything else is a failure.
"""

import re
from typing import Final, NamedTuple

from twisted_kafka.config.keys import KAFKA_4_KEYS, KAFKA_4_TOPIC_KEYS, extensions


class Difference(NamedTuple):
    """Answers that differ on purpose: those at the places that ``pattern`` names, and the ``name`` they have in the document."""

    name: str
    pattern: str

    def matches(self, where: str) -> bool:
        """Whether it is the difference at a place."""
        return re.search(self.pattern, where) is not None


_KAFKA_4: Final = "|".join(map(re.escape, sorted(KAFKA_4_KEYS | KAFKA_4_TOPIC_KEYS)))

EXPECTED: tuple[Difference, ...] = (
    Difference("threads", r"^describe_configs\w* v\d+: .*\.configs\.num\.(io|network)\.threads\."),
    Difference("backlog", r"^describe_configs\w* v\d+: .*\.configs\.socket\.listen\.backlog\.size\."),
    Difference(
        "extension-keys", rf"^describe_configs v\d+: .*\.configs\.({'|'.join(re.escape(key.name) for key in extensions.KEYS)})$"
    ),
    Difference("kafka-4-keys", rf"^(describe_configs|\w*topics\w*|mutations_beyond_the_quota) v\d+: .*\.configs\.({_KAFKA_4})$"),
    Difference("both-protocols", r"^describe_configs v\d+: .*\.configs\.group\.coordinator\.rebalance\.protocols\."),
    Difference("append-linger", r"^describe_configs v\d+: .*\.configs\.group\.coordinator\.append\.linger\.ms\."),
    Difference("append-linger", r"^every_broker_key_for_a_listener v1: \d+ \S*group\.coordinator\.append\.linger\.ms=-1 $"),
    Difference("record-locks", r"^describe_configs v\d+: .*\.configs\.group\.share\.partition\.max\.record\.locks\."),
    Difference("no-zookeeper", r"^describe_configs v\d+: .*\.configs\.zookeeper\.connect\."),
    Difference(
        "one-broker-defaults", r"^describe_configs v\d+: .*\.configs\.(offsets|transaction)\.[a-z.]+\.synonyms\[1\]\.value$"
    ),
    Difference("topic-without-name-or-id", r"^metadata_bad v12: 7 .*\.error_code$"),
    Difference("assigned-brokers", r"^topics_with_two_mistakes v7: (26|28|29) .*\.topics\[0\]\."),
    Difference("unknown-codec", r"^produce_lying_batches v\d+: 5 .*\.(error_code|log_start_offset)$"),
    Difference("down-conversion-in-full", r"^(fetch_good v[23]: (0|5)|fetch_bad v[23]: 3) .*\.records$"),
    Difference("down-conversion-in-full", r"^fetch_compressed v[0-3]: 0 .*\.records$"),
    Difference("unreadable-records", r"^produce_lying_batches v\d+: 11 .*\.(error_code|log_start_offset)$"),
    Difference("negative-epoch", r"^produce_negative_epochs v\d+: (1|5) .*\.(error_code|log_start_offset)$"),
    Difference("not-a-number", r"^topics_of_strange_numbers v\d+: [01] "),
    Difference("offset-deltas", r"^produce_lying_offsets v\d+: 1 .*\.records\[0\]\.records\["),
    Difference("transaction-start", r"^(transactional_producers|producers_that_continue) v\d+: \d+ described \[4\]$"),
    Difference("future-epoch", r"^transactions_that_are_verified v\d+: 8 ProduceRequest .*\.(error_code|log_start_offset)$"),
    Difference("match-type", r"^filters v\d+: 5 .*\.error_code$"),
    Difference("isolation-level", r"^fetch_bad v[4-8]: 4 .*\.error_code$"),
    Difference("isolation-level", r"^fetch_bad v(9|1\d): 6 .*\.error_code$"),
    Difference("refused-join", r"^join_group v\d+: (9|10) DescribeGroupsRequest .*\.group_state$"),
    Difference("supported-features", r"^features v4: 0 supported "),
    Difference("invalid-utf8", r"^text_that_is_none v\d+: 0 "),
    Difference("repeated-entries", r"^several_partitions_at_once v\d+: [23] .*\.responses(\[0\]\.partition_responses)?$"),
    Difference("repeated-names", r"^describe_groups v\d+: 4 DescribeGroupsRequest .*\.groups$"),
    Difference("repeated-names", r"^describe_transactions v0: 5 DescribeTransactionsRequest .*\.transaction_states$"),
    Difference("repeated-names", r"^offset_fetches_with_two_mistakes v[89]: \d+ OffsetFetchRequest .*\.groups$"),
    Difference("newer-versions", r"^api_versions_bad v\d+: \d+ .*\.api_keys\[0\]\.max_version$"),
    Difference("config-operations", r"^incremental_alter_configs_of_topics v\d+: (36|37) .*\.error_code$"),
    Difference("cleaner-load-factor", r"^rules_between_broker_keys v1: \d+ \{'log\.cleaner\.io\.buffer\.load\.factor': '2\.0'\}"),
    Difference("election-type", r"^elect_leaders v\d+: 14 .*\.error_code$"),
    Difference("offsets-without-a-group", r"^offset_fetch v0: 3 .*\.error_code$"),
    Difference("description-without-a-name", r"^consumer_heartbeats_bad v0: \d+ described"),
    Difference("description-without-a-name", r"^consumer_group_describe v0: \d+ .*error_code$"),
    Difference("several-descriptions", r"^consumer_group_describe v0: \d+ .*\.groups$"),
)

DENIED: tuple[Difference, ...] = (
    Difference("own-place", r"^describe-log-dirs (super|allowed): .*\.(log_dir|usable_bytes)$"),
    Difference("invalid-acls", r"^guarded_acls_bad (8|9|1[0-2]|17|19|20): CreateAclsRequest .*\.error_code$"),
    Difference("kafka-4-keys", rf"^create-topics .*: CreateTopicsRequest v\d+ .*\.configs\.({_KAFKA_4})$"),
    Difference("request-in-a-message", r"^describe-acls (nobody|denied .*): .*\.error_message"),
)
"""Differences in who may do what; the places are ``sample standing: request path``."""

NEWER = {
    0: 13,
    1: 18,
    2: 11,
    3: 13,
    8: 10,
    9: 10,
    15: 6,
    18: 5,
    26: 5,
    27: 2,
    28: 6,
    35: 5,
    42: 3,
    45: 1,
    57: 2,
    60: 2,
    66: 2,
    68: 1,
    69: 1,
    74: 1,
    75: 0,
}
"""APIs of which more is served than by Apache Kafka 3.9 with ZooKeeper, by key: the last version."""


def reason(where: str) -> Difference | None:
    """Return why a difference at this place is expected, or None."""
    return next((difference for difference in EXPECTED if re.search(difference.pattern, where)), None)
