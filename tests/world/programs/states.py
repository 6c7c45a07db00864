"""Bugs of programs that keep a state: a database, or a compacted topic."""

import asyncio
from collections import defaultdict
from typing import Any

import aiokafka

from tests.world.programs.common import BUSY_S, COUNT, TOPIC, Program, Test, consume, make_consumer, missing, order, produce
from twisted_kafka.world import World

WORK_S = 0.03


def wrong_deduplication_key(is_right: bool) -> Test:
    """The producer numbers its messages from 0 in each life, and the consumer takes the number for the message's identity."""

    async def test(world: World) -> None:
        booked: set[int] = set()
        seen: set[bytes] = set()
        ordered = [0]

        async def sell(servers: str) -> None:
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True)
            await producer.start()
            number = 0
            while ordered[0] < COUNT:
                key = b"%d" % (ordered[0] if is_right else number)
                await producer.send_and_wait(TOPIC, b"%d" % ordered[0], key=key)
                ordered[0] += 1
                number += 1
                await asyncio.sleep(0.1)
            await producer.stop()

        async def handle(_: Any, record: Any) -> None:
            if record.key not in seen:
                seen.add(record.key)
                booked.add(int(record.value))

        till = world.process(sell, world.bootstrap_servers)
        world.process(consume, world.bootstrap_servers, handle)
        world.faults(programs=[till], program_kills=2, longest_s=0.5)
        await world.run(BUSY_S)
        await world.run(30)
        missing(booked)

    return test


def upsert_that_adds(is_right: bool) -> Test:
    """A record that comes again is added again."""

    async def test(world: World) -> None:
        balances: dict[bytes, int] = defaultdict(int)
        applied: dict[int, int] = defaultdict(lambda: -1)

        async def handle(consumer: Any, record: Any) -> None:
            if not is_right or record.offset > applied[record.partition]:
                applied[record.partition] = record.offset
                balances[b"till"] += 1
            await asyncio.sleep(WORK_S)
            await consumer.commit()

        world.process(order, world.bootstrap_servers)
        books = world.process(consume, world.bootstrap_servers, handle)
        world.faults(programs=[books], program_kills=3, longest_s=0.5)
        await world.run(BUSY_S)
        await world.run(60)
        assert balances[b"till"] == COUNT, f"{balances[b'till']} instead of {COUNT}"

    return test


def double_flush(is_right: bool) -> Test:
    """A flush fails half way, and the clean-up flushes the same buffer again."""

    async def test(world: World) -> None:
        total, position = [0], [0]

        async def book(servers: str) -> None:
            buffer: list[int] = []
            consumer = make_consumer(servers, TOPIC)

            async def flush() -> None:
                total[0] += len(buffer)
                if buffer:
                    position[0] = buffer[-1] + 1
                if is_right:
                    buffer.clear()
                await consumer.commit()
                buffer.clear()

            await consumer.start()
            try:
                while True:
                    for records in (await consumer.getmany(timeout_ms=100)).values():
                        buffer.extend(record.offset for record in records if record.offset >= position[0])
                    if len(buffer) >= 5:
                        await flush()
            finally:
                try:
                    await flush()
                finally:
                    await consumer.stop()

        async def keep_booking(servers: str) -> None:
            while True:
                try:
                    await book(servers)
                except aiokafka.errors.CommitFailedError:
                    await asyncio.sleep(0.5)

        with world.rules.inject(api="OffsetCommit", nth=1 + world.seed % 5, error="UNKNOWN_MEMBER_ID"):
            world.process(order, world.bootstrap_servers)
            world.process(keep_booking, world.bootstrap_servers)
            await world.run(60)
        assert total[0] in range(COUNT - 4, COUNT + 1), f"{total[0]} instead of {COUNT}"

    return test


def compaction_taken_for_deletion(is_right: bool) -> Test:
    """The program deletes with a tombstone, and expects that nobody reads the older record any more."""

    async def test(world: World) -> None:
        users: dict[bytes, bytes] = {}

        async def change(producer: Any, number: int) -> None:
            key = b"%d" % (number % 10)
            await producer.send_and_wait("users", None if number >= 30 else b"%d" % number, key=key)

        async def sell(servers: str) -> None:
            await produce(servers, change)

        async def handle(_: Any, record: Any) -> None:
            if record.value is not None:
                users[record.key] = record.value
            elif is_right:
                users.pop(record.key, None)

        async def list_users(servers: str) -> None:
            await consume(servers, handle, topic="users", group=None)

        await world.finished(world.process(sell, world.bootstrap_servers))
        world.process(list_users, world.bootstrap_servers)
        await world.run(30)
        assert not users, f"deleted, and still there: {sorted(users)}"

    return test


PROGRAMS = (
    Program("wrong key of deduplication", wrong_deduplication_key),
    Program("upsert that adds", upsert_that_adds),
    Program("double flush", double_flush),
    Program("compaction taken for deletion", compaction_taken_for_deletion, {"log.cleanup.policy": "compact"}),
)
