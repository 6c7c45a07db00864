"""Incidents of programs that write and read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchmarks.unseen.expected import Expected, Plan, names
from benchmarks.unseen.shapes import LIBRARY, MSK_CPU, STORM
from benchmarks.unseen.world import DAY_S, GO, HOUR_S, JAVA, MINUTE_S, Client, Group, Part, Producer, Request, copied

REQUESTS = "https://www.confluent.io/blog/debug-apache-kafka-pt-2/"
ANTI_PATTERNS = "https://docs.axonops.com/data-platforms/kafka/application-development/anti-patterns"
REBALANCES = "https://schema.ai/technologies/apache-kafka/scenarios/rebalancing-storm"
OFFSETS = "https://geekmonks.com/kafka/alert-playbooks/offset-problems"
MANY_PRODUCERS = "https://schema.ai/technologies/apache-kafka/scenarios/producer-instantiation-incident"


def _who(service: Producer | Group) -> tuple[str, ...]:
    topics = tuple(service.topics) if isinstance(service, Producer) else ()
    return (service.name, *names(service.clients), *topics)


def _is_write_of(producer: Producer, request: Request) -> bool:
    return request.api == "Produce" and request.client in producer.clients


def producer_silent(plan: Plan) -> Expected:
    """A service is down: it writes nothing."""
    producer, (first, last) = plan.producer(), plan.span(40, 240, 5, 21)
    plan.day.span(first, last, lambda each: each.client in producer.clients, lambda each: ())
    return Expected("producer_silent", _who(producer), (), first, last, ANTI_PATTERNS)


def half_the_processes(plan: Plan) -> Expected:
    """Some processes of a service are gone for hours."""
    producer, (first, last) = plan.producer(3), plan.span(150, 360, 4, 22)
    gone = producer.clients[: len(producer.clients) // 2]
    plan.day.span(first, last, lambda each: each.client in gone, lambda each: ())
    who = (*names(gone), producer.name, *producer.topics)
    return Expected("half_the_processes", who, (), first, last, "https://www.prodrescueai.com/incidents/kafka-consumer-lag")


def records_grew(plan: Plan) -> Expected:
    """After a deployment a service writes records several times as large."""
    producer, first = plan.producer(), plan.draw.uniform(6, 18) * HOUR_S
    factor = plan.draw.uniform(5, 20)

    def grows(request: Request) -> Iterable[Request]:
        for part in request.parts:
            part.bytes = int(part.bytes * factor)
        request.request_bytes = int(request.request_bytes * factor)
        yield request

    plan.day.span(first, DAY_S, lambda each: _is_write_of(producer, each), grows)
    return Expected("records_grew", _who(producer), (), first, DAY_S, ANTI_PATTERNS)


def too_large(plan: Plan) -> Expected:
    """A few records of a service are too large, for hours."""
    producer, (first, last), share = plan.producer(), plan.span(120, 330), plan.draw.uniform(0.02, 0.12)

    def fails(request: Request) -> Iterable[Request]:
        if plan.draw.random() < share:
            request.parts[0].error, request.parts[0].records = "MESSAGE_TOO_LARGE", 0
        yield request

    plan.day.span(first, last, lambda each: _is_write_of(producer, each), fails)
    return Expected("too_large", _who(producer), ("MESSAGE_TOO_LARGE",), first, last, ANTI_PATTERNS)


def batching_lost(plan: Plan) -> Expected:
    """After a deployment a service sends one record in each request."""
    producer, first = plan.producer(), plan.draw.uniform(6, 18) * HOUR_S
    producer.records, factor = max(producer.records, 20), plan.draw.randint(8, 18)

    def splits(request: Request) -> Iterable[Request]:
        for step in range(factor):
            one = copied(request, at=request.at + step * 0.15)
            one.parts[0].records, one.parts[0].bytes = 1, request.parts[0].bytes // factor
            one.request_bytes = one.parts[0].bytes + 80
            yield one

    last = min(DAY_S, first + plan.draw.uniform(2, 5) * HOUR_S)
    plan.day.span(first, last, lambda each: _is_write_of(producer, each), splits)
    return Expected("batching_lost", _who(producer), (), first, last, REQUESTS)


def producer_per_message(plan: Plan) -> Expected:
    """A service makes a new producer for each message: a connection and a producer id each time."""
    producer, (first, last) = plan.producer(), plan.span(30, 90)

    def renews(request: Request) -> Iterable[Request]:
        for step in range(4):
            at, port = request.at + step * 2.0, plan.draw.randint(32768, 60999)
            for step_s, api in enumerate(("ApiVersions", "SaslHandshake", "SaslAuthenticate")):
                yield plan.day.noisy(Request(at + step_s / 1000, request.client, request.node, api, 1, port=port))
            yield plan.day.noisy(Request(at + 0.02, request.client, request.node, "InitProducerId", 4, port=port))
            yield plan.day.noisy(copied(request, at=at + 0.05, port=port))

    plan.day.span(first, last, lambda each: _is_write_of(producer, each), renews)
    return Expected("producer_per_message", _who(producer), (), first, last, MANY_PRODUCERS)


def durability_lost(plan: Plan) -> Expected:
    """After a deployment a service no longer waits for all replicas."""
    producer, first = plan.producer(), plan.draw.uniform(6, 18) * HOUR_S
    producer.acks = -1
    acks = plan.draw.choice([0, 1])

    def changes(request: Request) -> Iterable[Request]:
        request.acks, request.remote_us = acks, 0
        yield request

    plan.day.span(first, DAY_S, lambda each: _is_write_of(producer, each), changes)
    return Expected("durability_lost", _who(producer), ("acks",), first, DAY_S, "https://preproom.ai/code/oc-g112")


def fenced_producers(plan: Plan) -> Expected:
    """Two processes use one transactional id, and fence each other."""
    producer, (first, last) = plan.transactional(), plan.span(15, 70)
    client = producer.clients[0]

    def fails(request: Request) -> Iterable[Request]:
        if request.api in ("Produce", "AddPartitionsToTxn", "EndTxn") and plan.draw.random() < 0.6:
            request.error = "INVALID_PRODUCER_EPOCH" if request.api == "Produce" else "PRODUCER_FENCED"
            request.transaction = {"id": f"{client.client_id}-tx"}
            request.parts = [copied(request).parts[0]] if request.parts else []
            yield request
            again = copied(request, at=request.at + 0.3, api="InitProducerId", version=4, parts=[], error=None)
            yield plan.day.noisy(again)
        else:
            yield request

    plan.day.span(first, last, lambda each: each.client is client, fails)
    who = (producer.name, client.client_id, f"{client.client_id}-tx")
    return Expected("fenced_producers", who, ("FENCED", "EPOCH", "fenced"), first, last, LIBRARY)


def stale_metadata(plan: Plan) -> Expected:
    """One process sends to a broker that does not lead its partition, again and again, for hours."""
    if len(plan.day.brokers) == 1:
        plan.broker(2)
    producer, (first, last) = plan.producer(), plan.span(60, 330)
    client, per_minute = producer.clients[0], plan.draw.uniform(6, 40)
    topic, wrong = producer.topics[0], plan.draw.choice(plan.day.brokers)

    def sends() -> Iterator[Request]:
        for at in plan.day.times(per_minute, first, last, follows_load=False):
            part = Part(topic, (0,), 0, 0, "NOT_LEADER_OR_FOLLOWER")
            yield plan.day.noisy(Request(at, client, wrong, "Produce", 7, [part], request_bytes=4000))

    plan.day.add(sends)
    source = "https://github.com/confluentinc/librdkafka/issues/1390"
    return Expected("stale_metadata", _who(producer), ("NOT_LEADER",), first, last, source)


def out_of_order(plan: Plan) -> Expected:
    """An idempotent producer has lost its place: each of its batches is rejected."""
    producer, (first, last) = plan.producer(), plan.span(15, 60)
    client = producer.clients[-1]

    def fails(request: Request) -> Iterable[Request]:
        for step in range(3):
            again = copied(request, at=request.at + step * 0.4)
            again.parts[0].error, again.parts[0].records = "OUT_OF_ORDER_SEQUENCE_NUMBER", 0
            yield again

    plan.day.span(first, last, lambda each: each.client is client and each.api == "Produce", fails)
    return Expected("out_of_order", _who(producer), ("OUT_OF_ORDER",), first, last, LIBRARY)


def batch_at_noon(plan: Plan) -> Expected:
    """A load job runs in the middle of the day, and writes more than everybody else."""
    (first, last), topic = plan.span(25, 80, 9, 17), plan.topic()
    job = Client("backfill-job", "User:etl", "10.44.0.12", JAVA, "3.5.1")

    def writes() -> Iterator[Request]:
        for at in plan.day.times(plan.draw.uniform(60, 160), first, last, follows_load=False):
            index = plan.draw.randrange(plan.day.topics[topic])
            part = Part(topic, (index,), 4000, plan.draw.randint(600_000, 1_000_000))
            yield plan.day.noisy(
                Request(at, job, plan.day.leaders[topic, index], "Produce", 9, [part], request_bytes=part.bytes + 90)
            )

    plan.day.add(writes)
    return Expected("batch_at_noon", ("backfill-job", "etl"), (), first, last, MSK_CPU)


def invalid_records(plan: Plan) -> Expected:
    """After a deployment a part of a service's records has no key, which the topic requires."""
    producer, (first, last), share = plan.producer(), plan.span(30, 200), plan.draw.uniform(0.1, 0.7)

    def fails(request: Request) -> Iterable[Request]:
        if plan.draw.random() < share:
            request.parts[0].error, request.parts[0].records = "INVALID_RECORD", 0
        yield request

    plan.day.span(first, last, lambda each: _is_write_of(producer, each), fails)
    return Expected("invalid_records", _who(producer), ("INVALID_RECORD",), first, last, INCIDENT_KEYS)


INCIDENT_KEYS = "https://nicheelab.com/en/articles/kafka/poison-pill/"


def hot_key(plan: Plan) -> Expected:
    """One key has most of a topic's records since a campaign began."""
    producer, (first, last) = plan.producer(), plan.span(120, 400)
    topic = producer.topics[0]
    share, hot = plan.draw.uniform(0.5, 0.8), plan.draw.randrange(plan.day.topics[topic])

    def skews(request: Request) -> Iterable[Request]:
        if plan.draw.random() < share:
            request.parts[0].partitions = (hot,)
            request.node = plan.day.leaders[topic, hot]
        yield request

    plan.day.span(first, last, lambda each: _is_write_of(producer, each), skews)
    source = "https://leopardot.com/kafka-incident-postmortem-what-went-wrong-and-why"
    return Expected("hot_key", (topic,), ("partition",), first, last, source)


def crash_looping_group(plan: Plan) -> Expected:
    """The members of a group crash on a record: they join, fetch once and are gone, and nothing is committed."""
    group, (first, last) = plan.group(), plan.span(45, 240)
    every = plan.draw.uniform(40, 120)
    plan.day.span(first, last, lambda each: each.client in group.clients, lambda each: ())

    def joins(index: int) -> Iterator[Request]:
        client = group.clients[index]
        for at in plan.day.times(MINUTE_S / every, first, last, follows_load=False):
            yield from plan.day.connect(client, plan.day.coordinator(group.name), at)
            yield from group.join(index, at + 0.05)

    for index in range(len(group.clients)):
        plan.day.add(lambda index=index: joins(index))  # type: ignore[misc]
    return Expected("crash_looping_group", _who(group), (), first, last, "https://grokdatum.github.io/grokdevops-wiki/library")


def slow_rebalances(plan: Plan) -> Expected:
    """Each few minutes a member is too slow, and its group rebalances, for hours."""
    group, (first, last) = plan.group(2), plan.span(120, 330)
    every = plan.draw.uniform(3, 6) * MINUTE_S

    def joins() -> Iterator[Request]:
        at, generation = first, 2
        while at < last:
            leaves = plan.day.noisy(Request(at, group.clients[0], plan.day.coordinator(group.name), "LeaveGroup", 5))
            leaves.group, leaves.member = group.name, group.member(0)
            yield leaves
            streams = [list(group.join(index, at + 1 + index * 0.1, generation)) for index in range(len(group.clients))]
            yield from sorted((each for stream in streams for each in stream), key=lambda each: each.at)
            at, generation = at + every * plan.draw.uniform(0.9, 1.1), generation + 1

    plan.day.add(joins)
    return Expected("slow_rebalances", _who(group), (), first, last, LIBRARY)


def poison_record(plan: Plan) -> Expected:
    """A group reads the same records again and again: it fetches, and commits nothing."""
    group, (first, last) = plan.group(), plan.span(60, 240)

    def sticks(request: Request) -> Iterable[Request]:
        if request.api == "Fetch":
            yield request
            again = copied(request, at=request.at + 3)
            yield again
        elif request.api != "OffsetCommit":
            yield request

    plan.day.span(first, last, lambda each: each.client in group.clients, sticks)
    source = "https://schema.ai/technologies/apache-kafka/insights/kafka-poison-pill-deterministic-failure"
    return Expected("poison_record", _who(group), (), first, last, source)


def replay(plan: Plan) -> Expected:
    """A group reads its topics from the beginning."""
    group, (first, last) = plan.group(), plan.span(30, 120)
    factor = plan.draw.uniform(12, 40)

    def reads(request: Request) -> Iterable[Request]:
        for step in range(4):
            more = copied(request, at=request.at + step * 1.5)
            more.parts[0].bytes = int(factor * group.fetch_bytes * plan.draw.uniform(0.7, 1.3))
            more.response_bytes, more.remote_us = more.parts[0].bytes + 60, 0
            yield more

    plan.day.span(first, last, lambda each: each.client in group.clients and each.api == "Fetch", reads)
    return Expected("replay", _who(group), (), first, last, "https://preproom.ai/code/oc-g381")


def offsets_gone(plan: Plan) -> Expected:
    """A group comes back after its records were deleted, and its offsets are out of range."""
    group, first = plan.group(), plan.draw.uniform(12, 22) * HOUR_S
    down = first - plan.draw.uniform(5, 11) * HOUR_S
    plan.day.span(down, first, lambda each: each.client in group.clients, lambda each: ())
    last = first + plan.draw.uniform(1.5, 8) * MINUTE_S

    def fails(request: Request) -> Iterable[Request]:
        for step in range(3):
            again = copied(request, at=request.at + step * 2.0)
            again.parts[0].error, again.parts[0].bytes = "OFFSET_OUT_OF_RANGE", 0
            yield again

    plan.day.span(first, last, lambda each: each.client in group.clients and each.api == "Fetch", fails)
    return Expected("offsets_gone", (*_who(group), *group.topics), (), down, last, "https://preproom.ai/code/oc-g396")


def commit_each_record(plan: Plan) -> Expected:
    """After a deployment a group commits after each record."""
    group, first = plan.group(), plan.draw.uniform(6, 18) * HOUR_S
    last, factor = min(DAY_S, first + plan.draw.uniform(1.5, 5) * HOUR_S), plan.draw.randint(12, 40)

    def repeats(request: Request) -> Iterable[Request]:
        for step in range(factor):
            yield copied(request, at=request.at + step * 0.7)

    plan.day.span(first, last, lambda each: each.client in group.clients and each.api == "OffsetCommit", repeats)
    return Expected("commit_each_record", _who(group), ("commit", "Commit"), first, last, MSK_CPU)


def busy_polling(plan: Plan) -> Expected:
    """A process asks for records without waiting for any."""
    group, (first, last) = plan.group(), plan.span(60, 300)
    client, factor = group.clients[0], plan.draw.randint(15, 40)

    def repeats(request: Request) -> Iterable[Request]:
        yield request
        for step in range(1, factor):
            again = copied(request, at=request.at + step * 0.4)
            again.parts[0].bytes, again.response_bytes, again.remote_us = 0, 60, 0
            yield again

    plan.day.span(first, last, lambda each: each.client is client and each.api == "Fetch", repeats)
    return Expected("busy_polling", (group.name, client.client_id), (), first, last, REQUESTS)


def slow_reader(plan: Plan) -> Expected:
    """A process takes long to read its responses."""
    group, (first, last), wait_ms = plan.group(), plan.span(30, 150), plan.draw.uniform(200, 2500)
    client = group.clients[0]

    def waits(request: Request) -> Iterable[Request]:
        request.send_us += int(plan.draw.uniform(0.5, 1.5) * wait_ms * 1000)
        yield request

    plan.day.span(first, last, lambda each: each.client is client and each.api == "Fetch", waits)
    return Expected("slow_reader", (group.name, client.client_id), (), first, last, STORM)


def members_lost(plan: Plan) -> Expected:
    """Most members of a group are gone for hours."""
    group, (first, last) = plan.group(3), plan.span(120, 300)
    gone = group.clients[1:]
    plan.day.span(first, last, lambda each: each.client in gone, lambda each: ())
    return Expected("members_lost", (group.name, *names(gone)), (), first, last, "https://preproom.ai/code/oc-g394")


def same_instance(plan: Plan) -> Expected:
    """Two processes have one group instance id, and fence each other."""
    group, (first, last) = plan.group(), plan.span(20, 90)
    client, per_minute = group.clients[0], plan.draw.uniform(3, 12)

    def fails() -> Iterator[Request]:
        for at in plan.day.times(per_minute, first, last, follows_load=False):
            request = Request(at, client, plan.day.coordinator(group.name), "Heartbeat", 4, error="FENCED_INSTANCE_ID")
            request.group, request.member = group.name, group.member(0)
            yield plan.day.noisy(request)

    plan.day.add(fails)
    return Expected("same_instance", _who(group), ("FENCED_INSTANCE_ID",), first, last, REBALANCES)


def commits_refused(plan: Plan) -> Expected:
    """A group takes longer than its poll interval: its commits are refused."""
    group, (first, last), share = plan.group(), plan.span(40, 150), plan.draw.uniform(0.4, 1.0)

    def fails(request: Request) -> Iterable[Request]:
        if plan.draw.random() < share:
            request.error = plan.draw.choice(["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"])
        yield request

    plan.day.span(first, last, lambda each: each.client in group.clients and each.api == "OffsetCommit", fails)
    return Expected(
        "commits_refused", _who(group), ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE"), first, last, REBALANCES
    )


def group_renamed(plan: Plan) -> Expected:
    """A deployment changes the group's name: the old group is gone, and the new one begins at the beginning."""
    group, first = plan.group(), plan.draw.uniform(5, 18) * HOUR_S
    renamed = f"{group.name}-v2"

    def renames(request: Request) -> Iterable[Request]:
        if request.group == group.name:
            request.group = renamed
        if request.api == "Fetch" and request.at < first + 2400:
            request.parts[0].bytes = int(25 * group.fetch_bytes)
        yield request

    plan.day.span(first, DAY_S, lambda each: each.client in group.clients, renames)
    return Expected("group_renamed", (renamed, *_who(group)), (), first, DAY_S, OFFSETS)


def missing_topic(plan: Plan) -> Expected:
    """A new program asks for a topic that does not exist, some times in a minute."""
    (first, last), draw = plan.span(30, 300), plan.draw
    client = Client(f"promo-{draw.randrange(9)}", "User:promo", "10.3.77.7", GO, "1.18.0")

    def asks() -> Iterator[Request]:
        for at in plan.day.times(draw.uniform(5, 40), first, last, follows_load=False):
            part = Part("promo.event", (), 0, 0, "UNKNOWN_TOPIC_OR_PARTITION")
            yield plan.day.noisy(Request(at, client, draw.choice(plan.day.brokers), "Metadata", 12, [part]))

    plan.day.add(asks)
    return Expected("missing_topic", (client.client_id, "promo"), ("UNKNOWN_TOPIC", "promo.event"), first, last, LIBRARY)


def throttled(plan: Plan) -> Expected:
    """A quota delays a service."""
    producer, (first, last), wait_ms = plan.producer(), plan.span(25, 120), plan.draw.uniform(150, 2000)

    def waits(request: Request) -> Iterable[Request]:
        request.throttle_us += int(plan.draw.uniform(0.5, 1.5) * wait_ms * 1000)
        yield request

    plan.day.span(first, last, lambda each: _is_write_of(producer, each), waits)
    return Expected("throttled", (*_who(producer), producer.clients[0].principal), ("throttl",), first, last, MSK_CPU)


def reconnecting(plan: Plan) -> Expected:
    """A load balancer cuts idle connections: all processes of a service connect again each minute."""
    producer, (first, last) = plan.producer(2), plan.span(30, 120)

    def connects(index: int) -> Iterator[Request]:
        client = producer.clients[index]
        for at in plan.day.times(plan.draw.uniform(4, 10), first, last, follows_load=False):
            yield from plan.day.connect(client, plan.draw.choice(plan.day.brokers), at)

    for index in range(len(producer.clients)):
        plan.day.add(lambda index=index: connects(index))  # type: ignore[misc]
    return Expected("reconnecting", (*_who(producer), producer.clients[0].principal), ("connection",), first, last, STORM)


def leaked_connections(plan: Plan) -> Expected:
    """A process opens a few connections a minute, for hours, and closes none."""
    group, first = plan.group(), plan.draw.uniform(2, 14) * HOUR_S
    last, client = first + plan.draw.uniform(4, 9) * HOUR_S, group.clients[0]

    def opens() -> Iterator[Request]:
        for at in plan.day.times(plan.draw.uniform(2, 6), first, last, follows_load=False):
            yield from plan.day.connect(client, plan.draw.choice(plan.day.brokers), at)

    plan.day.add(opens)
    return Expected("leaked_connections", (group.name, client.client_id), ("connection",), first, last, STORM)


def rolled_back(plan: Plan) -> Expected:
    """A service is rolled back to an old library, which asks for old versions."""
    producer, first = plan.producer(), plan.draw.uniform(6, 18) * HOUR_S

    def ages(request: Request) -> Iterable[Request]:
        old = Client(request.client.client_id, request.client.principal, request.client.host, JAVA, "2.3.1", request.client.ports)
        yield copied(request, client=old, version=min(request.version, 7))

    plan.day.span(first, DAY_S, lambda each: each.client in producer.clients, ages)
    return Expected(
        "rolled_back", _who(producer), ("version", "2.3.1"), first, DAY_S, "https://kafka.apache.org/documentation/#upgrade"
    )


SHAPES = (
    producer_silent,
    half_the_processes,
    records_grew,
    too_large,
    batching_lost,
    producer_per_message,
    durability_lost,
    fenced_producers,
    stale_metadata,
    out_of_order,
    batch_at_noon,
    invalid_records,
    hot_key,
    crash_looping_group,
    slow_rebalances,
    poison_record,
    replay,
    offsets_gone,
    commit_each_record,
    busy_polling,
    slow_reader,
    members_lost,
    same_instance,
    commits_refused,
    group_renamed,
    missing_topic,
    throttled,
    reconnecting,
    leaked_connections,
    rolled_back,
)
