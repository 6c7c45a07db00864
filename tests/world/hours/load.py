"""Programs that use everything at once, and go on after each error of Kafka."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import aiokafka
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, NoOffsetForPartitionError

from tests.world.hours.ending import Place
from tests.world.hours.members import COMPACTED, LEDGER, PLAIN, belong, entry, share, stream
from tests.world.hours.wire import Cluster
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.messages.administration.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)

CHURN: Final = "churn"
PARTITIONS: Final = 4
BROKERS: Final = (1, 2, 3)
PAUSE_S: Final = 1.0
_COMPACTION: Final = {"cleanup.policy": "compact", "segment.ms": "30000", "min.cleanable.dirty.ratio": "0.01"}


def keep(run: Callable[[str], Awaitable[object]]) -> Callable[[str], Any]:
    """Return a program that runs ``run`` again and again, whatever Kafka answers."""

    async def program(servers: str) -> None:
        while True:
            # aiokafka's own tasks may be cancelled, and raise that in ``stop``. Without a broker it fails with the last two.
            with suppress(KafkaError, OSError, asyncio.CancelledError, AttributeError, AssertionError):
                await run(servers)
            await asyncio.sleep(PAUSE_S)

    program.__name__ = run.__name__
    return program


async def produce(servers: str) -> None:
    """Write to the plain and the compacted topic, each record once."""
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True, linger_ms=5)
    await producer.start()
    try:
        for number in range(1000):
            topic = PLAIN if number % 4 else COMPACTED
            await producer.send(topic, b"x" * random.randrange(500), key=b"%d" % random.randrange(20))
            if number % 5 == 0:
                await producer.flush()
                await asyncio.sleep(random.random())
    finally:
        await producer.stop()


async def transfer(servers: str) -> None:
    """Read the plain topic, and write to the ledger in transactions, of which some are aborted.

    Nothing may count twice or be left out. So it takes partitions without a rebalance: after one in a transaction, aiokafka would
    begin at the offsets of before. And a follower may answer that it does not have an offset yet: "latest" would leave records out.
    """
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=servers, group_id="ledger", enable_auto_commit=False, auto_offset_reset="none"
    )
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, transactional_id="ledger", transaction_timeout_ms=20_000)
    try:
        await producer.start()
        await consumer.start()
        consumer.assign([TopicPartition(PLAIN, index) for index in range(PARTITIONS)])
        while True:
            found = await _next_records(consumer)
            if not found:
                continue
            await producer.begin_transaction()
            for partition, records in found.items():
                for record in records:
                    value = entry((partition.partition, record.offset), record.value)
                    await producer.send(LEDGER, value, partition=record.offset % PARTITIONS)
                offsets = {partition: records[-1].offset + 1}
                await producer.send_offsets_to_transaction(offsets, "ledger")
            if random.random() < 0.2:
                await producer.abort_transaction()
                return
            await producer.commit_transaction()
    finally:
        await consumer.stop()
        await producer.stop()


async def _next_records(consumer: Any) -> Any:
    try:
        return await consumer.getmany(timeout_ms=500, max_records=10)
    except NoOffsetForPartitionError:
        for each in sorted(consumer.assignment()):
            if await consumer.committed(each) is None:
                consumer.seek(each, 0)
        return {}


async def consume(servers: str) -> None:
    """Be a member of a group for a while."""
    consumer = aiokafka.AIOKafkaConsumer(
        PLAIN, LEDGER, bootstrap_servers=servers, group_id="readers", auto_offset_reset="earliest", session_timeout_ms=10_000
    )
    try:
        await consumer.start()
        for _ in range(random.randrange(5, 60)):
            await consumer.getmany(timeout_ms=500)
    finally:
        await consumer.stop()


def audit(seen: set[Place]) -> Callable[[str], Awaitable[None]]:
    """Return a program that notes which records of the ledger a reader of committed records gets."""

    async def audit(servers: str) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            LEDGER, bootstrap_servers=servers, group_id="auditors", auto_offset_reset="earliest", isolation_level="read_committed"
        )
        try:
            await consumer.start()
            for _ in range(random.randrange(5, 60)):
                for partition, records in (await consumer.getmany(timeout_ms=500)).items():
                    seen.update((partition.partition, record.offset) for record in records)
        finally:
            await consumer.stop()

    return audit


async def administer(servers: str) -> None:
    """Create and delete topics, and move replicas and leaders."""
    admin = AIOKafkaAdminClient(bootstrap_servers=servers, request_timeout_ms=10_000)
    cluster = Cluster(servers)
    await admin.start()
    try:
        for _ in range(10):
            name = f"{CHURN}-{random.getrandbits(40):x}"
            await admin.create_topics([NewTopic(name, random.randrange(1, 4), 3)])
            await _write(servers, name)
            await asyncio.sleep(2 * random.random())
            await admin.delete_topics([name])
            await _move(cluster)
            await asyncio.sleep(5 * random.random())
    finally:
        cluster.close()
        await admin.close()


async def _write(servers: str, topic: str) -> None:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, request_timeout_ms=5_000)
    await producer.start()
    try:
        await asyncio.wait_for(producer.send_and_wait(topic, b"x"), 5)
    except TimeoutError:
        pass
    finally:
        await producer.stop()


async def _move(cluster: Cluster) -> None:
    replicas = random.sample(BROKERS, random.choice((2, 3, 3)))
    partition = ReassignablePartition(partition_index=random.randrange(PARTITIONS), replicas=replicas)
    topics = [ReassignableTopic(name=random.choice((PLAIN, LEDGER)), partitions=[partition])]
    request = AlterPartitionReassignmentsRequest(topics=topics)
    await cluster.ask_each(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, 0, lambda each: each.error_code)
    await asyncio.sleep(2)
    elect = ElectLeadersRequest(topic_partitions=None)
    await cluster.ask_each(ApiKey.ELECT_LEADERS, elect, 2, lambda each: each.error_code)


async def make_topics(servers: str) -> None:
    """Create the topics of the other programs."""
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    topics = [NewTopic(name, PARTITIONS, 3) for name in (PLAIN, LEDGER)]
    await admin.create_topics([*topics, NewTopic(COMPACTED, 1, 3, topic_configs=_COMPACTION)])
    await admin.close()


PROGRAMS: Final = (produce, produce, transfer, consume, consume, administer, belong, belong, belong, share, share, stream, stream)
