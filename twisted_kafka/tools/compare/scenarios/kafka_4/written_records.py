"""What a broker has written about a group to an internal topic, record by record."""

from collections.abc import Iterator
from typing import Any, Final

from twisted_kafka.coordinator.coordinator_record import RecordKinds, UnknownRecordKindError, decode_record
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.tools.compare.answers import plain
from twisted_kafka.tools.compare.data_requests import list_offsets
from twisted_kafka.tools.compare.talk import Talk

_ALL_BYTES: Final = 1 << 24
_EARLIEST: Final = -2
_OWN_TO_EACH_BROKER: Final = ("assignment_timestamp", "metadata_hash", "create_timestamp", "write_timestamp")


def written_records(talk: Talk, topic: str, kinds: RecordKinds, group: str) -> list[Any]:
    """Return the class, the key and the value of each record of these kinds about a group, without times and hashes."""
    answer = talk.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12, note=False)
    partitions = sorted(each.partition_index for each in answer.topics[0].partitions)
    records = (record for partition in partitions for record in _records(talk, topic, partition))
    return [noted for key, value in records for noted in _noted(kinds, group, key, value)]


def _records(talk: Talk, topic: str, partition: int) -> Iterator[tuple[Any, Any]]:
    earliest = talk.ask(list_offsets(topic, _EARLIEST, partition), 4, note=False)
    offset = earliest.topics[0].partitions[0].offset
    while True:
        part = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_ALL_BYTES)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[part])])
        records = talk.ask(request, 4, note=False).responses[0].partitions[0].records
        read = list(batches(records)) if records else []
        if not read:
            return
        for batch in read:
            offset = batch.last_offset + 1
            for record in () if batch.is_control else batch.records():
                yield record.key, record.value


def _noted(kinds: RecordKinds, group: str, key: Any, value: Any) -> list[Any]:
    try:
        record = decode_record(kinds, key, value)
    except UnknownRecordKindError:
        return []
    if group not in (getattr(record.key, "group_id", None), getattr(record.key, "group", None)):
        return []
    if record.value is not None:
        for name in _OWN_TO_EACH_BROKER:
            if hasattr(record.value, name):
                setattr(record.value, name, int(bool(getattr(record.value, name))))
    return [[type(record.key).__name__, plain(record.key), None if record.value is None else plain(record.value)]]
