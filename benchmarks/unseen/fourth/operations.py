"""What goes wrong with brokers, libraries and schedules, from guides, trackers and status pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchmarks.unseen.expected import Expected, Plan, names
from benchmarks.unseen.shapes import _admin, broker_names
from benchmarks.unseen.shapes_of_clients import _who
from benchmarks.unseen.shapes_of_forums import _since
from benchmarks.unseen.world import DAY_S, GO, HOUR_S, JAVA, LIBRDKAFKA, MINUTE_S, Client, Part, Request, copied

EMPTY_KEYS = "https://github.com/confluentinc/librdkafka/issues/4510"
PINGS = "https://github.com/twmb/franz-go/issues/1010"
EXPIRED_OFFSETS = "https://github.com/apache/pinot/issues/8219"
ZOMBIES = "https://github.com/apache/kafka/pull/9700"
TELEMETRY = "https://github.com/twmb/franz-go/issues/1172"
NAT = "https://repost.aws/knowledge-center/vpc-resolve-port-allocation-errors"
HERD = "https://para.ngpcloud.org/thundering-herd-synchronized-scheduling"
HALF_UPGRADED = "https://github.com/strimzi/strimzi-kafka-operator/pull/1528"
LEADERS = "https://www.netdata.cloud/guides/kafka/kafka-leadership-imbalance/"
RECOMPRESSED = "https://kafka-options-explorer.conduktor.io/policies/compression/topic-compression-passthrough/"
RECREATED = "https://github.com/confluentinc/confluent-kafka-python/issues/1787"
UNSTABLE = "https://github.com/twmb/franz-go/issues/581"
BLUE_GREEN = "https://medium.com/codex/events-and-blue-green-deployments-why-wont-they-get-along-9819a7555314"
ONE_DISK = "https://github.com/cruise-control-for-kafka/cruise-control/issues/2240"
ALL_DOWN = "https://github.com/confluentinc/librdkafka/issues/3090"


def half_the_partitions(plan: Plan) -> Expected:
    """A new partitioner never chooses the upper half of a topic's partitions."""
    producer, (first, last) = plan.producer(), _since(plan, 2.0, 7.0)
    topic, leaders = producer.topics[0], plan.day.leaders
    half = plan.day.topics[topic] // 2
    producer.per_minute = max(producer.per_minute, 3.0)

    def moves(request: Request) -> Iterable[Request]:
        index = request.parts[0].partitions[0] % half
        request.parts[0].partitions, request.node = (index,), leaders[topic, index]
        yield request

    plan.day.span(first, last, lambda each: each.client in producer.clients and each.api == "Produce", moves)
    return Expected("half_the_partitions", _who(producer), ("partition",), first, last, EMPTY_KEYS)


def versions_as_ping(plan: Plan) -> Expected:
    """A home-made probe in one process asks for the versions again and again, on the connection that it has."""
    producer, (first, last), draw = plan.producer(), plan.span(15, 240), plan.draw
    client, node = draw.choice(producer.clients), draw.choice(plan.day.brokers)

    def asks() -> Iterator[Request]:
        for at in plan.day.times(draw.uniform(25, 120), first, last, follows_load=False):
            yield plan.day.noisy(Request(at, client, node, "ApiVersions", 3, request_bytes=60, response_bytes=400))

    plan.day.add(asks)
    return Expected("versions_as_ping", _who(producer), ("ApiVersions",), first, last, PINGS)


def outrun_by_retention(plan: Plan) -> Expected:
    """A group is slower than the retention: all day, some times in an hour, what it wants next is deleted already."""
    group, draw = plan.group(), plan.draw
    per_minute = draw.uniform(1.5, 7) / 60

    def misses() -> Iterator[Request]:
        for at in plan.day.times(per_minute, follows_load=False):
            index = draw.randrange(len(group.clients))
            owned = group.owned(index)
            if not owned:
                continue
            topic, partition = draw.choice(owned)
            client, node = group.clients[index], plan.day.leaders[topic, partition]
            missed = Part(topic, (partition,), error="OFFSET_OUT_OF_RANGE")
            yield plan.day.noisy(Request(at, client, node, "Fetch", 15, [missed]))
            yield plan.day.noisy(Request(at + 0.05, client, node, "ListOffsets", 7, [Part(topic, (partition,))]))

    plan.day.add(misses)
    who = (group.name, *names(group.clients), *group.topics)
    return Expected("outrun_by_retention", who, ("OFFSET_OUT_OF_RANGE",), 0, DAY_S, EXPIRED_OFFSETS)


def zombie_wakes(plan: Plan) -> Expected:
    """A machine that was given up for dead wakes up, and its process goes on with a transaction that another one took over."""
    producer, (first, last), draw = plan.transactional(), plan.span(4, 16), plan.draw
    living = producer.clients[0]
    zombie = replace(living, host=f"10.3.77.{draw.randint(2, 250)}", ports={})
    topic, name = producer.topics[0], f"{living.client_id}-tx"

    def tries() -> Iterator[Request]:
        for at in plan.day.times(draw.uniform(2, 9), first, last, follows_load=False):
            index = draw.randrange(plan.day.topics[topic])
            error = draw.choice(["INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"])
            asks = Request(at, zombie, plan.day.coordinator(name), "AddPartitionsToTxn", 3, [Part(topic, (index,))], error)
            asks.transaction = {"id": name}
            yield plan.day.noisy(asks)
            part = Part(topic, (index,), 0, 900, "INVALID_PRODUCER_EPOCH")
            write = Request(at + 0.1, zombie, plan.day.leaders[topic, index], "Produce", 9, [part], transaction={"id": name})
            yield plan.day.noisy(write)

    plan.day.add(tries)
    return Expected("zombie_wakes", (zombie.host, name, *_who(producer)), ("EPOCH", "FENCED", "fence"), first, last, ZOMBIES)


def telemetry_pushed(plan: Plan) -> Expected:
    """Since an upgrade of their library, the processes of a service push their metrics to the brokers every few seconds."""
    group, (first, last), draw = plan.group(), _since(plan), plan.draw

    def pushes(client: Client, node: int) -> Iterator[Request]:
        yield plan.day.noisy(Request(first, client, node, "GetTelemetrySubscriptions", 0))
        for at in plan.day.times(draw.uniform(8, 40), first + 1, last, follows_load=False):
            size = draw.randint(2_000, 9_000)
            yield plan.day.noisy(Request(at, client, node, "PushTelemetry", 0, request_bytes=size, response_bytes=40))

    for client in group.clients:
        node = draw.choice(plan.day.brokers)
        plan.day.add(lambda client=client, node=node: pushes(client, node))  # type: ignore[misc]
    return Expected("telemetry_pushed", (group.name, *names(group.clients)), ("Telemetry",), first, last, TELEMETRY)


def nat_exhausted(plan: Plan) -> Expected:
    """Sixty tills write through one gateway, whose ports run out: most writes get no connection, and each other one a new one."""
    (first, last), draw, topic = plan.span(15, 100, 7, 21), plan.draw, plan.day.topic("tills.sales", 6)
    tills = [Client(f"till-{each:02}", "User:tills", "198.51.100.7", LIBRDKAFKA, "2.3.0") for each in range(60)]

    def writes() -> Iterator[Request]:
        connected = set[tuple[str, int]]()
        for at in plan.day.times(12):
            till, index = draw.choice(tills), draw.randrange(6)
            node, is_full = plan.day.leaders[topic, index], first <= at < last
            if is_full and draw.random() < 0.6:
                continue
            if is_full or (till.client_id, node) not in connected:
                connected.add((till.client_id, node))
                yield from plan.day.connect(till, node, at - 0.1)
            part = Part(topic, (index,), 3, draw.randint(300, 2000))
            yield plan.day.noisy(Request(at, till, node, "Produce", 9, [part], request_bytes=part.bytes + 80))

    plan.day.add(writes)
    return Expected("nat_exhausted", ("198.51.100.7", "User:tills", topic, *names(tills)), (), first, last, NAT)


def jobs_start_together(plan: Plan) -> Expected:
    """A hundred reports are scheduled for one and the same minute: they connect to everything at once, read, and are gone."""
    draw, first = plan.draw, plan.draw.randint(1, 22) * HOUR_S
    length = draw.uniform(3, 7) * MINUTE_S
    topics = sorted(plan.day.topics)

    def works(number: int) -> Iterator[Request]:
        job = Client(f"report-job-{number}", "User:report-batch", f"10.45.{number // 50}.{number % 50 + 5}", JAVA, "3.5.1")
        at = first + draw.uniform(0, 8)
        for node in draw.sample(plan.day.brokers, min(3, len(plan.day.brokers))):
            yield from plan.day.connect(job, node, at)
            yield plan.day.noisy(Request(at + 0.5, job, node, "Metadata", 12, [Part(each, ()) for each in topics]))
        for when in plan.day.times(4, at + 1, first + length, follows_load=False):
            topic = draw.choice(topics)
            index = draw.randrange(plan.day.topics[topic])
            part = Part(topic, (index,), 0, draw.randint(20_000, 400_000))
            node = plan.day.leaders[topic, index]
            yield plan.day.noisy(Request(when, job, node, "Fetch", 15, [part], response_bytes=part.bytes + 60))

    for number in range(draw.randint(40, 110)):
        plan.day.add(lambda number=number: works(number))  # type: ignore[misc]
    return Expected("jobs_start_together", ("report-job", "User:report-batch", "10.45."), (), first, first + length, HERD)


def upgrade_half_done(plan: Plan) -> Expected:
    """An upgrade stops in the middle: half of the brokers are asked with newer versions than the others, until tomorrow."""
    if len(plan.day.brokers) < 3:
        plan.broker(3)
    first, brokers = plan.draw.uniform(5, 18) * HOUR_S, plan.day.brokers
    new = [plan.broker(3) for _ in range(len(brokers) // 2)]
    back = {node: first + 40 + number * 4 * MINUTE_S for number, node in enumerate(new)}

    def asks(request: Request) -> Iterable[Request]:
        begin = back[request.node]
        if begin - 40 <= request.at < begin:
            return
        if request.at >= begin and request.api in ("Fetch", "Produce", "Metadata"):
            request.version += 1
        yield request

    plan.day.span(first, DAY_S, lambda each: each.node in back and each.client.software == JAVA, asks)
    who = tuple(name for node in new for name in broker_names(node))
    return Expected("upgrade_half_done", who, ("version",), first, DAY_S, HALF_UPGRADED)


def leaders_pile_up(plan: Plan) -> Expected:
    """Restarts in turn leave most partitions with one broker: it does the work of all, for hours, and the others little."""
    hot, (first, last), draw = plan.broker(3), plan.span(60, 360), plan.draw
    share, moved = draw.uniform(0.5, 0.85), dict[tuple[str, int], bool]()

    def moves(request: Request) -> Iterable[Request]:
        if moved.setdefault((request.client.client_id, request.node), draw.random() < share):
            request.node = hot
        yield request

    plan.day.span(first, last, lambda each: each.api in ("Produce", "Fetch") and each.node != hot, moves)
    return Expected("leaders_pile_up", broker_names(hot), (), first, last, LEADERS)


def recompressed(plan: Plan) -> Expected:
    """A person sets a topic's compression.type: since then the brokers compress again what they are sent, and appends are slow."""
    producer, (first, last), draw = plan.producer(), _since(plan, 1.0, 6.0), plan.draw
    topic, factor = producer.topics[0], draw.uniform(8, 30)
    producer.per_minute = max(producer.per_minute, 2.0)
    person = Client("adminclient-1", "User:yusuf", "192.168.20.41", JAVA, "3.7.0")
    _admin(plan, person, first, [("IncrementalAlterConfigs", [("topic", topic)], None)])

    def compresses(request: Request) -> Iterable[Request]:
        request.local_us = int(request.local_us * factor) + request.request_bytes // 20
        yield request

    plan.day.span(first + 2, last, lambda each: each.api == "Produce" and each.client in producer.clients, compresses)
    return Expected("recompressed", (*_who(producer), "yusuf"), (topic, "Produce"), first, last, RECOMPRESSED)


def topic_id_stale(plan: Plan) -> Expected:
    """A pipeline makes a topic anew, and one group goes on asking for the old one's id, until somebody restarts it."""
    group, (first, last) = plan.group(), plan.span(35, 420)
    topic = group.topics[0]
    tool = Client("topic-sync", "User:topic-sync", "10.88.0.9", GO, "1.17.0")
    _admin(plan, tool, first - 5, [("DeleteTopics", [("topic", topic)], None), ("CreateTopics", [("topic", topic)], None)])

    def fails(request: Request) -> Iterable[Request]:
        for part in request.parts:
            part.bytes = 0
            part.error = "UNKNOWN_TOPIC_ID" if part.topic == topic else None
        request.remote_us, request.response_bytes = 0, 60
        yield request

    plan.day.span(first, last, lambda each: each.api == "Fetch" and each.client in group.clients, fails)
    return Expected("topic_id_stale", (group.name, *names(group.clients), topic), ("UNKNOWN_TOPIC_ID",), first, last, RECREATED)


def offsets_unstable(plan: Plan) -> Expected:
    """A group restarts while a transaction hangs: it is told again and again that its offsets are not stable, and reads nothing."""
    group, (first, last), draw = plan.group(), plan.span(20, 260), plan.draw
    plan.day.span(first, last, lambda each: each.client in group.clients and each.api in ("Fetch", "OffsetCommit"), lambda _: ())

    def asks() -> Iterator[Request]:
        for at in plan.day.times(draw.uniform(3, 25), first, last, follows_load=False):
            index = draw.randrange(len(group.clients))
            request = Request(at, group.clients[index], plan.day.coordinator(group.name), "OffsetFetch", 8, group=group.name)
            request.error, request.member = "UNSTABLE_OFFSET_COMMIT", group.member(index)
            yield plan.day.noisy(request)

    plan.day.add(asks)
    who = (group.name, *names(group.clients))
    return Expected("offsets_unstable", who, ("UNSTABLE_OFFSET_COMMIT", "read", "Fetch"), first, last, UNSTABLE)


def blue_and_green(plan: Plan) -> Expected:
    """A deployment starts the new processes and forgets to stop the old ones: everything is written twice."""
    producer, (first, last) = plan.producer(), _since(plan)
    green = {
        id(old): replace(old, client_id=f"{producer.name}-green-{index}", host=f"10.6.0.{20 + index}", ports={})
        for index, old in enumerate(producer.clients)
    }
    connected = set[tuple[str, int]]()

    def doubles(request: Request) -> Iterable[Request]:
        yield request
        new, at = green[id(request.client)], request.at + plan.draw.uniform(0.1, 2)
        if (new.client_id, request.node) not in connected:
            connected.add((new.client_id, request.node))
            yield from plan.day.connect(new, request.node, at - 0.05)
        yield plan.day.noisy(copied(request, at=at, client=new))

    plan.day.span(first, last, lambda each: each.client in producer.clients and each.api in ("Produce", "Metadata"), doubles)
    who = (*_who(producer), *(each.client_id for each in green.values()))
    return Expected("blue_and_green", who, (), first, last, BLUE_GREEN)


def one_directory_slow(plan: Plan) -> Expected:
    """One of a broker's three disks is slow: appends to a third of its partitions take long, the others as always."""
    broker, (first, last), draw = plan.broker(), plan.span(25, 200), plan.draw
    slow = {each for each, node in sorted(plan.day.leaders.items()) if node == broker and draw.random() < 1 / 3}
    delay_us = draw.uniform(60_000, 350_000)

    def waits(request: Request) -> Iterable[Request]:
        request.local_us += int(delay_us * draw.uniform(0.4, 1.6))
        yield request

    def is_slow(request: Request) -> bool:
        return any((part.topic, index) in slow for part in request.parts for index in part.partitions)

    plan.day.span(first, last, lambda each: each.node == broker and each.api == "Produce" and is_slow(each), waits)
    return Expected("one_directory_slow", broker_names(broker), (), first, last, ONE_DISK)


def coordinator_sought(plan: Plan) -> Expected:
    """With a new version of their library the processes of a group look for their coordinator again and again."""
    group, first, draw = plan.group(), plan.draw.uniform(4, 18) * HOUR_S, plan.draw
    for old in group.clients:
        plan.replace(old, replace(old, software_version="9.9.1", ports={}), first)

    def seeks(client: Client) -> Iterator[Request]:
        for at in plan.day.times(draw.uniform(6, 45), first + 5, follows_load=False):
            node = draw.choice(plan.day.brokers)
            yield plan.day.noisy(Request(at, client, node, "FindCoordinator", 4, resources=[("group", group.name)]))

    for client in group.clients:
        plan.day.add(lambda client=client: seeks(client))  # type: ignore[misc]
    who = (group.name, *names(group.clients), "9.9.1")
    return Expected("coordinator_sought", who, ("FindCoordinator", "9.9.1"), first, DAY_S, ALL_DOWN)


SHAPES = (
    half_the_partitions,
    versions_as_ping,
    outrun_by_retention,
    zombie_wakes,
    telemetry_pushed,
    nat_exhausted,
    jobs_start_together,
    upgrade_half_done,
    leaders_pile_up,
    recompressed,
    topic_id_stale,
    offsets_unstable,
    blue_and_green,
    one_directory_slow,
    coordinator_sought,
)
