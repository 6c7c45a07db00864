"""What a cluster does by habit and nobody's trouble is, and clusters of other sizes: five clients, or two thousand devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchmarks.unseen.expected import Plan
from benchmarks.unseen.world import DAY_S, GO, HOUR_S, JAVA, LIBRDKAFKA, MINUTE_S, Client, Day, Part, Request


def few_clients(day: Day) -> None:
    """Leave two services that write and one group: some five clients in all."""
    del day.producers[1:-1], day.groups[1:]
    for service in (*day.producers, *day.groups):
        del service.clients[2:]
    day.groups[0].topics[:] = [topic for each in day.producers for topic in each.topics]
    for each in day.producers:
        each.per_minute *= 4


def many_devices(day: Day, count: int = 2_000) -> None:
    """Add devices that each write some times a day, from their own address and with their own client id."""
    draw, topic = day.draw, day.topic("devices.events", 12)
    devices = [
        Client(f"device-{number:05}", "User:devices", f"100.70.{number // 250}.{number % 250 + 2}", LIBRDKAFKA, "2.3.0")
        for number in range(count)
    ]

    def writes() -> Iterator[Request]:
        for at in day.times(8):
            device, index = draw.choice(devices), draw.randrange(12)
            node = day.leaders[topic, index]
            if node not in device.ports:
                yield from day.connect(device, node, at - 0.05)
            part = Part(topic, (index,), 1, draw.randint(100, 300))
            yield day.noisy(Request(at, device, node, "Produce", 7, [part], request_bytes=part.bytes + 80))

    day.add(writes)


def lunch(plan: Plan) -> None:
    """Between twelve and half past one everybody writes and reads a third less."""
    draw, first = plan.draw, plan.draw.uniform(11.6, 12.3) * HOUR_S
    share = draw.uniform(0.2, 0.35)
    people = ("Produce", "Fetch")

    def less(request: Request) -> Iterable[Request]:
        if draw.random() >= share or request.client.client_id.startswith("broker-"):
            yield request

    plan.day.span(first, first + draw.uniform(50, 100) * MINUTE_S, lambda each: each.api in people, less)


def canary(plan: Plan) -> None:
    """One process of a service runs a new version of its library for two hours, and then the old one again."""
    producer, first = plan.producer(), plan.draw.uniform(9, 16) * HOUR_S
    old = producer.clients[0]
    new = replace(
        old, software_version="3.9.1" if old.software == JAVA else "2.8.0" if old.software == LIBRDKAFKA else "1.19.0", ports={}
    )
    connected: set[int] = set()

    def moves(request: Request) -> Iterable[Request]:
        if request.node not in connected:
            connected.add(request.node)
            yield from plan.day.connect(new, request.node, request.at - 0.02)
        request.client = new
        yield request

    plan.day.span(first, first + plan.draw.uniform(1.5, 3) * HOUR_S, lambda each: each.client is old, moves)


def extra_pod_by_day(plan: Plan) -> None:
    """A service has one process more from eight to eight, each day; together they write what the load asks for."""
    producer = plan.producer()
    old = producer.clients[0]
    more = Client(f"{producer.name}-{len(producer.clients)}", old.principal, "10.2.93.4", old.software, old.software_version)
    first, last, turns = 8 * HOUR_S, plan.draw.uniform(19, 21) * HOUR_S, len(producer.clients) + 1
    connected: set[int] = set()

    def shares(request: Request) -> Iterable[Request]:
        if plan.draw.random() < 1 / turns:
            if request.node not in connected:
                connected.add(request.node)
                yield from plan.day.connect(more, request.node, request.at - 0.02)
            request.client = more
        yield request

    plan.day.span(first, last, lambda each: each.client in producer.clients and each.api == "Produce", shares)


def batch_twice(plan: Plan) -> None:
    """A partner's file arrives at six in the morning and at six in the evening: twice a day, some records for three minutes."""
    topic, draw = plan.day.topic("partner.files", 2), plan.draw
    job = Client("file-import", "User:file-import", "10.44.0.31", GO, "1.17.0")

    def writes() -> Iterator[Request]:
        for hour in (6, 18):
            at = hour * HOUR_S + draw.uniform(60, 600)
            job.ports.clear()
            yield from plan.day.connect(job, plan.day.leaders[topic, 0], at)
            for step in range(draw.randint(25, 35)):
                index = step % 2
                part = Part(topic, (index,), 40, draw.randint(10_000, 30_000))
                yield plan.day.noisy(
                    Request(
                        at + 1 + step * 6, job, plan.day.leaders[topic, index], "Produce", 9, [part], request_bytes=part.bytes + 80
                    )
                )

    plan.day.add(writes)


def schema_registered(plan: Plan) -> None:
    """The registry of schemas reads its topic all day, and a deployment registers two schemas."""
    topic, draw = plan.day.topic("_schemas", 1), plan.draw
    registry = Client("sr-1", "User:schema-registry", "10.9.0.40", JAVA, "7.6.0-ccs")
    node, at = plan.day.leaders[topic, 0], draw.uniform(9, 17) * HOUR_S

    def reads() -> Iterator[Request]:
        yield from plan.day.connect(registry, node, 10)
        for when in plan.day.times(2, 11, follows_load=False):
            yield plan.day.noisy(Request(when, registry, node, "Fetch", 15, [Part(topic, (0,))]))

    def registers() -> Iterator[Request]:
        for step in range(2):
            part = Part(topic, (0,), 1, draw.randint(900, 4000))
            yield plan.day.noisy(Request(at + step * 2, registry, node, "Produce", 9, [part], request_bytes=part.bytes + 80))

    plan.day.add(reads)
    plan.day.add(registers)


def devices_by_daylight(plan: Plan) -> None:
    """Solar panels wake up one after the other after six, write more towards noon, and sleep at night."""
    draw, topic = plan.draw, plan.day.topic("solar.output", 3)
    panels = [Client(f"panel-{each:03}", "User:solar", f"100.66.0.{each + 2}", LIBRDKAFKA, "2.0.2") for each in range(120)]

    def writes() -> Iterator[Request]:
        at = 6 * HOUR_S
        while at < 20 * HOUR_S:
            height = max(0.04, 1 - abs(at / HOUR_S - 13) / 7)
            panel, index = draw.choice(panels), draw.randrange(3)
            node = plan.day.leaders[topic, index]
            if node not in panel.ports:
                yield from plan.day.connect(panel, node, at - 0.04)
            part = Part(topic, (index,), 1, draw.randint(100, 250))
            yield plan.day.noisy(Request(at, panel, node, "Produce", 8, [part], request_bytes=part.bytes + 80))
            at += MINUTE_S / (12 * height) * draw.uniform(0.6, 1.4)

    plan.day.add(writes)


def pods_renamed(plan: Plan) -> None:
    """A deployment replaces the processes of a service: the new ones have new names and addresses, and the same work."""
    producer, first = plan.producer(), plan.draw.uniform(8, 18) * HOUR_S
    for index, old in enumerate(producer.clients):
        word = "".join(plan.draw.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5))
        new = replace(old, client_id=f"{producer.name}-7d9f-{word}", host=f"10.2.94.{10 + index}", ports={})
        plan.replace(old, new, first + index * 40)


def exporter_replaced(plan: Plan) -> None:
    """The program that exports metrics is replaced by another one, which asks the same under the same account."""
    first = plan.draw.uniform(9, 16) * HOUR_S
    new = Client("kminion", "User:monitoring", "10.9.0.6", GO, "1.18.0")

    def moves(request: Request) -> Iterable[Request]:
        request.client = new
        yield request

    plan.day.span(first, DAY_S, lambda each: each.client.client_id == "kafka-exporter", moves)


SHAPES = (
    lunch,
    canary,
    extra_pod_by_day,
    batch_twice,
    schema_registered,
    devices_by_daylight,
    pods_renamed,
    exporter_replaced,
)
