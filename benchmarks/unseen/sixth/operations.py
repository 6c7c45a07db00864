"""Trouble with brokers, streams programs, share groups and watchers, from trackers, pull requests and proposals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from benchmarks.unseen.expected import Expected, NoTargetError, Plan, names
from benchmarks.unseen.shapes import broker_names
from benchmarks.unseen.shapes_of_clients import _who
from benchmarks.unseen.world import DAY_S, GO, HOUR_S, JAVA, LIBRDKAFKA, Client, Part, Request, copied

EXPORTER = "https://github.com/danielqsj/kafka_exporter/issues/497"
PROBING = "https://github.com/apache/kafka/pull/8409"
REPLACED = "https://github.com/lightapi/light-scheduler/issues/39"
PREFETCHED = "https://github.com/akka/alpakka-kafka/issues/549"
STATIC = "https://github.com/apache/kafka/pull/6177"
STALLED = "https://github.com/apache/kafka/pull/20618"
COMPRESSION = "https://github.com/apache/kafka/pull/15244"
ARCHIVE = "https://github.com/apache/kafka/pull/13206"
LOCKS = "https://github.com/apache/kafka/pull/16414"
ACKS_ZERO = "https://github.com/apache/kafka/pull/9604"


def _starts(plan: Plan, shortest_hours: float, longest_hours: float) -> tuple[float, float]:
    """Return a span that begins at any hour, one in five times before midnight, and may last to the end of the day."""
    first = 0.0 if plan.draw.random() < 0.2 else plan.draw.uniform(0.5, 23 - shortest_hours) * HOUR_S
    return first, min(DAY_S, first + plan.draw.uniform(shortest_hours, longest_hours) * HOUR_S)


def topic_of(plan: Plan) -> str:
    """Return a topic that a service writes."""
    return plan.draw.choice(sorted(topic for each in plan.day.producers for topic in each.topics))


def exporter_hangs(plan: Plan) -> Expected:
    """The exporter stops to ask the brokers and writes no error: the dashboards are empty (kafka_exporter, issue 497)."""
    first = plan.draw.uniform(1, 20) * HOUR_S
    last = min(DAY_S, first + plan.draw.uniform(1.5, 9) * HOUR_S)
    plan.day.span(first, last, lambda each: each.client.client_id == "kafka-exporter", lambda _: ())
    return Expected("exporter_hangs", ("kafka-exporter", "User:monitoring", "10.9.0.5"), (), first, last, EXPORTER)


def probing_without_end(plan: Plan) -> Expected:
    """A streams program moves its state to a machine that never catches up: every ten minutes the group rebalances (KIP-441)."""
    group, (first, last), draw = plan.group(), _starts(plan, 2, 10), plan.draw

    def joins() -> Iterator[Request]:
        at, generation = first + draw.uniform(60, 600), 2
        while at < last:
            for index in range(len(group.clients)):
                yield from group.join(index, at + index * 0.4, generation)
            at, generation = at + 600 + draw.uniform(0, 12), generation + 1

    plan.day.add(joins)
    where = ("JoinGroup", "rebalanc", "join")
    return Expected("probing_without_end", (group.name, *names(group.clients)), where, first, last, PROBING)


def threads_replaced(plan: Plan) -> Expected:
    """One record ends each thread that reads it, and the handler starts another, with another name (light-scheduler, 39)."""
    (first, last), draw, topic = plan.span(12, 150, 0.75, 23.9), plan.draw, topic_of(plan)
    node, pause, started = plan.day.coordinator("scheduler"), draw.uniform(6, 50), [20.0]
    while started[-1] < last:
        started.append(max(first, started[-1] + pause * draw.uniform(0.8, 1.5)))
    leader, host = plan.day.leaders[topic, 0], f"10.3.71.{draw.randint(10, 200)}"

    def lives(number: int, begin: float, end: float) -> Iterator[Request]:
        thread = Client(f"scheduler-7f3c-StreamThread-{number}-consumer", "User:scheduler", host, JAVA, "3.6.1")
        yield from plan.day.connect(thread, node, begin)
        yield from plan.day.connect(thread, leader, begin + 0.1)
        for number_of, api in enumerate(("JoinGroup", "SyncGroup")):
            request = plan.day.noisy(Request(begin + 0.2 + 3.1 * number_of, thread, node, api, 9 if api == "JoinGroup" else 5))
            request.group, request.member, request.generation = "scheduler", thread.client_id, number
            yield request
        at = begin + 3.5
        while at < end:
            read = Part(topic, (0,), 0, draw.randint(2_000, 9_000))
            yield plan.day.noisy(Request(at, thread, leader, "Fetch", 15, [read], response_bytes=read.bytes + 60))
            beat = plan.day.noisy(Request(at + 0.4, thread, node, "Heartbeat", 4, group="scheduler"))
            beat.member, beat.generation = thread.client_id, number
            yield beat
            at += 30 * draw.uniform(0.9, 1.1)
        if end < DAY_S:
            leave = plan.day.noisy(Request(end + 0.5, thread, node, "LeaveGroup", 5, group="scheduler"))
            leave.member = thread.client_id
            yield leave

    for number, begin in enumerate(started):
        end = started[number + 1] if number + 1 < len(started) else DAY_S
        plan.day.add(lambda number=number, begin=begin, end=end: lives(number + 1, begin, end))  # type: ignore[misc]
    return Expected("threads_replaced", ("scheduler", "User:scheduler", host), (), first, last, REPLACED)


def prefetched_thrown_away(plan: Plan) -> Expected:
    """A reader under back-pressure pauses its partitions: it discards its fetched records and fetches them again (Alpakka, 549)."""
    group, (first, last), draw = plan.group(), _starts(plan, 1, 8), plan.draw
    most = draw.randint(4, 14)

    def again(request: Request) -> Iterable[Request]:
        yield request
        for number in range(draw.randint(2, most)):
            yield plan.day.noisy(copied(request, at=request.at + 0.8 * (number + 1)))

    def has_records(request: Request) -> bool:
        return request.client in group.clients and request.api == "Fetch" and any(part.bytes for part in request.parts)

    plan.day.span(first, last, has_records, again)
    where = ("Fetch", "read", "bytes")
    return Expected("prefetched_thrown_away", (group.name, *names(group.clients)), where, first, last, PREFETCHED)


def static_member_gone(plan: Plan) -> Expected:
    """A static member dies; its session lasts up to half an hour, and until then nobody reads its partitions (KIP-345)."""
    group, (first, last), draw = plan.group(2), plan.span(13, 30), plan.draw
    index = draw.randrange(len(group.clients))
    gone = group.clients[index]
    plan.day.span(first, last, lambda each: each.client is gone, lambda _: ())

    def returns() -> Iterator[Request]:
        yield from plan.day.connect(gone, plan.day.coordinator(group.name), last + 0.1)
        yield from group.join(index, last + 0.3, 2)

    plan.day.add(returns)
    return Expected("static_member_gone", (gone.client_id, gone.host, group.name), (), first, last, STATIC)


def stalls_end_transactions(plan: Plan) -> Expected:
    """A program stalls longer than its transactions may last; the next write is refused, and the program restarts (KAFKA-19690)."""
    producer, (first, last), draw = plan.transactional(), plan.span(20, 240), plan.draw
    share, failed = draw.uniform(0.15, 0.6), set[str]()
    producer.per_minute = max(producer.per_minute, 1.5)

    def breaks(request: Request) -> Iterable[Request]:
        client = request.client
        if request.api == "EndTxn" and client.client_id in failed:
            failed.discard(client.client_id)
            return
        if request.api == "Produce" and draw.random() < share:
            failed.add(client.client_id)
            request.parts[0].error = "INVALID_TXN_STATE"
            node, at = plan.day.coordinator(f"{client.client_id}-tx"), request.at + draw.uniform(6, 15)
            yield from plan.day.connect(client, node, at)
            begins = Request(at + 0.1, client, node, "InitProducerId", 4, transaction={"id": f"{client.client_id}-tx"})
            yield plan.day.noisy(begins)
        yield request

    plan.day.span(first, last, lambda each: each.client in producer.clients, breaks)
    who = (*_who(producer), *(f"{each}-tx" for each in names(producer.clients)))
    return Expected("stalls_end_transactions", who, ("INVALID_TXN_STATE",), first, last, STALLED)


def compression_fails_inside(plan: Plan) -> Expected:
    """A broker of a new version cannot open some compressed batches and answers an unknown error (upgrade notes of 3.6)."""
    broker, (first, last), draw = plan.broker(), _starts(plan, 1, 9), plan.draw
    share = draw.uniform(0.15, 0.5)
    led = {topic for (topic, _), leader in plan.day.leaders.items() if leader == broker}
    writers = [each for each in plan.day.producers if led.intersection(each.topics)]

    def fails(request: Request) -> Iterable[Request]:
        if draw.random() < share:
            request.parts[0].error, request.remote_us = "UNKNOWN_SERVER_ERROR", 0
        yield request

    plan.day.span(first, last, lambda each: each.node == broker and each.api == "Produce", fails)
    who = (*broker_names(broker), *(name for each in writers for name in names(each.clients)))
    return Expected("compression_fails_inside", who, ("UNKNOWN_SERVER_ERROR",), first, last, COMPRESSION)


def archive_unreadable(plan: Plan) -> Expected:
    """A follower needs records that only the archive has and cannot read the archive: it asks its leader again (KAFKA-14685)."""
    follower, (first, last), draw = plan.broker(2), plan.span(20, 400), plan.draw
    led = sorted(each for each, leader in plan.day.leaders.items() if leader != follower)
    if not led:
        raise NoTargetError
    topic, index = draw.choice(led)
    leader, pause = plan.day.leaders[topic, index], draw.uniform(8, 60)
    fetcher = Client(f"broker-{follower}-fetcher-0", "User:kafka", f"10.0.0.{follower}", JAVA, "3.9.0")

    def asks() -> Iterator[Request]:
        at = first
        while at < last:
            part = Part(topic, (index,), error="OFFSET_MOVED_TO_TIERED_STORAGE")
            refused = plan.day.noisy(Request(at, fetcher, leader, "Fetch", 16, [part]))
            refused.remote_us = 0
            yield refused
            yield plan.day.noisy(Request(at + 0.02, fetcher, leader, "ListOffsets", 8, [Part(topic, (index,))]))
            yield plan.day.noisy(Request(at + 0.04, fetcher, leader, "OffsetForLeaderEpoch", 4, [Part(topic, (index,))]))
            at += pause * draw.uniform(0.9, 1.1)

    plan.day.add(asks)
    who = (*broker_names(follower), *broker_names(leader), fetcher.client_id, topic)
    return Expected("archive_unreadable", who, ("OFFSET_MOVED_TO_TIERED_STORAGE",), first, last, ARCHIVE)


def share_group(plan: Plan, name: str, count: int, is_late: Callable[[float], bool]) -> list[Client]:
    """Add a share group that works all day, and whose acknowledgements are refused while ``is_late``."""
    draw, topic, node = plan.draw, topic_of(plan), plan.day.coordinator(name)
    members = [Client(f"{name}-{each}", f"User:{name}", f"10.2.72.{10 + each}", JAVA, "4.1.0") for each in range(count)]

    def works(member: Client, leader: int, owned: tuple[int, ...]) -> Iterator[Request]:
        begin = draw.uniform(2, 40)
        yield from plan.day.connect(member, node, begin)
        yield from plan.day.connect(member, leader, begin + 0.1)
        for at in plan.day.times(1.2, begin + 1, follows_load=False):
            beat = Request(at, member, node, "ShareGroupHeartbeat", 1, group=name, member=f"{member.client_id}-m1")
            yield plan.day.noisy(beat)
            read = Part(topic, owned, 0, draw.randint(500, 20_000))
            yield plan.day.noisy(Request(at + 0.2, member, leader, "ShareFetch", 1, [read], group=name))
            done = Request(at + draw.uniform(1, 20), member, leader, "ShareAcknowledge", 1, [Part(topic, owned)], group=name)
            if is_late(done.at) and draw.random() < 0.8:
                done.parts[0].error = "INVALID_RECORD_STATE"
            yield plan.day.noisy(done)

    for number, member in enumerate(members):
        leader = plan.day.leaders[topic, number % plan.day.topics[topic]]
        owned = tuple(index for index in range(plan.day.topics[topic]) if plan.day.leaders[topic, index] == leader)
        plan.day.add(lambda member=member, leader=leader, owned=owned: works(member, leader, owned))  # type: ignore[misc]
    return members


def share_records_expire(plan: Plan) -> Expected:
    """Work takes longer than a share group may hold a record: its acknowledgements come too late and are refused (KIP-932)."""
    first, last = plan.span(15, 300)
    members = share_group(plan, "thumbnails", plan.draw.randint(2, 4), lambda at: first <= at < last)
    who = ("thumbnails", *names(members), "User:thumbnails", *(each.host for each in members))
    return Expected("share_records_expire", who, ("INVALID_RECORD_STATE", "ShareAcknowledge"), first, last, LOCKS)


def errors_unanswered(plan: Plan) -> Expected:
    """An agent asks for no answers: records that are too large cost it its connection, and it never learns why (Kafka, 9604)."""
    (first, last), draw, topic = _starts(plan, 0.5, 10), plan.draw, topic_of(plan)
    agent = Client("syslog-relay", "User:syslog", f"10.4.3.{draw.randint(2, 250)}", draw.choice([LIBRDKAFKA, GO]), "1.9.2")
    share = draw.uniform(0.12, 0.5)

    def ships() -> Iterator[Request]:
        known = set[int]()
        for at in plan.day.times(2.5, 15):
            index = draw.randrange(plan.day.topics[topic])
            node, part = plan.day.leaders[topic, index], Part(topic, (index,), draw.randint(10, 90), draw.randint(3_000, 60_000))
            if node not in known:
                known.add(node)
                yield from plan.day.connect(agent, node, at - 0.1)
            if first <= at < last and draw.random() < share:
                part.bytes, part.error = draw.randint(1_050_000, 3_000_000), "MESSAGE_TOO_LARGE"
                known.discard(node)
            write = Request(at, agent, node, "Produce", 9, [part], acks=0, request_bytes=part.bytes + 80, response_bytes=0)
            yield plan.day.noisy(write)

    plan.day.add(ships)
    who = ("syslog-relay", "User:syslog", agent.host)
    return Expected("errors_unanswered", who, ("MESSAGE_TOO_LARGE", "connect"), first, last, ACKS_ZERO)


SHAPES = (
    exporter_hangs,
    probing_without_end,
    threads_replaced,
    prefetched_thrown_away,
    static_member_gone,
    stalls_end_transactions,
    compression_fails_inside,
    archive_unreadable,
    share_records_expire,
    errors_unanswered,
)
