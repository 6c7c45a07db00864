"""Bugs of producers: retries, timeouts, transactions and fencing."""

import asyncio
from collections.abc import Iterator
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
    produce,
    read_all,
    repeated,
    send_once,
)
from twisted_kafka.world import World

BILLS = "bills"
WORK_S = 0.02


def timeout_taken_for_a_failure(is_right: bool) -> Test:
    """The program sends again what was written."""

    async def test(world: World) -> None:
        booked: list[int] = []

        async def send(producer: Any, number: int) -> None:
            if is_right:
                await send_once(producer, number)
                return
            while True:
                try:
                    await asyncio.wait_for(send_once(producer, number), 1)
                except TimeoutError:
                    continue
                return

        async def handle(_: Any, record: Any) -> None:
            booked.append(int(record.value))

        async def sell(servers: str) -> None:
            await produce(servers, send, enable_idempotence=True)

        world.process(sell, world.bootstrap_servers)
        world.process(consume, world.bootstrap_servers, handle)
        world.faults(pauses=2, longest_s=6)
        await world.run(30)
        await world.run(30)
        repeated(booked)

    return test


def retry_that_reorders(is_right: bool) -> Test:
    """The program puts what could not be sent at the end of its queue."""

    async def test(world: World) -> None:
        booked: list[int] = []

        async def sell(servers: str) -> None:
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, acks="all")
            await producer.start()
            queue = list(range(COUNT))
            while queue:
                number = queue.pop(0)
                try:
                    await send_once(producer, number)
                except aiokafka.errors.KafkaError:
                    queue.insert(0 if is_right else len(queue), number)
                await asyncio.sleep(0.05)
            await producer.stop()

        async def handle(_: Any, record: Any) -> None:
            booked.append(int(record.value))

        with world.rules.inject(api="Produce", nth=1 + world.seed % COUNT, error="MESSAGE_TOO_LARGE"):
            world.process(sell, world.bootstrap_servers)
            world.process(consume, world.bootstrap_servers, handle)
            await world.run(30)
        missing(booked)
        assert booked == sorted(booked), f"in another order: {booked}"

    return test


def fire_and_forget(is_right: bool) -> Test:
    """The program ends without a look at what it has sent."""

    async def test(world: World) -> None:
        booked: list[int] = []

        async def sell(servers: str) -> None:
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, acks="all", linger_ms=20)
            await producer.start()
            for number in range(COUNT):
                await producer.send(TOPIC, b"%d" % number)
                await asyncio.sleep(0.01)
            if is_right:
                await producer.stop()

        async def handle(_: Any, record: Any) -> None:
            booked.append(int(record.value))

        world.process(sell, world.bootstrap_servers)
        world.process(consume, world.bootstrap_servers, handle)
        await world.run(30)
        missing(booked)

    return test


def _values(records: Any) -> Iterator[int]:
    return (int(record.value) for record in records)


async def _last(servers: str) -> int:
    """Return the last number in the topic; -1 without one."""
    consumer = make_consumer(servers, group=None, isolation_level="read_committed")
    partition = aiokafka.TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    await consumer.start()
    last = -1
    try:
        end = (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                last = max([last, *_values(records)])
    finally:
        await consumer.stop()
    return last


class Outbox:
    """Publishes rows in order, from the one after the last published one on."""

    def __init__(self, *, is_fenced: bool, ignores_fencing: bool) -> None:
        self._is_fenced = is_fenced
        self._ignores_fencing = ignores_fencing

    async def _producer(self, servers: str) -> Any:
        options = {"transactional_id": "outbox"} if self._is_fenced else {"enable_idempotence": True}
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, **options)
        await producer.start()
        return producer

    async def _publish(self, producer: Any, number: int) -> None:
        if not self._is_fenced:
            await producer.send_and_wait(TOPIC, b"%d" % number)
            return
        async with producer.transaction():
            await producer.send_and_wait(TOPIC, b"%d" % number)

    async def relay(self, servers: str) -> None:
        """Publish all rows."""
        producer = await self._producer(servers)
        number = await _last(servers) + 1
        while number < COUNT:
            try:
                await self._publish(producer, number)
            except aiokafka.errors.ProducerFenced:
                if not self._ignores_fencing:
                    return
                producer = await self._producer(servers)
                continue
            number += 1
            await asyncio.sleep(0.1)
        await producer.stop()


def _outbox(*, is_fenced: bool, ignores_fencing: bool) -> Test:
    async def test(world: World) -> None:
        outbox = Outbox(is_fenced=is_fenced, ignores_fencing=ignores_fencing)
        first = world.process(outbox.relay, world.bootstrap_servers, may_fail=True)
        await world.run(2 + (world.seed % 97) / 50)
        first.pause()
        world.process(outbox.relay, world.bootstrap_servers, may_fail=True)
        await world.run((world.seed % 89) / 10)
        first.resume()
        await world.run(60)
        published = list(_values(await read_all(world, TOPIC, isolation_level="read_committed")))
        missing(published)
        repeated(published)

    return test


def outbox_without_fencing(is_right: bool) -> Test:
    """Another relay has taken over while the first one was paused, and the first one goes on."""
    return _outbox(is_fenced=is_right, ignores_fencing=False)


def ignored_fencing(is_right: bool) -> Test:
    """A fenced producer makes itself a new one, and goes on."""
    return _outbox(is_fenced=True, ignores_fencing=not is_right)


def no_transaction(is_right: bool) -> Test:
    """The program dies between its result and the commit of the record that it was made of."""

    async def test(world: World) -> None:
        async def bill(servers: str) -> None:
            options = {"transactional_id": "bills"} if is_right else {"enable_idempotence": True}
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, **options)
            await producer.start()
            consumer = make_consumer(servers, TOPIC)
            await consumer.start()
            async for record in consumer:
                await asyncio.sleep(WORK_S)
                if not is_right:
                    await producer.send_and_wait(BILLS, record.value)
                    if record.offset % 3 == 2:
                        await consumer.commit()
                    continue
                async with producer.transaction():
                    await producer.send_and_wait(BILLS, record.value)
                    partition = aiokafka.TopicPartition(record.topic, record.partition)
                    await producer.send_offsets_to_transaction({partition: record.offset + 1}, "books")

        world.process(order, world.bootstrap_servers)
        bills = world.process(bill, world.bootstrap_servers)
        world.faults(programs=[bills], program_kills=3, longest_s=0.5)
        await world.run(BUSY_S)
        await world.run(60)
        billed = list(_values(await read_all(world, BILLS, isolation_level="read_committed")))
        missing(billed)
        repeated(billed)

    return test


PROGRAMS = (
    Program("timeout taken for a failure", timeout_taken_for_a_failure),
    Program("retry that reorders", retry_that_reorders),
    Program("fire and forget", fire_and_forget),
    Program("outbox without fencing", outbox_without_fencing),
    Program("ignored fencing", ignored_fencing),
    Program("read, process and write without a transaction", no_transaction),
)
