from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.server.apis.topic_harness import OneBroker
from tests.support.traced_memory import traced_peak_bytes
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.protocol.errors import ErrorCode, InvalidRequestError
from twisted_kafka.protocol.messages.cluster import DescribeClusterRequest
from twisted_kafka.protocol.messages.inter_broker import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from twisted_kafka.protocol.messages.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    TopicRequest,
)

NOT_ASKED = -(2**31)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OneBroker]:
    broker = OneBroker(tmp_path)
    yield broker
    broker.store.close()


def ask(broker: OneBroker, version: int, *names: Any, ids: Sequence[Any] = (), listener: str = "PLAINTEXT", **options: Any) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names] + [MetadataRequestTopic(name=None, topic_id=each) for each in ids]
    return broker.ask(MetadataRequest(topics=topics, **options), version, listener)


def errors(response: MetadataResponse) -> list[tuple[str, int] | tuple[None, int]]:
    return [(topic.name, topic.error_code) for topic in response.topics]


@pytest.mark.parametrize("version", range(14))
def test_every_version_tells_brokers_topics_and_leaders(broker: OneBroker, version: int) -> None:
    topic_id = broker.create("t", 2)
    response = ask(broker, version, "t")
    assert [(node.node_id, node.host, node.port) for node in response.brokers] == [(1, "in", 9092)]
    assert response.brokers[0].rack == ("r" if version >= 1 else None)
    assert response.cluster_id == ("a-cluster" if version >= 2 else None)
    assert response.controller_id == (1 if version >= 1 else -1)
    (topic,) = response.topics
    assert topic.topic_id == (topic_id if version >= 10 else bytes(16))
    assert [(each.partition_index, each.leader_id, each.replica_nodes, each.isr_nodes) for each in topic.partitions] == [
        (0, 1, [1], [1]),
        (1, 1, [1], [1]),
    ]
    assert topic.partitions[0].leader_epoch == (0 if version >= 7 else -1)
    assert topic.topic_authorized_operations == response.cluster_authorized_operations == NOT_ASKED


def test_all_topics_are_asked_for_by_nothing_in_version_0_and_by_null_later(broker: OneBroker) -> None:
    broker.create("t")
    assert len(ask(broker, 0).topics) == 1
    for version in (1, 9, 12):
        assert ask(broker, version).topics == []
        assert len(broker.ask(MetadataRequest(topics=None), version).topics) == 1


def test_each_listener_sees_its_own_addresses(broker: OneBroker) -> None:
    assert ask(broker, 12, listener="OUT").brokers[0].port == 9093


def test_operations_without_an_authorizer_are_all(broker: OneBroker) -> None:
    broker.create("t")
    options = {"include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    response = ask(broker, 8, "t", "nope", allow_auto_topic_creation=False, **options)  # type: ignore[arg-type]
    assert response.cluster_authorized_operations == 8096
    assert [topic.topic_authorized_operations for topic in response.topics] == [3576, 3576]
    assert ask(broker, 8, "t").topics[0].topic_authorized_operations == NOT_ASKED


def test_a_missing_topic_is_made_when_it_may_be(broker: OneBroker) -> None:
    assert errors(ask(broker, 12, "t", allow_auto_topic_creation=False)) == [("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert errors(ask(broker, 12, "t")) == [("t", ErrorCode.LEADER_NOT_AVAILABLE)]
    assert broker.errors[-1] == ErrorCode.LEADER_NOT_AVAILABLE
    assert errors(ask(broker, 12, "t")) == [("t", 0)]
    # Before version 4 nobody can say that it must not be made.
    assert errors(ask(broker, 1, "u")) == [("u", ErrorCode.LEADER_NOT_AVAILABLE)]


def test_creation_can_be_switched_off(tmp_path: Path) -> None:
    broker = OneBroker(tmp_path, auto_create_topics_enable="false")
    assert errors(ask(broker, 12, "t")) == [("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    broker.store.close()


def test_internal_topics_are_marked_and_made_with_their_own_partitions(broker: OneBroker) -> None:
    topic = ask(broker, 12, "__consumer_offsets").topics[0]
    assert (topic.error_code, topic.is_internal) == (ErrorCode.LEADER_NOT_AVAILABLE, True)
    topic = ask(broker, 12, "__consumer_offsets").topics[0]
    assert (len(topic.partitions), topic.is_internal) == (4, True)
    broker.create("__share_group_state")
    assert [topic.is_internal for topic in ask(broker, 12, "__share_group_state", "plain").topics] == [True, False]


def test_known_topics_come_first_and_everything_once(broker: OneBroker) -> None:
    broker.create("known")
    response = ask(broker, 1, "new", "bad/name", "known", "new", "", "x" * 250)
    assert errors(response) == [
        ("known", 0),
        ("new", ErrorCode.LEADER_NOT_AVAILABLE),
        ("bad/name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]


def test_topics_by_id(broker: OneBroker) -> None:
    topic_id = broker.create("t")
    response = ask(broker, 12, "ignored", ids=[topic_id, b"?" * 16])
    assert errors(response) == [("t", 0), (None, ErrorCode.UNKNOWN_TOPIC_ID)]
    with pytest.raises(InvalidRequestError):
        broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)]), 10)
    with pytest.raises(InvalidRequestError):
        ask(broker, 12, ids=[bytes(16)])


def test_the_answer_follows_the_cluster(broker: OneBroker) -> None:
    assert errors(ask(broker, 12, "t", allow_auto_topic_creation=False)) == [("t", 3)]
    broker.create("t")
    assert errors(ask(broker, 12, "t", allow_auto_topic_creation=False)) == [("t", 0)]
    first, second = (broker.apis[3].handler(context(), MetadataRequest(topics=None)) for _ in range(2))
    assert first is second


def context(version: int = 12) -> RequestContext:
    from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext

    return RequestContext(3, version, 1, None, ConnectionInfo("c", "PLAINTEXT", "PLAINTEXT", "h"))


def cluster_with(
    broker: OneBroker,
    leader: int,
    *,
    alive: tuple[int, ...] = (1,),
    replicas: tuple[int, ...] = (1, 2),
    isr: tuple[int, ...] = (1, 2),
) -> None:
    endpoint = UpdateMetadataEndpoint(host="h", port=1, listener="PLAINTEXT")
    state = UpdateMetadataPartitionState(leader=leader, replicas=list(replicas), isr=list(isr), offline_replicas=[2])
    broker.cache.apply(
        UpdateMetadataRequest(
            live_brokers=[UpdateMetadataBroker(id=each, endpoints=[endpoint] if each != 3 else [], rack=None) for each in alive],
            topic_states=[UpdateMetadataTopicState(topic_name="x", topic_id=b"x" * 16, partition_states=[state])],
        )
    )


@pytest.mark.parametrize(
    ("version", "leader", "error", "leader_id"),
    [
        (12, 2, ErrorCode.LEADER_NOT_AVAILABLE, -1),
        (12, -1, ErrorCode.LEADER_NOT_AVAILABLE, -1),
        (12, 3, ErrorCode.LISTENER_NOT_FOUND, -1),
        (5, 3, ErrorCode.LEADER_NOT_AVAILABLE, -1),
        (12, 1, ErrorCode.NONE, 1),
        (0, 1, ErrorCode.REPLICA_NOT_AVAILABLE, 1),
    ],
)
def test_partitions_without_a_reachable_leader(
    broker: OneBroker, version: int, leader: int, error: ErrorCode, leader_id: int
) -> None:
    cluster_with(broker, leader, alive=(1, 3))
    (partition,) = ask(broker, version, "x").topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (error, leader_id)
    assert partition.replica_nodes == ([1] if version == 0 else [1, 2])
    assert partition.offline_replicas == ([2] if version >= 5 else [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_describe_cluster(broker: OneBroker, version: int) -> None:
    response = broker.ask(DescribeClusterRequest(), version)
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, "a-cluster", 1)
    assert [(each.broker_id, each.host, each.port, each.rack) for each in response.brokers] == [(1, "in", 9092, "r")]
    assert response.cluster_authorized_operations == NOT_ASKED
    assert (
        broker.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version).cluster_authorized_operations
        == 8096
    )


def test_describe_cluster_of_controllers_is_refused(broker: OneBroker) -> None:
    assert broker.ask(DescribeClusterRequest(endpoint_type=2), 1).error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert broker.ask(DescribeClusterRequest(endpoint_type=5), 1).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def pages(broker: OneBroker, limit: int, *names: Any) -> list[list[tuple[str, int, list[int]] | tuple[str, int, list[Any]]]]:
    cursor, found = None, []
    while True:
        topics = [TopicRequest(name=name) for name in names]
        response = broker.ask(DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor), 0)
        found.append(
            [(topic.name, topic.error_code, [each.partition_index for each in topic.partitions]) for topic in response.topics]
        )
        cursor = response.next_cursor
        if cursor is None:
            return found


def test_partitions_come_in_pages(broker: OneBroker) -> None:
    broker.create("b", 3)
    broker.create("a", 2)
    assert pages(broker, 10) == [[("a", 0, [0, 1]), ("b", 0, [0, 1, 2])]]
    assert pages(broker, 3) == [[("a", 0, [0, 1]), ("b", 0, [0])], [("b", 0, [1, 2])]]
    assert pages(broker, 2, "b", "a") == [[("a", 0, [0, 1])], [("b", 0, [0, 1])], [("b", 0, [2])]]
    assert pages(broker, 0, "a") == [[("a", 0, [0])], [("a", 0, [1])]]
    assert pages(broker, 9, "nope", "a", "b/") == [
        [("a", 0, [0, 1]), ("b/", ErrorCode.INVALID_TOPIC_EXCEPTION, []), ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])]
    ]
    for wanted, cursor in (([], Cursor(topic_name="a", partition_index=-1)), (["a", "b"], Cursor(topic_name="aa"))):
        topics = [TopicRequest(name=name) for name in wanted]
        with pytest.raises(InvalidRequestError):
            broker.ask(DescribeTopicPartitionsRequest(topics=topics, cursor=cursor), 0)


def test_operations_are_told_of_missing_topics_too(broker: OneBroker) -> None:
    broker.create("a")
    topics = [TopicRequest(name=name) for name in ("a", "nope", "b/")]
    response = broker.ask(DescribeTopicPartitionsRequest(topics=topics), 0)
    assert [topic.topic_authorized_operations for topic in response.topics] == [3576, 3576, 3576]


def _answer_to(broker: OneBroker, version: int, names: Sequence[str] | None) -> Any:
    request = MetadataRequest(topics=None if names is None else [MetadataRequestTopic(name=name) for name in names])
    info = ConnectionInfo("c", "PLAINTEXT", "PLAINTEXT", "127.0.0.1")
    return broker.apis[request.KEY].handler(RequestContext(request.KEY, version, 1, "test", info), request)


def test_answers_about_one_topic_and_all_topics_are_encoded_once_until_the_metadata_change(broker: OneBroker) -> None:
    broker.create("t")
    for names in (None, ["t"]):
        first = _answer_to(broker, 12, names)
        assert _answer_to(broker, 12, names) is first
        assert _answer_to(broker, 9, names) is not first
    broker.create("u")
    changed = _answer_to(broker, 12, None)
    assert changed is not first
    assert [topic.name for topic in MetadataResponse.decode(changed.body, 12).topics] == ["t", "u"]


@pytest.mark.medium
def test_lists_of_topics_in_any_order_leave_no_memory_behind(broker: OneBroker) -> None:
    names = [f"topic-{number}" for number in range(20)]
    for name in names:
        broker.create(name)
    size = len(_answer_to(broker, 12, None).body)

    def ask_in_other_orders() -> None:
        for number in range(200):
            _answer_to(broker, 12, names[number % 20 :] + names[: number % 20] + names[: number // 20])

    assert traced_peak_bytes(ask_in_other_orders) < 60 * size
