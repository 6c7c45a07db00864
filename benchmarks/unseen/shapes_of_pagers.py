"""Incidents of brokers, networks and rights from guides, trackers and post-mortems, written before any detector was read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchmarks.unseen.expected import Expected, Plan, names
from benchmarks.unseen.shapes import broker_names
from benchmarks.unseen.shapes_of_clients import _who
from benchmarks.unseen.world import DAY_S, HOUR_S, JAVA, MINUTE_S, Client, Day, Part, Request, copied

BYPASSED = "https://github.com/inverse-inc/packetfence/pull/9089"
MIXED_VERSIONS = "https://github.com/netscaler/netscaler-observability-exporter/issues/78"
MTU = "https://github.com/confluentinc/librdkafka/issues/3254"
ONLY_ONE_PARTITION = "https://github.com/confluentinc/librdkafka/issues/3878"
CONTROLLER = "https://devopsaitoolkit.com/blog/kafka-error-controller-moved-to-another-broker/"
SESSIONS = "https://www.netdata.cloud/guides/kafka/kafka-zookeeper-session-expired/"
QUOTAS = "https://www.netdata.cloud/guides/kafka/kafka-quota-throttling/"
ONE_SUBNET = "https://geekmonks.com/kafka/hands-on-lab"
PRINCIPALS = "https://github.com/confluentinc/librdkafka/issues/4223"
MAPPING = "https://github.com/confluentinc/confluent-kubernetes-examples/issues/133"
HEALTH_CHECKS = "https://github.com/banzaicloud/koperator/pull/678"
TIERED = "https://github.com/Aiven-Open/tiered-storage-for-apache-kafka/issues/483"


def _services(day: Day) -> list[Client]:
    return [each for service in [*day.producers, *day.groups] for each in service.clients]


def one_broker_unreachable(plan: Plan) -> Expected:
    """A firewall rule forgets one broker: the processes of one service do not reach it, and go on with the others."""
    producer, broker, (first, last) = plan.producer(), plan.broker(3), plan.span(40, 300)
    producer.per_minute = max(producer.per_minute, 2.0)
    plan.day.span(first, last, lambda each: each.client in producer.clients and each.node == broker, lambda each: ())
    return Expected("one_broker_unreachable", _who(producer), broker_names(broker), first, last, BYPASSED)


def one_broker_old(plan: Plan) -> Expected:
    """An upgrade of the brokers left one of them behind, since yesterday: what asks it for a new version is refused."""
    broker, last = plan.broker(3), plan.draw.uniform(8, 13) * HOUR_S
    share = plan.draw.uniform(0.1, 0.6)

    def refuses(request: Request) -> Iterable[Request]:
        if plan.draw.random() < share:
            again = copied(request, at=request.at + 0.05, version=request.version - 3)
            request.error, request.remote_us = "UNSUPPORTED_VERSION", 0
            for part in request.parts:
                part.bytes, part.records = 0, 0
            yield request
            yield again
        else:
            yield request

    plan.day.span(0, last, lambda each: each.node == broker and each.api == "Fetch" and each.version == 15, refuses)
    return Expected("one_broker_old", broker_names(broker), ("UNSUPPORTED_VERSION",), 0, last, MIXED_VERSIONS)


def large_responses_stall(plan: Plan) -> Expected:
    """The MTU of one broker's host is wrong: small responses leave at once, and large ones take seconds."""
    broker, (first, last), draw = plan.broker(), plan.span(20, 100), plan.draw

    def stalls(request: Request) -> Iterable[Request]:
        if request.response_bytes > 9_000:
            request.send_us += int(draw.uniform(0.5, 6) * 1_000_000)
        yield request

    plan.day.span(first, last, lambda each: each.node == broker, stalls)
    return Expected("large_responses_stall", broker_names(broker), (), first, last, MTU)


def controller_moves(plan: Plan) -> Expected:
    """The controller's session expires again and again: each new one sends the leaders to all, and clients refresh metadata."""
    broker, (first, last), draw = plan.broker(3), plan.span(60, 150), plan.draw
    every = draw.uniform(300, 700)
    controllers = draw.sample(plan.day.brokers, 2)

    def tells() -> Iterator[Request]:
        at, turn = first, 0
        while at < last:
            node = controllers[turn % 2]
            who = Client(f"broker-{node}-controller", "User:kafka", f"10.0.0.{node}", JAVA, "3.9.0")
            for number, to in enumerate(plan.day.brokers):
                for api, version in (("UpdateMetadata", 8), ("LeaderAndIsr", 7), ("UpdateMetadata", 8)):
                    request = plan.day.noisy(Request(at + number * 0.05, who, to, api, version, request_bytes=40_000))
                    request.listener = "INTERNAL"
                    yield request
            at, turn = at + every * draw.uniform(0.7, 1.3), turn + 1

    def fails(request: Request) -> Iterable[Request]:
        if (request.at - first) % every < 20 and request.api in ("Produce", "Fetch") and draw.random() < 0.5:
            failed = copied(request)
            for part in failed.parts:
                part.error, part.bytes = "NOT_LEADER_OR_FOLLOWER", 0
            yield failed
        yield request

    plan.day.add(tells)
    plan.day.span(first, last, lambda each: each.node == broker, fails)
    who = ("controller", *(name for each in (broker, *controllers) for name in broker_names(each)))
    return Expected("controller_moves", who, ("LEADER", "LeaderAndIsr", "UpdateMetadata"), first, last, CONTROLLER)


def replicas_shrink(plan: Plan) -> Expected:
    """A follower is slow now and then: its leader takes it out of the replicas in sync and in again; clients notice nothing."""
    broker, (first, last), draw = plan.broker(3), plan.span(40, 240), plan.draw
    who = Client(f"broker-{broker}-to-controller", "User:kafka", f"10.0.0.{broker}", JAVA, "3.9.0")
    controller = next(each for each in plan.day.brokers if each != broker)

    def asks() -> Iterator[Request]:
        for at in plan.day.times(draw.uniform(2, 9), first, last, follows_load=False):
            request = plan.day.noisy(Request(at, who, controller, "AlterPartition", 3, request_bytes=draw.randint(200, 900)))
            request.listener = "INTERNAL"
            yield request

    plan.day.add(asks)
    who_words = (who.client_id, *broker_names(broker))
    return Expected("replicas_shrink", who_words, ("AlterPartition",), first, last, SESSIONS)


def default_quota(plan: Plan) -> Expected:
    """Somebody sets a quota for everybody instead of one user: all clients are throttled until it is removed."""
    (first, last), draw = plan.span(8, 60), plan.draw
    wait_ms = draw.uniform(300, 2500)
    person = Client("adminclient-1", "User:bjarne", "10.77.0.15", JAVA, "3.8.0")

    def sets() -> Iterator[Request]:
        yield from plan.day.connect(person, plan.day.brokers[0], first - 5)
        resources: list[tuple[str, str | None]] = [("user", None)]
        yield plan.day.noisy(Request(first, person, plan.day.brokers[0], "AlterClientQuotas", 1, resources=resources))

    def waits(request: Request) -> Iterable[Request]:
        request.throttle_us += int(draw.uniform(0.4, 1.6) * wait_ms * 1000)
        yield request

    plan.day.span(
        first, last, lambda each: each.api in ("Produce", "Fetch") and not each.client.client_id.startswith("broker-"), waits
    )
    plan.day.add(sets)
    who = ("all clients", "every client", "clients", "bjarne", *names(_services(plan.day)))
    return Expected("default_quota", who, ("throttl",), first, last, QUOTAS)


def subnet_gone(plan: Plan) -> Expected:
    """The routes of one network are gone for some minutes: no process there has a request, of whatever service."""
    (first, last), draw = plan.span(7, 45), plan.draw
    gone = draw.choice(["10.1.", "10.2.", "10.3."])
    there = [each for each in _services(plan.day) if each.host.startswith(gone)]
    if len(there) < 2:
        there = [each for each in _services(plan.day) if each.host.startswith("10.1.")]
        gone = "10.1."
    plan.day.span(first, last, lambda each: each.client.host.startswith(gone), lambda each: ())
    return Expected("subnet_gone", (gone, f"{gone}0.0/16", *names(there)), (), first, last, ONE_SUBNET)


def nobody_is_allowed(plan: Plan) -> Expected:
    """The brokers lost their list of rights: for some minutes everybody is denied everything."""
    (first, last), draw = plan.span(3, 9), plan.draw

    def denies(request: Request) -> Iterable[Request]:
        for part in request.parts:
            part.error, part.bytes, part.records = "TOPIC_AUTHORIZATION_FAILED", 0, 0
            request.denied = ("topic", part.topic, "Write" if request.api == "Produce" else "Read")
        if not request.parts:
            request.error = "GROUP_AUTHORIZATION_FAILED"
            request.denied = ("group", request.group or "", "Read")
        request.remote_us = 0
        yield request
        if draw.random() < 0.7:
            yield copied(request, at=request.at + draw.uniform(0.1, 1.0))

    kinds = ("Produce", "Fetch", "OffsetCommit", "Heartbeat", "JoinGroup")
    plan.day.span(
        first,
        last,
        lambda each: each.api in kinds and each.client.principal != "User:kafka" and bool(each.parts or each.group),
        denies,
    )
    every = _services(plan.day)
    who = ("all clients", "everybody", "clients", *names(every), *plan.day.topics, *{each.principal for each in every})
    return Expected("nobody_is_allowed", who, ("AUTHORIZATION", "denied", "refus"), first, last, PRINCIPALS)


def principal_renamed(plan: Plan) -> Expected:
    """A rule that maps certificates to names was changed: a service has another principal, which has no rights."""
    producer, (first, last), draw = plan.producer(), plan.span(15, 130), plan.draw
    new = f"User:CN={producer.name},OU=apps"

    def renames(request: Request) -> Iterable[Request]:
        old = request.client
        request.client = Client(old.client_id, new, old.host, old.software, old.software_version, dict(old.ports))
        for part in request.parts:
            part.error, part.bytes, part.records = "TOPIC_AUTHORIZATION_FAILED", 0, 0
            request.denied = ("topic", part.topic, "Write" if request.api == "Produce" else "Describe")
        request.remote_us = 0
        yield request
        yield copied(request, at=request.at + draw.uniform(0.1, 2))

    plan.day.span(first, last, lambda each: each.client in producer.clients and bool(each.parts), renames)
    who = (*_who(producer), new, producer.clients[0].principal)
    return Expected("principal_renamed", who, ("AUTHORIZATION", "denied", "refus"), first, last, MAPPING)


def health_checks(plan: Plan) -> Expected:
    """A new load balancer asks each broker every few seconds whether it lives: it connects, asks for versions, and is gone."""
    first, draw = plan.draw.uniform(5, 18) * HOUR_S, plan.draw
    last = min(DAY_S, first + draw.uniform(3, 12) * HOUR_S)
    every = draw.uniform(3, 12) * max(1, len(plan.day.brokers) // 5)
    hosts = [f"10.250.{draw.randint(0, 9)}.{each}" for each in (4, 5)]

    def asks(broker: int) -> Iterator[Request]:
        at = first + draw.uniform(0, every)
        while at < last:
            who = Client("", "User:ANONYMOUS", hosts[int(at) % 2], "unknown", "unknown")
            yield plan.day.noisy(Request(at, who, broker, "ApiVersions", 0, request_bytes=30, response_bytes=400))
            at += every * draw.uniform(0.95, 1.05)

    for broker in plan.day.brokers:
        plan.day.add(lambda broker=broker: asks(broker))  # type: ignore[misc]
    return Expected("health_checks", (*hosts, "10.250.", "ANONYMOUS"), ("ApiVersions", "connect"), first, last, HEALTH_CHECKS)


def down_since_yesterday(plan: Plan) -> Expected:
    """A broker went down last night, before the day's first line, and is back in the morning."""
    broker, last = plan.broker(3), plan.draw.uniform(4, 10) * HOUR_S
    connected: set[str] = set()

    def comes(request: Request) -> Iterable[Request]:
        if request.at < last:
            return
        if request.client.client_id not in connected:
            connected.add(request.client.client_id)
            yield from plan.day.connect(request.client, broker, request.at)
        yield request

    plan.day.span(0, last + 30 * MINUTE_S, lambda each: each.node == broker, comes)
    return Expected("down_since_yesterday", broker_names(broker), (), 0, last, SESSIONS)


def old_data_slow(plan: Plan) -> Expected:
    """A group reads records of the object storage, and that is slow: each fetch takes seconds, some get nothing."""
    group, (first, last), draw = plan.group(), plan.span(30, 200), plan.draw
    wait_ms = draw.uniform(1500, 9000)

    def waits(request: Request) -> Iterable[Request]:
        request.remote_us += int(draw.uniform(0.5, 1.5) * wait_ms * 1000)
        if draw.random() < 0.3:
            for part in request.parts:
                part.bytes = 0
            request.response_bytes = 60
        yield request

    plan.day.span(first, last, lambda each: each.client in group.clients and each.api == "Fetch", waits)
    who = (group.name, *names(group.clients), *group.topics)
    return Expected("old_data_slow", who, ("Fetch",), first, last, TIERED)


def partition_election(plan: Plan) -> Expected:
    """One partition has no leader for three to six minutes: its producers try again and again, everything else goes on."""
    producer, (first, last), draw = plan.producer(), plan.span(3, 6), plan.draw
    topic = producer.topics[0]
    lost = draw.randrange(plan.day.topics[topic])
    client, node = producer.clients[0], plan.day.leaders[topic, lost]

    def tries() -> Iterator[Request]:
        for at in plan.day.times(draw.uniform(10, 40), first, last, follows_load=False):
            part = Part(topic, (lost,), 0, draw.randint(800, 3000), "NOT_LEADER_OR_FOLLOWER")
            yield plan.day.noisy(Request(at, client, node, "Produce", 9, [part], request_bytes=part.bytes + 80))
            if draw.random() < 0.2:
                asked = Part(topic, (), error="LEADER_NOT_AVAILABLE")
                yield plan.day.noisy(Request(at + 0.05, client, node, "Metadata", 12, [asked]))

    plan.day.add(tries)
    return Expected("partition_election", _who(producer), ("LEADER",), first, last, ONLY_ONE_PARTITION)


SHAPES = (
    one_broker_unreachable,
    one_broker_old,
    large_responses_stall,
    controller_moves,
    replicas_shrink,
    default_quota,
    subnet_gone,
    nobody_is_allowed,
    principal_renamed,
    health_checks,
    down_since_yesterday,
    old_data_slow,
    partition_election,
)
