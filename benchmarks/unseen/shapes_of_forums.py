"""Incidents of writers and readers from support forums, issue trackers and exercises, written before any detector was read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchmarks.unseen.expected import Expected, NoTargetError, Plan, names
from benchmarks.unseen.shapes_of_clients import _is_write_of, _who
from benchmarks.unseen.world import DAY_S, GO, HOUR_S, JAVA, MINUTE_S, PYTHON, Client, Group, Part, Request, copied

IDEMPOTENCE = "https://github.com/strimzi/strimzi-kafka-operator/issues/9261"
ASSIGNORS = "https://github.com/tulios/kafkajs/issues/463"
GROUP_SIZE = "https://github.com/apache/kafka/pull/6163"
GEO_LOOKUP = "https://www.prodrescueai.com/incidents/kafka-consumer-lag"
REDIS = "https://preproom.ai/code/oc-g375"
DEAD_LETTERS = "https://basittijani.com/writing/kafka-poison-pills-dlq"
SNAPSHOT = "https://www.novatechflow.com/2026/04/production-cdc-architecture-debezium.html"
SINK_FAILED = "https://madplay.github.io/en/post/kafka-connect-operations"
ZOMBIES = "https://github.com/apache/kafka/pull/7771"
NIC = "https://github.com/confluentinc/librdkafka/issues/1955"


def _since(plan: Plan, least_hours: float = 1.5, most_hours: float = 6.0) -> tuple[float, float]:
    """Return a span as after a deployment of the day that is rolled back hours later, or not at all."""
    first = plan.draw.uniform(5, 18) * HOUR_S
    return first, min(DAY_S, first + plan.draw.uniform(least_hours, most_hours) * HOUR_S)


def _of(group: Group, request: Request, *apis: str) -> bool:
    return request.client in group.clients and request.api in apis


def snapshot_again(plan: Plan) -> Expected:
    """A change-data connector lost its place and copies the whole database again, through its usual producer."""
    producer, (first, last), draw = plan.producer(), plan.span(50, 200), plan.draw
    factor = draw.randint(6, 14)

    def repeats(request: Request) -> Iterable[Request]:
        for step in range(factor):
            yield copied(request, at=request.at + step * 1.1)

    plan.day.span(first, last, lambda each: _is_write_of(producer, each), repeats)
    return Expected("snapshot_again", _who(producer), (), first, last, SNAPSHOT)


def dead_letters(plan: Plan) -> Expected:
    """After a change of a schema, a group sends each record that it reads to its dead letter topic."""
    group, (first, last), draw = plan.group(), _since(plan), plan.draw
    topic = plan.day.topic(f"{group.topics[0]}.{group.name}.dlt", 1)

    def sends(index: int) -> Iterator[Request]:
        client, node = group.clients[index], plan.day.leaders[topic, 0]
        for at in plan.day.times(draw.uniform(4, 20), first, last, follows_load=False):
            part = Part(topic, (0,), 1, draw.randint(800, 3000))
            yield plan.day.noisy(Request(at, client, node, "Produce", 9, [part], request_bytes=part.bytes + 90))

    for index in range(len(group.clients)):
        plan.day.add(lambda index=index: sends(index))  # type: ignore[misc]
    return Expected("dead_letters", (*_who(group), topic), (topic, "writ"), first, last, DEAD_LETTERS)


def topic_not_allowed(plan: Plan) -> Expected:
    """A streams application may not create its own topics with few replicas: it tries each minute, all day."""
    (first, last), draw = plan.span(200, 900), plan.draw
    who = Client("orders-join-StreamThread-1-admin", "User:orders-join", "10.1.150.8", JAVA, "3.7.0")

    def tries() -> Iterator[Request]:
        for at in plan.day.times(draw.uniform(0.5, 1.5), first, last, follows_load=False):
            topics: list[tuple[str, str | None]] = [("topic", "orders-join-KSTREAM-REDUCE-0007-repartition")]
            request = plan.day.noisy(Request(at, who, draw.choice(plan.day.brokers), "CreateTopics", 7, resources=topics))
            request.error = "POLICY_VIOLATION"
            yield request

    plan.day.add(tries)
    who_words = (who.client_id, "orders-join", "orders-join-KSTREAM-REDUCE-0007-repartition")
    source = "https://github.com/apache/kafka/pull/13523"
    return Expected("topic_not_allowed", who_words, ("POLICY_VIOLATION", "CreateTopics"), first, last, source)


def idempotence_denied(plan: Plan) -> Expected:
    """With a newer library a service asks for a producer id, which its account may not have: it writes nothing."""
    producer, (first, last), draw = plan.producer(), plan.span(30, 240), plan.draw
    plan.day.span(first, last, lambda each: each.client in producer.clients, lambda each: ())

    def tries(index: int) -> Iterator[Request]:
        old, node = producer.clients[index], draw.choice(plan.day.brokers)
        client = Client(old.client_id, old.principal, old.host, JAVA, "3.2.3")
        yield from plan.day.connect(client, node, first)
        for at in plan.day.times(draw.uniform(1.5, 6), first + 1, last, follows_load=False):
            request = plan.day.noisy(Request(at, client, node, "InitProducerId", 4, error="CLUSTER_AUTHORIZATION_FAILED"))
            request.denied = "cluster", "kafka-cluster", "All"
            yield request

    for index in range(len(producer.clients)):
        plan.day.add(lambda index=index: tries(index))  # type: ignore[misc]
    who = (*_who(producer), producer.clients[0].principal)
    where = ("AUTHORIZATION", "InitProducerId", "denied", "refus")
    return Expected("idempotence_denied", who, where, first, last, IDEMPOTENCE)


def corrupt_batches(plan: Plan) -> Expected:
    """The network card of one host damages a few of its batches, all day."""
    producer, draw = plan.producer(), plan.draw
    client, share = producer.clients[0], draw.uniform(0.04, 0.2)
    first = draw.uniform(1, 9) * HOUR_S
    last = draw.uniform(17, 23.5) * HOUR_S

    def damages(request: Request) -> Iterable[Request]:
        if draw.random() < share:
            request.parts[0].error = "CORRUPT_MESSAGE"
            yield request
            yield plan.day.noisy(copied(request, at=request.at + 0.2, parts=[Part(request.parts[0].topic, (0,), 1, 700)]))
        else:
            yield request

    plan.day.span(first, last, lambda each: each.client is client and each.api == "Produce", damages)
    return Expected("corrupt_batches", (*_who(producer), client.host), ("CORRUPT_MESSAGE",), first, last, NIC)


def codec_unknown(plan: Plan) -> Expected:
    """A service compresses with a codec that the old library of a group cannot read: the broker refuses its fetches."""
    group, (first, last) = plan.group(), plan.span(40, 300)

    def refuses(request: Request) -> Iterable[Request]:
        for part in request.parts:
            part.error, part.bytes = "UNSUPPORTED_COMPRESSION_TYPE", 0
        request.remote_us, request.response_bytes = 0, 90
        yield request

    plan.day.span(first, last, lambda each: _of(group, each, "Fetch"), refuses)
    who = (*_who(group), *group.topics)
    source = "https://github.com/WallarooLabs/pony-kafka/issues/39"
    return Expected("codec_unknown", who, ("UNSUPPORTED_COMPRESSION_TYPE",), first, last, source)


def writes_in_bursts(plan: Plan) -> Expected:
    """Since a deployment a service writes nothing for ten minutes, and then everything at once."""
    producer, (first, last) = plan.producer(), _since(plan, 2.5, 7)
    every = plan.draw.uniform(480, 900)

    def delays(request: Request) -> Iterable[Request]:
        due = first + ((request.at - first) // every + 1) * every
        yield copied(request, at=due + plan.draw.uniform(0, 20))

    producer.per_minute = max(producer.per_minute, 3.0)
    plan.day.span(first, last, lambda each: _is_write_of(producer, each), delays)
    source = "https://github.com/confluentinc/librdkafka/issues/2912"
    return Expected("writes_in_bursts", _who(producer), (), first, last, source)


def partition_forgotten(plan: Plan) -> Expected:
    """A home-made partitioner no longer writes to one partition of a topic."""
    producer, first = plan.producer(), plan.draw.uniform(3, 13) * HOUR_S
    last, topic = min(DAY_S, first + plan.draw.uniform(7, 11) * HOUR_S), producer.topics[0]
    lost = plan.draw.randrange(plan.day.topics[topic])
    producer.per_minute *= 4

    def skips(request: Request) -> Iterable[Request]:
        if request.parts[0].partitions == (lost,):
            return
        yield request

    plan.day.span(first, last, lambda each: each.api == "Produce" and each.parts[0].topic == topic, skips)
    source = "https://preproom.ai/code/oc-g264"
    return Expected("partition_forgotten", (*_who(producer), topic), ("partition",), first, last, source)


def cron_typo(plan: Plan) -> Expected:
    """A job that ran each hour runs every two minutes."""
    topic, (first, last), draw = plan.topic(), _since(plan, 2, 8), plan.draw
    job = Client("invoice-sync", "User:invoice-sync", "10.44.0.15", GO, "1.16.0")

    def runs() -> Iterator[Request]:
        at = 400.0
        while at < DAY_S - 120:
            yield from plan.day.connect(job, plan.day.leaders[topic, 0], at)
            for step in range(6):
                part = Part(topic, (0,), 20, draw.randint(8_000, 30_000))
                yield plan.day.noisy(
                    Request(at + 1 + step * 4, job, plan.day.leaders[topic, 0], "Produce", 9, [part], request_bytes=part.bytes + 80)
                )
            at += 120 if first <= at < last else HOUR_S

    plan.day.add(runs)
    return Expected("cron_typo", ("invoice-sync",), (), first, last, SINK_FAILED)


def cron_gone(plan: Plan) -> Expected:
    """A job that ran every quarter of an hour does not run any more."""
    topic, first, draw = plan.topic(), plan.draw.uniform(8, 16) * HOUR_S, plan.draw
    job = Client("rates-import", "User:rates-import", "10.44.0.16", PYTHON, "2.0.2")

    def runs() -> Iterator[Request]:
        at = 130.0
        while at < first:
            yield from plan.day.connect(job, plan.day.leaders[topic, 0], at)
            for step in range(5):
                part = Part(topic, (0,), 30, draw.randint(5_000, 20_000))
                yield plan.day.noisy(
                    Request(at + 1 + step, job, plan.day.leaders[topic, 0], "Produce", 9, [part], request_bytes=part.bytes + 80)
                )
            at += 900

    plan.day.add(runs)
    return Expected("cron_gone", ("rates-import",), (), first, DAY_S, SINK_FAILED)


def looks_up_offsets(plan: Plan) -> Expected:
    """With a new version of its library a group asks for the end of its partitions before each fetch."""
    group, (first, last) = plan.group(), _since(plan)

    def asks(request: Request) -> Iterable[Request]:
        for step in range(3):
            again = copied(request, api="ListOffsets", version=5, at=request.at - 0.01 * step, request_bytes=90, response_bytes=70)
            again.remote_us = 0
            for part in again.parts:
                part.bytes = 0
            yield again
        yield request

    plan.day.span(first, last, lambda each: _of(group, each, "Fetch"), asks)
    source = "https://github.com/apache/pinot/pull/16129"
    return Expected("looks_up_offsets", _who(group), ("ListOffsets",), first, last, source)


def group_too_large(plan: Plan) -> Expected:
    """An autoscaler starts more and more processes: the group is full, and the new ones are turned away."""
    group, (first, last), draw = plan.group(), plan.span(20, 120), plan.draw
    node, old = plan.day.coordinator(group.name), group.clients[0]
    more = [
        Client(f"{old.client_id.rsplit('-', 1)[0]}-{20 + each}", old.principal, f"10.2.180.{10 + each}", old.software, "3.7.1")
        for each in range(draw.randint(15, 40))
    ]

    def joins() -> Iterator[Request]:
        for at in plan.day.times(draw.uniform(6, 25), first, last, follows_load=False):
            request = plan.day.noisy(Request(at, draw.choice(more), node, "JoinGroup", 9, group=group.name))
            request.error, request.remote_us, request.member = "GROUP_MAX_SIZE_REACHED", 0, ""
            yield request

    plan.day.add(joins)
    who = (group.name, *names(more), old.principal)
    return Expected("group_too_large", who, ("GROUP_MAX_SIZE_REACHED",), first, last, GROUP_SIZE)


def assignors_mixed(plan: Plan) -> Expected:
    """Half of a group was deployed with another assignor, which the rest does not have: it cannot join."""
    group, (first, last), draw = plan.group(2), plan.span(15, 150), plan.draw
    node, out = plan.day.coordinator(group.name), group.clients[: len(group.clients) // 2]
    plan.day.span(first, last, lambda each: each.client in out and each.error is None, lambda each: ())

    def joins() -> Iterator[Request]:
        for at in plan.day.times(draw.uniform(3, 15) * len(out), first, last, follows_load=False):
            request = plan.day.noisy(Request(at, draw.choice(out), node, "JoinGroup", 9, group=group.name))
            request.error, request.remote_us, request.member = "INCONSISTENT_GROUP_PROTOCOL", 0, ""
            yield request

    plan.day.add(joins)
    return Expected("assignors_mixed", (group.name, *names(out)), ("INCONSISTENT_GROUP_PROTOCOL",), first, last, ASSIGNORS)


def scaled_to_and_fro(plan: Plan) -> Expected:
    """An autoscaler adds members to a group and takes them away again every few minutes, all afternoon."""
    group, (first, last), draw = plan.group(), plan.span(120, 360), plan.draw
    node, old, every = plan.day.coordinator(group.name), group.clients[0], draw.uniform(240, 600)
    extra = [Client(f"{group.name}-hpa-{each}", old.principal, f"10.3.181.{10 + each}", old.software, "3.7.1") for each in range(4)]

    def scales() -> Iterator[Request]:
        at, generation = first, 2
        while at < last:
            for member in extra:
                yield from plan.day.connect(member, node, at)
            for api in ("JoinGroup", "SyncGroup"):
                for client in (*group.clients, *extra):
                    at += 0.2
                    request = plan.day.noisy(Request(at, client, node, api, 9, group=group.name, generation=generation))
                    request.member = f"{client.client_id}-m"
                    yield request
            for index, member in enumerate(extra):
                leave = plan.day.noisy(Request(at + every * 0.6 + index, member, node, "LeaveGroup", 5, group=group.name))
                leave.member = f"{member.client_id}-m"
                yield leave
            at, generation = at + every, generation + 1

    plan.day.add(scales)
    return Expected("scaled_to_and_fro", (group.name, *names(extra), *names(group.clients)), (), first, last, ZOMBIES)


def lookups_in_the_loop(plan: Plan) -> Expected:
    """A deployment looks something up for each record: a group reads a sixth of what it read, and is alive."""
    group, (first, last) = plan.group(), _since(plan, 1.2, 5)
    share = plan.draw.uniform(0.08, 0.25)
    plan.day.span(first, last, lambda each: _of(group, each, "Fetch") and plan.draw.random() > share, lambda each: ())
    return Expected("lookups_in_the_loop", _who(group), (), first, last, GEO_LOOKUP)


def dependency_slows(plan: Plan) -> Expected:
    """The database behind a group becomes slower and slower: it reads less each hour."""
    group, (first, last) = plan.group(), _since(plan, 4, 8)

    def fewer(request: Request) -> Iterable[Request]:
        into = (request.at - first) / (last - first)
        if plan.draw.random() > into * 1.05:
            yield request

    group.fetches_per_minute *= 2
    plan.day.span(first, last, lambda each: _of(group, each, "Fetch"), fewer)
    return Expected("dependency_slows", _who(group), (), first, last, REDIS)


def one_does_all(plan: Plan) -> Expected:
    """After a rebalance one member owns all partitions; the others are members and read nothing."""
    group, (first, last) = plan.group(2), plan.span(100, 480)
    owner, idle = group.clients[0], group.clients[1:]

    def moves(request: Request) -> Iterable[Request]:
        yield copied(request, client=owner, at=request.at + 0.1)

    plan.day.span(first, last, lambda each: each.client in idle and each.api == "Fetch", moves)
    source = "https://github.com/akka/alpakka/issues/1916"
    return Expected("one_does_all", (group.name, *names(group.clients)), (), first, last, source)


def executors_read(plan: Plan) -> Expected:
    """A batch of many executors reads everything that a topic has, without a group, in the middle of the day."""
    topic, (first, last), draw = plan.topic(), plan.span(15, 70), plan.draw
    executors = [Client(f"spark-executor-{each}", "User:datalake", f"10.3.90.{10 + each}", JAVA, "3.5.1") for each in range(12)]
    partitions = plan.day.topics[topic]

    def reads(index: int) -> Iterator[Request]:
        client, part = executors[index], index % partitions
        node = plan.day.leaders[topic, part]
        yield from plan.day.connect(client, node, first)
        for at in plan.day.times(draw.uniform(4, 12), first + 1, last, follows_load=False):
            size = draw.randint(2_000_000, 9_000_000)
            yield plan.day.noisy(Request(at, client, node, "Fetch", 12, [Part(topic, (part,), 0, size)], response_bytes=size + 60))

    for index in range(len(executors)):
        plan.day.add(lambda index=index: reads(index))  # type: ignore[misc]
    who = (*names(executors), "datalake", "spark-executor", topic)
    return Expected(
        "executors_read", who, (), first, last, "https://leopardot.com/kafka-incident-postmortem-what-went-wrong-and-why"
    )


def tombstones(plan: Plan) -> Expected:
    """A clean-up deletes all keys of a topic: many records without a value, through the service's own producer."""
    producer, (first, last), draw = plan.producer(), plan.span(30, 150), plan.draw
    factor = draw.randint(4, 12)

    def deletes(request: Request) -> Iterable[Request]:
        yield request
        for step in range(factor):
            part = Part(request.parts[0].topic, request.parts[0].partitions, draw.randint(800, 2000), 0)
            part.bytes = part.records * draw.randint(14, 22)
            yield plan.day.noisy(copied(request, at=request.at + step * 1.3, parts=[part], request_bytes=part.bytes + 80))

    plan.day.span(first, last, lambda each: _is_write_of(producer, each), deletes)
    source = "https://ifkarsyah.github.io/blog/debezium-series-9-production"
    return Expected("tombstones", _who(producer), (), first, last, source)


def member_pauses(plan: Plan) -> Expected:
    """One process of a group stands still again and again: when it wakes, it is no member any more."""
    group, (first, last), draw = plan.group(), plan.span(120, 420), plan.draw
    client, every = group.clients[0], draw.uniform(500, 1300)
    node = plan.day.coordinator(group.name)

    def sleeps(request: Request) -> Iterable[Request]:
        if (request.at - first) % every > 70:
            yield request

    def wakes() -> Iterator[Request]:
        at, generation = first + 72, 2
        while at < last:
            for api in ("Heartbeat", "OffsetCommit"):
                request = plan.day.noisy(Request(at, client, node, api, 4, group=group.name, member=group.member(0)))
                request.error = "UNKNOWN_MEMBER_ID"
                yield request
            yield from group.join(0, at + 0.5, generation)
            at, generation = at + every, generation + 2

    plan.day.span(first, last, lambda each: each.client is client, sleeps)
    plan.day.add(wakes)
    source = "https://github.com/aio-libs/aiokafka/issues/880"
    return Expected("member_pauses", (group.name, client.client_id), (), first, last, source)


def epoch_unknown(plan: Plan) -> Expected:
    """A process knows a newer leader epoch than the broker that it asks: one of its partitions fails at each fetch."""
    group, (first, last) = plan.group(), plan.span(60, 500)
    client = group.clients[0]
    if not group.owned(0):
        raise NoTargetError
    topic, index = group.owned(0)[0]

    def fails(request: Request) -> Iterable[Request]:
        rest = []
        for part in request.parts:
            if part.topic == topic and index in part.partitions:
                rest.append(Part(topic, (index,), 0, 0, "UNKNOWN_LEADER_EPOCH"))
                part.partitions = tuple(each for each in part.partitions if each != index)
            if part.partitions:
                rest.append(part)
        request.parts = rest
        yield request

    plan.day.span(first, last, lambda each: each.client is client and each.api == "Fetch", fails)
    source = "https://github.com/confluentinc/confluent-kafka-dotnet/issues/1543"
    return Expected("epoch_unknown", (*_who(group), topic), ("UNKNOWN_LEADER_EPOCH",), first, last, source)


def end_not_stable(plan: Plan) -> Expected:
    """A transaction was left open: those who read a topic committed only get nothing, though it is written."""
    group, (first, last) = plan.group(), plan.span(40, 300)
    topic = group.topics[0]

    def empties(request: Request) -> Iterable[Request]:
        for part in request.parts:
            part.bytes = 0
        request.response_bytes, request.remote_us = 60, 500_400
        yield request

    plan.day.span(first, last, lambda each: _of(group, each, "Fetch"), empties)
    source = "https://github.com/evolution-gaming/kafka-flow/pull/857"
    return Expected("end_not_stable", (*_who(group), topic), (), first, last, source)


def commits_time_out(plan: Plan) -> Expected:
    """The partition that has a group's offsets has too few replicas: its commits time out, and nothing else."""
    group, (first, last) = plan.group(), plan.span(25, 160)

    def waits(request: Request) -> Iterable[Request]:
        request.error, request.remote_us = "REQUEST_TIMED_OUT", 5_000_000
        yield request

    plan.day.span(first, last, lambda each: each.group == group.name and each.api == "OffsetCommit", waits)
    source = "https://github.com/confluentinc/librdkafka/issues/2275"
    return Expected("commits_time_out", _who(group), ("REQUEST_TIMED_OUT", "OffsetCommit"), first, last, source)


def retries_without_end(plan: Plan) -> Expected:
    """A service behind a writer fails: it writes each message again to a retry topic, which it reads, ever faster."""
    (first, last), draw = plan.span(50, 160), plan.draw
    client = Client("payments-worker-3", "User:payments-worker", "10.2.55.13", JAVA, "3.3.2")
    topic = plan.day.topic("payments.retry-0", 1)
    node = plan.day.leaders[topic, 0]

    def loops() -> Iterator[Request]:
        at = 60.0
        while at < DAY_S:
            inside = first <= at < last
            size = draw.randint(600, 1500)
            yield plan.day.noisy(Request(at, client, node, "Produce", 9, [Part(topic, (0,), 1, size)], request_bytes=size + 80))
            yield plan.day.noisy(
                Request(at + 0.2, client, node, "Fetch", 13, [Part(topic, (0,), 0, size)], response_bytes=size + 60)
            )
            at += MINUTE_S / (1.5 + 45 * (at - first) / (last - first)) if inside else draw.uniform(40, 80)

    plan.day.add(loops)
    source = "https://thedebonair.co.uk/post/spring-kafka-2-7-0-using-retryable-topic-causing-listener"
    return Expected("retries_without_end", ("payments-worker-3", "payments-worker", topic), (), first, last, source)


SHAPES = (
    snapshot_again,
    dead_letters,
    topic_not_allowed,
    idempotence_denied,
    corrupt_batches,
    codec_unknown,
    writes_in_bursts,
    partition_forgotten,
    cron_typo,
    cron_gone,
    looks_up_offsets,
    group_too_large,
    assignors_mixed,
    scaled_to_and_fro,
    lookups_in_the_loop,
    dependency_slows,
    one_does_all,
    executors_read,
    tombstones,
    member_pauses,
    epoch_unknown,
    end_not_stable,
    commits_time_out,
    retries_without_end,
)
