"""What people leave behind, configure wrongly, delete or try in vain, from trackers, proposals and guides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchmarks.unseen.expected import Expected, Plan, names
from benchmarks.unseen.shapes import _admin, broker_names
from benchmarks.unseen.shapes_of_clients import _who
from benchmarks.unseen.shapes_of_forums import _since
from benchmarks.unseen.sixth.operations import topic_of
from benchmarks.unseen.world import DAY_S, GO, HOUR_S, JAVA, PYTHON, Client, Group, Part, Producer, Request

LOGGERS = "https://cwiki.apache.org/confluence/display/KAFKA/KIP-817%3A+Fix+inconsistency+in+dynamic+application+log+levels"
SESSION = "https://github.com/dpkp/kafka-python/issues/837"
REJECTS = "https://github.com/apache/kafka/pull/8663"
PLACEHOLDER = "https://github.com/elastic/elastic-agent/issues/4254"
POLICY = "https://github.com/confluentinc/ksql/issues/3942"
SCHEMAS = "https://github.com/redpanda-data/redpanda/issues/4903"
LOGINS = "https://github.com/apache/kafka/pull/5582"
LIVING = "https://github.com/confluentinc/confluent-kafka-dotnet/issues/2119"


def trace_left_on(plan: Plan) -> Expected:
    """A person sets a broker's loggers to TRACE, finds the fault and forgets them: the broker is slow (KIP-817)."""
    broker, (first, last), draw = plan.broker(), plan.span(40, 300), plan.draw
    person, factor = Client("adminclient-1", "User:ingrid", "192.168.63.7", JAVA, "3.9.0"), draw.uniform(3, 12)
    _admin(plan, person, first - 3, [("IncrementalAlterConfigs", [("broker-logger", str(broker))], None)])
    _admin(plan, replace(person, ports={}), last, [("IncrementalAlterConfigs", [("broker-logger", str(broker))], None)])

    def slow(request: Request) -> Iterable[Request]:
        request.queue_us = int(request.queue_us * factor * draw.uniform(0.5, 3))
        request.local_us = int(request.local_us * factor * draw.uniform(0.7, 1.4))
        request.response_queue_us = int(request.response_queue_us * draw.uniform(1, factor))
        yield request

    plan.day.span(first, last, lambda each: each.node == broker, slow)
    return Expected("trace_left_on", (*broker_names(broker), "ingrid", person.host), (), first, last, LOGGERS)


def session_timeout_refused(plan: Plan) -> Expected:
    """A group asks for a session longer than the brokers allow; each start ends with the same refusal (kafka-python, issue 837)."""
    group, (first, last), draw = plan.group(), plan.span(8, 130), plan.draw
    node, pause = plan.day.coordinator(group.name), draw.uniform(8, 60)
    plan.day.span(first, last, lambda each: any(each.client is one for one in group.clients), lambda _: ())

    def starts(index: int) -> Iterator[Request]:
        client, at = replace(group.clients[index], ports={}), first + index * 4
        while at < last:
            yield from plan.day.connect(client, node, at)
            yield plan.day.noisy(Request(at + 0.1, client, node, "FindCoordinator", 4, resources=[("group", group.name)]))
            join = plan.day.noisy(
                Request(at + 0.2, client, node, "JoinGroup", 9, group=group.name, error="INVALID_SESSION_TIMEOUT")
            )
            join.member, join.remote_us = "", 0
            yield join
            at += pause * draw.uniform(0.9, 1.2)
        yield from plan.day.connect(group.clients[index], node, last + index + 70)
        yield from group.join(index, last + index + 70.2, 2)

    for index in range(len(group.clients)):
        plan.day.add(lambda index=index: starts(index))  # type: ignore[misc]
    who = (group.name, *names(group.clients))
    return Expected("session_timeout_refused", who, ("INVALID_SESSION_TIMEOUT",), first, last, SESSION)


def sink_reads_its_rejects(plan: Plan) -> Expected:
    """A sink's pattern matches its own topic of rejected records: each reject is read, rejected and written again (KAFKA-9985)."""
    (first, last), draw = plan.span(20, 320), plan.draw
    source = topic_of(plan)
    topic = plan.day.topic("sink-warehouse.rejects", 3)
    host, growth = f"10.2.73.{draw.randint(10, 200)}", draw.uniform(4, 60)
    reader = Client("connector-consumer-warehouse-sink-0", "User:connect", host, JAVA, "3.7.1")
    writer = Client("connector-dlq-producer-warehouse-sink-0", "User:connect", host, JAVA, "3.7.1")

    def reads() -> Iterator[Request]:
        nodes = {plan.day.leaders[each, index] for each in (topic, source) for index in range(plan.day.topics[each])}
        for node in sorted(nodes):
            yield from plan.day.connect(reader, node, 18)
        for at in plan.day.times(1.0, 20):
            index = draw.randrange(plan.day.topics[source])
            part = Part(source, (index,), 0, draw.randint(2_000, 60_000))
            node = plan.day.leaders[source, index]
            yield plan.day.noisy(Request(at, reader, node, "Fetch", 15, [part], response_bytes=part.bytes + 60))

    def loops() -> Iterator[Request]:
        for node in sorted({plan.day.leaders[topic, index] for index in range(3)}):
            yield from plan.day.connect(writer, node, first - 1)
        for at in plan.day.times(draw.uniform(8, 20), first, last, follows_load=False):
            size = int(draw.randint(1_500, 4_000) * (1 + growth * (at - first) / (last - first)))
            index, records = draw.randrange(3), draw.randint(1, 20)
            node, part = plan.day.leaders[topic, index], Part(topic, (index,), records, records * size)
            yield plan.day.noisy(Request(at, writer, node, "Produce", 9, [part], request_bytes=part.bytes + 80))
            read = Part(topic, (index,), 0, part.bytes)
            yield plan.day.noisy(Request(at + 0.3, reader, node, "Fetch", 15, [read], response_bytes=part.bytes + 60))

    plan.day.add(reads)
    plan.day.add(loops)
    who = (*names([reader, writer]), "User:connect", topic)
    return Expected("sink_reads_its_rejects", who, (), first, last, REJECTS)


def placeholder_in_topic_name(plan: Plan) -> Expected:
    """A configuration leaves a placeholder in a topic's name, and the brokers refuse the name each time (elastic-agent, 4254)."""
    draw = plan.draw
    first = draw.uniform(1, 22.5) * HOUR_S
    last = DAY_S if draw.random() < 0.4 else min(DAY_S, first + draw.uniform(0.3, 8) * HOUR_S)
    topic, pause = "logstash-%{[event.dataset]}", draw.uniform(4, 90)
    agents = [
        Client(f"elastic-agent-{each}", "User:elastic", f"10.20.9.{10 + each}", "sarama", "1.43.3")
        for each in range(draw.randint(1, 5))
    ]

    def asks(agent: Client) -> Iterator[Request]:
        at, node = first + draw.uniform(0, 60), draw.choice(plan.day.brokers)
        yield from plan.day.connect(agent, node, at - 0.2)
        while at < last:
            part = Part(topic, (), error="INVALID_TOPIC_EXCEPTION")
            yield plan.day.noisy(Request(at, agent, node, "Metadata", 10, [part]))
            at += pause * draw.uniform(0.9, 1.1)

    for agent in agents:
        plan.day.add(lambda agent=agent: asks(agent))  # type: ignore[misc]
    who = (*names(agents), "User:elastic", *(each.host for each in agents), topic)
    return Expected("placeholder_in_topic_name", who, ("INVALID_TOPIC",), first, last, PLACEHOLDER)


def creation_against_policy(plan: Plan) -> Expected:
    """A program asks for topics that the provider's policy forbids, ends, and is started again, later each time (ksql, 3942)."""
    (first, last), draw, controller = plan.span(15, 200), plan.draw, plan.day.brokers[0]
    server = Client("ksqldb-server-admin", "User:ksqldb", f"10.2.74.{draw.randint(10, 200)}", JAVA, "3.6.1")
    topics = ["_confluent-ksql-default__command_topic", "ksqldb-processing-log"][: draw.randint(1, 2)]

    def starts() -> Iterator[Request]:
        at, pause = first, 10.0
        while at < last:
            yield from plan.day.connect(server, controller, at)
            yield plan.day.noisy(Request(at + 0.3, server, controller, "Metadata", 12, [Part(each, ()) for each in topics]))
            asks = Request(at + 0.6, server, controller, "CreateTopics", 7, resources=[("topic", each) for each in topics])
            asks.error = "POLICY_VIOLATION"
            yield plan.day.noisy(asks)
            at, pause = at + draw.uniform(12, 20) + pause, min(pause * 2, 300)

    plan.day.add(starts)
    who = ("ksqldb-server-admin", "User:ksqldb", server.host, *topics)
    return Expected("creation_against_policy", who, ("POLICY_VIOLATION", "CreateTopics"), first, last, POLICY)


def schemas_deleted(plan: Plan) -> Expected:
    """A person deletes the topic of the schema registry by mistake: it answers nothing until the topic is back (Redpanda, 4903)."""
    (first, last), draw, topic = plan.span(6, 160, 0.75, 23.9), plan.draw, plan.day.topic("_schemas", 1)
    person = Client("rdkafka", "User:pavel", "192.168.64.21", GO, "1.17.0")
    registry = Client("schema-registry-1", "User:schema-registry", "10.8.0.14", JAVA, "3.7.0")
    node = plan.day.leaders[topic, 0]
    _admin(plan, person, first - 1, [("DeleteTopics", [("topic", topic)], None)])
    _admin(plan, replace(person, ports={}), last - 1, [("CreateTopics", [("topic", topic)], None)])

    def serves() -> Iterator[Request]:
        yield from plan.day.connect(registry, node, 25)
        for at in plan.day.times(2, 27, follows_load=False):
            error = "UNKNOWN_TOPIC_OR_PARTITION" if first <= at < last else None
            fetch = plan.day.noisy(Request(at, registry, node, "Fetch", 12, [Part(topic, (0,), error=error)]))
            fetch.remote_us = 0 if error else 500_000
            yield fetch
            if draw.random() < 0.1:
                write = Request(at + 0.6, registry, node, "Produce", 9, [Part(topic, (0,), 1, 900, error)], request_bytes=980)
                yield plan.day.noisy(write)

    plan.day.add(serves)
    who = ("pavel", person.host, "schema-registry", "schema-registry-1", topic)
    return Expected("schemas_deleted", who, ("DeleteTopics", topic, "UNKNOWN_TOPIC"), first, last, SCHEMAS)


def logs_in_too_often(plan: Plan) -> Expected:
    """A service's tokens last less than a minute: it logs in again on each connection without end (KIP-368, its review)."""
    service: Producer | Group = plan.producer() if plan.draw.random() < 0.5 else plan.group()
    (first, last), draw = _since(plan, 1.0, 8.0), plan.draw
    pause = draw.uniform(5, 50)

    def logs_in(client: Client, node: int) -> Iterator[Request]:
        at = first + draw.uniform(0, pause)
        while at < last:
            yield plan.day.noisy(Request(at, client, node, "SaslHandshake", 1, request_bytes=50, response_bytes=40))
            yield plan.day.noisy(Request(at + 0.01, client, node, "SaslAuthenticate", 2, request_bytes=1_200, response_bytes=60))
            at += pause * draw.uniform(0.85, 0.95)

    for client in service.clients:
        for node in draw.sample(plan.day.brokers, min(3, len(plan.day.brokers))):
            plan.day.add(lambda client=client, node=node: logs_in(client, node))  # type: ignore[misc]
    return Expected("logs_in_too_often", _who(service), ("SASL", "login", "authenticat"), first, last, LOGINS)


def offsets_of_a_living_group(plan: Plan) -> Expected:
    """A person resets the offsets of a group that works, is refused as no member of it, and tries again (.NET, issue 2119)."""
    group, (first, last), draw = plan.group(), plan.span(5, 45), plan.draw
    person, node = Client("offset-tool", "User:sofia", "192.168.65.33", PYTHON, "2.1.5"), plan.day.coordinator(group.name)
    topic = group.topics[0]
    times = sorted([first, last - 1, *(draw.uniform(first, last) for _ in range(draw.randint(2, 12)))])

    def tries() -> Iterator[Request]:
        for at in times:
            yield from plan.day.connect(person, node, at)
            yield plan.day.noisy(Request(at + 0.05, person, node, "DescribeGroups", 5, resources=[("group", group.name)]))
            parts = [Part(topic, (index,)) for index in range(min(6, plan.day.topics[topic]))]
            commit = Request(at + 0.1, person, node, "OffsetCommit", 8, parts, group=group.name, error="UNKNOWN_MEMBER_ID")
            commit.member, commit.generation = "", -1
            yield plan.day.noisy(commit)

    plan.day.add(tries)
    who = ("offset-tool", "User:sofia", "sofia", person.host, group.name)
    return Expected("offsets_of_a_living_group", who, ("UNKNOWN_MEMBER_ID", "OffsetCommit", "commit"), first, last, LIVING)


SHAPES = (
    trace_left_on,
    session_timeout_refused,
    sink_reads_its_rejects,
    placeholder_in_topic_name,
    creation_against_policy,
    schemas_deleted,
    logs_in_too_often,
    offsets_of_a_living_group,
)
