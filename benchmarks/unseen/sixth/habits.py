"""What is as it should be: new protocols, mirrors, meters, renewed tokens, restarts of static members and work that is shared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchmarks.unseen.expected import Plan
from benchmarks.unseen.sixth.operations import share_group, topic_of
from benchmarks.unseen.world import DAY_S, HOUR_S, JAVA, LIBRDKAFKA, MINUTE_S, Client, Group, Part, Producer, Request


def moves_to_the_new_protocol(plan: Plan) -> None:
    """The members of a group restart one by one with the protocol of KIP-848: one heartbeat replaces joins and syncs."""
    group, begin = plan.group(), plan.draw.uniform(7, 17) * HOUR_S
    for number, client in enumerate(group.clients):
        first = begin + number * plan.draw.uniform(100, 400)

        def beats(request: Request, client: Client = client) -> Iterable[Request]:
            if request.client is client and request.api == "Heartbeat":
                request.api, request.version = "ConsumerGroupHeartbeat", 1
            yield request

        plan.day.span(first, DAY_S, lambda _: True, beats)
        plan.day.span(first - 15, first, lambda each, client=client: each.client is client, lambda _: ())  # type: ignore[misc]
        version = "4.1.0" if client.software == JAVA else "2.12.1"
        plan.replace(client, replace(client, software_version=version, ports={}), first)


def mirror_reads_all(plan: Plan) -> None:
    """A mirror reads each topic all day without a group, and writes a heartbeat of its own each minute."""
    topics, draw = sorted(plan.day.topics), plan.draw
    beats = plan.day.topic("heartbeats", 1)
    reader = Client("mm2-source->standby-consumer", "User:mirror", "10.9.6.4", JAVA, "3.9.0")
    writer = Client("mm2-source->standby-producer", "User:mirror", "10.9.6.4", JAVA, "3.9.0")

    def reads(node: int) -> Iterator[Request]:
        owned = {topic: tuple(i for i in range(plan.day.topics[topic]) if plan.day.leaders[topic, i] == node) for topic in topics}
        yield from plan.day.connect(reader, node, 5)
        for at in plan.day.times(0.5 if len(plan.day.brokers) < 6 else 0.08, 6, follows_load=False):
            parts = [Part(topic, indexes) for topic, indexes in owned.items() if indexes]
            for part in parts:
                part.bytes = int(draw.randint(500, 30_000) * plan.day.level(at))
            size = sum(part.bytes for part in parts)
            yield plan.day.noisy(Request(at, reader, node, "Fetch", 15, parts, response_bytes=size + 60))

    def writes() -> Iterator[Request]:
        node = plan.day.leaders[beats, 0]
        yield from plan.day.connect(writer, node, 5)
        for at in plan.day.times(1, 6, follows_load=False):
            yield plan.day.noisy(Request(at, writer, node, "Produce", 9, [Part(beats, (0,), 1, 120)], request_bytes=200))

    for node in plan.day.brokers:
        plan.day.add(lambda node=node: reads(node))  # type: ignore[misc]
    plan.day.add(writes)


def short_blip(plan: Plan) -> None:
    """A cable is moved: for a few seconds nothing reaches one broker; then its clients connect again and send what waited."""
    broker, first, draw = plan.broker(), plan.draw.uniform(0.5, 23.5) * HOUR_S, plan.draw
    last, back = first + draw.uniform(3, 12), set[str]()

    def waits(request: Request) -> Iterable[Request]:
        request.at = last + draw.uniform(0.3, 4)
        if request.client.client_id not in back:
            back.add(request.client.client_id)
            yield from plan.day.connect(request.client, broker, request.at - 0.2)
        yield request

    plan.day.span(first, last, lambda each: each.node == broker, waits)


def quarter_hours(plan: Plan) -> None:
    """Meters report at each quarter of an hour, within a minute; between them their topic is silent."""
    topic, draw = plan.day.topic("meters.readings", 3), plan.draw
    meters = [
        Client(f"concentrator-{each:02}", "User:meters", f"10.61.{each}.2", LIBRDKAFKA, "2.3.0")
        for each in range(draw.randint(5, 30))
    ]

    def reports() -> Iterator[Request]:
        known = set[tuple[str, int]]()
        for quarter in range(96):
            for at, meter in sorted((quarter * 900 + draw.uniform(2, 55), each) for each in range(len(meters))):
                client, index, records = meters[meter], draw.randrange(3), draw.randint(20, 60)
                node, part = plan.day.leaders[topic, index], Part(topic, (index,), records, records * 90)
                if (client.client_id, node) not in known:
                    known.add((client.client_id, node))
                    yield from plan.day.connect(client, node, at - 0.05)
                yield plan.day.noisy(Request(at, client, node, "Produce", 9, [part], request_bytes=part.bytes + 80))

    plan.day.add(reports)


def transactions_with_offsets(plan: Plan) -> None:
    """A program reads, writes and commits its offsets in one transaction, several times a minute and all day."""
    source, draw = topic_of(plan), plan.draw
    target, name = plan.day.topic("settlements.exact", 3), "settler-0"
    client = Client("settler-StreamThread-1", "User:settler", "10.2.75.11", JAVA, "3.8.0")
    coordinator, of_group = plan.day.coordinator(name), plan.day.coordinator("settler")
    leader = plan.day.leaders[source, 0]

    def works() -> Iterator[Request]:
        for node in sorted({coordinator, of_group, leader, *(plan.day.leaders[target, index] for index in range(3))}):
            yield from plan.day.connect(client, node, 8)
        identity: dict[str, object] = {"id": name}
        yield plan.day.noisy(Request(9, client, coordinator, "InitProducerId", 4, transaction=dict(identity)))
        for at in plan.day.times(3, 12):
            read, index = Part(source, (0,), 0, draw.randint(1_000, 9_000)), draw.randrange(3)
            yield plan.day.noisy(Request(at, client, leader, "Fetch", 15, [read], response_bytes=read.bytes + 60))
            parts = [Part(target, (index,))]
            yield plan.day.noisy(Request(at + 0.1, client, coordinator, "AddPartitionsToTxn", 3, parts, transaction=dict(identity)))
            part = Part(target, (index,), draw.randint(3, 20), draw.randint(900, 6_000))
            write = Request(at + 0.15, client, plan.day.leaders[target, index], "Produce", 9, [part], transaction=dict(identity))
            write.request_bytes = part.bytes + 80
            yield plan.day.noisy(write)
            add = Request(at + 0.2, client, coordinator, "AddOffsetsToTxn", 3, group="settler", transaction=dict(identity))
            yield plan.day.noisy(add)
            commit = Request(at + 0.25, client, of_group, "TxnOffsetCommit", 3, [Part(source, (0,))], group="settler")
            commit.transaction = dict(identity)
            yield plan.day.noisy(commit)
            ends: dict[str, object] = {**identity, "outcome": "committed", "duration_ms": draw.randint(150, 280)}
            yield plan.day.noisy(Request(at + 0.3, client, coordinator, "EndTxn", 3, transaction=ends))

    plan.day.add(works)


def share_group_works(plan: Plan) -> None:
    """A share group reads and acknowledges all day."""
    share_group(plan, "resizers", plan.draw.randint(2, 4), lambda _: False)


def tokens_renewed(plan: Plan) -> None:
    """A service's tokens last an hour: it logs in again on each open connection before that."""
    service: Producer | Group = plan.producer() if plan.draw.random() < 0.5 else plan.group()
    draw = plan.draw

    def logs_in(client: Client, node: int) -> Iterator[Request]:
        at = draw.uniform(60, 3_400)
        while at < DAY_S:
            yield plan.day.noisy(Request(at, client, node, "SaslHandshake", 1, request_bytes=50, response_bytes=40))
            yield plan.day.noisy(Request(at + 0.01, client, node, "SaslAuthenticate", 2, request_bytes=1_200, response_bytes=60))
            at += HOUR_S * draw.uniform(0.85, 0.95)

    for client in service.clients:
        for node in draw.sample(plan.day.brokers, min(3, len(plan.day.brokers))):
            plan.day.add(lambda client=client, node=node: logs_in(client, node))  # type: ignore[misc]


def static_restarts(plan: Plan) -> None:
    """The members of a group have fixed names: each is away for half a minute in its turn, and comes back to its partitions."""
    group, begin, draw = plan.group(), plan.draw.uniform(1, 22) * HOUR_S, plan.draw
    for index, client in enumerate(group.clients):
        first = begin + index * 3 * MINUTE_S
        last = first + draw.uniform(20, 50)
        plan.day.span(first, last, lambda each, client=client: each.client is client, lambda _: ())  # type: ignore[misc]

        def returns(index: int = index, client: Client = client, last: float = last) -> Iterator[Request]:
            yield from plan.day.connect(client, plan.day.coordinator(group.name), last + 0.1)
            for each in group.join(index, last + 0.3):
                each.remote_us = 0
                yield each

        plan.day.add(returns)


SHAPES = (
    moves_to_the_new_protocol,
    mirror_reads_all,
    short_blip,
    quarter_hours,
    transactions_with_offsets,
    share_group_works,
    tokens_renewed,
    static_restarts,
)
