"""Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords, InitProducerId: good input and bad."""

from typing import Any

from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.messages.coordinators.transactions import InitProducerIdRequest
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, ForgottenTopic
from twisted_kafka.protocol.messages.list_offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from twisted_kafka.protocol.messages.produce import ProduceRequest
from twisted_kafka.protocol.records.builder import build_batch, build_message_set
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.tools.compare.data_requests import START_MS, by_id, data, fetch, fill, list_offsets, produce, records
from twisted_kafka.tools.compare.talk import Talk, scenario


@scenario(ProduceRequest)
def produce_good(talk: Talk, version: int) -> None:
    topic = talk.create("t", 2)
    for acks in (1, -1):
        talk.ask(produce(topic, data(version), acks=acks), version)
    codecs = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4] + ([Compression.ZSTD] if version >= 7 else [])
    for codec in codecs:
        talk.ask(produce(topic, data(version, compression=codec), 1), version)
    fetch_all(talk, topic, 1)


def fetch_all(talk: Talk, topic: str, partition: int = 0) -> None:
    talk.ask(fetch(topic, FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1_000_000)), 11)


@scenario(ProduceRequest)
def produce_append_time(talk: Talk, version: int) -> None:
    topic = talk.create("t", message_timestamp_type="LogAppendTime")
    talk.ask(produce(topic, data(version)), version)


@scenario(ProduceRequest)
def produce_bad(talk: Talk, version: int) -> None:
    topic = talk.create("t", 1, max_message_bytes="1000")
    compacted = talk.create("c", 1, cleanup_policy="compact")
    talk.ask(produce("no." + topic, data(version)), version)
    talk.ask(produce(topic, data(version), partition=7), version)
    talk.ask(produce(topic, data(version), partition=-1), version)
    talk.ask(produce("a/b", data(version)), version)
    talk.ask(produce("", data(version)), version)
    talk.ask(produce(topic, data(version), acks=5), version)
    talk.ask(produce(topic, data(version, 100)), version)
    flipped = bytearray(data(version))
    flipped[-1] ^= 1
    talk.ask(produce(topic, bytes(flipped)), version)
    talk.ask(produce(compacted, build_keyless(version)), version)
    talk.ask(produce(topic, data(version)[:-3]), version)
    talk.ask(produce(topic, data(version)[:10]), version)
    talk.ask(produce(topic, data(version) + data(version)), version)
    talk.ask(produce(topic, b""), version)
    talk.ask(produce("__consumer_offsets", data(version)), version)


def build_keyless(version: int) -> bytes:
    keyless = [SimpleRecord(START_MS, None, b"value", ())]
    return build_batch(keyless) if version >= 3 else build_message_set(keyless, magic=1 if version == 2 else 0)


@scenario(ProduceRequest, since=3)
def produce_lying_batches(talk: Talk, version: int) -> None:
    import crc32c

    topic = talk.create("t")

    def lie(position: int, value: bytes) -> bytes:
        batch = bytearray(data(version))
        batch[position : position + len(value)] = value
        batch[17:21] = crc32c.crc32c(bytes(batch[21:])).to_bytes(4, "big")
        return bytes(batch)

    for position, value in (
        (57, (4).to_bytes(4, "big")),  # more records than there are
        (57, (2).to_bytes(4, "big")),
        (57, (-1).to_bytes(4, "big", signed=True)),
        (23, (9).to_bytes(4, "big")),  # last offset delta
        (16, b"\x03"),  # magic
        (21, b"\x00\x05"),  # an unknown codec
        (21, b"\x00\x20"),  # a control batch
        (21, b"\x00\x10"),  # transactional without a producer
        (0, (100).to_bytes(8, "big")),  # base offset
        (8, (1).to_bytes(4, "big")),  # length
        (61, b"\x7f"),  # the first record's length
    ):
        talk.ask(produce(topic, lie(position, value)), version)
    talk.ask(produce(topic, lie(21, b"\x00\x01")), version)  # says that it is compressed
    old = build_message_set(records(1), magic=1)
    talk.ask(produce(topic, old), version)
    talk.ask(produce(topic, data(version, compression=Compression.ZSTD)), version)


@scenario(ProduceRequest, since=3)
def produce_negative_epochs(talk: Talk, version: int) -> None:
    for codec in (Compression.NONE, Compression.GZIP):
        kept = talk.create(f"kept{int(codec)}")
        rebuilt = talk.create(f"rebuilt{int(codec)}", compression_type="lz4")
        for epoch in (-1, -2):
            batch = build_batch(records(3), compression=codec, producer_id=5, producer_epoch=epoch, base_sequence=0)
            for topic in (kept, rebuilt):
                talk.ask(produce(topic, batch), version)


@scenario(ProduceRequest, since=3)
def produce_lying_offsets(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    talk.ask(produce(topic, build_batch(records(3), offset_deltas=[1, 0, 2])), version)
    fetch_all(talk, topic)


@scenario(ProduceRequest, since=3)
def produce_transactional(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    transactional: dict[str, Any] = {"producer_id": 77, "producer_epoch": 0, "base_sequence": 0}
    for fields in ({}, transactional):
        request = produce(topic, build_batch(records(1), is_transactional=True, **fields))
        request.topic_data += produce("no." + topic, data(version)).topic_data
        talk.ask(request, version)
        request.transactional_id = talk.topic("transaction")
        talk.ask(request, version)


@scenario(ProduceRequest, since=3)
def produce_idempotent(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    producer = talk.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 1, note=False)

    def batch(sequence: int, epoch: int = 0, count: int = 3) -> bytes:
        return build_batch(records(count), producer_id=producer.producer_id, producer_epoch=epoch, base_sequence=sequence)

    for sequence, epoch in ((0, 0), (0, 0), (3, 0), (0, 0), (9, 0), (1, 1), (0, 1), (3, 0)):
        talk.ask(produce(topic, batch(sequence, epoch), acks=-1), version)
    # A producer that is new to the partition may begin anywhere; an earlier sequence is out of order from then on.
    begun_later = talk.create("begun-later")
    for sequence in (3, 0, 6, 3):
        talk.ask(produce(begun_later, batch(sequence), acks=-1), version)


@scenario(FetchRequest)
def fetch_good(talk: Talk, version: int) -> None:
    topic = talk.create("t", 2)
    fill(talk, topic)
    for offset in (0, 2, 3, 5, 6):
        request = fetch(topic, FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000))
        talk.ask(by_id(talk, request, version), version)
    both = [FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1_000_000) for partition in (0, 1)]
    talk.ask(by_id(talk, fetch(topic, *both), version), version)


@scenario(FetchRequest)
def fetch_limits(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    fill(talk, topic, 4)
    for max_bytes in (0, 1, 150, 220):
        request = fetch(topic, FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=max_bytes))
        talk.ask(by_id(talk, request, version), version)
        if version >= 3:
            request = fetch(topic, FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000), max_bytes=max_bytes)
            talk.ask(by_id(talk, request, version), version)
    request = fetch(topic, FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000), isolation_level=1)
    if version >= 4:
        talk.ask(by_id(talk, request, version), version)


@scenario(FetchRequest)
def fetch_bad(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    fill(talk, topic)
    for partition, offset, epoch in ((0, 7, -1), (0, -1, -1), (9, 0, -1), (0, 0, 5), (0, 0, 0)):
        if version < 9 and epoch >= 0:
            continue
        entry = FetchPartition(partition=partition, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1_000_000)
        talk.ask(by_id(talk, fetch(topic, entry), version), version)
    entry = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    missing = FetchPartition(partition=4, fetch_offset=0, partition_max_bytes=1_000_000)
    talk.ask(by_id(talk, fetch(topic, entry, missing), version), version)
    if version >= 4:
        talk.ask(by_id(talk, fetch(topic, entry, isolation_level=7), version), version)
    if version < 13:
        talk.ask(fetch("no." + topic, entry), version)
    else:
        for topic_id in (bytes(range(16)), NO_UUID):
            request = fetch(topic, entry)
            request.topics[0].topic_id = topic_id
            talk.ask(request, version)


@scenario(FetchRequest)
def fetch_compressed(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    for codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD):
        talk.ask(produce(topic, data(8, compression=codec)), 8, note=False)
    for offset in (0, 4, 6):
        request = fetch(topic, FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000))
        talk.ask(by_id(talk, request, version), version)


@scenario(FetchRequest, since=7)
def fetch_sessions(talk: Talk, version: int) -> None:
    topic = talk.create("t", 3)
    fill(talk, topic)
    entries = [FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1_000_000) for partition in range(3)]
    first = talk.ask(by_id(talk, fetch(topic, *entries, session_epoch=0), version), version)
    session = first.session_id
    talk.ask(fetch_none(session, 1), version)
    moved = FetchPartition(partition=0, fetch_offset=6, partition_max_bytes=1_000_000)
    talk.ask(by_id(talk, fetch(topic, moved, session_id=session, session_epoch=2), version), version)
    talk.ask(fetch_none(session, 3), version)
    fill(talk, topic, 1)
    talk.ask(fetch_none(session, 4), version)
    forget = fetch_none(session, 5)
    forgotten = ForgottenTopic(topic=topic, partitions=[0])
    if version >= 13:
        forgotten.topic_id = talk.topic_id(topic)
    forget.forgotten_topics_data = [forgotten]
    talk.ask(forget, version)
    talk.ask(fetch_none(session, 4), version)
    talk.ask(fetch_none(session + 1, 4), version)
    talk.ask(fetch_none(session, -1), version)
    talk.ask(fetch_none(session, 6), version)


def fetch_none(session_id: int, epoch: int) -> FetchRequest:
    return FetchRequest(topics=[], max_wait_ms=0, min_bytes=0, max_bytes=10_000_000, session_id=session_id, session_epoch=epoch)


@scenario(ListOffsetsRequest)
def list_offsets_all(talk: Talk, version: int) -> None:
    topic = talk.create("t", 2)
    fill(talk, topic)
    for timestamp in (-1, -2, -3, -4, -5, -6, 0, START_MS, START_MS + 1, START_MS + 5, START_MS + 12, START_MS + 100):
        talk.ask(list_offsets(topic, timestamp, most=10 if version == 0 else 1), version)
    talk.ask(list_offsets(topic, -1, partition=1), version)
    talk.ask(list_offsets(topic, -3, partition=1), version)
    talk.ask(list_offsets(topic, -1, partition=9), version)
    talk.ask(list_offsets("no." + topic, -1), version)
    if version >= 4:
        talk.ask(list_offsets(topic, -1, epoch=9), version)
        talk.ask(list_offsets(topic, -1, epoch=0), version)
    twice = list_offsets(topic, -1)
    twice.topics[0].partitions *= 2
    talk.ask(twice, version)
    if version >= 2:
        committed = list_offsets(topic, -1)
        committed.isolation_level = 1
        talk.ask(committed, version)


@scenario(OffsetForLeaderEpochRequest)
def offsets_for_epochs(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    fill(talk, topic)
    for partition, epoch, current in ((0, 0, -1), (0, 1, -1), (0, -1, -1), (5, 0, -1), (0, 0, 3), (0, 0, 0)):
        if version < 2 and current >= 0:
            continue
        entry = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch, current_leader_epoch=current)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[entry])])
        if version >= 3:
            request.replica_id = -1
        talk.ask(request, version)


@scenario(DeleteRecordsRequest)
def delete_records(talk: Talk, version: int) -> None:
    topic = talk.create("t")
    fill(talk, topic)

    def delete(name: str, partition: int, offset: int) -> None:
        entry = DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)])
        talk.ask(DeleteRecordsRequest(topics=[entry], timeout_ms=5000), version)

    for offset in (2, 1, 4, 7, -2, -1):
        delete(topic, 0, offset)
    delete(topic, 3, 0)
    delete("no." + topic, 0, 0)
    delete("__consumer_offsets", 0, 0)
    talk.ask(list_offsets(topic, -2), 5)
    fetch_all(talk, topic)


@scenario(InitProducerIdRequest)
def init_producer_id(talk: Talk, version: int) -> None:
    talk.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), version)
    talk.ask(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60_000), version)
    talk.ask(InitProducerIdRequest(transactional_id=talk.topic("transaction"), transaction_timeout_ms=60_000), version)
    if version >= 3:
        talk.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000, producer_id=12345, producer_epoch=2),
            version,
        )
