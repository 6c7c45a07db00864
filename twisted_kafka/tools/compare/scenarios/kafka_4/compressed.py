"""``max.decompressed.message.bytes`` of a topic, which limits each record of a compressed batch."""

from functools import partial

from twisted_kafka.protocol.messages.produce import ProduceRequest
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.tools.compare.data_requests import START_MS, produce
from twisted_kafka.tools.compare.talk import SCENARIOS_OF_KAFKA_4, Talk, scenario

newer = partial(scenario, registry=SCENARIOS_OF_KAFKA_4)


@newer(ProduceRequest, since=12, until=12)
def produce_large_compressed_records(talk: Talk, version: int) -> None:
    topic = talk.create("t", max_decompressed_message_bytes="2000")
    talk.known(topic)
    for codec in Compression:
        for sizes in ([1993], [1994], [1990, 1990], [9, 1994], [1994, 9]):
            records = [SimpleRecord(START_MS, None, bytes(size)) for size in sizes]
            talk.ask(produce(topic, build_batch(records, compression=codec)), version)
