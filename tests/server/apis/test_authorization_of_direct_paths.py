"""The ways past the messages, and of several requests together, ask the authorizer as the handlers do."""

from pathlib import Path

import pytest

from tests.server.apis.group_handlers import Handlers, codes, commit_request
from tests.server.apis.rights import Rights
from tests.support.replica_apis import Apis
from tests.support.replication_harness import TOPIC, batch_of
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.protocol.errors import ErrorCode, GroupAuthorizationError
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.authorization import Authorization

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
WAYS = ("message", "direct", "together")


def topic(operation: AclOperation, name: str = TOPIC) -> tuple[AclOperation, ResourceType, str]:
    return operation, ResourceType.TOPIC, name


def apis(path: Path, way: str, rights: Rights) -> Apis:
    made = Apis(path, authorization=Authorization(rights))
    made.lead()
    made.is_direct, made.is_together = way != "message", way == "together"
    return made


def produce() -> ProduceRequest:
    data = PartitionProduceData(index=0, records=bytes(batch_of(b"x")))
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])])


def fetch() -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(max_wait_ms=0, max_bytes=1000, topics=[FetchTopic(topic=TOPIC, partitions=[partition])])


def list_offsets() -> ListOffsetsRequest:
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(timestamp=-1)])])


@pytest.mark.parametrize("way", WAYS)
def test_a_produce(tmp_path: Path, way: str) -> None:
    rights = Rights(topic(AclOperation.DESCRIBE))
    made = apis(tmp_path, way, rights)
    for version in (3, 9, 11):
        answer = made.call(produce(), version).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (REFUSED, -1)
        assert made.context.error == REFUSED
    assert [denial[:3] for denial in rights.denials] == [topic(AclOperation.WRITE)] * 3, "each is logged once"
    assert made.replicas.get_partition_or_error(TopicPartition(TOPIC, 0)).log.log_end_offset == 0
    for rights.remembering in (False, True):
        rights.allowed.add(topic(AclOperation.WRITE))
        assert made.call(produce(), 9).responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_fetch(tmp_path: Path, way: str) -> None:
    rights = Rights(topic(AclOperation.WRITE), topic(AclOperation.DESCRIBE))
    made = apis(tmp_path, way, rights)
    made.call(produce(), 9)
    for version in (4, 11, 12):
        answer = made.call(fetch(), version).responses[0].partitions[0]
        assert (answer.error_code, bytes(answer.records)) == (REFUSED, b"")
    for rights.remembering in (False, True):
        rights.allowed.add(topic(AclOperation.READ))
        assert made.call(fetch(), 12).responses[0].partitions[0].records


@pytest.mark.parametrize("way", WAYS)
def test_a_fetch_in_a_session_that_began_with_the_right(tmp_path: Path, way: str) -> None:
    rights = Rights(topic(AclOperation.WRITE), topic(AclOperation.READ))
    made = apis(tmp_path, way, rights)
    begun = fetch()
    begun.session_epoch = 0
    answer = made.call(begun, 11)
    assert answer.session_id
    rights.allowed.discard(topic(AclOperation.READ))
    again = FetchRequest(max_wait_ms=0, max_bytes=1000, session_id=answer.session_id, session_epoch=1)
    assert made.call(again, 11).responses[0].partitions[0].error_code == REFUSED


@pytest.mark.parametrize("way", WAYS)
def test_an_offset(tmp_path: Path, way: str) -> None:
    rights = Rights(topic(AclOperation.READ))
    made = apis(tmp_path, way, rights)
    for version in (1, 5, 9):
        answer = made.call(list_offsets(), version).topics[0].partitions[0]
        assert (answer.error_code, answer.offset) == (REFUSED, -1)
    for rights.remembering in (False, True):
        rights.allowed.add(topic(AclOperation.DESCRIBE))
        assert made.call(list_offsets(), 9).topics[0].partitions[0].error_code == 0


def test_a_commit_of_a_group_that_is_denied_goes_with_no_others() -> None:
    group = (AclOperation.READ, ResourceType.GROUP, "group")
    rights = Rights(topic(AclOperation.READ, "orders"))
    handlers = Handlers(authorization=Authorization(rights))
    request = commit_request({0: 1}, group_id="group")
    context = RequestContext(request.KEY, 8, 1, "client", ConnectionInfo("c", "PLAINTEXT", "PLAINTEXT", "10.0.0.1"))
    assert handlers.offsets.read_commit(context, request.encode(8), 0) is None
    with pytest.raises(GroupAuthorizationError):
        handlers.ask(request, 8)
    for rights.remembering in (False, True):
        rights.allowed.add(group)
        assert handlers.offsets.read_commit(context, request.encode(8), 0) is not None
        assert codes(handlers.ask(request, 8)) == {0: ErrorCode.NONE}
    rights.allowed.discard(topic(AclOperation.READ, "orders"))
    assert handlers.offsets.read_commit(context, request.encode(8), 0) is None, "nothing is left to commit"
    assert codes(handlers.ask(request, 8)) == {0: REFUSED}
