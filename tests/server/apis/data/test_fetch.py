from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.support.replica_apis import Apis
from tests.support.replication_harness import BROKER, OTHER, TOPIC, batch_of, topic_id
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.protocol.errors import ErrorCode, InvalidRequestError
from twisted_kafka.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.builder import end_transaction_marker
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.regions import FileRegion
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.server.apis.data import down_conversion
from twisted_kafka.server.dispatch import Measured

VERSIONS = range(19)
BOTH = (BROKER, OTHER)


@pytest.fixture(params=["direct", "decoded"])
def apis(tmp_path: Path, request: pytest.FixtureRequest) -> Apis:
    apis = Apis(tmp_path)
    apis.is_direct = request.param == "direct"
    apis.lead()
    apis.append(b"a", b"b")
    apis.append(b"c")
    return apis


def request(
    version: int,
    offset: int = 0,
    *,
    topic: str = TOPIC,
    partition: int = 0,
    topic_uuid: Any = None,
    max_bytes: int = 1 << 20,
    **fields: Any,
) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    named = FetchTopic(partitions=[wanted])
    if version >= 13:
        named.topic_id = topic_id(topic) if topic_uuid is None else topic_uuid
    else:
        named.topic = topic
    return FetchRequest(min_bytes=1, topics=[named], **fields)


def fetch(apis: Apis, version: int = 12, offset: int = 0, **how: Any) -> PartitionData:
    response = apis.call(request(version, offset, **how), version)
    return response.responses[0].partitions[0]


def values(data: PartitionData) -> list[bytes]:
    return [record.value for batch in batches(data.records) for record in batch.records()]  # type: ignore[arg-type]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_reads(apis: Apis, version: int) -> None:
    data = fetch(apis, version)
    assert (data.error_code, data.high_watermark) == (0, 3)
    assert values(data) == [b"a", b"b", b"c"]
    assert next(batch.magic for batch in batches(data.records)) == (0 if version < 2 else 1 if version < 4 else 2)  # type: ignore[arg-type]
    assert data.last_stable_offset == (3 if version >= 4 else -1)
    assert data.log_start_offset == (0 if version >= 5 else -1)


def test_the_response_holds_a_piece_of_the_file(apis: Apis) -> None:
    response = apis.start(request(12), 12)
    parts = response.encode_parts(12)
    assert any(isinstance(part, FileRegion) for part in parts)


def test_only_down_to_what_was_asked_for(apis: Apis) -> None:
    assert values(fetch(apis, 1, offset=1)) == [b"b", b"c"]


def test_old_versions_get_no_more_than_their_limit_and_a_first_message_that_is_cut_off_is_left_out(apis: Apis) -> None:
    assert fetch(apis, 2, max_bytes=20).records == b""
    assert values(fetch(apis, 3, max_bytes=20)) == [b"a", b"b"]


def test_what_a_conversion_takes_is_told_to_the_metrics(apis: Apis) -> None:
    fetch(apis, 4)
    assert apis.context.conversion is None
    converted = fetch(apis, 3)
    kept_bytes = len(fetch(apis, 4).records)
    fetch(apis, 3)
    assert apis.context.conversion == (0, kept_bytes + len(converted.records))  # the clock stands still


def test_down_conversion_can_be_switched_off(apis: Apis) -> None:
    apis.lead("modern", config={"message.downconversion.enable": "false"})
    apis.append(b"a", topic_partition=apis.replicas.get_partition(TopicPartition("modern", 0)).topic_partition)
    assert fetch(apis, 3, topic="modern").error_code == ErrorCode.UNSUPPORTED_VERSION
    assert fetch(apis, 4, topic="modern").error_code == 0


def test_zstd_is_not_for_old_consumers(apis: Apis) -> None:
    apis.lead("zstd", config={"compression.type": "zstd"})
    partition = apis.replicas.get_partition(TopicPartition("zstd", 0)).topic_partition
    apis.append(b"a", topic_partition=partition, batch_options={"compression": Compression.ZSTD})
    assert [fetch(apis, version, topic="zstd").error_code for version in (3, 9, 10)] == [76, 76, 0]


def test_a_zstd_batch_cannot_be_converted(apis: Apis) -> None:
    apis.append(b"d", batch_options={"compression": Compression.ZSTD})
    assert fetch(apis, 3, offset=3).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert fetch(apis, 4, offset=3).error_code == 0


def test_old_consumers_get_what_comes_before_zstd(apis: Apis) -> None:
    apis.append(b"d", batch_options={"compression": Compression.ZSTD})
    apis.append(b"e")
    assert values(fetch(apis, 3)) == [b"a", b"b", b"c"]


def test_little_is_converted_at_once_and_all_is_had_by_asking_again(apis: Apis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(down_conversion, "CONVERTED_BYTES", 200)
    read = []
    monkeypatch.setattr(FileRegion, "read", lambda region, whole=FileRegion.read: read.append(len(region)) or whole(region))
    for number in range(20):
        apis.append(b"%d" % number)
    found, offset = [], 0
    while offset < 23:
        some = values(fetch(apis, 1, offset=offset))
        assert 0 < len(some) <= 3
        found += some
        offset += len(some)
    assert found == [b"a", b"b", b"c", *[b"%d" % number for number in range(20)]]
    assert max(read) <= 200
    apis.append(bytes(5000))
    assert values(fetch(apis, 1, offset=23)) == [bytes(5000)]
    assert max(read) < 5200


def test_markers_before_records_do_not_stop_old_consumers(apis: Apis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(down_conversion, "CONVERTED_BYTES", 200)
    log = apis.replicas.get_partition(TopicPartition(TOPIC, 0)).log
    for _ in range(7):
        marker = end_transaction_marker(producer_id=1, producer_epoch=0, commit=True, coordinator_epoch=0, timestamp_ms=0)
        log.append_as_leader(bytearray(marker), 0, AppendOrigin.COORDINATOR, is_alone=True)
    apis.append(b"d")
    assert values(fetch(apis, 1, offset=3)) == [b"d"]


def test_read_committed_says_which_transactions_were_aborted(apis: Apis) -> None:
    assert fetch(apis, 11, isolation_level=1).aborted_transactions == []
    assert fetch(apis, 11).aborted_transactions is None
    with pytest.raises(InvalidRequestError):
        fetch(apis, 11, isolation_level=7)


def test_out_of_range(apis: Apis) -> None:
    assert fetch(apis, offset=9).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_brokers_limit_is_the_requests(tmp_path: Path) -> None:
    apis = Apis(tmp_path, fetch_max_bytes=1024)
    apis.lead()
    for _ in range(3):
        apis.append(b"x" * 600)
    assert len(fetch(apis).records) == 1024


def test_topic_ids(apis: Apis) -> None:
    assert fetch(apis, 13, topic_uuid=b"?" * 16).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    apis.announce("orders", topic_uuid=b"n" * 16)
    assert fetch(apis, 13, topic_uuid=b"n" * 16).error_code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_a_follower_reads_to_the_end(apis: Apis) -> None:
    apis.lead("r", replicas=BOTH)
    partition = apis.replicas.get_partition(TopicPartition("r", 0))
    apis.append(b"a", topic_partition=partition.topic_partition)
    assert values(fetch(apis, 12, topic="r", replica_id=OTHER)) == [b"a"]
    assert fetch(apis, 12, topic="r").records == b""
    assert partition.log.high_watermark == 0
    state = ReplicaState(replica_id=OTHER, replica_epoch=3)
    fetch(apis, 15, 1, topic="r", replica_state=state)
    assert partition.log.high_watermark == 1


@pytest.mark.parametrize("replica_id", [-1, -2, -4, -(2**31)])
def test_replica_ids_that_are_no_brokers_are_consumers(apis: Apis, replica_id: int) -> None:
    """Any other would read what is not committed, without the rights of a broker. Kafka's third, -3, does."""
    apis.lead("r", replicas=BOTH)
    apis.append(b"a", topic_partition=TopicPartition("r", 0))
    assert fetch(apis, 12, topic="r", replica_id=replica_id).records == b""
    assert fetch(apis, 12, topic="r", replica_id=replica_id, isolation_level=1).aborted_transactions == []
    assert values(fetch(apis, 12, topic="r", replica_id=-3)) == [b"a"]


def test_where_the_leader_is_since_version_16(apis: Apis) -> None:
    apis.announce("far", leader=OTHER, epoch=7)
    response = apis.call(request(16, topic="far"), 16)
    data = response.responses[0].partitions[0]
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (OTHER, 7)
    assert [node.node_id for node in response.node_endpoints] == [OTHER]
    assert apis.call(request(15, topic="far"), 15).node_endpoints == []


def test_a_broken_disk_is_another_leader_for_old_consumers(apis: Apis) -> None:
    apis.replicas.directory_failed(apis.directory)  # type: ignore[arg-type]
    assert fetch(apis, 5).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetch(apis, 6).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_waiting_and_an_append(apis: Apis) -> None:
    waiting = apis.start(request(12, 3, max_wait_ms=500), 12)
    assert isinstance(waiting, Future)
    apis.append(b"d")
    response = apis.decoded(FetchRequest, waiting.result(0), 12)
    assert response.responses[0].partitions[0].high_watermark == 4
    assert apis.context.topics == [(TOPIC, (0,), 0, len(batch_of(b"d")), 0)]


class TestSessions:
    def begin(self, apis: Apis, version: int = 12) -> int:
        return apis.call(request(version, 3, session_epoch=0), version).session_id

    def go_on(self, apis: Apis, session: int, epoch: int, version: int = 12, **fields: Any) -> FetchResponse:
        return apis.call(FetchRequest(min_bytes=1, session_id=session, session_epoch=epoch, **fields), version)

    @pytest.mark.parametrize("version", [7, 12, 13, 17, 18])
    def test_an_incremental_fetch_tells_news_only(self, apis: Apis, version: int) -> None:
        session = self.begin(apis, version)
        assert self.go_on(apis, session, 1, version).responses == []
        apis.append(b"d")
        [topic] = self.go_on(apis, session, 2, version).responses
        assert values(topic.partitions[0]) == [b"d"]
        assert (topic.topic, topic.topic_id) == ((TOPIC, bytes(16)) if version < 13 else ("", topic_id(TOPIC)))

    def test_its_errors(self, apis: Apis) -> None:
        session = self.begin(apis)
        assert self.go_on(apis, session + 1, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert self.go_on(apis, session, 5).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert apis.context.error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert self.go_on(apis, session, 1, 13).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR

    def test_it_waits_too(self, apis: Apis) -> None:
        session = self.begin(apis)
        waiting = apis.start(FetchRequest(min_bytes=1, max_wait_ms=500, session_id=session, session_epoch=1), 12)
        apis.append(b"d")
        assert len(apis.decoded(FetchRequest, waiting.result(0), 12).responses) == 1


def test_what_goes_out_is_metered(apis: Apis) -> None:
    data = fetch(apis)
    assert apis.metrics.value("BrokerTopicMetrics", "BytesOutPerSec") == len(data.records)
    assert apis.metrics.value("BrokerTopicMetrics", "BytesOutPerSec", topic=TOPIC) == len(data.records)


def throttled(apis: Apis, version: int, max_wait_ms: int = 0, **fields: Any) -> tuple[int, FetchResponse]:
    """Fetch, while quotas are measured; return the bytes that count, and the response for who has to wait."""
    apis.quotas.update_client("client", {"consumer_byte_rate": "1000000"})
    measured = apis.start(request(version, max_wait_ms=max_wait_ms, **fields), version)
    assert isinstance(measured, Measured)
    return measured.size_bytes(), apis.decoded(FetchRequest, measured.throttled(77), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_has_to_wait_gets_nothing(apis: Apis, version: int) -> None:
    size_bytes, response = throttled(apis, version)
    assert size_bytes > 150
    assert (response.responses, response.session_id, response.error_code) == ([], 0, 0)
    assert response.throttle_time_ms == (77 if version >= 1 else 0)
    assert apis.context.topics is None
    assert len(apis.sessions) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_who_need_not_wait_gets_what_was_measured(apis: Apis, version: int) -> None:
    apis.quotas.update_client("client", {"consumer_byte_rate": "1000000"})
    measured = apis.start(request(version), version)
    counted = measured.size_bytes()
    answer = measured.answer()
    size = sum(map(len, answer.encode_parts(version)))
    assert counted == size + 4 if version >= 4 else counted >= size
    assert apis.decoded(FetchRequest, answer, version).responses[0].partitions[0].error_code == 0
    ((topic, partitions, _, size_bytes, _),) = apis.context.topics
    assert (topic, partitions) == (TOPIC, (0,))
    assert 0 < size_bytes < counted


def test_a_session_starts_with_what_was_measured(apis: Apis) -> None:
    apis.quotas.update_client("client", {"consumer_byte_rate": "1000000"})
    measured = apis.start(request(12, session_epoch=0), 12)
    assert measured.size_bytes() > 150
    assert len(apis.sessions) == 0
    assert apis.decoded(FetchRequest, measured.answer(), 12).session_id
    assert len(apis.sessions) == 1


def test_a_session_goes_on_after_waiting(apis: Apis) -> None:
    first = apis.call(request(12, session_epoch=0), 12)
    assert first.session_id
    apis.quotas.update_client("client", {"consumer_byte_rate": "1000000"})
    apis.append(b"d")
    again = FetchRequest(session_id=first.session_id, session_epoch=1)
    measured = apis.start(again, 12)
    waits = measured.throttled(5)
    assert (waits.session_id, waits.error_code, waits.responses) == (first.session_id, 0, [])
    again.session_epoch = 2
    answer = apis.start(again, 12)
    assert answer.size_bytes() == measured.size_bytes()
    assert apis.decoded(FetchRequest, answer.answer(), 12).responses[0].partitions[0].records
    again.session_epoch = 3
    quiet = apis.start(again, 12)
    assert quiet.size_bytes() > 100  # the consumer has not gone on


def test_a_session_that_another_request_has_used_meanwhile_is_an_error(apis: Apis) -> None:
    first = apis.call(request(12, session_epoch=0), 12)
    apis.quotas.update_client("client", {"consumer_byte_rate": "1000000"})
    slow = apis.start(FetchRequest(session_id=first.session_id, session_epoch=1), 12)
    apis.start(FetchRequest(session_id=first.session_id, session_epoch=2), 12)
    waits = slow.throttled(5)
    assert (waits.session_id, waits.error_code) == (first.session_id, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert apis.context.error == 0


def test_a_consumer_gets_no_more_than_its_quota_allows(apis: Apis) -> None:
    apis.append(b"x" * 3000)
    apis.append(b"y" * 3000)
    apis.quotas.update_client("client", {"consumer_byte_rate": "400"})
    assert apis.start(request(12), 12).size_bytes() < 4500
    apis.quotas.update_client("client", {"consumer_byte_rate": "800"})
    assert apis.start(request(12), 12).size_bytes() > 6000


def test_followers_are_not_measured(apis: Apis) -> None:
    apis.lead(replicas=BOTH, isr=BOTH, epoch=1)
    apis.quotas.update_client("<default>", {"consumer_byte_rate": "1"})
    assert fetch(apis, 12, 0, replica_id=OTHER).records
