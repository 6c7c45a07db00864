import gc
import struct
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.support.replica_apis import Apis
from tests.support.replication_harness import BROKER, OTHER, TOPIC, TP, batch_of, topic_id
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.network.requests.request_context import TransactionNote
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.builder import end_transaction_marker
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.server.dispatch import CLOSE_CONNECTION, NO_RESPONSE

VERSIONS = range(14)
WITH_TOPIC_IDS = 13
VERIFICATION = "transaction.partition.verification.enable"


@pytest.fixture(params=["direct", "by messages", "together"])
def apis(tmp_path: Path, request: pytest.FixtureRequest) -> Apis:
    apis = Apis(tmp_path)
    apis.is_direct = request.param != "by messages"
    apis.is_together = request.param == "together"
    apis.lead()
    return apis


def request(records: bytearray | bytes | None, *, acks: int = 1, topic: str = TOPIC, partition: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=None if records is None else bytes(records))
    named = TopicProduceData(name=topic, topic_id=topic_id(topic), partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[named])


def produce(apis: Apis, records: bytes | bytearray | None, version: int = 9, **how: Any) -> PartitionProduceResponse:
    client = how.pop("client", "client")
    response = apis.call(request(records, **how), version, client=client)
    return response.responses[0].partition_responses[0]


def error(apis: Apis, records: bytearray | bytes | None, version: int = 9, **how: Any) -> int:
    return produce(apis, records, version, **how).error_code


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_appends(apis: Apis, version: int) -> None:
    magic = 2 if version >= 3 else min(version, 1)
    result = produce(apis, batch_of(b"a", b"b", magic=magic), version)
    assert (result.error_code, result.base_offset, result.log_append_time_ms) == (0, 0, -1)
    assert result.log_start_offset == (0 if version >= 5 else -1)
    assert apis.replicas.get_partition(TP).log.log_end_offset == 2


class TestTopicIds:
    """Since version 13 topics have no names in requests and responses (KIP-516)."""

    def test_the_response_has_the_id(self, apis: Apis) -> None:
        (topic,) = apis.call(request(batch_of(b"a")), WITH_TOPIC_IDS).responses
        assert (topic.name, topic.topic_id, topic.partition_responses[0].error_code) == ("", topic_id(TOPIC), 0)

    def test_an_unknown_id_is_reported_first(self, apis: Apis) -> None:
        unknown = request(batch_of(b"a"), topic="nowhere")
        (topic,) = apis.call(unknown, WITH_TOPIC_IDS).responses
        assert (topic.topic_id, topic.partition_responses[0].error_code) == (topic_id("nowhere"), ErrorCode.UNKNOWN_TOPIC_ID)
        for records, acks in ((b"", 1), (batch_of(b"a"), 5)):
            assert error(apis, records, WITH_TOPIC_IDS, topic="nowhere", acks=acks) == ErrorCode.UNKNOWN_TOPIC_ID
        assert apis.context.topics[0][0] == topic_id("nowhere").hex()

    def test_an_unknown_partition_of_a_known_id_is_unknown(self, apis: Apis) -> None:
        assert error(apis, batch_of(b"a"), WITH_TOPIC_IDS, partition=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_clients_of_a_deleted_topic_do_not_reach_its_successor(self, apis: Apis) -> None:
        apis.announce(topic_uuid=b"successor".ljust(16, b"."))
        assert error(apis, batch_of(b"a"), WITH_TOPIC_IDS) == ErrorCode.UNKNOWN_TOPIC_ID

    def test_clients_of_the_successor_wait_until_the_old_partition_is_gone(self, apis: Apis) -> None:
        successor = b"successor".ljust(16, b".")
        apis.announce(topic_uuid=successor)
        asked = request(batch_of(b"a"))
        asked.topic_data[0].topic_id = successor
        (topic,) = apis.call(asked, WITH_TOPIC_IDS).responses
        assert topic.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert apis.replicas.get_partition(TP).log.log_end_offset == 0


def test_log_append_time(apis: Apis) -> None:
    apis.lead("stamped", config={"message.timestamp.type": "LogAppendTime"})
    assert produce(apis, batch_of(b"a"), topic="stamped").log_append_time_ms == apis.clock.wall_ms()


class TestTheOneBatch:
    """Since version 3 there is exactly one batch, of format 2."""

    @pytest.mark.parametrize("version", [3, 8, 11])
    @pytest.mark.parametrize(
        ("records", "code"),
        [
            (None, ErrorCode.INVALID_RECORD),
            (b"", ErrorCode.INVALID_RECORD),
            (batch_of(b"a")[:10], ErrorCode.INVALID_RECORD),
            (batch_of(b"a")[:40], ErrorCode.INVALID_RECORD),
            (batch_of(b"a", magic=1), ErrorCode.INVALID_RECORD),
            (batch_of(b"a") + batch_of(b"b"), ErrorCode.INVALID_RECORD),
            (batch_of(b"a")[:8] + bytes(4) + batch_of(b"a")[12:], ErrorCode.CORRUPT_MESSAGE),
            (batch_of(b"a")[:16] + b"\x03" + batch_of(b"a")[17:], ErrorCode.CORRUPT_MESSAGE),
            (batch_of(b"a") + bytes(20), ErrorCode.CORRUPT_MESSAGE),
            (batch_of(b"a") + bytes(12), ErrorCode.CORRUPT_MESSAGE),
        ],
    )
    def test_others_are_refused(self, apis: Apis, version: int, records: bytearray | bytes | None, code: ErrorCode) -> None:
        assert error(apis, records, version) == code
        assert apis.replicas.get_partition(TP).log.log_end_offset == 0

    @pytest.mark.parametrize("trailing", [batch_of(b"b")[:5], batch_of(b"b")[:30]])
    def test_a_piece_of_another_is_passed_over(self, apis: Apis, trailing: bytearray) -> None:
        assert error(apis, batch_of(b"a") + trailing) == 0
        assert apis.replicas.get_partition(TP).log.size_bytes == len(batch_of(b"a"))

    def test_of_an_unknown_topic_that_is_said_first(self, apis: Apis) -> None:
        assert error(apis, b"", topic="nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @pytest.mark.parametrize(("version", "code"), [(3, 76), (6, 76), (7, 0)])
    def test_zstd_is_known_since_version_7(self, apis: Apis, version: int, code: int) -> None:
        assert error(apis, batch_of(b"a", compression=Compression.ZSTD), version) == code


PRODUCER = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}


class TestTransactions:
    """A record that waits for the end of a transaction that nobody knows of would keep readers of committed data waiting."""

    @pytest.mark.parametrize("fields", [{}, PRODUCER])
    def test_without_a_transactional_id_the_whole_request_is_refused(self, apis: Apis, fields: dict[str, int]) -> None:
        apis.lead(partition=1)
        plain, transactional = bytes(batch_of(b"a")), bytes(batch_of(b"a", is_transactional=True, **fields))
        data = [PartitionProduceData(index=index, records=each) for index, each in enumerate([plain, transactional])]
        response = apis.call(ProduceRequest(acks=1, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)]), 9)
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert [each.error_code for each in response.responses[0].partition_responses] == [refused, refused]
        assert apis.replicas.get_partition(TP).log.log_end_offset == 0
        assert error(apis, transactional, topic="nowhere") == refused

    def transactional(
        self, apis: Apis, *numbers: Any, partition: int = 0, producer: int = 5, epoch: int = 0, version: int = 9
    ) -> list[int]:
        """Return the error of a produce of batches with these sequence numbers, one partition each."""
        answer = self.start(apis, *numbers, partition=partition, producers=range(producer, 99), epoch=epoch, version=version)
        return [each.error_code for each in answer.responses[0].partition_responses]

    def start(self, apis: Apis, *numbers: Any, partition: int = 0, producers: Any = None, epoch: int = 0, version: int = 12) -> Any:
        """Ask for such a produce. Without ``producers`` all batches are those of one."""
        batches = [
            bytes(
                batch_of(
                    b"a",
                    is_transactional=True,
                    base_sequence=at,
                    producer_epoch=epoch,
                    producer_id=producers[shift] if producers else 5,
                )
            )
            for shift, at in enumerate(numbers)
        ]
        data = [PartitionProduceData(index=partition + shift, records=each) for shift, each in enumerate(batches)]
        asked = ProduceRequest(acks=1, transactional_id="tx", topic_data=[TopicProduceData(name=TOPIC, partition_data=data)])
        return apis.call(asked, version)

    def test_version_12_adds_partitions_once_for_all(self, apis: Apis) -> None:
        apis.lead(partition=1)
        added: list[Any] = []
        apis.add_partitions = lambda name, producer, partitions, version: (
            added.append((name, producer, sorted(partitions), version)) or ErrorCode.NONE
        )
        other = TopicPartition(TOPIC, 1)
        answer = self.start(apis, 0, 0)
        assert [each.error_code for each in answer.responses[0].partition_responses] == [0, 0]
        assert added == [("tx", (5, 0), [TP, other], 2)]
        assert apis.context.transaction == TransactionNote("tx")
        assert self.transactional(apis, 1, version=12) == [0]
        assert len(added) == 1
        assert apis.context.transaction == TransactionNote("tx")
        assert self.transactional(apis, 0, epoch=1, version=12) == [0]
        assert added[1:] == [("tx", (5, 1), [TP], 2)]
        assert self.transactional(apis, 1, version=12) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert apis.context.transaction == TransactionNote("tx")
        assert len(added) == 2, "what is fenced here is not asked for"

    @pytest.mark.parametrize(
        ("error", "told"),
        [
            (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
            (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
            (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
            (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
            (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ],
    )
    def test_what_is_not_added_is_not_appended(self, apis: Apis, error: ErrorCode, told: ErrorCode) -> None:
        apis.lead(partition=1)
        open_one = TopicPartition(TOPIC, 1)
        apis.add_partitions = lambda *_: ErrorCode.NONE
        assert self.transactional(apis, 0, partition=1, version=12) == [0]
        apis.add_partitions = lambda *_: error
        answer = self.start(apis, 0, 1)
        assert [each.error_code for each in answer.responses[0].partition_responses] == [told, 0]
        assert apis.replicas.get_partition(TP).log.log_end_offset == 0
        assert apis.replicas.get_partition(open_one).log.log_end_offset == 2

    def test_the_append_waits_for_the_coordinator(self, apis: Apis) -> None:
        added: Future[ErrorCode] = Future()
        apis.add_partitions = lambda *_: added
        log = apis.replicas.get_partition(TP).log
        batch = bytes(batch_of(b"a", is_transactional=True, **PRODUCER))
        data = [PartitionProduceData(index=0, records=batch)]
        asked = ProduceRequest(acks=1, transactional_id="tx", topic_data=[TopicProduceData(name=TOPIC, partition_data=data)])
        answer = apis.start(asked, 12)
        assert not apis.context.is_frame_free
        assert log.log_end_offset == 0
        added.set_result(ErrorCode.NONE)
        assert answer.result(0).responses[0].partition_responses[0].error_code == 0
        assert log.log_end_offset == 1

    def test_a_transaction_with_an_epoch_begins_with_sequence_number_0(self, apis: Apis) -> None:
        apis.add_partitions = lambda *_: ErrorCode.NONE
        assert self.transactional(apis, 3, version=12) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        assert self.transactional(apis, 0, version=12) == [0]

    def test_partitions_are_added_although_they_are_not_verified(self, apis: Apis) -> None:
        apis.config.adopt(KafkaConfig({**apis.config.originals, VERIFICATION: "false"}))
        assert self.transactional(apis, 0, version=12) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]

    def test_partitions_that_this_broker_does_not_lead_are_not_added(self, apis: Apis) -> None:
        assert self.transactional(apis, 0, partition=9, version=12) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        apis.replicas.get_partition(TP).is_leader = False
        assert self.transactional(apis, 0, version=12) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    def test_version_12_needs_no_transaction(self, apis: Apis) -> None:
        wanted = request(batch_of(b"a"))
        wanted.transactional_id = "tx"
        assert apis.call(wanted, 12).responses[0].partition_responses[0].error_code == 0
        assert apis.call(request(batch_of(b"a")), 12).responses[0].partition_responses[0].error_code == 0

    def test_one_that_no_coordinator_knows_cannot_begin(self, apis: Apis) -> None:
        assert self.transactional(apis, 0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        assert apis.context.transaction == TransactionNote("tx")
        assert apis.replicas.get_partition(TP).log.log_end_offset == 0
        assert self.transactional(apis, 0, partition=9) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        wanted = request(batch_of(b"a"))
        wanted.transactional_id = "tx"
        assert apis.call(wanted, 9).responses[0].partition_responses[0].error_code == 0

    def test_without_verification_one_begins_and_with_it_it_goes_on(self, apis: Apis) -> None:
        apis.config.adopt(KafkaConfig({**apis.config.originals, VERIFICATION: "false"}))
        assert self.transactional(apis, 0) == [0]
        apis.config.adopt(KafkaConfig({**apis.config.originals, VERIFICATION: "true"}))
        assert self.transactional(apis, 1) == [0]
        assert self.transactional(apis, 0, producer=6) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        log = apis.replicas.get_partition(TP).log
        assert (log.log_end_offset, log.last_stable_offset) == (2, 0)

    def test_one_that_the_coordinator_knows_begins_and_goes_on(self, apis: Apis) -> None:
        asked = []
        apis.ask_coordinator = lambda *of: asked.append(of) or ErrorCode.NONE
        assert [self.transactional(apis, number) for number in range(3)] == [[0]] * 3
        assert asked == [(TP, "tx", (5, 0))]

    def test_one_that_a_marker_ended_after_its_verification_cannot_begin(self, apis: Apis) -> None:
        log = apis.replicas.get_partition(TP).log

        def end_meanwhile(*_: Any) -> Any:
            marker = end_transaction_marker(
                commit=False, producer_id=5, producer_epoch=0, coordinator_epoch=0, timestamp_ms=apis.clock.wall_ms()
            )
            result = apis.replicas.appender.append(1000, 1, {TP: marker}, AppendOrigin.COORDINATOR)
            assert result[TP].error == 0
            return ErrorCode.NONE

        apis.ask_coordinator = end_meanwhile
        assert self.transactional(apis, 0) == [ErrorCode.INVALID_TXN_STATE]
        assert (log.log_end_offset, log.last_stable_offset) == (1, 1)
        apis.ask_coordinator = lambda *_: ErrorCode.NONE
        assert self.transactional(apis, 0) == [0]

    def test_a_batch_shorter_than_its_header_is_corrupt_and_the_others_are_appended(self, apis: Apis) -> None:
        apis.lead(partition=1)
        whole = bytes(batch_of(b"a", is_transactional=True, **PRODUCER))
        for size in (26, 44, 54, 60):
            short = bytearray(whole[:size])
            short[8:12] = struct.pack(">i", size - 12)
            data = [
                PartitionProduceData(index=0, records=bytes(short)),
                PartitionProduceData(index=1, records=bytes(batch_of(b"b"))),
            ]
            asked = ProduceRequest(acks=1, transactional_id="tx", topic_data=[TopicProduceData(name=TOPIC, partition_data=data)])
            answers = apis.call(asked, 9).responses[0].partition_responses
            assert [each.error_code for each in answers] == [ErrorCode.CORRUPT_MESSAGE, 0], size

    def test_batches_of_two_producers_are_refused(self, apis: Apis) -> None:
        apis.lead(partition=1)
        apis.config.adopt(KafkaConfig({**apis.config.originals, VERIFICATION: "false"}))
        for version in (9, 12):
            assert self.transactional(apis, 0, 0, version=version) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


class TestAcks:
    def test_none_gets_no_answer(self, apis: Apis) -> None:
        assert apis.call(request(batch_of(b"a"), acks=0), 9) is NO_RESPONSE
        assert apis.replicas.get_partition(TP).log.log_end_offset == 1

    def test_none_with_an_error_closes_the_connection(self, apis: Apis) -> None:
        assert apis.call(request(batch_of(b"a"), acks=0, topic="nowhere"), 9) is CLOSE_CONNECTION

    def test_all_waits_and_times_out(self, apis: Apis) -> None:
        apis.lead("r", replicas=(BROKER, OTHER))
        assert error(apis, batch_of(b"a"), acks=-1, topic="r") == ErrorCode.REQUEST_TIMED_OUT

    @pytest.mark.medium
    def test_the_records_are_not_kept_while_it_waits(self, apis: Apis) -> None:
        apis.lead("r", replicas=(BROKER, OTHER))
        waiting = apis.start(request(batch_of(b"a"), acks=-1, topic="r"), 9)
        assert apis.message.topic_data[0].partition_data[0].records is None
        gc.collect()
        apis.frame.clear()  # fails while a view of it exists
        apis.advance_ms(1_000_000)
        answer = apis.decoded(ProduceRequest, waiting.result(0), 9).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT

    def test_others_are_refused(self, apis: Apis) -> None:
        assert error(apis, batch_of(b"a"), acks=2) == ErrorCode.INVALID_REQUIRED_ACKS


def test_record_errors_say_which_record_and_why(apis: Apis) -> None:
    apis.lead("compacted", config={"cleanup.policy": "compact"})
    result = produce(apis, batch_of(b"without key", b"nor here"), topic="compacted")
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert result.record_errors
    assert result.error_message
    old = produce(apis, batch_of(b"without key"), 7, topic="compacted")
    assert (old.error_code, old.record_errors) == (ErrorCode.INVALID_RECORD, [])


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("records", [b"", batch_of(b"a", magic=1)[:10]])
def test_before_version_3_nothing_may_be_sent(apis: Apis, records: bytearray | bytes, acks: int) -> None:
    answer = produce(apis, records, 2, acks=acks)
    assert (answer.error_code, answer.base_offset) == (0, -1)
    assert error(apis, batch_of(b"a", magic=1), 2) == 0


def test_internal_topics_are_the_brokers_unless_an_admin_client_asks(apis: Apis) -> None:
    apis.lead("__consumer_offsets")
    refused = produce(apis, batch_of(b"a"), topic="__consumer_offsets")
    assert (refused.error_code, refused.log_start_offset) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    assert error(apis, batch_of(b"a"), topic="__consumer_offsets", client="__admin_client") == 0


def test_the_new_leader_is_named_since_version_10(apis: Apis) -> None:
    apis.announce("far", leader=OTHER, epoch=7)
    response = apis.call(request(batch_of(b"a"), topic="far"), 10)
    leader = response.responses[0].partition_responses[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (OTHER, 7)
    assert [(node.node_id, node.host, node.port) for node in response.node_endpoints] == [(OTHER, "b2", 9092)]
    assert apis.call(request(batch_of(b"a"), topic="far"), 9).node_endpoints == []


def test_several_partitions_are_answered_in_their_order(apis: Apis) -> None:
    apis.lead(partition=1)
    data = [PartitionProduceData(index=index, records=bytes(batch_of(b"a"))) for index in (1, 5, 0)]
    response = apis.call(ProduceRequest(acks=1, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)]), 9)
    answers = [(answer.index, answer.error_code) for answer in response.responses[0].partition_responses]
    assert answers == [(1, 0), (5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (0, 0)]


def test_a_frame_may_be_overwritten_only_after_its_records_were_written(apis: Apis) -> None:
    assert error(apis, batch_of(b"a")) == ErrorCode.NONE
    assert apis.context.is_frame_free
    assert error(apis, None) != ErrorCode.NONE
    assert not apis.context.is_frame_free


def test_nothing_to_do(apis: Apis) -> None:
    assert apis.call(ProduceRequest(acks=1), 9).responses == []


def test_the_access_log_hears_of_it(apis: Apis) -> None:
    size = len(batch_of(b"a", b"b"))
    produce(apis, batch_of(b"a", b"b"))
    assert apis.context.topics == [(TOPIC, (0,), 2, size, 0)]
    assert apis.context.acks == 1
    produce(apis, batch_of(b"a"), partition=9)
    assert apis.context.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert apis.context.topics == [(TOPIC, (9,), 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_what_a_conversion_takes_is_told_to_the_metrics(apis: Apis) -> None:
    def converted() -> Any:
        name = "ProduceMessageConversionsPerSec"
        return [apis.metrics.value("BrokerTopicMetrics", name, **tags) or 0 for tags in ({"topic": TOPIC}, {})]

    produce(apis, batch_of(b"a", b"b"))
    assert (apis.context.conversion, converted()) == (None, [0, 0])
    produce(apis, batch_of(b"a", b"b", compression=Compression.GZIP))
    assert apis.context.conversion == (0, len(batch_of(b"a", b"b")) - 61)
    assert converted() == [0, 0]
    produce(apis, batch_of(b"a", b"b", magic=1), 2)
    assert apis.context.conversion == (0, len(batch_of(b"a", b"b")))  # the clock stands still
    assert converted() == [2, 2]
