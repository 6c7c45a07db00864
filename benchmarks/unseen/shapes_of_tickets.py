"""Incidents of programs, devices and pipelines from trackers and support tickets, written before any detector was read."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from benchmarks.unseen.expected import Expected, Plan, names
from benchmarks.unseen.shapes_of_clients import _is_write_of, _who
from benchmarks.unseen.world import DAY_S, GO, HOUR_S, JAVA, LIBRDKAFKA, MINUTE_S, PYTHON, Client, Part, Request, copied

ONE_SLOW = "https://github.com/lsst-uk/Lasair_cycle3/issues/34"
DOWN_CONVERSION = "https://cwiki.apache.org/confluence/display/KAFKA/KIP-283%3A+Efficient+Memory+Usage+for+Down-Conversion"
PRODUCER_IDS = "https://github.com/tulios/kafkajs/issues/485"
RESTORED = "https://github.com/confluentinc/kafka-streams-examples/issues/180"
MIRROR = "https://github.com/apache/kafka/pull/12671"
MUTATIONS = "https://github.com/redpanda-data/redpanda/pull/4316"
NEAREST = "https://www.automq.com/blog/nearest-replica-fetch-planning-for-msk-consumer-fleets"
STAGING = "https://newsglobal.cc/article/3528885"
OFFSET_METADATA = "https://github.com/confluentinc/parallel-consumer/issues/831"
EPOCHS = "https://github.com/apache/kafka/pull/21305"
LAG_ALERT = "https://grokdatum.github.io/grokdevops-wiki/library/postmortems/sev-2/kafka-unbounded-topic-disk-full"
REAUTHENTICATION = "https://github.com/confluentinc/librdkafka/issues/3293"


def process_starved(plan: Plan) -> Expected:
    """One process of a service has too little CPU: it writes a fifth as much as before, and the others as much as always."""
    producer, (first, last), draw = plan.producer(2), plan.span(100, 360, 3, 23), plan.draw
    slow = draw.choice(producer.clients)
    producer.per_minute = max(producer.per_minute, 1.5)
    plan.day.span(first, last, lambda each: each.client is slow and each.api == "Produce" and draw.random() < 0.8, lambda each: ())
    return Expected("process_starved", (slow.client_id,), (), first, last, ONE_SLOW)


def records_converted(plan: Plan) -> Expected:
    """An old program reads a topic: for each of its fetches the broker converts the records, which takes a handler's time."""
    topic, (first, last), draw = plan.topic(), plan.span(45, 400), plan.draw
    old = Client("legacy-etl", "User:legacy-etl", "10.33.4.8", JAVA, "0.10.1")

    def reads() -> Iterator[Request]:
        yield from plan.day.connect(old, plan.day.leaders[topic, 0], first)
        for number, at in enumerate(plan.day.times(draw.uniform(1.5, 8), first + 1, last, follows_load=False)):
            index = number % plan.day.topics[topic]
            part = Part(topic, (index,), 0, draw.randint(20_000, 90_000))
            request = plan.day.noisy(
                Request(at, old, plan.day.leaders[topic, index], "Fetch", 3, [part], response_bytes=part.bytes + 60)
            )
            request.local_us += int(draw.uniform(0.3, 1.5) * 400_000)
            yield request

    plan.day.add(reads)
    return Expected("records_converted", ("legacy-etl",), (), first, last, DOWN_CONVERSION)


def producer_ids_forgotten(plan: Plan) -> Expected:
    """A topic keeps its records so short that the broker forgets who wrote them: a few writes of a service fail, all day."""
    producer, draw = plan.producer(), plan.draw
    share, last = draw.uniform(0.02, 0.06), draw.uniform(18, 24) * HOUR_S
    producer.per_minute = max(producer.per_minute, 3.0)

    def forgets(request: Request) -> Iterable[Request]:
        if draw.random() < share:
            failed = copied(request, at=request.at - 0.05)
            failed.parts[0].error, failed.parts[0].records = "UNKNOWN_PRODUCER_ID", 0
            yield failed
            yield plan.day.noisy(Request(request.at - 0.02, request.client, request.node, "InitProducerId", 4))
        yield request

    plan.day.span(0, last, lambda each: _is_write_of(producer, each), forgets)
    return Expected("producer_ids_forgotten", _who(producer), ("UNKNOWN_PRODUCER_ID",), 0, last, PRODUCER_IDS)


def state_restored(plan: Plan) -> Expected:
    """A streams application lost its disks: for an hour its restore consumers read the changelog as fast as they can."""
    (first, last), draw = plan.span(25, 110), plan.draw
    topic = plan.day.topic("basket-app-totals-changelog", 6)
    clients = [
        Client(f"basket-app-StreamThread-{each}", "User:basket-app", f"10.2.60.{10 + each}", JAVA, "3.7.1") for each in range(3)
    ]

    def works(client: Client) -> Iterator[Request]:
        for at in plan.day.times(1.2, 20, follows_load=False):
            index = draw.randrange(6)
            if not first <= at < last:
                part = Part(topic, (index,), 5, draw.randint(500, 4000))
                yield plan.day.noisy(
                    Request(at, client, plan.day.leaders[topic, index], "Produce", 9, [part], request_bytes=part.bytes + 80)
                )

    def restores(client: Client) -> Iterator[Request]:
        restorer = Client(f"{client.client_id}-restore-consumer", client.principal, client.host, JAVA, "3.7.1")
        for at in plan.day.times(draw.uniform(6, 15), first, last, follows_load=False):
            index = draw.randrange(6)
            part = Part(topic, (index,), 0, draw.randint(700_000, 1_048_576))
            request = Request(at, restorer, plan.day.leaders[topic, index], "Fetch", 15, [part], response_bytes=part.bytes + 60)
            yield plan.day.noisy(request)

    for client in clients:
        plan.day.add(lambda client=client: heapq.merge(works(client), restores(client), key=lambda each: each.at))  # type: ignore[misc]
    who = (topic, "basket-app", *names(clients), *(f"{each.client_id}-restore-consumer" for each in clients))
    return Expected("state_restored", who, (), first, last, RESTORED)


def mirror_stopped(plan: Plan) -> Expected:
    """The task of a mirror that copies records has failed; its heartbeats go on, so that its own alarm says nothing."""
    first, draw = plan.draw.uniform(4, 18) * HOUR_S, plan.draw
    last = min(DAY_S, first + draw.uniform(2, 10) * HOUR_S)
    client = Client("mm2-eu-west", "User:mm2", "10.5.9.20", JAVA, "3.6.2")
    copies = [plan.day.topic(f"eu-west.{name}", 3) for name in ("bookings", "prices")]
    beats = plan.day.topic("eu-west.heartbeats", 1)

    def writes() -> Iterator[Request]:
        for number, at in enumerate(plan.day.times(8, 5, follows_load=False)):
            topic = beats if number % 4 == 0 else copies[number % 2]
            if first <= at < last and topic != beats:
                continue
            index = draw.randrange(plan.day.topics[topic])
            part = Part(topic, (index,), 1, 120) if topic == beats else Part(topic, (index,), 40, draw.randint(8_000, 30_000))
            yield plan.day.noisy(
                Request(at, client, plan.day.leaders[topic, index], "Produce", 9, [part], request_bytes=part.bytes + 80)
            )

    plan.day.add(writes)
    return Expected("mirror_stopped", ("mm2-eu-west", "User:mm2", *copies), (), first, last, MIRROR)


def too_many_mutations(plan: Plan) -> Expected:
    """The tests of a build server create topics faster than the controller's quota allows: most are refused for some minutes."""
    (first, last), draw = plan.span(4, 25), plan.draw
    build = Client("ci-runner-14", "User:ci", "10.80.3.14", PYTHON, "2.0.2")

    def creates() -> Iterator[Request]:
        yield from plan.day.connect(build, plan.day.brokers[0], first)
        for number, at in enumerate(plan.day.times(draw.uniform(10, 50), first + 1, last, follows_load=False)):
            resources: list[tuple[str, str | None]] = [("topic", f"it-{draw.randint(1000, 9999)}-{number}")]
            request = plan.day.noisy(Request(at, build, plan.day.brokers[0], "CreateTopics", 7, resources=resources))
            if draw.random() < 0.7:
                request.error, request.throttle_us = "THROTTLING_QUOTA_EXCEEDED", int(draw.uniform(0.1, 2) * 1_000_000)
            yield request

    plan.day.add(creates)
    where = ("THROTTLING_QUOTA_EXCEEDED", "CreateTopics", "topics")
    return Expected("too_many_mutations", ("ci-runner-14", "User:ci"), where, first, last, MUTATIONS)


def rack_mistaken(plan: Plan) -> Expected:
    """Since a deployment a group believes that it is beside one broker: it reads everything from there."""
    group, broker, first = plan.group(), plan.broker(3), plan.draw.uniform(4, 17) * HOUR_S
    last = min(DAY_S, first + plan.draw.uniform(3, 9) * HOUR_S)
    group.fetch_bytes = max(group.fetch_bytes, 40_000)
    connected: set[str] = set()

    def moves(request: Request) -> Iterable[Request]:
        if request.node != broker:
            request.node = broker
            if request.client.client_id not in connected:
                connected.add(request.client.client_id)
                yield from plan.day.connect(request.client, broker, request.at)
        yield request

    plan.day.span(first, last, lambda each: each.client in group.clients and each.api == "Fetch", moves)
    who = (group.name, *names(group.clients), *broker_words(broker))
    return Expected("rack_mistaken", who, (), first, last, NEAREST)


def broker_words(broker: int) -> tuple[str, ...]:
    return (f"broker {broker}", f"node {broker}")


def staging_in_production(plan: Plan) -> Expected:
    """A staging environment got the addresses of the production: its copy of a service writes a little to the real topic."""
    producer, first, draw = plan.producer(), plan.draw.uniform(3, 15) * HOUR_S, plan.draw
    last, topic = min(DAY_S, first + draw.uniform(3, 9) * HOUR_S), producer.topics[0]
    old = producer.clients[0]
    copy = Client(
        old.client_id, f"User:staging-{producer.name}", f"10.240.7.{draw.randint(2, 250)}", old.software, old.software_version
    )

    def writes() -> Iterator[Request]:
        yield from plan.day.connect(copy, plan.day.leaders[topic, 0], first)
        for at in plan.day.times(draw.uniform(0.2, 0.6), first + 1, last, follows_load=False):
            index = draw.randrange(plan.day.topics[topic])
            part = Part(topic, (index,), 1, draw.randint(200, 900))
            yield plan.day.noisy(
                Request(at, copy, plan.day.leaders[topic, index], "Produce", 9, [part], request_bytes=part.bytes + 80)
            )

    plan.day.add(writes)
    return Expected("staging_in_production", (copy.principal, copy.host, "10.240."), (), first, last, STAGING)


def offset_notes_too_large(plan: Plan) -> Expected:
    """A group notes with its offsets which records it skipped, and the notes grow too large: some of its commits are refused."""
    group, (first, last), draw = plan.group(), plan.span(25, 300), plan.draw
    share = draw.uniform(0.25, 1.0)

    def refuses(request: Request) -> Iterable[Request]:
        if draw.random() < share:
            request.error, request.request_bytes = "OFFSET_METADATA_TOO_LARGE", request.request_bytes + 9000
        yield request

    plan.day.span(first, last, lambda each: each.group == group.name and each.api == "OffsetCommit", refuses)
    who = (group.name, *names(group.clients))
    return Expected("offset_notes_too_large", who, ("OFFSET_METADATA_TOO_LARGE",), first, last, OFFSET_METADATA)


def member_epochs_fenced(plan: Plan) -> Expected:
    """A group of the new protocol is fenced again and again: each heartbeat is answered with an epoch that has passed."""
    (first, last), draw = plan.span(12, 120), plan.draw
    topic, group = plan.topic(), "quotes-live"
    clients = [Client(f"quotes-live-{each}", "User:quotes", f"10.3.61.{10 + each}", JAVA, "4.0.0") for each in range(2)]
    node = plan.day.coordinator(group)

    def beats(client: Client) -> Iterator[Request]:
        at = draw.uniform(5, 30)
        while at < DAY_S:
            request = plan.day.noisy(
                Request(at, client, node, "ConsumerGroupHeartbeat", 1, group=group, member=f"{client.client_id}-m")
            )
            fenced = first <= at < last
            if fenced and draw.random() < 0.8:
                request.error = draw.choice(["FENCED_MEMBER_EPOCH", "FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"])
            yield request
            at += draw.uniform(2, 6) if fenced else draw.uniform(50, 70)

    def reads(client: Client) -> Iterator[Request]:
        for number, at in enumerate(plan.day.times(1.5, 10, follows_load=False)):
            if not first <= at < last:
                index = number % plan.day.topics[topic]
                part = Part(topic, (index,), 0, draw.randint(500, 20_000))
                yield plan.day.noisy(
                    Request(at, client, plan.day.leaders[topic, index], "Fetch", 17, [part], response_bytes=part.bytes + 60)
                )

    for client in clients:
        plan.day.add(lambda client=client: heapq.merge(beats(client), reads(client), key=lambda each: each.at))  # type: ignore[misc]
    who = (group, "quotes", *names(clients))
    return Expected("member_epochs_fenced", who, ("FENCED_MEMBER_EPOCH", "ConsumerGroupHeartbeat"), first, last, EPOCHS)


def readers_back_at_last(plan: Plan) -> Expected:
    """A group has been down since yesterday; in the morning it comes back, and catches up for an hour."""
    group, last, draw = plan.group(), plan.draw.uniform(4, 11) * HOUR_S, plan.draw
    hour = plan.draw.uniform(20, 80) * MINUTE_S

    def more(request: Request) -> Iterable[Request]:
        for step in range(5):
            again = copied(request, at=request.at + step * 0.7, remote_us=0)
            again.parts[0].bytes = draw.randint(300_000, 1_000_000)
            again.response_bytes = again.parts[0].bytes + 60
            yield again

    def joins() -> Iterator[Request]:
        for index in range(len(group.clients)):
            at = last + index * 4
            yield from plan.day.connect(group.clients[index], plan.day.coordinator(group.name), at)
            yield from group.join(index, at + 0.5, 2)

    plan.day.span(0, last, lambda each: each.client in group.clients, lambda each: ())
    plan.day.span(last, last + hour, lambda each: each.client in group.clients and each.api == "Fetch", more)
    plan.day.add(joins)
    return Expected("readers_back_at_last", (group.name, *names(group.clients)), (), 0, last, LAG_ALERT)


def firmware_refused(plan: Plan) -> Expected:
    """A new firmware of some of many devices writes records that its topic refuses: a few in a hundred devices, for hours."""
    (first, last), draw = plan.span(100, 500), plan.draw
    topic, count = plan.day.topic("meters.readings", 6), draw.choice([60, 250, 800])
    bad = max(3, int(count * draw.uniform(0.03, 0.1)))
    devices = [
        Client(f"meter-{number:04}", "User:meters", f"100.64.{number // 200}.{number % 200 + 2}", LIBRDKAFKA, "1.9.2")
        for number in range(count)
    ]

    def writes() -> Iterator[Request]:
        for at in plan.day.times(9, follows_load=False):
            number = draw.randrange(count)
            index = number % 6
            part = Part(topic, (index,), 1, draw.randint(90, 200))
            if number < bad and first <= at < last:
                part.error, part.records = "INVALID_RECORD", 0
            node = plan.day.leaders[topic, index]
            if node not in devices[number].ports:
                yield from plan.day.connect(devices[number], node, at - 0.05)
            yield plan.day.noisy(Request(at, devices[number], node, "Produce", 7, [part], request_bytes=part.bytes + 80))

    plan.day.add(writes)
    who = (topic, "meters", "User:meters", *names(devices[:bad]))
    return Expected("firmware_refused", who, ("INVALID_RECORD",), first, last, STAGING)


def reauthentication_missing(plan: Plan) -> Expected:
    """Connections must log in again each hour, which a library does not know: all of its processes are cut at once each time."""
    (first, last), draw = plan.span(240, 700, 1, 23.5), plan.draw
    clients = [Client(f"tracker-{each}", "User:tracker", f"10.1.62.{10 + each}", GO, "0.4.47") for each in range(8)]
    topic, every = plan.topic(), draw.uniform(25, 60) * MINUTE_S

    def works(client: Client) -> Iterator[Request]:
        turn = 0
        for at in plan.day.times(0.8, 20, follows_load=False):
            index = draw.randrange(plan.day.topics[topic])
            now = int((at - first) // every) + 1 if first <= at < last else turn
            if now != turn:
                turn = now
                for node in plan.day.brokers[:4]:
                    yield from (plan.day.noisy(each) for each in plan.day.connect(client, node, at))
            part = Part(topic, (index,), 2, draw.randint(200, 900))
            yield plan.day.noisy(
                Request(at + 0.05, client, plan.day.leaders[topic, index], "Produce", 8, [part], request_bytes=part.bytes + 80)
            )

    for client in clients:
        plan.day.add(lambda client=client: works(client))  # type: ignore[misc]
    who = ("tracker", "User:tracker", *names(clients))
    return Expected("reauthentication_missing", who, ("connect", "log", "Sasl"), first, last, REAUTHENTICATION)


SHAPES = (
    process_starved,
    records_converted,
    producer_ids_forgotten,
    state_restored,
    mirror_stopped,
    too_many_mutations,
    rack_mistaken,
    staging_in_production,
    offset_notes_too_large,
    member_epochs_fenced,
    readers_back_at_last,
    firmware_refused,
    reauthentication_missing,
)
