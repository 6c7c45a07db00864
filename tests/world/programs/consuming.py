"""Bugs of consumers: what is committed when, and by whom a record is handled."""

import asyncio
import random
from collections import defaultdict
from typing import Any

import aiokafka

from tests.world.programs.common import (
    BUSY_S,
    COUNT,
    TOPIC,
    Program,
    Test,
    consume,
    make_consumer,
    missing,
    order,
    repeated,
)
from twisted_kafka.world import World

WORK_S = 0.03


def commit_before_the_work(is_right: bool) -> Test:
    """The program dies between the commit and the work."""

    async def test(world: World) -> None:
        booked: list[int] = []

        async def handle(consumer: Any, record: Any) -> None:
            if not is_right:
                await consumer.commit()
            await asyncio.sleep(WORK_S)
            booked.append(int(record.value))
            if is_right:
                await consumer.commit()

        world.process(order, world.bootstrap_servers)
        books = world.process(consume, world.bootstrap_servers, handle)
        world.faults(programs=[books], program_kills=3, longest_s=0.5)
        await world.run(BUSY_S)
        await world.run(60)
        missing(booked)

    return test


def automatic_commit(is_right: bool) -> Test:
    """The consumer commits by itself while tasks still work on the records."""

    async def test(world: World) -> None:
        booked: list[int] = []

        async def work(record: Any) -> None:
            await asyncio.sleep(1)
            booked.append(int(record.value))

        async def book(servers: str) -> None:
            consumer = make_consumer(servers, TOPIC, enable_auto_commit=not is_right, auto_commit_interval_ms=500)
            await consumer.start()
            tasks = set()
            while True:
                found = await consumer.getmany(timeout_ms=200)
                begun = [asyncio.create_task(work(record)) for records in found.values() for record in records]
                if is_right and begun:
                    await asyncio.gather(*begun)
                    await consumer.commit()
                tasks.update(begun)

        world.process(order, world.bootstrap_servers)
        books = world.process(book, world.bootstrap_servers)
        world.faults(programs=[books], program_kills=3, longest_s=0.5)
        await world.run(BUSY_S)
        await world.run(60)
        missing(booked)

    return test


def zombie(is_right: bool) -> Test:
    """A paused member works on when another one has its partition."""

    async def test(world: World) -> None:
        booked: list[int] = []
        done: set[tuple[int, int]] = set()

        async def handle(consumer: Any, record: Any) -> None:
            await asyncio.sleep(WORK_S)
            place = (record.partition, record.offset)
            if not is_right or place not in done:
                done.add(place)
                booked.append(int(record.value))
            await consumer.commit()

        world.process(order, world.bootstrap_servers)
        first = world.process(consume, world.bootstrap_servers, handle, may_fail=True)
        await world.run(2 + (world.seed % 97) / 50)
        world.process(consume, world.bootstrap_servers, handle, may_fail=True)
        first.pause()
        await world.run(60)
        first.resume()
        await world.run(60)
        repeated(booked)

    return test


class _Flush(aiokafka.ConsumerRebalanceListener):
    """Finishes the work on partitions before they go to another member."""

    def __init__(self, flush: Any) -> None:
        self._flush = flush

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await self._flush()

    async def on_partitions_assigned(self, assigned: Any) -> None: ...


def lost_rebalance_callback(is_right: bool) -> Test:
    """A member keeps records in a buffer that belong to another member after a rebalance."""

    async def test(world: World) -> None:
        booked: list[int] = []

        async def book(servers: str) -> None:
            buffer: list[int] = []
            consumer = make_consumer(servers)

            async def flush() -> None:
                if buffer:
                    booked.extend(buffer)
                    buffer.clear()
                    await consumer.commit()

            consumer.subscribe([TOPIC], listener=_Flush(flush) if is_right else None)
            await consumer.start()
            while True:
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    buffer.extend(int(record.value) for record in records)
                if len(buffer) >= 5:
                    await flush()

        world.process(order, world.bootstrap_servers)
        world.process(book, world.bootstrap_servers)
        await world.run(2 + (world.seed % 97) / 50)
        world.process(book, world.bootstrap_servers)
        await world.run(60)
        repeated(booked)

    return test


def skip_after_an_error(is_right: bool) -> Test:
    """The database fails for a moment, the program goes on, and the next commit covers the record."""

    async def test(world: World) -> None:
        booked: list[int] = []

        def insert(number: int) -> None:
            if random.random() < 0.01:
                raise ConnectionError("the database is restarting")
            booked.append(number)

        async def handle(consumer: Any, record: Any) -> None:
            while True:
                try:
                    insert(int(record.value))
                except ConnectionError:
                    if is_right:
                        await asyncio.sleep(0.1)
                        continue
                break
            await consumer.commit()

        world.process(order, world.bootstrap_servers)
        world.process(consume, world.bootstrap_servers, handle)
        await world.run(30)
        missing(booked)

    return test


def offsets_in_memory(is_right: bool) -> Test:
    """The program remembers its position itself, in memory instead of beside the results."""

    async def test(world: World) -> None:
        booked: list[int] = []
        stored = [0]

        async def book(servers: str) -> None:
            consumer = make_consumer(servers, group=None)
            partition = aiokafka.TopicPartition(TOPIC, 0)
            consumer.assign([partition])
            await consumer.start()
            consumer.seek(partition, stored[0] if is_right else 0)
            async for record in consumer:
                booked.append(int(record.value))
                stored[0] = record.offset + 1
                await asyncio.sleep(WORK_S)

        world.process(order, world.bootstrap_servers)
        books = world.process(book, world.bootstrap_servers)
        world.faults(programs=[books], program_kills=1, longest_s=0.5)
        await world.run(BUSY_S)
        await world.run(30)
        missing(booked)
        repeated(booked)

    return test


def seek_to_end(is_right: bool) -> Test:
    """The program begins at the end of the topic each time it starts."""

    async def test(world: World) -> None:
        booked: list[int] = []

        async def book(servers: str) -> None:
            consumer = make_consumer(servers, TOPIC)
            await consumer.start()
            if not is_right:
                while not consumer.assignment():
                    await asyncio.sleep(0.1)
                await consumer.seek_to_end()
            async for record in consumer:
                booked.append(int(record.value))
                await consumer.commit()

        books = world.process(book, world.bootstrap_servers)
        await world.run(5)
        world.process(order, world.bootstrap_servers)
        world.faults(programs=[books], program_kills=2, longest_s=1)
        await world.run(BUSY_S)
        await world.run(30)
        missing(booked)

    return test


def wrong_offset(is_right: bool) -> Test:
    """The program commits the offset of the last record, and not the next one."""

    async def test(world: World) -> None:
        booked: list[int] = []
        closing = [False]

        async def book(servers: str) -> None:
            consumer = make_consumer(servers, TOPIC)
            await consumer.start()
            while not closing[0]:
                for partition, records in (await consumer.getmany(timeout_ms=100)).items():
                    booked.extend(int(record.value) for record in records)
                    await consumer.commit({partition: records[-1].offset + (1 if is_right else 0)})
            await consumer.stop()

        world.process(order, world.bootstrap_servers)
        books = world.process(book, world.bootstrap_servers)
        await world.run(2 + (world.seed % 97) / 50)
        closing[0] = True
        await world.finished(books)
        closing[0] = False
        books.start()
        await world.run(30)
        repeated(booked)

    return test


def shared_group(is_right: bool) -> Test:
    """Two services have the same group: each gets a part of the records."""

    async def test(world: World) -> None:
        seen: dict[str, list[int]] = defaultdict(list)

        async def serve(servers: str, name: str) -> None:
            async def handle(consumer: Any, record: Any) -> None:
                seen[name].append(int(record.value))
                await consumer.commit()

            await consume(servers, handle, group=name if is_right else "services")

        world.process(order, world.bootstrap_servers)
        for name in ("books", "mails"):
            world.process(serve, world.bootstrap_servers, name)
        await world.run(40)
        for name in ("books", "mails"):
            missing(seen[name])

    return test


def order_across_partitions(is_right: bool) -> Test:
    """The events of an order have different keys, and the consumer relies on their order."""

    async def test(world: World) -> None:
        early: list[int] = []
        paid: set[int] = set()

        async def sell(servers: str) -> None:
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, acks="all")
            await producer.start()
            for number in range(COUNT):
                for event in (b"ordered", b"paid"):
                    key = b"%d" % number if is_right else event
                    await producer.send_and_wait(TOPIC, event + b" %d" % number, key=key)
                    await asyncio.sleep(0.02)
            await producer.stop()

        async def handle(_: Any, record: Any) -> None:
            event, number = record.value.split()
            if event == b"paid" and int(number) not in paid:
                early.append(int(number))
            paid.add(int(number))

        world.process(sell, world.bootstrap_servers)
        world.process(consume, world.bootstrap_servers, handle)
        await world.run(30)
        assert not early, f"paid before they were ordered: {early}"

    return test


PROGRAMS = (
    Program("commit before the work", commit_before_the_work),
    Program("automatic commit with asynchronous work", automatic_commit),
    Program("zombie", zombie),
    Program("lost rebalance callback", lost_rebalance_callback, {"num.partitions": 2}),
    Program("skip after an error", skip_after_an_error),
    Program("offsets kept in memory", offsets_in_memory),
    Program("seek to the end on restart", seek_to_end),
    Program("commit of the last offset", wrong_offset),
    Program("group id of two services", shared_group, {"num.partitions": 2}),
    Program("order across partitions", order_across_partitions, {"num.partitions": 4}),
)
