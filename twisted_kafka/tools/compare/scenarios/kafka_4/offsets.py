"""ListOffsets v10 and v11: a timeout, and the offset from which on nothing is in the remote tier yet."""

from functools import partial

from twisted_kafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from twisted_kafka.tools.compare.data_requests import data, produce
from twisted_kafka.tools.compare.talk import SCENARIOS_OF_KAFKA_4, Talk, scenario

newer = partial(scenario, registry=SCENARIOS_OF_KAFKA_4)


@newer(ListOffsetsRequest, since=10)
def list_offsets_with_a_timeout(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    talk.known(topic)
    talk.ask(produce(topic, data(12)), 12)

    def ask(timestamp: int, timeout_ms: int, isolation_level: int = 0, partition: int = 0, replica_id: int = -1) -> None:
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=replica_id,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=topic, partitions=[asked])],
            timeout_ms=timeout_ms,
        )
        talk.ask(request, version)

    for timestamp in range(-8, 1):
        for timeout_ms in (0, -5, 1000):
            ask(timestamp, timeout_ms)
        ask(timestamp, 1000, isolation_level=1)
        ask(timestamp, 1000, partition=9)
