"""Partitions of ``__consumer_offsets`` that Apache Kafka wrote: read, replayed, and written again to the same bytes."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator_fakes import Bench, MemoryLog
from twisted_kafka.coordinator.coordinator_record import UnknownRecordKindError, decode_record
from twisted_kafka.coordinator.hashing import partition_for
from twisted_kafka.group_coordinator.modern.topic_hash import TopicHashes
from twisted_kafka.group_coordinator.offsets.offset_metadata_manager import OffsetFetch
from twisted_kafka.group_coordinator.requests import Sender
from twisted_kafka.group_coordinator.state.group_kinds import GROUP_RECORD_KINDS
from twisted_kafka.group_coordinator.subscription import subscribed_topics
from twisted_kafka.metadata.cache import BrokerInfo, MetadataSnapshot, PartitionState
from twisted_kafka.protocol.json_form import to_json
from twisted_kafka.protocol.records.batch import DefaultBatch, batches
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, TopicPartition

SEGMENTS = Path(__file__).parent.parent / "data" / "coordinator" / "segments"
VERSIONS = sorted(path.name for path in SEGMENTS.iterdir())
PARTITIONS = 4


def data_batches(version: str, partition: int) -> list[Any | DefaultBatch]:
    data = (SEGMENTS / version / f"{GROUP_METADATA_TOPIC}-{partition}.log").read_bytes()
    return [batch for batch in batches(data) if not batch.is_control]


def expected(version: str, *kinds: Any) -> Iterator[dict[str, Any]]:
    """The group coordinator's records of these kinds, all without any given."""
    for line in (SEGMENTS / version / "expected.jsonl").read_text().splitlines():
        record = json.loads(line)
        kind = record["keyType"]
        if (
            kind in kinds
            if kinds
            else kind in ("GroupMetadataKey", "OffsetCommitKey") or kind.startswith(("ConsumerGroup", "ShareGroup"))
        ):
            yield record


@pytest.mark.parametrize("version", VERSIONS)
def test_each_record_is_read_and_written_as_kafka_does(version: str) -> None:
    by_place = {(record["file"], record["offset"]): record for record in expected(version)}
    for partition in range(PARTITIONS):
        for batch in data_batches(version, partition):
            for record in batch.records():
                try:
                    decoded = decode_record(GROUP_RECORD_KINDS, record.key, record.value)
                except UnknownRecordKindError:
                    continue
                wanted = by_place.pop((f"{GROUP_METADATA_TOPIC}-{partition}", record.offset))
                assert decoded.kind == wanted["keyVersion"]
                assert to_json(decoded.key, 0) == wanted["key"]
                if wanted.get("value") is None:
                    assert decoded.value is None
                else:
                    assert decoded.value_version == wanted["valueVersion"]
                    assert to_json(decoded.value, decoded.value_version) == wanted["value"]
                assert (decoded.encode_key(), decoded.encode_value()) == (record.key, record.value)
    assert not by_place


@pytest.mark.parametrize("version", VERSIONS)
def test_the_whole_partitions_are_loaded(version: str) -> None:
    log = MemoryLog()
    for partition in range(PARTITIONS):
        data = (SEGMENTS / version / f"{GROUP_METADATA_TOPIC}-{partition}.log").read_bytes()
        log.batches[TopicPartition(GROUP_METADATA_TOPIC, partition)].append(data)
    bench = Bench(partitions=PARTITIONS, log=log)
    assert sorted(bench.runtime.active_partitions()) == list(range(PARTITIONS))

    offsets: dict[Any, Any] = {}
    groups: dict[Any, Any] = {}
    for record in expected(version, "GroupMetadataKey", "OffsetCommitKey"):
        if record["keyType"] == "OffsetCommitKey":
            of_group = offsets.setdefault(record["key"]["group"], {})
            of_group[record["key"]["topic"], record["key"]["partition"]] = record.get("value")
        else:
            groups[record["key"]["group"]] = record.get("value")
    for group_id, of_group in offsets.items():
        answer: Any = bench.groups.fetch_offsets(OffsetFetch(Sender(group_id), None, False))
        error, fetched = answer
        assert error == 0
        wanted = {key: (value["offset"], value["metadata"]) for key, value in of_group.items() if value is not None}
        assert {key: (value.offset, value.metadata) for key, value in fetched.items()} == wanted
    for group_id, group in groups.items():
        described = bench.groups.describe_group(group_id)
        if group is None:
            assert described.state in ("Dead", "Empty")
            continue
        assert described.state == ("Stable" if group["members"] else "Empty")
        assert {member.member_id for member in described.members} == {member["memberId"] for member in group["members"]}
    names = {one.group_id for one in bench.groups.list_groups((), ())[1]}
    assert {group_id for group_id, group in groups.items() if group is not None} <= names


@pytest.mark.parametrize("version", VERSIONS)
def test_groups_lie_in_the_partitions_that_we_would_choose(version: str) -> None:
    for record in expected(version):
        group_id = record["key"].get("group") or record["key"]["groupId"]
        assert record["file"] == f"{GROUP_METADATA_TOPIC}-{partition_for(group_id, PARTITIONS)}"


def test_topics_of_real_subscriptions() -> None:
    found = {
        (record["key"]["group"], subscribed_topics(base64.b64decode(member["subscription"])))
        for version in VERSIONS
        for record in expected(version, "GroupMetadataKey")
        if record.get("value")
        for member in record["value"]["members"]
    }
    assert ("classic-rangeassignor", frozenset({"codec-gzip", "orders.eu"})) in found
    assert all(topics for _, topics in found)


@pytest.mark.parametrize("data", [b"", b"x", b"\0\0", b"\xff\xff\0\0\0\0", b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1\0\5abc"])
def test_a_subscription_that_is_none(data: bytes) -> None:
    with pytest.raises(ValueError, match="subscription"):
        subscribed_topics(data)


def groups_after_each_batch(version: str) -> Iterator[Any]:
    """Each group as it was after each batch of its partition: a broker may take over at any of them."""
    for partition in range(PARTITIONS):
        log = MemoryLog()
        where = TopicPartition(GROUP_METADATA_TOPIC, partition)
        for batch in data_batches(version, partition):
            log.batches[where].append(bytes(batch.data))
            bench = Bench(partitions=PARTITIONS, log=log)
            shard = bench.runtime._contexts[partition].shard
            yield from shard.store.groups.values()
            bench.groups.shutdown()


@pytest.mark.medium
@pytest.mark.parametrize(("version", "first_epoch"), [("3.9.2-kraft", 1), ("4.4.0-kraft", 2)])
def test_consumer_groups_go_the_way_that_kafka_took_them(version: str, first_epoch: int) -> None:
    seen = []
    for group in groups_after_each_batch(version):
        if group.group_id == "kip848":
            seen.append((group.state.value, group.epoch - first_epoch, len(group.members)))
            for member in group.members.values():
                for topic_id, indexes in member.current.assigned.items():
                    assert all(group.owner(topic_id, index) == member.member_id for index in indexes)
    steps = [step for at, step in enumerate(seen) if not at or seen[at - 1] != step]
    assert steps == [
        ("Stable", 0, 1),
        ("Reconciling", 1, 2),
        ("Stable", 1, 2),
        ("Reconciling", 1, 2),  # the static one is away for a while
        ("Assigning", 2, 1),
        ("Empty", 3, 0),
    ]


def share_group_values(key_type: str) -> list[Any]:
    return [record["value"] for record in expected("4.4.0-kraft", key_type) if record["key"]["groupId"] == "share-1"]


@pytest.mark.medium
def test_a_share_group_goes_the_way_that_kafka_took_it() -> None:
    seen = [
        (group.state.value, group.epoch, group.target_epoch, len(group.members), sum(map(len, group.initialized.values())))
        for group in groups_after_each_batch("4.4.0-kraft")
        if group.group_id == "share-1"
    ]
    steps = [step for at, step in enumerate(seen) if not at or seen[at - 1] != step]
    assert steps == [("Stable", 2, 2, 1, 0), ("Stable", 2, 2, 1, 4), ("Stable", 3, 3, 1, 4), ("Empty", 4, 4, 0, 4)]


def test_the_hash_of_topics_is_kafkas() -> None:
    topics = share_group_values("ShareGroupStatePartitionMetadataKey")[-1]["initializedTopics"]
    ids = {topic["topicName"]: base64.urlsafe_b64decode(topic["topicId"] + "==") for topic in topics}
    parts = {topic["topicName"]: {index: partition(topic["topicName"], index) for index in topic["partitions"]} for topic in topics}
    snapshot = MetadataSnapshot({}, parts, ids, {each: name for name, each in ids.items()})
    hashes = TopicHashes()
    first, _, last = (value["metadataHash"] for value in share_group_values("ShareGroupMetadataKey"))
    for _ in range(2):
        assert hashes.group_hash(snapshot, [*ids, "unknown"]) == first
        assert hashes.group_hash(snapshot, ["unknown"]) == last == 0
    racks = MetadataSnapshot({1: BrokerInfo(1, "r", {})}, parts, ids, snapshot.topic_names)
    assert hashes.group_hash(racks, ids) != first
    assert hashes.group_hash(snapshot, ids) == first


def partition(topic: str, index: int) -> PartitionState:
    return PartitionState(topic, index, leader=1, replicas=[1])


STREAMS_RECORDS = Path(__file__).parent.parent / "data" / "coordinator" / "streams-group-4.4.0.jsonl"
"""Keys and values that Apache Kafka 4.4.0 wrote about a streams group: two members, one of them static, a standby task for each."""


def streams_records() -> list[SimpleRecord]:
    pairs = [json.loads(line) for line in STREAMS_RECORDS.read_text().splitlines()]
    return [SimpleRecord(0, base64.b64decode(key), None if value is None else base64.b64decode(value)) for key, value in pairs]


def test_records_of_streams_groups_are_read_and_written_as_kafka_does() -> None:
    for record in streams_records():
        decoded = decode_record(GROUP_RECORD_KINDS, record.key, record.value)
        assert (decoded.encode_key(), decoded.encode_value()) == (record.key, record.value)


@pytest.mark.medium
def test_a_streams_group_goes_the_way_that_kafka_took_it() -> None:
    log = MemoryLog()
    where = TopicPartition(GROUP_METADATA_TOPIC, 0)
    seen: list[Any] = []
    for offset, record in enumerate(streams_records()):
        log.batches[where].append(offset.to_bytes(8, "big") + bytes(build_batch([record]))[8:])
        bench = Bench(log=log)
        (shard,) = (context.shard for context in bench.runtime._contexts.values())
        group = shard.store.groups.streams.get("s.group")
        if group is None:
            seen.append(None)
        else:
            members = {member_id[0]: member for member_id, member in group.members.items()}
            tasks = {name: tuple(map(len, member.current.assigned.tasks)) for name, member in members.items()}
            seen.append((group.state.value, group.epoch, group.target_epoch, tasks))
        bench.groups.shutdown()
    settled = [each for each in seen if each is not None and each[0] in ("Stable", "Empty", "NotReady")]
    both = {"a": (4, 2, 0), "b": (4, 2, 0)}
    assert [step for at, step in enumerate(settled) if not at or settled[at - 1] != step] == [
        ("NotReady", 1, 1, {"a": (0, 0, 0)}),
        ("NotReady", 2, 1, {"a": (0, 0, 0)}),
        ("NotReady", 2, 2, {"a": (0, 0, 0)}),
        ("Stable", 3, 3, {"a": (8, 0, 0)}),
        ("Stable", 4, 4, both),
        ("Stable", 4, 4, {"a": (4, 2, 0)}),  # the static one is replaced
        ("Stable", 4, 4, {"a": (4, 2, 0), "c": (4, 2, 0)}),
        ("Stable", 4, 4, {"a": (4, 2, 0)}),
        ("Stable", 5, 5, {"a": (8, 0, 0)}),
        ("Empty", 5, 5, {}),
        ("Empty", 6, 5, {}),
        ("Empty", 6, 6, {}),
        ("Empty", 6, -1, {}),
    ]
    assert seen[-1] is None
