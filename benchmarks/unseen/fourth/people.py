"""What people and their accounts do, and what they may not do any more, from guides to audits and from trackers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchmarks.unseen.expected import Expected, NoTargetError, Plan, names
from benchmarks.unseen.shapes import _admin
from benchmarks.unseen.shapes_of_clients import _who
from benchmarks.unseen.shapes_of_forums import _since
from benchmarks.unseen.world import DAY_S, HOUR_S, JAVA, LIBRDKAFKA, MINUTE_S, Client, Part, Request

STUFFING = "https://www.netdata.cloud/guides/kafka/kafka-authentication-failures/"
EXPIRED = "https://www.jingli.space/blog/debugging-Kafka's-SslAuthenticationException"
SCANNED = "https://github.com/linkedin/Burrow/issues/435"
GOVERNANCE = "https://nugrahafajar.my.id/series/learn-java-kafka-in-action/learn-java-kafka-in-action-part-028-security-acl-sasl-mtls-governance"
GROUP_RIGHTS = "https://github.com/redpanda-data/redpanda/issues/26281"
SPRAWL = "https://www.conduktor.io/blog/kafka-access-management"
EGRESS = "https://huddle01.com/resources/problems/complex-cloud-networking-problems-in-kafka-event-streaming"
MECHANISMS = "https://github.com/lectra-tech/kapoeira/issues/13"


def credential_stuffing(plan: Plan) -> Expected:
    """Stolen names and passwords are tried from many addresses of two networks, one or two from each."""
    (first, last), draw = plan.span(3, 40), plan.draw
    nets = ("185.220.101", "45.155.205")

    def tries() -> Iterator[Request]:
        for at in plan.day.times(draw.uniform(6, 40), first, last, follows_load=False):
            host = f"{draw.choice(nets)}.{draw.randint(1, 250)}"
            stranger = Client(f"client-{draw.randrange(9999)}", "User:ANONYMOUS", host, "kafka-python", "2.0.1")
            node, port = draw.choice(plan.day.brokers), draw.randint(32768, 60999)
            yield plan.day.noisy(Request(at, stranger, node, "SaslHandshake", 1, port=port))
            failed = Request(at + 0.02, stranger, node, "SaslAuthenticate", 2, error="SASL_AUTHENTICATION_FAILED", port=port)
            yield plan.day.noisy(failed)

    plan.day.add(tries)
    who = tuple(f"{net}.{last_byte}" for net in nets for last_byte in range(251))
    return Expected("credential_stuffing", (*who, "ANONYMOUS"), ("login", "SASL"), first, last, STUFFING)


def client_certificate_expired(plan: Plan) -> Expected:
    """A service's certificate has expired: what is connected goes on until its connection ends, one process after the other."""
    group, (first, last), draw = plan.group(), plan.span(40, 240), plan.draw
    ends = {id(client): first + draw.uniform(0, 12) * MINUTE_S for client in group.clients}

    def is_out(request: Request) -> bool:
        return id(request.client) in ends and request.at >= ends[id(request.client)]

    plan.day.span(first, last, is_out, lambda _: ())
    return Expected("client_certificate_expired", (group.name, *names(group.clients), *group.topics), (), first, last, EXPIRED)


def scanner_walks(plan: Plan) -> Expected:
    """A scanner of the security team tries every API on each broker; it may do nothing, and is told so."""
    (first, last), draw = plan.span(4, 45), plan.draw
    scanner = Client("", "User:ANONYMOUS", f"10.99.3.{draw.randint(2, 250)}", "unknown", "unknown")
    apis = ("ListGroups", "DescribeAcls", "DescribeConfigs", "DescribeLogDirs", "Metadata", "DescribeCluster", "CreateTopics")

    def walks() -> Iterator[Request]:
        for number, at in enumerate(plan.day.times(draw.uniform(5, 30), first, last, follows_load=False)):
            node, port = plan.day.brokers[number // 7 % len(plan.day.brokers)], draw.randint(32768, 60999)
            request = plan.day.noisy(Request(at, scanner, node, apis[number % 7], 1, port=port))
            if request.api != "Metadata":
                request.error, request.denied = "CLUSTER_AUTHORIZATION_FAILED", ("cluster", "kafka-cluster", "Describe")
            yield request

    plan.day.add(walks)
    return Expected("scanner_walks", (scanner.host, "ANONYMOUS"), ("AUTHORIZATION", "denied", "refus"), first, last, SCANNED)


def reads_everything_at_night(plan: Plan) -> Expected:
    """At night a service's own process, on its own host, reads all topics that are none of its business."""
    group, (first, last), draw = plan.group(), plan.span(20, 150, 0.75, 6), plan.draw
    thief, topics = group.clients[0], [each for each in sorted(plan.day.topics) if each not in group.topics]
    if not topics:
        raise NoTargetError

    def reads() -> Iterator[Request]:
        for number, at in enumerate(plan.day.times(draw.uniform(4, 30), first, last, follows_load=False)):
            topic = topics[number % len(topics)]
            index = draw.randrange(plan.day.topics[topic])
            part = Part(topic, (index,), 0, draw.randint(60_000, 500_000))
            node = plan.day.leaders[topic, index]
            yield plan.day.noisy(Request(at, thief, node, "Fetch", 15, [part], response_bytes=part.bytes + 60))

    plan.day.add(reads)
    who = (thief.client_id, thief.principal, thief.host, group.name)
    return Expected("reads_everything_at_night", who, tuple(topics), first, last, GOVERNANCE)


def group_right_removed(plan: Plan) -> Expected:
    """A person tidies the rules and removes a group's: its members may read the topic, and not be members."""
    group, (first, last) = plan.group(), plan.span(8, 110)
    principal = group.clients[0].principal
    person = Client("adminclient-1", "User:aroha", "192.168.30.12", JAVA, "3.8.1")
    _admin(plan, person, first - 2, [("DeleteAcls", [("group", group.name), ("user", principal)], None)])
    _admin(plan, person, last, [("CreateAcls", [("group", group.name), ("user", principal)], None)])

    def refuses(request: Request) -> Iterable[Request]:
        if request.api == "Fetch":
            return
        request.error, request.denied, request.remote_us = "GROUP_AUTHORIZATION_FAILED", ("group", group.name, "Read"), 0
        yield request

    apis = ("Fetch", "Heartbeat", "OffsetCommit", "JoinGroup")
    plan.day.span(first, last, lambda each: each.client in group.clients and each.api in apis, refuses)
    who = (group.name, principal, *names(group.clients))
    return Expected("group_right_removed", who, ("AUTHORIZATION", "denied", "refus"), first, last, GROUP_RIGHTS)


def records_by_hand(plan: Plan) -> Expected:
    """An administrator repairs something by hand: a few records for a topic that only its service writes."""
    producer, (first, last), draw = plan.producer(), plan.span(3, 9), plan.draw
    topic = producer.topics[0]
    person = Client("console-producer", "User:kim-admin", "192.168.40.7", JAVA, "3.9.0")

    def writes() -> Iterator[Request]:
        yield from plan.day.connect(person, plan.day.leaders[topic, 0], first - 1)
        for at in plan.day.times(draw.uniform(1, 4), first, last, follows_load=False):
            index = draw.randrange(plan.day.topics[topic])
            part = Part(topic, (index,), draw.randint(1, 3), draw.randint(200, 1500))
            node = plan.day.leaders[topic, index]
            yield plan.day.noisy(Request(at, person, node, "Produce", 9, [part], request_bytes=part.bytes + 80))

    plan.day.add(writes)
    return Expected("records_by_hand", ("kim-admin", "console-producer", person.host), (topic,), first, last, GOVERNANCE)


def wrong_listener(plan: Plan) -> Expected:
    """A deployment has the public addresses: a service's records leave the network, and come in by another listener."""
    producer, (first, last) = plan.producer(), _since(plan)
    outside = {id(old): replace(old, host=f"203.0.113.{40 + index}", ports={}) for index, old in enumerate(producer.clients)}
    connected = set[tuple[str, int]]()

    def leaves(request: Request) -> Iterable[Request]:
        new = outside[id(request.client)]
        if (new.client_id, request.node) not in connected:
            connected.add((new.client_id, request.node))
            for each in plan.day.connect(new, request.node, request.at - 0.1):
                each.listener = "PUBLIC"
                yield each
        request.client, request.listener = new, "PUBLIC"
        yield request

    plan.day.span(first, last, lambda each: each.client in producer.clients, leaves)
    return Expected("wrong_listener", _who(producer), ("PUBLIC", "203.0.113."), first, last, EGRESS)


def rights_borrowed(plan: Plan) -> Expected:
    """A person gives himself the right to read a topic, reads it for some minutes, and takes the right away again."""
    topic, (first, last), draw = plan.topic(), plan.span(5, 15), plan.draw
    person = Client("kcat", "User:olek", "192.168.50.33", LIBRDKAFKA, "2.4.0")
    rule: list[tuple[str, str | None]] = [("topic", topic), ("user", "User:olek")]
    admin = replace(person, client_id="adminclient-1", software=JAVA, software_version="3.6.1", ports={})
    _admin(plan, admin, first, [("CreateAcls", rule, None)])
    _admin(plan, admin, last - 2, [("DeleteAcls", rule, None)])

    def reads() -> Iterator[Request]:
        yield from plan.day.connect(person, plan.day.leaders[topic, 0], first + 20)
        for at in plan.day.times(draw.uniform(8, 30), first + 21, last - 20, follows_load=False):
            index = draw.randrange(plan.day.topics[topic])
            part = Part(topic, (index,), 0, draw.randint(50_000, 900_000))
            node = plan.day.leaders[topic, index]
            yield plan.day.noisy(Request(at, person, node, "Fetch", 15, [part], response_bytes=part.bytes + 60))

    plan.day.add(reads)
    return Expected("rights_borrowed", ("olek", person.host), (topic,), first, last, SPRAWL)


def mechanism_refused(plan: Plan) -> Expected:
    """The brokers no longer accept passwords in clear, and one service knows nothing else, some times since yesterday."""
    producer, draw = plan.producer(), plan.draw
    first = 0.0 if draw.random() < 0.5 else draw.uniform(3, 16) * HOUR_S
    last = min(DAY_S, first + draw.uniform(2, 20) * HOUR_S)
    plan.day.span(first, last, lambda each: each.client in producer.clients, lambda _: ())

    def tries() -> Iterator[Request]:
        for at in plan.day.times(draw.uniform(0.5, 6), first, last, follows_load=False):
            old, node, port = draw.choice(producer.clients), draw.choice(plan.day.brokers), draw.randint(32768, 60999)
            client = replace(old, principal="User:ANONYMOUS", ports={})
            yield plan.day.noisy(Request(at, client, node, "ApiVersions", 3, port=port))
            refused = Request(at + 0.01, client, node, "SaslHandshake", 1, error="UNSUPPORTED_SASL_MECHANISM", port=port)
            yield plan.day.noisy(refused)

    plan.day.add(tries)
    who = (*_who(producer), *(each.host for each in producer.clients))
    return Expected("mechanism_refused", who, ("SASL", "login"), first, last, MECHANISMS)


SHAPES = (
    credential_stuffing,
    client_certificate_expired,
    scanner_walks,
    reads_everything_at_night,
    group_right_removed,
    records_by_hand,
    wrong_listener,
    rights_borrowed,
    mechanism_refused,
)
