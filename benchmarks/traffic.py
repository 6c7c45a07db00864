"""The requests of clients that use many partitions: for each kind of load an endless sequence of frames.

``benchmarks.request_path --traffic`` sends them in process, ``benchmarks.real_traffic`` over sockets to several brokers. The
versions are those that librdkafka 2 and Java clients of Kafka 3 send.
"""

import functools
import itertools
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import crc32c

from benchmarks.group_members import ClassicMember, Connection, find_coordinator, run
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.headers import request_header_version
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreateTopicsRequest
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest, HeartbeatRequest
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from twisted_kafka.protocol.messages.coordinators.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    InitProducerIdRequest,
)
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord

PARTITIONS: Final = 1000
"""Partitions of the topic; a scenario uses the first ones."""
GROUP_PARTITIONS: Final = 200
MEMBERS: Final = 50
TOPICS: Final = 2000
RECORD_BYTES: Final = 100
TIMEOUT_MS: Final = 30_000
TRANSACTION_TIMEOUT_MS: Final = 900_000
WAIT_S: Final = 120.0
RETRY_S: Final = 0.1

_SEQUENCE_AT, _CRC_AT, _CRC_FROM = 53, 17, 21

Frames = Iterator[bytes]


def frame_of(message: Message, version: int) -> bytes:
    """Return a request as it is on the wire, with the correlation id 0."""
    key: int = message.KEY
    tail = b"\0" if request_header_version(key, version) == 2 else b""
    body = struct.pack(">hhih", key, version, 0, 5) + b"bench" + tail + message.encode(version)
    return struct.pack(">i", len(body)) + body


class Traffic:
    """Prepares a broker's topics and ids, and makes the frames of the scenarios."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = Connection(port)
        self._used = 0

    @functools.cached_property
    def topic(self) -> str:
        self._create("traffic", PARTITIONS)
        for first in range(0, PARTITIONS, 100):
            topic = self._produced("traffic", build_batch([_record()]), range(first, first + 100))
            self._ask_again(ProduceRequest(acks=1, timeout_ms=TIMEOUT_MS, topic_data=[topic]), 9)
        return "traffic"

    @functools.cached_property
    def empty_topic(self) -> str:
        self._create("traffic-empty", PARTITIONS)
        return "traffic-empty"

    @functools.cached_property
    def topics(self) -> list[str]:
        names = [f"traffic-{number}" for number in range(TOPICS)]
        for first in range(0, TOPICS, 200):
            self._create(names[first : first + 200], 1)
        return names

    def produce(self, partitions: int, records: int, kind: str = "plain") -> Frames:
        """Batches of ``records`` to each of some partitions; ``kind`` is plain, idempotent or transactional."""
        topic = self.topic
        transactional_id = f"traffic-{self._count()}" if kind == "transactional" else None
        producer_id = epoch = -1
        if kind != "plain":
            producer_id, epoch = self._producer(transactional_id)
        if transactional_id is not None:
            added = AddPartitionsToTxnTopic(name=topic, partitions=list(range(partitions)))
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[added],
            )
            self._ask(request, 3)
        batch = bytearray(
            build_batch(
                [_record() for _ in range(records)],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=-1 if kind == "plain" else 0,
                is_transactional=kind == "transactional",
            )
        )
        produced = ProduceRequest(
            transactional_id=transactional_id,
            acks=1 if kind == "plain" else -1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[self._produced(topic, batch, range(partitions))],
        )
        whole, before = frame_of(produced, 9), bytes(batch)
        if kind == "plain":
            return itertools.repeat(whole)
        return self._numbered(whole, before, records)

    def _numbered(self, whole: bytes, before: bytes, records: int) -> Frames:
        for sequence in itertools.count(0, records):
            batch = bytearray(before)
            struct.pack_into(">i", batch, _SEQUENCE_AT, sequence % (1 << 31))
            struct.pack_into(">I", batch, _CRC_AT, crc32c.crc32c(bytes(batch[_CRC_FROM:])))
            yield whole.replace(before, bytes(batch))

    def fetch(self, partitions: int, changed: int) -> Frames:
        """A consumer's session over some partitions, of which the first ``changed`` have a record each time.

        As clients do, a request names these only: their offsets have changed.
        """
        others = range(changed, partitions)
        topics = []
        if changed:
            topics.append(_fetched(self.topic, range(changed)))
        if others:
            topics.append(_fetched(self.empty_topic, others))
        opened = self._ask_again(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=0, topics=topics), 12)
        session = functools.partial(FetchRequest, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_id=opened.session_id)
        named = topics[:1] if changed else []
        return (frame_of(session(session_epoch=epoch, topics=named), 12) for epoch in itertools.count(1))

    def commit(self, partitions: int) -> Frames:
        """Offsets of a group without members."""
        find_coordinator(self._port)
        committed = [OffsetCommitRequestPartition(partition_index=index, committed_offset=7) for index in range(partitions)]
        topic = OffsetCommitRequestTopic(name=self.topic, partitions=committed)
        request = OffsetCommitRequest(group_id="traffic-commits", topics=[topic])
        self._ask_again(request, 8)
        return itertools.repeat(frame_of(request, 8))

    def metadata(self, topics: int) -> Frames:
        """Metadata of the first ``topics`` of 2,000, or of all topics."""
        names = self.topics
        asked = None if topics == TOPICS else [MetadataRequestTopic(name=name) for name in names[:topics]]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        self._ask(request, 9)
        return itertools.repeat(frame_of(request, 9))

    def group(self) -> Frames:
        """The requests of 50 members of one group with 200 partitions: nine heartbeats and one commit of four offsets in turn."""
        find_coordinator(self._port)
        topic = self.topic
        members = [ClassicMember(self._port, f"traffic-group-{self._count()}", number) for number in range(MEMBERS)]
        run(members, lambda: all(member.is_settled for member in members))
        beats = []
        for number, member in enumerate(members):
            beat = HeartbeatRequest(group_id=member.group, generation_id=member.generation, member_id=member.member_id)
            owned = range(number * 4, number * 4 + 4)
            commit = OffsetCommitRequest(
                group_id=member.group,
                generation_id_or_member_epoch=member.generation,
                member_id=member.member_id,
                topics=[
                    OffsetCommitRequestTopic(
                        name=topic,
                        partitions=[OffsetCommitRequestPartition(partition_index=index, committed_offset=7) for index in owned],
                    )
                ],
            )
            beats.append(([frame_of(beat, 4)] * 9, frame_of(commit, 8)))
        turns = [beats[number][0][turn] if turn < 9 else beats[number][1] for turn in range(10) for number in range(MEMBERS)]
        return itertools.cycle(turns)

    def _count(self) -> int:
        self._used += 1
        return self._used

    def _create(self, names: str | Sequence[str], partitions: int) -> None:
        created = [names] if isinstance(names, str) else names
        topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in created]
        self._ask_again(CreateTopicsRequest(topics=topics), 5)
        self._ask_again(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in created]), 9)

    def _producer(self, transactional_id: str | None) -> tuple[int, int]:
        if transactional_id is not None:
            self._ask_again(FindCoordinatorRequest(key=transactional_id, key_type=1), 3)
        asked = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
        answer = self._ask_again(asked, 2)
        return answer.producer_id, answer.producer_epoch

    @staticmethod
    def _produced(topic: str, batch: bytes | bytearray, partitions: Sequence[int]) -> TopicProduceData:
        return TopicProduceData(
            name=topic, partition_data=[PartitionProduceData(index=index, records=batch) for index in partitions]
        )

    def _ask(self, request: Any, version: int) -> Any:
        answer = self._connection.ask(request, version)
        if codes := error_codes(answer):
            raise RuntimeError(f"{type(request).__name__}: errors {codes}")
        return answer

    def _ask_again(self, request: Any, version: int) -> Any:
        """Ask until there is no error, as topics and coordinators take a moment."""
        deadline_s = time.monotonic() + WAIT_S
        while codes := error_codes(answer := self._connection.ask(request, version)) - {36}:  # TOPIC_ALREADY_EXISTS
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{type(request).__name__}: errors {codes}")
            time.sleep(RETRY_S)
        return answer


def _record() -> SimpleRecord:
    return SimpleRecord(int(time.time() * 1000), None, bytes(RECORD_BYTES))


def _fetched(topic: str, partitions: Sequence[int]) -> FetchTopic:
    asked = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1) for index in partitions]
    return FetchTopic(topic=topic, partitions=asked)


def error_codes(answer: Any) -> set[int]:
    """Return the error codes in a response, however deep."""
    found: set[int] = set()
    names = type(answer).__slots__
    for name in names:
        value = getattr(answer, name)
        if name.endswith("error_code"):
            found.add(value)
        elif isinstance(value, list) and value and hasattr(value[0], "__slots__"):
            for each in value:
                found |= error_codes(each)
    return found - {0}


def _scenarios() -> Iterator[tuple[str, Callable[[Traffic], Frames]]]:
    for partitions, records, kind in itertools.product((1, 10, 100), (1, 100), ("plain", "idempotent", "transactional")):
        name = f"produce {partitions} x {records} {kind}"
        yield name, functools.partial(Traffic.produce, partitions=partitions, records=records, kind=kind)
    for partitions, changed in (
        (1, 1),
        (10, 0),
        (10, 1),
        (10, 10),
        (100, 0),
        (100, 1),
        (100, 10),
        (100, 100),
        (1000, 0),
        (1000, 1),
    ):
        yield f"fetch {changed} of {partitions}", functools.partial(Traffic.fetch, partitions=partitions, changed=changed)
    for partitions in (1, 10, 100):
        yield f"commit {partitions}", functools.partial(Traffic.commit, partitions=partitions)
    for topics in (1, 100, TOPICS):
        yield f"metadata {topics}", functools.partial(Traffic.metadata, topics=topics)
    yield "group of 50", Traffic.group


SCENARIOS: Final[dict[str, Callable[[Traffic], Frames]]] = dict(_scenarios())
