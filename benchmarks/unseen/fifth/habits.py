"""What is as it should be: reports, closings, caches that fill, probes, rare writers, operators and small batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchmarks.unseen.expected import Plan
from benchmarks.unseen.world import DAY_S, GO, HOUR_S, JAVA, LIBRDKAFKA, PYTHON, Client, Part, Request


def _reads(plan: Plan, reader: Client, topic: str, first: float, last: float, per_minute: float) -> Iterator[Request]:
    """Yield the reading of a topic from its beginning, partition by partition."""
    day, draw = plan.day, plan.draw
    for node in sorted({day.leaders[topic, index] for index in range(day.topics[topic])}):
        yield from day.connect(reader, node, first - 2)
    for index in range(day.topics[topic]):
        yield day.noisy(Request(first - 1, reader, day.leaders[topic, index], "ListOffsets", 7, [Part(topic, (index,))]))
    for number, at in enumerate(day.times(per_minute, first, last, follows_load=False)):
        index = number % day.topics[topic]
        part = Part(topic, (index,), 0, draw.randint(100_000, 900_000))
        fetch = day.noisy(Request(at, reader, day.leaders[topic, index], "Fetch", 15, [part], response_bytes=part.bytes + 60))
        fetch.remote_us = 0
        yield fetch


def long_polls(plan: Plan) -> None:
    """A group lets each of its fetches wait for up to half a minute, all day and every day."""
    group, longest_us = plan.group(), plan.draw.uniform(10, 30) * 1e6

    def waits(request: Request) -> Iterable[Request]:
        has_records = any(part.bytes for part in request.parts)
        request.remote_us = int(longest_us * (plan.draw.uniform(0.05, 1) if has_records else 1))
        yield request

    plan.day.span(0, DAY_S, lambda each: each.client in group.clients and each.api == "Fetch", waits)


def weekly_report(plan: Plan) -> None:
    """Early in the morning a report reads one topic from its beginning, as each week, and is done within the hour."""
    topic, first = plan.draw.choice(sorted(plan.day.topics)), plan.draw.uniform(3.5, 6.5) * HOUR_S
    report = Client("weekly-report", "User:reports", "10.9.4.21", PYTHON, "2.0.6")
    last = first + plan.draw.uniform(15, 50) * 60
    plan.day.add(lambda: _reads(plan, report, topic, first, last, 12))


def month_end(plan: Plan) -> None:
    """In the evening the books of the month are closed: a program writes its bookings for an hour or two."""
    topic, draw = plan.day.topic("closing.bookings", 6), plan.draw
    closing, first = Client("month-end", "User:closing", "10.9.5.3", JAVA, "3.9.0"), draw.uniform(18, 21) * HOUR_S

    def writes() -> Iterator[Request]:
        for node in sorted({plan.day.leaders[topic, index] for index in range(6)}):
            yield from plan.day.connect(closing, node, first - 1)
        for at in plan.day.times(20, first, first + draw.uniform(50, 120) * 60, follows_load=False):
            index, records = draw.randrange(6), draw.randint(200, 500)
            part = Part(topic, (index,), records, records * 300)
            node = plan.day.leaders[topic, index]
            yield plan.day.noisy(Request(at, closing, node, "Produce", 9, [part], request_bytes=part.bytes + 80))

    plan.day.add(writes)


def cache_filled(plan: Plan) -> None:
    """Each process of a service reads a compacted topic into memory when it starts; they are restarted one by one at night."""
    topic, first = plan.draw.choice(sorted(plan.day.topics)), plan.draw.uniform(0.5, 4.5) * HOUR_S
    for pod in range(plan.draw.randint(2, 4)):
        cache = Client(f"profile-cache-{pod}", "User:profiles", f"10.2.90.{10 + pod}", JAVA, "3.8.0")
        begin = first + pod * 240
        plan.day.add(lambda cache=cache, begin=begin: _reads(plan, cache, topic, begin, begin + 150, 30))  # type: ignore[misc]


def probe_records(plan: Plan) -> None:
    """A probe writes one record to each partition of its topic every half minute, and reads it back, to measure the way."""
    topic, draw = plan.day.topic("__canary", min(3, len(plan.day.brokers))), plan.draw
    probe, partitions = Client("kafka-canary", "User:canary", "10.9.0.61", GO, "1.16.1"), plan.day.topics["__canary"]

    def probes() -> Iterator[Request]:
        for node in sorted({plan.day.leaders[topic, index] for index in range(partitions)}):
            yield from plan.day.connect(probe, node, 12)
        for at in plan.day.times(2, 15, follows_load=False):
            for index in range(partitions):
                node, size = plan.day.leaders[topic, index], draw.randint(80, 100)
                write = Request(at + index * 0.01, probe, node, "Produce", 9, [Part(topic, (index,), 1, size)], request_bytes=180)
                yield plan.day.noisy(write)
                yield plan.day.noisy(Request(at + 0.2 + index * 0.01, probe, node, "Fetch", 15, [Part(topic, (index,), 0, size)]))

    plan.day.add(probes)


def rare_writer(plan: Plan) -> None:
    """A program writes one record each quarter of an hour: its connection is closed between, and it opens another each time."""
    topic = plan.draw.choice(sorted(plan.day.topics))
    writer = Client("meter-gateway", "User:metering", "10.14.2.9", LIBRDKAFKA, "2.3.0")

    def writes() -> Iterator[Request]:
        for at in plan.day.times(1 / 15, follows_load=False):
            index = plan.draw.randrange(plan.day.topics[topic])
            node, part = plan.day.leaders[topic, index], Part(topic, (index,), 1, plan.draw.randint(150, 400))
            yield from plan.day.connect(writer, node, at)
            yield plan.day.noisy(Request(at + 0.02, writer, node, "Metadata", 12, [Part(topic, ())]))
            yield plan.day.noisy(Request(at + 0.05, writer, node, "Produce", 9, [part], request_bytes=part.bytes + 80))

    plan.day.add(writes)


def operator_compares(plan: Plan) -> None:
    """An operator compares all topics with their declarations every two minutes, and finds nothing to change."""
    operator, topics = Client("topic-operator", "User:topic-operator", "10.9.0.80", JAVA, "3.9.0"), sorted(plan.day.topics)

    def compares() -> Iterator[Request]:
        yield from plan.day.connect(operator, plan.day.brokers[0], 30)
        for at in plan.day.times(0.5, 33, follows_load=False):
            node = plan.day.brokers[0]
            yield plan.day.noisy(Request(at, operator, node, "Metadata", 12, [Part(each, ()) for each in topics]))
            described: list[tuple[str, str | None]] = [("topic", each) for each in topics]
            yield plan.day.noisy(Request(at + 0.2, operator, node, "DescribeConfigs", 4, resources=described))

    plan.day.add(compares)


def small_batches(plan: Plan) -> None:
    """Every ten minutes a job looks up the ends of a topic, reads the new records, and sleeps; it has no group."""
    topic, draw = plan.draw.choice(sorted(plan.day.topics)), plan.draw
    job = Client("spark-kafka-source-driver-0", "User:lakehouse", "10.46.0.5", JAVA, "3.4.1")

    def batches() -> Iterator[Request]:
        nodes = sorted({plan.day.leaders[topic, index] for index in range(plan.day.topics[topic])})
        for node in nodes:
            yield from plan.day.connect(job, node, 90)
        for at in plan.day.times(0.1, 100, follows_load=False):
            for step, node in enumerate(nodes):
                owned = tuple(index for index in range(plan.day.topics[topic]) if plan.day.leaders[topic, index] == node)
                yield plan.day.noisy(Request(at + step * 0.01, job, node, "ListOffsets", 7, [Part(topic, owned)]))
                part = Part(topic, owned, 0, int(draw.randint(50_000, 400_000) * plan.day.level(at)))
                fetch = plan.day.noisy(Request(at + 1 + step * 0.2, job, node, "Fetch", 15, [part], response_bytes=part.bytes + 60))
                fetch.remote_us = 0
                yield fetch

    plan.day.add(batches)


SHAPES = (
    long_polls,
    weekly_report,
    month_end,
    cache_filled,
    probe_records,
    rare_writer,
    operator_compares,
    small_batches,
)
