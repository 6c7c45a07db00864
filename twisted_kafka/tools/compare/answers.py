"""Answers in a form in which those of two brokers can be compared."""

import math
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from typing_extensions import override

from twisted_kafka.protocol.compiler.schema import Struct
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.records.batch import batches

ABSENT: Final = "<absent>"
"""Stands for a value that an answer does not have."""

CHANGING = {
    "host": lambda value: "<host>" if value else value,
    "port": lambda value: "<port>" if value > 0 else value,
    "cluster_id": lambda value: "<cluster>" if value else value,
    "topic_id": lambda value: "<none>" if value == NO_UUID else "<id>",
    "session_id": lambda value: "<session>" if value else 0,
    "producer_id": lambda value: "<producer>" if value >= 0 else value,
    "transaction_start_time_ms": lambda value: "<now>" if value > 0 else value,
    "log_append_time_ms": lambda value: "<now>" if value > 0 else value,
    "member_id": lambda value: "<member>" if value else value,
    "leader": lambda value: ("<member>" if value else value) if isinstance(value, str) else value,
    "documentation": lambda value: "<text>" if value else value,
}
"""Fields whose values differ between any two brokers, and the functions of the values that are compared instead."""

TERMS = (
    "already exists",
    "do(es)? not exist",
    "not found",
    "replication factor",
    "not authorized",
    "illegal",
    "invalid|not (a )?valid",
    "unknown",
    "larger than",
    "higher than",
    "duplicate",
    "collides",
    "not allowed",
    "not supported",
    "must be",
    "in progress",
    "not alive",
    "not available",
    "not enabled|disabled",
    "not the",
    "authorization failed",
    "timed out",
    "does not host",
    "in-sync replicas",
    "out of (order|range)",
    "empty",
    "null",
)
"""What people and programs search for in the messages of errors, as regular expressions: one in Kafka's message must be in ours."""


class ErrorText(NamedTuple):
    """The message of an error. The sentences are each broker's own, the terms are Kafka's."""

    text: str
    has_failed: bool
    """Whether there is an error; without one some fields have a text too."""

    def terms(self) -> set[str]:
        """Return the terms in it."""
        return {term for term in TERMS if re.search(term, self.text, re.IGNORECASE)}


UNORDERED = {
    ("MetadataResponseTopic", "partitions"): "partition_index",
    ("ProduceResponse", "responses"): "name",
    ("FetchableTopicResponse", "partitions"): "partition_index",
    ("TopicProduceResponse", "partition_responses"): "index",
    ("CreateTopicsResponse", "topics"): "name",
    ("CreatePartitionsResponse", "results"): "name",
    ("DeleteTopicsResponse", "responses"): "name",
    ("ListGroupsResponse", "groups"): "group_id",
    ("DescribedGroup", "members"): "member_assignment",
    ("ReplicaElectionResult", "partition_result"): "partition_id",
    ("ElectLeadersResponse", "replica_election_results"): "topic",
    ("OffsetDeleteResponseTopic", "partitions"): "partition_index",
    ("JoinGroupResponse", "members"): "metadata",
    ("OffsetFetchResponse", "topics"): "name",
    ("AlterClientQuotasResponseEntryData", "entity"): "entity_type",
    ("DescribeClientQuotasResponseEntryData", "entity"): "entity_type",
    ("DescribeClientQuotasResponseEntryData", "values"): "key",
    ("OffsetFetchResponseGroup", "topics"): "name",
    ("OffsetCommitResponseTopic", "partitions"): "partition_index",
    ("TxnOffsetCommitResponse", "topics"): "name",
    ("TxnOffsetCommitResponseTopic", "partitions"): "partition_index",
    ("WritableTxnMarkerResult", "topics"): "name",
    ("WritableTxnMarkerTopicResult", "partitions"): "partition_index",
    ("WriteTxnMarkersResponse", "markers"): "producer_id",
    ("ConsumerGroupDescribeResponse", "groups"): "group_id",
    ("AddPartitionsToTxnResponse", "results_by_topic_v3_and_below"): "name",
    ("AddPartitionsToTxnResponse", "results_by_transaction"): "transactional_id",
    ("AddPartitionsToTxnResult", "topic_results"): "name",
    ("AddPartitionsToTxnTopicResult", "results_by_partition"): "partition_index",
    ("DescribeTransactionsResponse", "transaction_states"): "transactional_id",
    ("AlterUserScramCredentialsResponse", "results"): "user",
    ("DescribeUserScramCredentialsResponse", "results"): "user",
    ("DescribeUserScramCredentialsResult", "credential_infos"): "mechanism",
    ("ShareFetchableTopicResponse", "partitions"): "partition_index",
    ("ShareAcknowledgeTopicResponse", "partitions"): "partition_index",
}
"""Lists that Apache Kafka fills from a hash table, and the field by which they are sorted before a comparison."""

BY_NAME = {("CreatableTopicResult", "configs"), ("DescribeConfigsResult", "configs")}
"""Such lists whose items have names: compared name by name."""


PLACES = frozenset(("advertised.listeners", "broker.id", "listeners", "log.dir", "log.dirs", "node.id", "zookeeper.connect"))
"""Settings whose values differ between any two brokers."""


def plain(value: Any, name: str = "") -> Any:
    """Return a message as dictionaries, lists and scalars, with what changes made equal."""
    if name == "records" and value is not None:
        return [_plain_batch(batch) for batch in batches(value)]
    if name in CHANGING:
        return CHANGING[name](value)  # type: ignore[no-untyped-call]
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Struct):
        return _plain_struct(value)
    return value


def _sorted(values: list[Any], order: str) -> list[Any]:
    present = [each for each in values if getattr(each, order, None) is not None]
    absent = [each for each in values if getattr(each, order, None) is None]
    return absent + sorted(present, key=lambda each: getattr(each, order))


def _plain_struct(struct: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    has_failed = bool(getattr(struct, "error_code", True))
    for field in struct.FIELDS:
        name = field.name
        value = getattr(struct, name)
        order = UNORDERED.get((type(struct).__name__, name))
        if order is not None and value:
            value = _sorted(value, order)
        if (type(struct).__name__, name) in BY_NAME and value:
            fields[name] = {each.name: plain(each) for each in value}
        elif name == "value" and value and getattr(struct, "name", None) in PLACES:
            fields[name] = "<place>"
        elif name in ("error_message", "batch_index_error_message"):
            fields[name] = ErrorText(value or "", has_failed)
        elif name == "acknowledge_error_message":
            fields[name] = ErrorText(value or "", bool(struct.acknowledge_error_code))
        elif name != "throttle_time_ms":
            fields[name] = plain(value, name)
    return fields


def _plain_batch(batch: Any) -> Any:
    return {
        "magic": batch.magic,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "compression": int(batch.compression),
        "records": [
            (record.offset, record.timestamp_ms, record.key, record.value, list(record.headers)) for record in batch.records()
        ],
    }


class Place(NamedTuple):
    """Where in an answer a difference is; as text ``.topics[0].error_code``."""

    keys: tuple[str | int, ...] = ()
    missing: tuple[str, ...] = ()
    """Terms that the second message lacks."""

    def inside(self, key: str | int) -> "Place":
        """Return a place within this one: a field's name, or a position in a list."""
        return Place((*self.keys, key))

    @override
    def __str__(self) -> str:
        path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.keys)
        return f"{path} without {', '.join(self.missing)}" if self.missing else path


WHOLE: Final = Place()
"""The place of a whole answer."""


def differences(expected: Any, found: Any, place: Place = WHOLE) -> Iterator[tuple[Place, Any, Any]]:
    """Yield where two plain values differ, as (place, expected, found)."""
    if isinstance(expected, ErrorText) and isinstance(found, ErrorText):
        if not expected.has_failed and bool(expected.text) != bool(found.text):
            yield place, expected.text, found.text
        # Kafka often says nothing of an error.
        missing = expected.terms() - found.terms()
        if missing:
            yield place._replace(missing=tuple(sorted(missing))), expected.text, found.text
    elif isinstance(expected, dict) and isinstance(found, dict):
        for name in sorted(expected.keys() | found.keys()):
            yield from differences(expected.get(name, ABSENT), found.get(name, ABSENT), place.inside(name))
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for at, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(one, other, place.inside(at))
    elif expected != found:
        yield place, expected, found


def value_at(answer: Any, place: Place) -> Any:
    """Return the value at a place of a plain value, ``ABSENT`` without one; of an error's message the text."""
    for key in place.keys:
        is_there = key in answer if isinstance(answer, dict) else isinstance(answer, list) and key in range(len(answer))
        if not is_there:
            return ABSENT
        answer = answer[key]
    return answer.text if isinstance(answer, ErrorText) else answer


def as_json(value: Any) -> Any:
    """Return a plain value as JSON values: bytes as text if they are text, else in hex."""
    if isinstance(value, ErrorText):
        return value.text
    if isinstance(value, dict):
        return {str(key): as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return _text(bytes(value))
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    return text if text.isprintable() else f"0x{data.hex()}"


def as_stored(value: Any) -> Any:
    """Return a plain value as JSON values, with the terms of errors' messages in place of the messages."""
    if isinstance(value, ErrorText):
        return f"<a message with: {', '.join(sorted(value.terms()))}>" if value.terms() else "<a message>" if value.text else ""
    if isinstance(value, dict):
        return {str(key): as_stored(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_stored(each) for each in value]
    return as_json(value)
