"""Programs with a bug that clients of Kafka often have, each with its correct version. A test of a world runs either."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple

import aiokafka

from twisted_kafka.world import World

TOPIC: Final = "orders"
COUNT: Final = 40


class Program(NamedTuple):
    """A test for the wrong and for the right version."""

    name: str
    wrong: Callable[[World], Coroutine[Any, Any, None]]
    right: Callable[[World], Coroutine[Any, Any, None]]


async def produce(servers: str, send: Callable[[Any, bytes], Awaitable[object]], **options: Any) -> None:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, acks="all", **options)
    await producer.start()
    for number in range(COUNT):
        await send(producer, b"%d" % number)
        await asyncio.sleep(0.1)
    await producer.stop()


async def send_once(producer: Any, value: bytes) -> None:
    await producer.send_and_wait(TOPIC, value)


async def consume(servers: str, handle: Callable[[Any, Any], Awaitable[object]]) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        TOPIC, bootstrap_servers=servers, group_id="books", auto_offset_reset="earliest", enable_auto_commit=False
    )
    await consumer.start()
    async for record in consumer:
        await handle(consumer, record)


def _after_a_kill(*, commits_first: bool) -> Callable[[World], Coroutine[Any, Any, None]]:
    """The program dies between the commit and the work."""

    async def test(world: World) -> None:
        booked: list[int] = []

        async def handle(consumer: Any, record: Any) -> None:
            if commits_first:
                await consumer.commit()
            await asyncio.sleep(0.03)
            booked.append(int(record.value))
            if not commits_first:
                await consumer.commit()

        world.process(produce, world.bootstrap_servers, send_once)
        books = world.process(consume, world.bootstrap_servers, handle)
        await world.run(2 + (world.seed % 97) / 50)
        books.kill()
        books.start()
        await world.run(60)
        assert set(booked) == set(range(COUNT)), f"not booked: {set(range(COUNT)) - set(booked)}"

    return test


def _after_a_timeout(*, sends_again: bool) -> Callable[[World], Coroutine[Any, Any, None]]:
    """The program takes a timeout for a failure, and sends again what was written."""

    async def test(world: World) -> None:
        booked: list[int] = []

        async def send(producer: Any, value: bytes) -> None:
            if not sends_again:
                await send_once(producer, value)
                return
            while True:
                try:
                    await asyncio.wait_for(send_once(producer, value), 1)
                except TimeoutError:
                    continue
                return

        async def handle(consumer: Any, record: Any) -> None:
            booked.append(int(record.value))

        async def order(servers: str) -> None:
            await produce(servers, send, enable_idempotence=True)

        world.process(order, world.bootstrap_servers)
        world.process(consume, world.bootstrap_servers, handle)
        world.faults(pauses=1, longest_s=6)
        await world.run(30)
        assert len(booked) == len(set(booked)), f"booked twice: {sorted({each for each in booked if booked.count(each) > 1})}"

    return test


def _zombie(*, checks_offset: bool) -> Callable[[World], Coroutine[Any, Any, None]]:
    """A paused member works on when another one has its partition."""

    async def test(world: World) -> None:
        booked: list[int] = []
        done: set[tuple[int, int]] = set()

        async def handle(consumer: Any, record: Any) -> None:
            await asyncio.sleep(0.05)
            place = (record.partition, record.offset)
            if not checks_offset or place not in done:
                done.add(place)
                booked.append(int(record.value))
            await consumer.commit()

        world.process(produce, world.bootstrap_servers, send_once)
        first = world.process(consume, world.bootstrap_servers, handle, may_fail=True)
        await world.run(2 + (world.seed % 97) / 50)
        world.process(consume, world.bootstrap_servers, handle, may_fail=True)
        first.pause()
        await world.run(60)
        first.resume()
        await world.run(60)
        assert len(booked) == len(set(booked)), f"booked twice: {sorted({each for each in booked if booked.count(each) > 1})}"

    return test


PROGRAMS: Final = (
    Program("commit before the work", _after_a_kill(commits_first=True), _after_a_kill(commits_first=False)),
    Program("timeout taken for a failure", _after_a_timeout(sends_again=True), _after_a_timeout(sends_again=False)),
    Program("zombie", _zombie(checks_offset=False), _zombie(checks_offset=True)),
)
