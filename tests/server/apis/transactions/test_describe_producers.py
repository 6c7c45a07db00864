from pathlib import Path
from typing import Any

from tests.server.apis.group_handlers import FakeMetadata, ask
from tests.server.apis.transactions.marker_broker import PRODUCER, MarkerBroker
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.transaction_admin import DescribeProducersRequest, TopicRequest
from twisted_kafka.server.apis.transactions.describe_producers import ProducerApis
from twisted_kafka.timing.clock import ManualClock


def test_producers_are_described_and_each_topic_is_noted_once(tmp_path: Path) -> None:
    broker = MarkerBroker(tmp_path, ManualClock())
    broker.produce()
    metadata: Any = FakeMetadata(orders=1)
    topics = [TopicRequest(name="orders", partition_indexes=[0, 0]), TopicRequest(name="gone", partition_indexes=[0, 1])]
    topics.append(TopicRequest(name="orders", partition_indexes=[0, 1]))
    response, context = ask(ProducerApis(broker.replicas, metadata), DescribeProducersRequest(topics=topics), 0)
    broker.stop()
    (found, other), gone = (topic.partitions for topic in response.topics)
    assert [(each.producer_id, each.producer_epoch, each.current_txn_start_offset) for each in found.active_producers] == [
        (PRODUCER, 0, 0)
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.error_code for each in (other, *gone)] == [unknown] * 3
    assert context.topics == [("orders", (0, 1), 0, 0, unknown), ("gone", (0, 1), 0, 0, unknown)]
