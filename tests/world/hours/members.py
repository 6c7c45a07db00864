"""Members of groups of the newer protocols, for which aiokafka has no classes: consumer, share and streams groups."""

import asyncio
import base64
import random
from typing import Any, Final

from tests.world.hours.wire import Cluster, Wire
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.messages.coordinators.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from twisted_kafka.protocol.messages.share.share_fetch import (
    AcknowledgementBatch,
    AcquiredRecords,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
)
from twisted_kafka.protocol.messages.share.share_groups import ShareGroupHeartbeatRequest
from twisted_kafka.protocol.messages.streams.streams_groups import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTopology,
    TopicInfo,
)
from twisted_kafka.system import machine

PLAIN, LEDGER, COMPACTED = "plain", "ledger", "compacted"
MEMBERS, WORKERS, STREAMS = "members", "workers", "streams"
REPLICAS: Final = 3
_ACCEPT, _RELEASE, _REJECT = 1, 2, 3
_COUNTER: Final = StreamsGroupHeartbeatRequestTopology(
    subtopologies=[
        StreamsGroupHeartbeatRequestSubtopology(
            subtopology_id="count",
            source_topics=[PLAIN],
            state_changelog_topics=[TopicInfo(name="streams-counts", replication_factor=REPLICAS)],
        ),
        StreamsGroupHeartbeatRequestSubtopology(subtopology_id="sum", source_topics=[LEDGER]),
    ]
)


Source = tuple[int, int]
"""A partition of the plain topic, and an offset."""


def entry(source: Source, value: bytes) -> bytes:
    """Return the value of a record of the ledger that was made of a record of the plain topic."""
    return b"%d:%d:%b" % (*source, value)


def source_of(value: bytes) -> Source:
    """Return what a record of the ledger was made of."""
    partition, offset, _ = value.split(b":", 2)
    return int(partition), int(offset)


def member_id() -> str:
    return base64.urlsafe_b64encode(machine.random_bytes(16)).decode().rstrip("=")


async def belong(servers: str) -> None:
    """Be a member of a group of the consumer protocol (KIP-848) for a while."""
    cluster = Cluster(servers)
    try:
        coordinator = await cluster.coordinator(MEMBERS)
        member, epoch = member_id(), 0
        held: list[tuple[bytes, list[int]]] = []
        for beat in range(random.randrange(5, 30)):
            joins = epoch == 0
            owned = [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic, partitions=list(each)) for topic, each in held]
            request = ConsumerGroupHeartbeatRequest(
                group_id=MEMBERS,
                member_id=member,
                member_epoch=epoch,
                rebalance_timeout_ms=20_000 if joins else -1,
                subscribed_topic_names=[PLAIN, LEDGER] if joins else None,
                topic_partitions=[] if joins else owned,
            )
            response = await coordinator.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, 1)
            if response.error_code:
                return
            epoch = response.member_epoch
            if response.assignment is not None:
                held = [(each.topic_id, each.partitions) for each in response.assignment.topic_partitions]
            await asyncio.sleep(1 if beat % 3 else 3)
        leave = ConsumerGroupHeartbeatRequest(group_id=MEMBERS, member_id=member, member_epoch=-1)
        await coordinator.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, leave, 1)
    finally:
        cluster.close()


async def stream(servers: str) -> None:
    """Be a member of a streams group (KIP-1071) for a while. Tasks are given up as soon as the coordinator asks for them."""
    cluster = Cluster(servers)
    try:
        coordinator = await cluster.coordinator(STREAMS)
        member, epoch = member_id(), 0
        held: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        for beat in range(random.randrange(5, 30)):
            joins = epoch == 0
            request = StreamsGroupHeartbeatRequest(
                group_id=STREAMS,
                member_id=member,
                member_epoch=epoch,
                process_id=member if joins else None,
                rebalance_timeout_ms=20_000 if joins else -1,
                topology=_COUNTER if joins else None,
                **held,
            )
            response = await coordinator.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, request, 0)
            if response.error_code:
                return
            epoch = response.member_epoch
            held |= {name: given for name in held if (given := getattr(response, name)) is not None}
            await asyncio.sleep(1 if beat % 3 else 3)
        leave = StreamsGroupHeartbeatRequest(group_id=STREAMS, member_id=member, member_epoch=-1)
        await coordinator.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, leave, 0)
    finally:
        cluster.close()


async def share(servers: str) -> None:
    """Be a member of a share group (KIP-932) for a while: accept most records, release and reject others."""
    cluster = Cluster(servers)
    try:
        coordinator = await cluster.coordinator(WORKERS)
        member, epoch = member_id(), 0
        sessions: dict[int, _Session] = {}
        given: dict[bytes, list[int]] = {}
        for _ in range(random.randrange(5, 30)):
            beat = ShareGroupHeartbeatRequest(
                group_id=WORKERS, member_id=member, member_epoch=epoch, subscribed_topic_names=[PLAIN] if epoch == 0 else None
            )
            response = await coordinator.ask(ApiKey.SHARE_GROUP_HEARTBEAT, beat, 1)
            if response.error_code:
                return
            epoch = response.member_epoch
            if response.assignment is not None:
                given = {each.topic_id: each.partitions for each in response.assignment.topic_partitions}
            leaders = await cluster.leaders(PLAIN)
            for leader in sorted(set(leaders.values()) - {-1}):
                session = sessions.setdefault(leader, _Session(cluster.wire(leader), member))
                led = {topic: [each for each in partitions if leaders.get(each) == leader] for topic, partitions in given.items()}
                await session.fetch(led)
            await asyncio.sleep(random.random())
        leave = ShareGroupHeartbeatRequest(group_id=WORKERS, member_id=member, member_epoch=-1)
        await coordinator.ask(ApiKey.SHARE_GROUP_HEARTBEAT, leave, 1)
    finally:
        cluster.close()


class _Session:
    """A member's share session with one broker."""

    def __init__(self, wire: Wire, member: str) -> None:
        self._wire = wire
        self._member = member
        self._epoch = 0
        self._acquired: dict[tuple[bytes, int], list[AcquiredRecords]] = {}

    async def fetch(self, partitions: dict[bytes, list[int]]) -> None:
        """Acknowledge the acquired records, and acquire more. An error ends the session, which releases them."""
        listed = {(topic, index) for topic, indexes in partitions.items() for index in indexes}
        wanted = sorted(listed | set(self._acquired))
        request = ShareFetchRequest(
            group_id=WORKERS,
            member_id=self._member,
            share_session_epoch=self._epoch,
            max_wait_ms=200,
            min_bytes=1,
            max_records=20,
            batch_size=20,
            topics=[FetchTopic(topic_id=topic, partitions=[self._partition(topic, index)]) for topic, index in wanted],
        )
        self._acquired = {}
        response = await self._wire.ask(ApiKey.SHARE_FETCH, request, 1)
        if response.error_code:
            self._epoch = 0
            return
        self._epoch += 1
        for topic in response.responses:
            for each in topic.partitions:
                if each.acquired_records:
                    self._acquired[topic.topic_id, each.partition_index] = each.acquired_records

    def _partition(self, topic: bytes, index: int) -> FetchPartition:
        runs = self._acquired.get((topic, index), ()) if self._epoch else ()
        return FetchPartition(partition_index=index, acknowledgement_batches=[_acknowledgement(run) for run in runs])


def _acknowledgement(run: AcquiredRecords) -> AcknowledgementBatch:
    kind = random.choices((_ACCEPT, _RELEASE, _REJECT), (8, 1, 1))
    return AcknowledgementBatch(first_offset=run.first_offset, last_offset=run.last_offset, acknowledge_types=kind)
