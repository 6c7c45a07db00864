import random
from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.support.controller_cluster import Cluster
from twisted_kafka.admin.placement import ReplicaPlacement, assign_replicas
from twisted_kafka.admin.topic_orders import NewPartitions, NewTopic, TopicResult
from twisted_kafka.admin.topic_waits import TopicWaits
from twisted_kafka.admin.topics import TopicManager
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.store import StoreDisconnectedError
from twisted_kafka.metadata.znodes import ConfigNode, TopicNode
from twisted_kafka.protocol.errors import ErrorCode, InvalidReplicationFactorError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.timing.timer import Timer


class Topics:
    def __init__(self, cluster: Cluster, *brokers: Any, **properties: Any) -> None:
        self.cluster = cluster
        if properties:
            cluster.restart(**properties)
        cluster.start(*brokers)
        self.timer = Timer(cluster.clock)
        waits = TopicWaits(cluster.brokers.cache, cluster.clock, self.timer)
        cache = cluster.brokers.cache
        placement = ReplicaPlacement(cache, randrange=lambda count: 0)
        self.manager = TopicManager(cluster.config, cluster.store, cache, cluster.controller, waits, placement)

    def create(self, *topics: Any, timeout_ms: int = 1000, **options: Any) -> list[TopicResult]:
        future = self.manager.create_topics(topics, timeout_ms, **options)
        self.cluster.pump()
        return future.result(0)

    def delete(self, *topics: Any, timeout_ms: int = 1000) -> list[TopicResult]:
        future = self.manager.delete_topics(topics, timeout_ms)
        self.cluster.pump()
        return future.result(0)

    def grow(self, *topics: Any, timeout_ms: int = 1000, **options: Any) -> list[TopicResult]:
        future = self.manager.create_partitions(topics, timeout_ms, **options)
        self.cluster.pump()
        return future.result(0)


@pytest.fixture
def topics(cluster: Cluster) -> Topics:
    return Topics(cluster, 1, 2)


def errors(results: list[TopicResult]) -> list[ErrorCode]:
    return [result.error for result in results]


def test_a_topic_is_there_when_the_answer_comes(topics: Topics) -> None:
    future = topics.manager.create_topics([NewTopic("t", 3, 2, configs={"retention.ms": "5"})], 1000)
    assert not future.done()
    topics.cluster.pump()
    (result,) = future.result(0)
    assert (result.error, result.num_partitions, result.replication_factor) == (ErrorCode.NONE, 3, 2)
    cache = topics.cluster.brokers.cache
    assert cache.topic_id("t") == result.topic_id
    assert [state.replicas for state in cache.partitions("t")] == [[1, 2], [2, 1], [1, 2]]
    assert topics.cluster.store.get("/config/topics/t")[0] == b'{"version":1,"config":{"retention.ms":"5"}}'
    assert topics.cluster.configs.topic_config("t") == {"retention.ms": "5"}


def test_defaults_fill_in_what_is_minus_one(cluster: Cluster) -> None:
    topics = Topics(cluster, 1, 2, num_partitions="3", default_replication_factor="2")
    (result,) = topics.create(NewTopic("t"))
    assert (result.num_partitions, result.replication_factor) == (3, 2)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "\u00e9", "x" * 250])
def test_names_that_a_topic_cannot_have(topics: Topics, name: str) -> None:
    assert errors(topics.create(NewTopic(name, 1, 1))) == [ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_names_that_metrics_could_not_tell_apart(topics: Topics) -> None:
    assert errors(topics.create(NewTopic("a.b_c", 1, 1), NewTopic("a_b.c", 1, 1))) == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert errors(topics.create(NewTopic("a_b_c", 1, 1), NewTopic("a-b", 1, 1))) == [ErrorCode.INVALID_TOPIC_EXCEPTION, 0]


def test_a_name_is_free_again_when_the_one_like_it_is_deleted(topics: Topics) -> None:
    topics.create(NewTopic("a.b", 1, 1))
    assert errors(topics.create(NewTopic("a_b", 1, 1))) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    topics.delete("a.b")
    assert errors(topics.create(NewTopic("a_b", 1, 1), validate_only=True)) == [0]
    assert errors(topics.create(NewTopic("a_b", 1, 1))) == [0]


def test_names_like_those_of_topics_that_are_on_their_way_or_were_there_before(cluster: Cluster) -> None:
    cluster.make_topic("be.fore", [1])
    topics = Topics(cluster, 1)
    topics.manager.create_topics([NewTopic("a.b", 1, 1)], 1000)
    assert errors(topics.create(NewTopic("a_b", 1, 1), NewTopic("be_fore", 1, 1))) == [ErrorCode.INVALID_TOPIC_EXCEPTION] * 2


def test_a_new_topic_is_compared_with_few_others(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    topics.create(*[NewTopic(f"t_{number}", 1, 1) for number in range(50)])
    store = topics.cluster.store
    get_many, children, read, listed = store.get_many, store.children, [], []
    monkeypatch.setattr(store, "get_many", lambda paths: (read.extend(paths), get_many(paths))[1])
    monkeypatch.setattr(store, "children", lambda path: (listed.append(path), children(path))[1])
    assert errors(topics.create(NewTopic("t_new", 1, 1), NewTopic("t_1", 1, 1))) == [0, ErrorCode.TOPIC_ALREADY_EXISTS]
    assert znodes.TOPICS not in listed
    assert len(read) < 10


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (NewTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, -1, {0: [1]}), ErrorCode.INVALID_REQUEST),
        (NewTopic("t", -1, 1, {0: [1]}), ErrorCode.INVALID_REQUEST),
        (NewTopic("t", assignments={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments={0: [1], 1: [1, 2]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments={0: [7]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", 1, 1, configs={"nope": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, 1, configs={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, 1, configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, 1, configs={"remote.storage.enable": "true"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("__cluster_metadata", 1, 1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_made_is_refused_alone(topics: Topics, topic: NewTopic, error: ErrorCode) -> None:
    results = topics.create(topic, NewTopic("fine", 1, 1))
    assert errors(results) == [error, ErrorCode.NONE]
    assert results[0].message
    assert list(topics.cluster.brokers.cache.topic_names()) == ["fine"]


def test_of_two_mistakes_the_one_is_named_that_kafka_looks_for_first(topics: Topics) -> None:
    topics.create(NewTopic("t.u", 1, 1))
    for topic, error in (
        (NewTopic("t.u", 0, 1, configs={"retention.ms": None}), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("a/b", 0, 1, configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (NewTopic("a/b", 1, 1, {0: [1]}), ErrorCode.INVALID_REQUEST),
        (NewTopic("a/b", 0, 9), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t_u", 1, 9), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t_u", assignments={1: [1]}), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("new", assignments={1: [1]}, configs={"nope": "1"}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("new", assignments={0: [9]}, configs={"nope": "1"}), ErrorCode.INVALID_CONFIG),
    ):
        assert errors(topics.create(topic, validate_only=True)) == [error], topic


def test_messages_have_the_terms_that_scripts_search_for(topics: Topics) -> None:
    topics.create(NewTopic("t", 1, 1))
    for topic, term in (
        (NewTopic("t", 1, 1), "already exists"),
        (NewTopic("u", 1, 9), "Replication factor: 9 larger than available brokers: 2"),
        (NewTopic("u", 1, 0), "must be larger than 0"),
        (NewTopic("u", 0, 1), "must be larger than 0"),
        (NewTopic("u/", 1, 1), "topic name is invalid"),
        (NewTopic("u", assignments={0: [9]}), "Unknown brokers in replica assignment: 9"),
        (NewTopic("u", assignments={0: [1, 1]}), "Duplicate brokers"),
        (NewTopic("u", 1, 1, configs={"nope": "1"}), "Unknown topic config name: nope"),
    ):
        (result,) = topics.create(topic)
        assert term in result.message, topic
    (result,) = topics.grow(NewPartitions("nobody", 2))
    assert "does not exist" in result.message


def test_a_request_cannot_use_up_the_memory(topics: Topics) -> None:
    for count in (10_001, 2**31 - 1):
        assert errors(topics.create(NewTopic("t", count, 1), NewTopic("u", -count, 1))) == [ErrorCode.POLICY_VIOLATION] * 2
    assert errors(topics.create(*[NewTopic(f"t{number}", 2**30, 1) for number in range(5)], validate_only=True)) == [44] * 5
    assert topics.cluster.store.children("/brokers/topics") == []


def test_a_topic_named_twice_and_one_that_exists(topics: Topics) -> None:
    assert errors(topics.create(NewTopic("t", 1, 1), NewTopic("d", 1, 1), NewTopic("d", 1, 1))) == [0, 42, 42]
    assert errors(topics.create(NewTopic("t", 1, 1))) == [ErrorCode.TOPIC_ALREADY_EXISTS]


def test_validation_alone_makes_nothing(topics: Topics) -> None:
    (result, bad) = topics.create(NewTopic("t", 2, 1), NewTopic("u", 0, 1), validate_only=True)
    assert (result.error, result.num_partitions, result.topic_id) == (0, 2, bytes(16))
    assert bad.error == ErrorCode.INVALID_PARTITIONS
    assert topics.cluster.store.children("/brokers/topics") == []


def test_assignments_are_taken_as_they_are(topics: Topics) -> None:
    (result,) = topics.create(NewTopic("t", assignments={0: [2, 1], 1: [1, 2]}))
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    assert [state.leader for state in topics.cluster.brokers.cache.partitions("t")] == [2, 1]


def test_no_time_to_wait_is_a_timeout_but_the_topic_is_made(topics: Topics) -> None:
    future = topics.manager.create_topics([NewTopic("t", 1, 1)], 0)
    assert errors(future.result(0)) == [ErrorCode.REQUEST_TIMED_OUT]
    topics.cluster.pump()
    assert topics.cluster.brokers.cache.contains("t")


def test_time_runs_out(topics: Topics) -> None:
    future = topics.manager.create_topics([NewTopic("t", 1, 1), NewTopic("bad/", 1, 1)], 500)
    topics.cluster.clock.advance_ms(501)
    topics.timer.expire_due()
    assert errors(future.result(0)) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_config_left_over_is_replaced(topics: Topics) -> None:
    topics.cluster.store.create("/config/topics/t", ConfigNode({"retention.ms": "1"}).encode())
    assert errors(topics.create(NewTopic("t", 1, 1))) == [0]
    assert topics.cluster.configs.topic_config("t") == {}


def test_only_the_controller_does_it(topics: Topics) -> None:
    topics.cluster.controller.active_controller_id = 2
    assert errors(topics.create(NewTopic("t", 1, 1))) == [ErrorCode.NOT_CONTROLLER]
    assert errors(topics.delete("t")) == [ErrorCode.NOT_CONTROLLER]
    assert errors(topics.grow(NewPartitions("t", 2))) == [ErrorCode.NOT_CONTROLLER]


def test_any_broker_creates_what_clients_use(topics: Topics) -> None:
    controller = topics.cluster.controller
    controller.active_controller_id = 2
    assert {each.name: each.error for each in topics.manager.auto_create(["t", "bad/"])} == {
        "t": ErrorCode.LEADER_NOT_AVAILABLE,
        "bad/": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    topics.manager.create_internal_topic("__consumer_offsets")
    controller.active_controller_id = 1  # the controller hears of them, wherever it is
    topics.cluster.pump()
    assert sorted(topics.cluster.brokers.cache.topic_names()) == ["__consumer_offsets", "t"]


def test_internal_topics_get_their_own_settings(cluster: Cluster) -> None:
    topics = Topics(cluster, offsets_topic_num_partitions="3", transaction_state_log_num_partitions="2")
    topics.manager.create_internal_topic("__consumer_offsets")
    topics.manager.create_internal_topic("__consumer_offsets")
    topics.manager.create_internal_topic("__transaction_state")
    cluster.pump()
    assert cluster.brokers.cache.partition_count("__consumer_offsets") == 3
    assert cluster.brokers.cache.partition_count("__transaction_state") == 2
    assert cluster.store.get("/config/topics/__consumer_offsets")[0] == (
        b'{"version":1,"config":{"compression.type":"producer","cleanup.policy":"compact","segment.bytes":"104857600"}}'
    )
    assert list(cluster.configs.topic_config("__transaction_state").items()) == [
        ("compression.type", "uncompressed"),
        ("cleanup.policy", "compact"),
        ("min.insync.replicas", "1"),
        ("segment.bytes", "104857600"),
        ("unclean.leader.election.enable", "false"),
    ]


def test_an_internal_topic_that_cannot_be_made_is_one_line_however_often_it_is_asked_for(cluster: Cluster) -> None:
    topics = Topics(cluster, 1, offsets_topic_replication_factor="3")
    with capturedLogs() as events:
        for _ in range(3):
            topics.manager.create_internal_topic("__consumer_offsets")
    (line,) = map(formatEvent, events)
    reason = "INVALID_REPLICATION_FACTOR: Replication factor: 3 larger than available brokers: 1."
    assert line == f"Topic __consumer_offsets cannot be created: {reason}"


def test_topics_that_are_asked_about_come_by_themselves(topics: Topics) -> None:
    answers = {each.name: each.error for each in topics.manager.auto_create(["a.b", "a_b", "c"])}
    assert answers == {
        "a.b": ErrorCode.LEADER_NOT_AVAILABLE,
        "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "c": ErrorCode.LEADER_NOT_AVAILABLE,
    }
    topics.cluster.pump()
    assert sorted(topics.cluster.brokers.cache.topic_names()) == ["a.b", "c"]


def test_clients_try_again_while_the_store_is_silent(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer with transactions gives up if a request for its coordinator timed out, but not if there is none yet."""

    def silent(*_: object) -> None:
        raise StoreDisconnectedError("no answer within 6 s")

    monkeypatch.setattr(topics.cluster.store, "get_many", silent)
    assert [each.error for each in topics.manager.auto_create(["t"])] == [ErrorCode.LEADER_NOT_AVAILABLE]
    with capturedLogs() as events:
        topics.manager.create_internal_topic("__transaction_state")
    assert not events


def test_deleted_topics_are_gone_when_the_answer_comes(topics: Topics) -> None:
    topics.create(NewTopic("t", 1, 1), NewTopic("u", 1, 1))
    future = topics.manager.delete_topics(["t", "nope", "t"], 1000)
    assert not future.done()
    topics.cluster.pump()
    assert errors(future.result(0)) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert topics.cluster.store.children("/brokers/topics") == ["u"]
    assert errors(topics.create(NewTopic("t", 1, 1))) == [0]


def test_a_deletion_that_is_not_waited_for(topics: Topics) -> None:
    topics.create(NewTopic("t", 1, 1))
    assert errors(topics.delete("t", timeout_ms=0)) == [ErrorCode.REQUEST_TIMED_OUT]
    assert not topics.cluster.brokers.cache.contains("t")


def test_deletion_can_be_forbidden(cluster: Cluster) -> None:
    topics = Topics(cluster, delete_topic_enable="false")
    topics.create(NewTopic("t", 1, 1))
    assert errors(topics.delete("t")) == [ErrorCode.TOPIC_DELETION_DISABLED]


def test_more_partitions_continue_the_round(topics: Topics) -> None:
    topics.create(NewTopic("t", 1, 1))
    assert errors(topics.grow(NewPartitions("t", 4))) == [0]
    assert [state.replicas for state in topics.cluster.brokers.cache.partitions("t")] == [[1], [2], [1], [2]]
    assert errors(topics.grow(NewPartitions("t", 5, [[2]]))) == [0]
    assert topics.cluster.brokers.cache.partition(TopicPartition("t", 4)).leader == 2
    node = TopicNode.decode(topics.cluster.store.get(znodes.topic_path("t"))[0])
    assert list(node.partitions) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("order", "error"),
    [
        (NewPartitions("t", 1), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("t", 2), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("t", -1), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("nope", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (NewPartitions("", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (NewPartitions("a/b", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (NewPartitions("t/partitions/0/state", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (NewPartitions("t", 2**31 - 1), ErrorCode.POLICY_VIOLATION),
        (NewPartitions("t", 3, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 4, [[1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 3, [[7]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 3, [[1, 1]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 3, [[1, 2]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 3, [[]]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_growth_that_is_refused(topics: Topics, order: NewPartitions, error: ErrorCode) -> None:
    topics.create(NewTopic("t", 2, 1))
    assert errors(topics.grow(order)) == [error]
    assert topics.cluster.brokers.cache.partition_count("t") == 2


def test_a_topic_whose_node_is_damaged_keeps_no_other_from_growing(topics: Topics) -> None:
    for name in ("t", "u", "v"):
        topics.create(NewTopic(name, 1, 1))
    topics.cluster.store.set(znodes.topic_path("t"), b"damaged")
    topics.cluster.store.set(znodes.topic_path("u"), TopicNode(partitions={1: [1]}, topic_id=b"u" * 16).encode())
    orders = [NewPartitions(name, 2) for name in ("t", "u", "v")]
    assert errors(topics.grow(*orders)) == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR, 0]


def test_growth_named_twice_or_only_checked(topics: Topics) -> None:
    topics.create(NewTopic("t", 1, 1))
    assert errors(topics.grow(NewPartitions("t", 2), NewPartitions("t", 3))) == [42]
    assert errors(topics.grow(NewPartitions("t", 2), validate_only=True)) == [0]
    assert topics.cluster.brokers.cache.partition_count("t") == 1


def test_replicas_are_spread_evenly() -> None:
    for brokers, factor in ((3, 3), (5, 3), (4, 2), (1, 1)):
        start, shift = random.randrange(brokers), random.randrange(brokers)
        assigned = assign_replicas(range(brokers), brokers * 4, factor, start_index=start, shift=shift)
        for column in range(factor):
            counts = [sum(replicas[column] == broker for replicas in assigned.values()) for broker in range(brokers)]
            assert counts == [4] * brokers or column > 0
        assert all(len(set(replicas)) == factor for replicas in assigned.values())


def test_the_assignment_is_the_one_of_kafkas_documentation() -> None:
    # Five brokers, ten partitions, three replicas: the example that describes Kafka's algorithm.
    assigned = assign_replicas(range(5), 10, 3, start_index=0, shift=0)
    assert [assigned[index] for index in (0, 1, 4, 5, 9)] == [[0, 1, 2], [1, 2, 3], [4, 0, 1], [0, 2, 3], [4, 1, 2]]
    with pytest.raises(InvalidReplicationFactorError):
        assign_replicas([], 1, 1, start_index=0, shift=0)


def test_new_partitions_are_bounded_for_all_topics_of_a_request(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    topics.create(*(NewTopic(name, 1, 1) for name in "abc"))
    monkeypatch.setattr("twisted_kafka.admin.topics.MAX_NEW_PARTITIONS", 5)
    grown = [NewPartitions("a", 4), NewPartitions("b", 4), NewPartitions("c", 3)]
    assert errors(topics.grow(*grown, validate_only=True)) == [0, ErrorCode.POLICY_VIOLATION, 0]
    assert errors(topics.grow(*grown)) == [0, ErrorCode.POLICY_VIOLATION, 0]
