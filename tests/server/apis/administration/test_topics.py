from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.server.apis.topic_harness import OneBroker
from twisted_kafka.admin.topic_orders import log_topic_change
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.protocol.errors import ErrorCode, InvalidRequestError
from twisted_kafka.protocol.messages.administration.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OneBroker]:
    broker = OneBroker(tmp_path, log_segment_bytes="2000000")
    yield broker
    broker.store.close()


def create(broker: OneBroker, version: int, *topics: Any, **options: Any) -> list[CreatableTopicResult]:
    return broker.ask(CreateTopicsRequest(topics=list(topics), timeout_ms=1000, **options), version).topics


def topic(name: str, partitions: int = 1, factor: int = 1, **options: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **options)


@pytest.mark.parametrize("version", range(8))
def test_creation(broker: OneBroker, version: int) -> None:
    (made, twice, _, bad) = create(broker, version, topic("t", 2), topic("d"), topic("d"), topic("b/"))
    assert (made.name, made.error_code) == ("t", 0)
    assert (twice.error_code, bad.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_TOPIC_EXCEPTION)
    assert bool(bad.error_message) == (version >= 1)
    assert (made.num_partitions, made.replication_factor) == ((2, 1) if version >= 5 else (-1, -1))
    assert (made.topic_id != bytes(16)) == (version >= 7)
    assert len(made.configs) == (38 if version >= 5 else 0)
    assert broker.cache.partition_count("t") == 2


def test_creation_tells_the_effective_configs(broker: OneBroker) -> None:
    made = create(broker, 7, topic("t"))[0]
    by_name = {config.name: (config.value, config.config_source, config.read_only) for config in made.configs}
    assert by_name["segment.bytes"] == ("2000000", 4, False)
    assert by_name["retention.ms"] == ("604800000", 5, False)


def test_creation_with_assignments_and_validation(broker: OneBroker) -> None:
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=[1]) for index in range(3)]
    made = create(broker, 7, topic("t", -1, -1, assignments=assignments), validate_only=True)[0]
    assert (made.error_code, made.num_partitions, made.topic_id) == (0, 3, bytes(16))
    assert not broker.cache.contains("t")


def test_failed_creations_tell_no_counts(broker: OneBroker) -> None:
    made = broker.ask(CreateTopicsRequest(topics=[topic("t")], timeout_ms=0), 7).topics[0]
    assert (made.error_code, made.num_partitions, made.replication_factor, made.configs) == (
        ErrorCode.REQUEST_TIMED_OUT,
        -1,
        -1,
        [],
    )
    assert made.topic_id != bytes(16)
    assert broker.errors[-1] == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("version", range(6))
def test_deletion_by_name(broker: OneBroker, version: int) -> None:
    broker.create("t")
    answers = broker.ask(DeleteTopicsRequest(topic_names=["t", "nope"], timeout_ms=1000), version).responses
    assert [(each.name, each.error_code) for each in answers] == [("t", 0), ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert not broker.cache.contains("t")


def test_deletion_by_id_or_name_but_not_both(broker: OneBroker) -> None:
    by_id, by_name, kept = broker.create("by-id"), broker.create("by-name"), broker.create("kept")
    both = DeleteTopicState(name="kept", topic_id=kept)
    with pytest.raises(InvalidRequestError):
        broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="by-name"), both], timeout_ms=1000), 6)
    wanted = [
        DeleteTopicState(topic_id=by_id),
        DeleteTopicState(name="by-name"),
        DeleteTopicState(topic_id=b"?" * 16),
        DeleteTopicState(name="by-name"),
    ]
    answers = broker.ask(DeleteTopicsRequest(topics=wanted, timeout_ms=1000), 6).responses
    assert [(each.name, each.topic_id, each.error_code) for each in answers] == [
        ("by-id", by_id, 0),
        ("by-name", bytes(16), 0),
        (None, b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
        ("by-name", bytes(16), 0),
    ]
    assert list(broker.cache.topic_names()) == ["kept"]
    assert by_name


@pytest.mark.parametrize("version", range(4))
def test_growth(broker: OneBroker, version: int) -> None:
    broker.create("t")
    wanted = [
        CreatePartitionsTopic(name="t", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[1])] * 2),
        CreatePartitionsTopic(name="nope", count=3, assignments=None),
    ]
    results = broker.ask(CreatePartitionsRequest(topics=wanted, timeout_ms=1000), version).results
    assert [(each.name, each.error_code) for each in results] == [("t", 0), ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert broker.cache.partition_count("t") == 3


def test_growth_of_a_topic_that_is_named_twice_is_refused_once(broker: OneBroker) -> None:
    broker.create("t")
    wanted = [CreatePartitionsTopic(name=name, count=3, assignments=None) for name in ("t", "nope", "t")]
    results = broker.ask(CreatePartitionsRequest(topics=wanted, timeout_ms=1000), 3).results
    expected = [("t", ErrorCode.INVALID_REQUEST), ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert [(each.name, each.error_code) for each in results] == expected


def limited(broker: OneBroker, rate: float) -> None:
    """Let clients create and delete so many partitions a second, and eleven times as many at once."""
    broker.quotas.update_client("<default>", {"controller_mutation_rate": str(rate)})


def test_partitions_are_created_and_deleted_as_the_quota_allows(broker: OneBroker) -> None:
    limited(broker, 1)
    assert [each.error_code for each in create(broker, 6, topic("a", 5), topic("b", 8), topic("c"))] == [0, 0, 89]
    assert sorted(broker.cache.snapshot.topics) == ["a", "b"]
    assert broker.throttle_ms == 2000
    grown = broker.ask(
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=6, assignments=None)], timeout_ms=1000), 3
    )
    assert (grown.results[0].error_code, grown.results[0].error_message) == (89, "The throttling quota has been exceeded.")
    assert broker.throttle_ms == 2000
    deleted = broker.ask(DeleteTopicsRequest(topic_names=["a", "unknown"], timeout_ms=1000), 5)
    assert [each.error_code for each in deleted.responses] == [89, 3]
    assert broker.throttle_ms == 2000
    broker.clock.advance_ms(2000)
    deleted = broker.ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000), 5)
    assert [each.error_code for each in deleted.responses] == [0]
    assert broker.throttle_ms == 0
    assert create(broker, 6, topic("d"))[0].error_code == 89
    assert broker.throttle_ms == 5000


def test_old_versions_are_not_refused_but_wait(broker: OneBroker) -> None:
    limited(broker, 1)
    assert create(broker, 5, topic("a", 12))[0].error_code == 0
    assert broker.throttle_ms == 1000
    grown = broker.ask(
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=14, assignments=None)], timeout_ms=1000), 2
    )
    assert (grown.results[0].error_code, broker.throttle_ms) == (0, 3000)
    deleted = broker.ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1000), 4)
    assert (deleted.responses[0].error_code, broker.throttle_ms) == (0, 17_000)


def test_what_is_only_validated_costs_nothing(broker: OneBroker) -> None:
    limited(broker, 1)
    create(broker, 6, topic("a", 11))
    assert create(broker, 6, topic("b", 50), validate_only=True)[0].error_code == 0
    more = CreatePartitionsTopic(name="a", count=30, assignments=None)
    request = CreatePartitionsRequest(topics=[more], timeout_ms=1000, validate_only=True)
    assert broker.ask(request, 3).results[0].error_code == 0
    assert create(broker, 6, topic("a", 3))[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert broker.throttle_ms == 0


def test_topics_that_are_created_automatically_cost_too(broker: OneBroker) -> None:
    limited(broker, 1)
    create(broker, 6, topic("a", 12))
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="b")], allow_auto_topic_creation=True)
    assert broker.ask(asked, 8).topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert create(broker, 6, topic("c"))[0].error_code == 89
    assert broker.throttle_ms == 2000


def test_the_log_says_who_changed_which_topics(broker: OneBroker) -> None:
    with capturedLogs() as events:
        create(broker, 7, topic("t", 2), topic("u"), topic("b/"))
        create(broker, 7, topic("only-checked"), validate_only=True)
        create(broker, 7, topic("t"))
        broker.ask(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="u", count=2, assignments=None)], timeout_ms=1000), 3)
        broker.ask(DeleteTopicsRequest(topic_names=["t", "nope"], timeout_ms=1000), 5)
        asked = [MetadataRequestTopic(name="used"), MetadataRequestTopic(name="u")]
        broker.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=True), 4)
        broker.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=True), 4)
    who = "for User:ANONYMOUS, client test at 127.0.0.1"
    assert [formatEvent(event) for event in events if "principal" in event] == [
        f"Created topics t, u {who}",
        f"Added partitions to topic u {who}",
        f"Deleted topic t {who}",
        f"Created topic used {who}",
    ]


def test_a_client_cannot_fill_the_log() -> None:
    connection = ConnectionInfo("c", "PLAINTEXT", "PLAINTEXT", "127.0.0.1")
    context = RequestContext(19, 7, 1, "y" * 30_000, connection)
    with capturedLogs() as events:
        log_topic_change(context, "Created", [f"t{number}" for number in range(10_000)])
        log_topic_change(context, "Created", [])
    (line,) = map(formatEvent, events)
    assert line.startswith("Created topics t0, t1, ")
    assert "t19 and 9980 more for User:ANONYMOUS, client yyy" in line
    assert len(line) < 1000
