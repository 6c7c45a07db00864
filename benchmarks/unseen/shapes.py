"""Incidents of brokers, administration and security."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from benchmarks.unseen.expected import Expected, Plan, names
from benchmarks.unseen.world import DAY_S, GO, HOUR_S, JAVA, MINUTE_S, PYTHON, Client, Part, Request, copied

INCIDENTS, MSK_CPU = "https://tools.yiteai.com/ko/books/kafka/ch32", "https://repost.aws/knowledge-center/msk-broker-high-cpu-usage"
LIBRARY = "https://www.arika.dev/series/kafka-in-production/10-incident-library/"
STORM = "https://www.netdata.cloud/guides/kafka/kafka-connection-count-storm/"
HANDLERS = "https://www.netdata.cloud/guides/kafka/kafka-request-handler-idle-percent-low/"
HONEYCOMB = "https://status.honeycomb.io/incidents/pjzh0mtqw3vt"
DISK_FULL = "https://www.data-dynamics.io/en/blog/kafka-disk-full-incident-response"


def broker_names(broker: int) -> tuple[str, ...]:
    return (f"broker {broker}", f"node {broker}", f"node = {broker}", "the broker" if broker == 1 else f"node={broker}")


def raid_degraded(plan: Plan) -> Expected:
    """One broker's disk is slow: its appends take some times as long."""
    broker, (first, last), factor = plan.broker(), plan.span(35, 110), plan.draw.uniform(5, 16)

    def slow(request: Request) -> Iterable[Request]:
        request.local_us = int(request.local_us * factor * plan.draw.uniform(0.7, 1.4))
        yield request

    plan.day.span(first, last, lambda each: each.node == broker and each.api == "Produce", slow)
    return Expected("raid_degraded", broker_names(broker), ("Produce",), first, last, INCIDENTS)


def log_directory_full(plan: Plan) -> Expected:
    """Writes to one broker fail with a storage error until space is free."""
    broker, (first, last) = plan.broker(), plan.span(9, 45)

    def fails(request: Request) -> Iterable[Request]:
        for part in request.parts:
            part.error = "KAFKA_STORAGE_ERROR"
        yield request

    plan.day.span(first, last, lambda each: each.node == broker and each.api == "Produce", fails)
    return Expected("log_directory_full", broker_names(broker), ("KAFKA_STORAGE_ERROR",), first, last, DISK_FULL)


def leaderless_partitions(plan: Plan) -> Expected:
    """A few partitions of a topic have no leader: writes to them fail, and Metadata says so."""
    producer, (first, last) = plan.producer(), plan.span(25, 150)
    topic = producer.topics[0]
    lost = set(range(max(1, plan.day.topics[topic] // plan.draw.choice([3, 4, 6]))))

    def fails(request: Request) -> Iterable[Request]:
        for part in request.parts:
            if part.topic == topic and request.api == "Metadata":
                part.error = "LEADER_NOT_AVAILABLE"
            elif part.topic == topic and lost & set(part.partitions):
                part.error = "NOT_LEADER_OR_FOLLOWER"
        yield request

    plan.day.span(first, last, lambda each: each.api in ("Produce", "Metadata"), fails)
    return Expected("leaderless_partitions", (topic, *names(producer.clients)), ("LEADER", topic), first, last, HONEYCOMB)


def too_few_replicas(plan: Plan) -> Expected:
    """Writes that ask for all replicas fail for one topic."""
    producer, (first, last) = plan.producer(), plan.span(8, 40)
    topic, share = producer.topics[0], plan.draw.uniform(0.3, 1.0)

    def fails(request: Request) -> Iterable[Request]:
        if plan.draw.random() < share:
            for part in request.parts:
                part.error, part.records = "NOT_ENOUGH_REPLICAS", 0
        yield request

    plan.day.span(first, last, lambda each: each.api == "Produce" and each.parts[0].topic == topic, fails)
    return Expected("too_few_replicas", (topic, *names(producer.clients)), ("NOT_ENOUGH_REPLICAS",), first, last, INCIDENTS)


def certificate_expired(plan: Plan) -> Expected:
    """Nobody can connect to one broker any more: it has no requests."""
    broker, (first, last) = plan.broker(3), plan.span(12, 70)
    plan.day.span(first, last, lambda each: each.node == broker, lambda each: ())
    source = "https://github.com/strimzi/strimzi-kafka-operator/issues/8878"
    return Expected("certificate_expired", broker_names(broker), (), first, last, source)


def long_pauses(plan: Plan) -> Expected:
    """Every few minutes a broker handles nothing for some seconds, and then everything at once."""
    broker, (first, last) = plan.broker(), plan.span(60, 180)
    every, length = plan.draw.uniform(150, 320), plan.draw.uniform(5, 14)

    def waits(request: Request) -> Iterable[Request]:
        into = (request.at - first) % every
        if into < length:
            request.queue_us += int((length - into) * 1e6)
            request.at += length - into
        yield request

    plan.day.span(first, last, lambda each: each.node == broker, waits)
    return Expected("long_pauses", broker_names(broker), (), first, last, "https://github.com/confluentinc/librdkafka/issues/777")


def handlers_saturated(plan: Plan) -> Expected:
    """Requests wait long for a handler of one broker."""
    broker, (first, last), wait_ms = plan.broker(), plan.span(20, 75), plan.draw.uniform(40, 400)

    def waits(request: Request) -> Iterable[Request]:
        request.queue_us += int(plan.draw.uniform(0.4, 1.6) * wait_ms * 1000)
        yield request

    plan.day.span(first, last, lambda each: each.node == broker, waits)
    return Expected("handlers_saturated", broker_names(broker), (), first, last, HANDLERS)


def network_saturated(plan: Plan) -> Expected:
    """Responses of one broker wait for its network threads and leave slowly."""
    broker, (first, last), wait_ms = plan.broker(), plan.span(25, 100), plan.draw.uniform(30, 250)

    def waits(request: Request) -> Iterable[Request]:
        request.response_queue_us += int(plan.draw.uniform(0.4, 1.6) * wait_ms * 700)
        request.send_us += int(plan.draw.uniform(0.4, 1.6) * wait_ms * 300)
        yield request

    plan.day.span(first, last, lambda each: each.node == broker, waits)
    return Expected("network_saturated", broker_names(broker), (), first, last, STORM)


def slow_follower(plan: Plan) -> Expected:
    """Writes that wait for all replicas wait long, for the topics that a slow follower has."""
    producer, (first, last) = plan.producer(), plan.span(20, 80)
    if len(plan.day.brokers) == 1 or producer.acks != -1:
        producer.acks = -1
    topic, wait_ms = producer.topics[0], plan.draw.uniform(60, 700)

    def waits(request: Request) -> Iterable[Request]:
        request.remote_us += int(plan.draw.uniform(0.5, 1.5) * wait_ms * 1000)
        yield request

    plan.day.span(first, last, lambda each: each.api == "Produce" and each.parts[0].topic == topic, waits)
    return Expected("slow_follower", (topic, *names(producer.clients)), ("Produce",), first, last, INCIDENTS)


def coordinator_lost(plan: Plan) -> Expected:
    """A broker does not coordinate its groups: it answers that it is loading, or is not the coordinator."""
    group, (first, last) = plan.group(), plan.span(4, 15)
    broker = plan.day.coordinator(group.name)

    def fails(request: Request) -> Iterable[Request]:
        request.error = plan.draw.choice(["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"])
        yield request
        for step in range(1, 4):
            again = copied(request, at=request.at + step * plan.draw.uniform(0.2, 3), api="FindCoordinator", version=4)
            again.parts, again.resources, again.error = [], [("group", group.name)], "COORDINATOR_NOT_AVAILABLE"
            yield again

    apis = ("Heartbeat", "OffsetCommit", "JoinGroup", "SyncGroup")
    plan.day.span(first, last, lambda each: each.node == broker and each.api in apis, fails)
    who = (*broker_names(broker), group.name, *names(group.clients))
    return Expected("coordinator_lost", who, ("COORDINATOR",), first, last, "https://status.rollbar.com/incidents/j8lv6pbks1j9")


def crash_loop(plan: Plan) -> Expected:
    """A broker goes down for one or two minutes, some times in an hour, and its clients come back each time."""
    broker, (first, last) = plan.broker(3), plan.span(45, 100)
    every, away = plan.draw.uniform(500, 900), plan.draw.uniform(60, 130)

    def change(request: Request) -> Iterable[Request]:
        into = (request.at - first) % every
        if into < away:
            return
        if into < away + 30:
            for part in request.parts:
                part.error = "NOT_LEADER_OR_FOLLOWER" if request.api in ("Produce", "Fetch") else part.error
            yield from plan.day.connect(request.client, broker, request.at)
        yield request

    plan.day.span(first, last, lambda each: each.node == broker, change)
    source = "https://github.com/strimzi/strimzi-kafka-operator/issues/8878"
    return Expected("crash_loop", broker_names(broker), (), first, last, source)


def no_leaders(plan: Plan) -> Expected:
    """After a restart a broker leads nothing for hours: its traffic is a trickle, the others carry it."""
    broker, first = plan.broker(3), plan.draw.uniform(3, 17) * HOUR_S
    last = first + plan.draw.uniform(2.5, 6) * HOUR_S
    others = [each for each in plan.day.brokers if each != broker]

    def moves(request: Request) -> Iterable[Request]:
        request.node = others[sum(request.parts[0].topic.encode()) % len(others)] if request.parts else request.node
        yield request

    plan.day.span(first, last, lambda each: each.node == broker and each.api in ("Produce", "Fetch"), moves)
    return Expected("no_leaders", broker_names(broker), (), first, last, HONEYCOMB)


def moved_partitions(plan: Plan) -> Expected:
    """An operator moves partitions without a limit."""
    topic, (first, _) = plan.topic(), plan.span(20, 60)
    person = Client("adminclient-1", "User:olga", "10.77.0.4", JAVA, "3.9.0")

    def asks() -> Iterator[Request]:
        yield from plan.day.connect(person, plan.day.brokers[0], first)
        yield plan.day.noisy(
            Request(first + 1, person, plan.day.brokers[0], "AlterPartitionReassignments", 0, resources=[("topic", topic)])
        )

    plan.day.add(asks)
    return Expected("moved_partitions", ("olga",), ("Reassign", topic), first, first + 60, HONEYCOMB)


def rack_cut_off(plan: Plan) -> Expected:
    """A third of the brokers of a larger cluster have no requests, at the same time."""
    if len(plan.day.brokers) < 12:
        plan.broker(12)
    (first, last), rack = plan.span(15, 60), plan.draw.randrange(3)
    gone = {each for each in plan.day.brokers if each % 3 == rack}
    plan.day.span(first, last, lambda each: each.node in gone, lambda each: ())
    who = tuple(name for each in gone for name in broker_names(each))
    return Expected(
        "rack_cut_off", who, (), first, last, "https://www.honeycomb.io/blog/incident-report-exercises-cleanups-and-evacuations"
    )


def unreadable_disk(plan: Plan) -> Expected:
    """Reading fails on one broker."""
    broker, (first, last) = plan.broker(), plan.span(12, 90)

    def fails(request: Request) -> Iterable[Request]:
        for part in request.parts[:1]:
            part.error, part.bytes = "KAFKA_STORAGE_ERROR", 0
        request.remote_us = 0
        yield request

    plan.day.span(first, last, lambda each: each.node == broker and each.api == "Fetch", fails)
    return Expected("unreadable_disk", broker_names(broker), ("KAFKA_STORAGE_ERROR",), first, last, DISK_FULL)


def _admin(plan: Plan, who: Client, at: float, calls: list[tuple[str, list[tuple[str, str | None]], str | None]]) -> None:
    node = plan.draw.choice(plan.day.brokers)

    def asks() -> Iterator[Request]:
        yield from (plan.day.noisy(each) for each in plan.day.connect(who, node, at))
        for number, (api, resources, error) in enumerate(calls):
            yield plan.day.noisy(Request(at + 1 + number, who, node, api, 2, resources=resources, error=error))

    plan.day.add(asks)


def topic_recreated(plan: Plan) -> Expected:
    """A pipeline deletes and creates a topic; for a minute clients get UNKNOWN_TOPIC_OR_PARTITION."""
    producer, at = plan.producer(), plan.draw.uniform(1, 22) * HOUR_S
    topic = producer.topics[0]
    person = Client("gitops-runner", "User:gitops", "10.88.0.3", GO, "1.17.0")
    _admin(plan, person, at, [("DeleteTopics", [("topic", topic)], None), ("CreateTopics", [("topic", topic)], None)])

    def fails(request: Request) -> Iterable[Request]:
        for part in request.parts:
            if part.topic == topic:
                part.error, part.bytes = "UNKNOWN_TOPIC_ID" if request.api == "Fetch" else "UNKNOWN_TOPIC_OR_PARTITION", 0
        yield request

    plan.day.span(at + 1, at + 80, lambda each: each.api in ("Produce", "Fetch", "Metadata"), fails)
    source = "https://www.kannika.io/kannika-stories/a-walkthrough-of-a-kafka-disaster-scenario"
    return Expected("topic_recreated", ("gitops",), (topic,), at, at + 80, source)


def retention_lowered(plan: Plan) -> Expected:
    """A person changes a topic's configuration from a laptop."""
    topic, at = plan.topic(), plan.draw.uniform(1, 23) * HOUR_S
    person = Client("adminclient-1", "User:ruben", "192.168.14.22", JAVA, "3.6.0")
    _admin(plan, person, at, [("IncrementalAlterConfigs", [("topic", topic)], None)])
    return Expected("retention_lowered", ("ruben",), (topic,), at, at + 60, DISK_FULL)


def acl_removed(plan: Plan) -> Expected:
    """An ACL is deleted, and a service is denied its topic until it is back."""
    producer, (first, last) = plan.producer(), plan.span(10, 60)
    topic = producer.topics[0]
    person = Client("adminclient-1", "User:noor", "10.77.0.8", JAVA, "3.9.0")
    principal = producer.clients[0].principal
    _admin(plan, person, first, [("DeleteAcls", [("topic", topic), ("user", principal)], None)])
    _admin(plan, person, last, [("CreateAcls", [("topic", topic), ("user", principal)], None)])
    refused = partial(_denied, topic=topic, operation="Write")
    plan.day.span(first + 1, last, lambda each: each.client.principal == principal and each.api == "Produce", refused)
    who = (topic, principal, *names(producer.clients))
    return Expected(
        "acl_removed", who, ("AUTHORIZATION", "denied", "refus"), first, last, "https://geekmonks.com/kafka/alert-playbooks"
    )


def _denied(request: Request, topic: str, operation: str) -> Iterable[Request]:
    for part in request.parts:
        part.error, part.records, part.bytes = "TOPIC_AUTHORIZATION_FAILED", 0, 0
    request.denied = ("topic", topic, operation)
    request.remote_us = 0
    yield request


def acl_opened(plan: Plan) -> Expected:
    """Somebody opens a topic to everybody, at night."""
    topic, at = plan.topic(), plan.draw.uniform(1, 5) * HOUR_S
    person = Client("adminclient-1", "User:backup", "10.66.3.9", JAVA, "3.4.0")
    _admin(plan, person, at, [("CreateAcls", [("topic", topic), ("user", "User:*")], None)])
    source = "https://lenses.io/blog/2020/05/security-call-kafka-security-visibility-and-incident-investigation/"
    return Expected("acl_opened", ("backup",), (topic,), at, at + 60, source)


def groups_deleted(plan: Plan) -> Expected:
    """A clean-up script deletes groups."""
    at, draw = plan.draw.uniform(1, 22) * HOUR_S, plan.draw
    person = Client("cleanup.py", "User:janitor", "10.77.1.2", PYTHON, "2.0.2")
    groups: list[tuple[str, str | None]] = [
        ("group", f"console-consumer-{draw.randrange(99999)}") for _ in range(draw.randint(5, 40))
    ]
    _admin(plan, person, at, [("DeleteGroups", [each], None) for each in groups])
    return Expected("groups_deleted", ("janitor",), ("DeleteGroups",), at, at + 60, "https://preproom.ai/code/oc-g381")


def password_rotated(plan: Plan) -> Expected:
    """A service still has its old password: its processes fail to log in, each some times a minute."""
    producer, (first, last) = plan.producer(2), plan.span(25, 120)
    per_minute, clients = plan.draw.uniform(1.5, 6), producer.clients
    plan.day.span(first, last, lambda each: each.client in clients, lambda each: ())

    def tries() -> Iterator[Request]:
        for at in plan.day.times(per_minute * len(clients), first, last, follows_load=False):
            client, node = plan.draw.choice(clients), plan.draw.choice(plan.day.brokers)
            stranger = Client(client.client_id, "User:ANONYMOUS", client.host, client.software, client.software_version)
            port = plan.draw.randint(32768, 60999)
            yield plan.day.noisy(Request(at, stranger, node, "ApiVersions", 3, port=port))
            yield plan.day.noisy(Request(at + 0.01, stranger, node, "SaslHandshake", 1, port=port))
            yield plan.day.noisy(
                Request(at + 0.02, stranger, node, "SaslAuthenticate", 2, error="SASL_AUTHENTICATION_FAILED", port=port)
            )

    plan.day.add(tries)
    who = (*names(clients), *(each.host for each in clients))
    source = "https://github.com/confluentinc/confluent-kafka-dotnet/issues/2102"
    return Expected("password_rotated", who, ("logins", "SASL", "login"), first, last, source)


def slow_guessing(plan: Plan) -> Expected:
    """One address guesses passwords slowly, for hours."""
    first = plan.draw.uniform(1, 8) * HOUR_S
    last, every = first + plan.draw.uniform(6, 14) * HOUR_S, plan.draw.uniform(40, 120)
    host = f"172.31.{plan.draw.randrange(250)}.{plan.draw.randrange(1, 250)}"

    def tries() -> Iterator[Request]:
        for at in plan.day.times(MINUTE_S / every, first, last, follows_load=False):
            stranger = Client(f"rdkafka-{plan.draw.randrange(99)}", "User:ANONYMOUS", host, "librdkafka", "1.9.2")
            node, port = plan.draw.choice(plan.day.brokers), plan.draw.randint(32768, 60999)
            yield plan.day.noisy(Request(at, stranger, node, "SaslAuthenticate", 2, error="SASL_AUTHENTICATION_FAILED", port=port))

    plan.day.add(tries)
    return Expected(
        "slow_guessing", (host,), ("login", "SASL"), first, last, "https://conduktor.io/glossary/real-time-threat-detection"
    )


def exfiltration(plan: Plan) -> Expected:
    """A known account reads many topics that it never read, from an address of its own."""
    group, (first, last) = plan.group(), plan.span(15, 70, 0.75, 6)
    known = group.clients[0]
    thief = Client("kcat", known.principal, f"10.200.7.{plan.draw.randrange(2, 250)}", "librdkafka", "1.8.0")
    topics = [each for each in plan.day.topics if each not in group.topics]

    def reads() -> Iterator[Request]:
        yield from plan.day.connect(thief, plan.day.brokers[0], first)
        for number, at in enumerate(plan.day.times(len(topics) * 30 / ((last - first) / 60), first + 1, last, follows_load=False)):
            topic = topics[number % len(topics)]
            index = plan.draw.randrange(plan.day.topics[topic])
            size = plan.draw.randint(200_000, 900_000)
            part = Part(topic, (index,), 0, size)
            yield plan.day.noisy(Request(at, thief, plan.day.leaders[topic, index], "Fetch", 15, [part], response_bytes=size + 60))

    plan.day.add(reads)
    source = "https://lenses.io/blog/2020/05/security-call-kafka-security-visibility-and-incident-investigation/"
    return Expected("exfiltration", (thief.host, "kcat", known.principal), (), first, last, source)


def denied_scan(plan: Plan) -> Expected:
    """An account tries topic after topic, and is denied."""
    (first, last), draw = plan.span(4, 25), plan.draw
    who = Client("intern-notebook", "User:intern", "10.55.0.31", PYTHON, "2.0.2")
    names_of = [
        f"{area}.{what}" for area in ("hr", "pay", "legal", "board") for what in ("events", "salaries", "cases", "minutes", "files")
    ]

    def tries() -> Iterator[Request]:
        for number, at in enumerate(plan.day.times(draw.uniform(3, 8), first, last, follows_load=False)):
            topic = names_of[number % len(names_of)]
            request = plan.day.noisy(Request(at, who, draw.choice(plan.day.brokers), "Metadata", 12, [Part(topic, ())]))
            yield from _denied(request, topic, "Describe")

    plan.day.add(tries)
    source = "https://conduktor.io/glossary/real-time-threat-detection"
    return Expected("denied_scan", ("intern",), ("denied", "AUTHORIZATION", "refus"), first, last, source)


def monitoring_storm(plan: Plan) -> Expected:
    """A second exporter scrapes every few seconds."""
    (first, last), draw = plan.span(90, 260), plan.draw
    who = Client("burrow", "User:sre-tools", "10.9.1.77", "sarama", "1.40.0")
    groups: list[tuple[str, str | None]] = [("group", group.name) for group in plan.day.groups]

    def scrapes() -> Iterator[Request]:
        for at in plan.day.times(draw.uniform(10, 25), first, last, follows_load=False):
            node = draw.choice(plan.day.brokers)
            yield plan.day.noisy(Request(at, who, node, "ListOffsets", 7, [Part(topic, (0, 1)) for topic in plan.day.topics]))
            yield plan.day.noisy(Request(at + 0.05, who, node, "DescribeGroups", 5, resources=groups))
            yield plan.day.noisy(Request(at + 0.1, who, node, "DescribeLogDirs", 4))

    plan.day.add(scrapes)
    return Expected("monitoring_storm", ("burrow", "sre-tools"), (), first, last, MSK_CPU)


def topic_unread(plan: Plan) -> Expected:
    """All members of a group stop in the morning and do not come back."""
    group, first = plan.group(), plan.draw.uniform(4, 18) * HOUR_S
    plan.day.span(first, DAY_S, lambda each: each.client in group.clients, lambda each: ())
    who = (group.name, *names(group.clients), *group.topics)
    return Expected("topic_unread", who, (), first, DAY_S, "https://grokdatum.github.io/grokdevops-wiki/library/postmortems/sev-2")


SHAPES = (
    raid_degraded,
    log_directory_full,
    leaderless_partitions,
    too_few_replicas,
    certificate_expired,
    long_pauses,
    handlers_saturated,
    network_saturated,
    slow_follower,
    coordinator_lost,
    crash_loop,
    no_leaders,
    moved_partitions,
    rack_cut_off,
    unreadable_disk,
    topic_recreated,
    retention_lowered,
    acl_removed,
    acl_opened,
    groups_deleted,
    password_rotated,
    slow_guessing,
    exfiltration,
    denied_scan,
    monitoring_storm,
    topic_unread,
)
