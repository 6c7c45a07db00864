"""A question in process takes the path of a client's request."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import twisted_kafka
from tests.support.console import make_topic, session_in, write
from tests.support.eventually import eventually
from twisted_kafka.console.actions.offsets import ResetOffsets
from twisted_kafka.console.cluster.groups import listed
from twisted_kafka.console.cluster.in_process import MOST_KEPT, KeptResults
from twisted_kafka.console.cluster.problems import CommandError, TryAgainError
from twisted_kafka.console.cluster.record_forms import Written
from twisted_kafka.console.queries.paging import Asked
from twisted_kafka.console.queries.records.messages import MessagesAsked, messages
from twisted_kafka.console.queries.topics.catalogue import catalogue
from twisted_kafka.console.queries.topics.topics import topics
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.acls import AclCreation, CreateAclsRequest
from twisted_kafka.protocol.messages.administration.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.inter_broker import StopReplicaRequest
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.security.authorizer.acl_types import AclOperation, PermissionType, ResourceType
from twisted_kafka.timing.clock import ManualClock

CLOCK = ManualClock()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[twisted_kafka.Broker]:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:root",
        "access.log.dir": tmp_path_factory.mktemp("log"),
        "access.log.write.interval.ms": 50,
    }
    with twisted_kafka.Broker(settings) as broker:
        root = session_in(broker, "root")
        make_topic(root, "secret")
        write(root, "secret", [Written(b"k", b"v")])
        yield broker


def test_a_user_without_rights_sees_nothing(guarded: twisted_kafka.Broker) -> None:
    alice = session_in(guarded, "alice")
    assert topics(alice, Asked()).items == ()
    with pytest.raises(CommandError) as caught:
        messages(alice, CLOCK, MessagesAsked("secret"))
    assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert topics(session_in(guarded, "root"), Asked()).items[0].records == 1


def test_the_access_log_has_it(guarded: twisted_kafka.Broker) -> None:
    messages(session_in(guarded, "root"), CLOCK, MessagesAsked("secret"))
    directory = Path(guarded.config.string("access.log.dir"))

    def lines() -> list[dict[str, object]]:
        texts = [line for path in directory.rglob("*.jsonl") for line in path.read_text().splitlines()]
        return [json.loads(line) for line in texts]

    def is_logged() -> bool:
        return any("twisted-kafka-console" in json.dumps(line) and "User:root" in json.dumps(line) for line in lines())

    eventually(is_logged)


def test_an_api_of_the_controller_is_refused(guarded: twisted_kafka.Broker) -> None:
    response = session_in(guarded, "root").ask(StopReplicaRequest())
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_broker_that_is_not_there(guarded: twisted_kafka.Broker) -> None:
    with pytest.raises(TryAgainError, match="broker 77 is not there"):
        session_in(guarded, "root").ask(ApiVersionsRequest(), 77)


def test_groups_pass_every_gate_though_not_as_bytes(guarded: twisted_kafka.Broker) -> None:
    root = session_in(guarded, "root")
    ResetOffsets("billing", ("secret",), "earliest").do(root)
    assert [(each.group_id, each.group_state, each.group_type) for each in listed(root)] == [("billing", "Empty", "classic")]
    assert listed(session_in(guarded, "alice")) == []


def test_a_wait_ends(guarded: twisted_kafka.Broker) -> None:
    root = session_in(guarded, "root", 0.05)
    partition = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1000)
    fetch = FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(topic="secret", partitions=[partition])])
    with pytest.raises(TryAgainError, match="not answered Fetch within"):
        root._asked.ask(fetch, None, 12, 0.05)
    assert root.ask(MetadataRequest(topics=[])).brokers


@pytest.mark.medium
def test_quotas_hold_it_back(guarded: twisted_kafka.Broker) -> None:
    root = session_in(guarded, "root", 0.2)
    entity = [EntityData(entity_type="user", entity_name="root")]

    def set_rate(value: float, *, remove: bool = False) -> None:
        operation = OpData(key="request_percentage", value=value, remove=remove)
        entry = AlterClientQuotasRequestEntryData(entity=entity, ops=[operation])
        session_in(guarded, "root").ask(AlterClientQuotasRequest(entries=[entry]))
        guarded.apply_config_changes(10)

    set_rate(0.0001)
    try:
        asks = (root.ask(MetadataRequest(topics=None)) for _ in range(50))
        with pytest.raises(TryAgainError, match="a quota holds"):
            list(asks)
    finally:
        set_rate(0, remove=True)


def test_all_topics_are_read_again_only_after_a_change(guarded: twisted_kafka.Broker) -> None:
    local = guarded._server.local_broker()
    root, alice = (local.session(KafkaPrincipal("User", name), "127.0.0.1") for name in ("root", "alice"))
    assert catalogue(root) is catalogue(root)
    assert catalogue(alice).topics == ()
    make_topic(root, "open-1")
    eventually(lambda: "open-1" in {each.name for each in catalogue(root).topics})
    assert catalogue(alice).topics == ()
    creation = AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name="open-1",
        principal="User:alice",
        host="*",
        operation=AclOperation.DESCRIBE,
        permission_type=PermissionType.ALLOW,
    )
    root.ask(CreateAclsRequest(creations=[creation]))
    assert [each.name for each in catalogue(alice).topics] == ["open-1"]
    assert [each.name for each in catalogue(local.session(KafkaPrincipal("User", "bob"), "127.0.0.1")).topics] == []


def test_few_results_are_kept() -> None:
    kept = KeptResults()
    made: list[int] = []

    def get(key: int, state: object) -> int:
        return kept.get(key, (state,), lambda: made.append(key) or key)

    first, second = object(), object()
    assert [get(1, first), get(1, first), get(1, second), get(2, second)] == [1, 1, 1, 2]
    assert made == [1, 1, 2]
    for key in range(2, 2 + MOST_KEPT):
        get(key, second)
    get(1, second)
    assert made == [1, 1, 2, 3, 4, 5, 1]
