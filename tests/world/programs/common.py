"""What the programs share: a producer, a consumer, and a database that survives a kill."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, NamedTuple

import aiokafka

from twisted_kafka.world import World

TOPIC: Final = "orders"
COUNT: Final = 40
BUSY_S: Final = 6
"""How long the orders come in, with faults; then everything can recover."""

Test = Callable[[World], Coroutine[Any, Any, None]]
Handle = Callable[[Any, Any], Awaitable[object]]


class Program(NamedTuple):
    """A test, made for the wrong or for the right version."""

    name: str
    make: Callable[[bool], Test]
    """Takes whether the version is right."""
    settings: Mapping[str, object] = {}
    """Of the broker."""


async def produce(
    servers: str, send: Callable[[Any, int], Awaitable[object]], *, count: int = COUNT, pause_s: float = 0.1, **options: Any
) -> None:
    """Send each number with ``send``."""
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, acks="all", **options)
    await producer.start()
    for number in range(count):
        await send(producer, number)
        await asyncio.sleep(pause_s)
    await producer.stop()


async def order(servers: str) -> None:
    """Send each number once."""
    await produce(servers, send_once)


async def send_once(producer: Any, number: int) -> None:
    """Send a number, keyed by itself."""
    await producer.send_and_wait(TOPIC, b"%d" % number, key=b"%d" % number)


def make_consumer(servers: str, *topics: str, group: str | None = "books", **options: Any) -> Any:
    """Return a consumer that commits by itself only if it is asked to."""
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **options}
    return aiokafka.AIOKafkaConsumer(*topics, bootstrap_servers=servers, group_id=group, **options)


async def consume(servers: str, handle: Handle, *, topic: str = TOPIC, **options: Any) -> None:
    """Handle each record."""
    consumer = make_consumer(servers, topic, **options)
    await consumer.start()
    async for record in consumer:
        await handle(consumer, record)


def missing(booked: Iterable[int], count: int = COUNT) -> None:
    """Raise AssertionError for each number that is not there."""
    left = set(range(count)) - set(booked)
    assert not left, f"not booked: {sorted(left)}"


def repeated(booked: Iterable[int]) -> None:
    """Raise AssertionError for numbers that are there more than once."""
    twice = sorted(number for number, times in Counter(booked).items() if times > 1)
    assert not twice, f"booked twice: {twice}"


async def read_all(world: World, topic: str, **options: Any) -> list[Any]:
    """Return the records of a topic."""
    records: list[Any] = []

    async def read(servers: str) -> None:
        async def keep(_: Any, record: Any) -> None:
            records.append(record)

        await consume(servers, keep, topic=topic, group=None, **options)

    reader = world.process(read, world.bootstrap_servers)
    await world.run(20)
    reader.kill()
    return records
