"""What programmers forget, administrators change and strangers destroy, from trackers, guides and reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchmarks.unseen.expected import Expected, Plan, names
from benchmarks.unseen.shapes import _admin
from benchmarks.unseen.shapes_of_clients import _who
from benchmarks.unseen.shapes_of_forums import _since
from benchmarks.unseen.world import DAY_S, HOUR_S, JAVA, LIBRDKAFKA, PYTHON, Client, Part, Request

CREATES = "https://github.com/MetaCell/cloud-harness/issues/297"
NO_COMMITS = "https://github.com/confluentinc/librdkafka/issues/1076"
COMES_BACK = "https://github.com/strimzi/strimzi-kafka-operator/issues/1157"
NAMESPACE = "https://github.com/strimzi/strimzi-kafka-operator/issues/3080"
PURGES = "https://devgem.io/posts/understanding-kafka-streams-repartition-purge-and-retention-settings"
MEOW = "https://www.welivesecurity.com/la-es/2020/07/28/bases-datos-borradas-ataques-meow/"
TOKENS = "https://github.com/apache/spark/pull/23906"
NO_KEYS = "https://github.com/spring-cloud/spring-cloud-stream/issues/602"


def creates_before_each_write(plan: Plan) -> Expected:
    """A new version creates its topic before each write, to be safe, and each time the topic exists (cloud-harness, issue 297)."""
    producer, (first, last) = plan.producer(), _since(plan, 1.0, 7.0)
    topic, controller = producer.topics[0], plan.day.brokers[0]

    def creates(request: Request) -> Iterable[Request]:
        asks = Request(request.at - 0.05, request.client, controller, "CreateTopics", 7, resources=[("topic", topic)])
        asks.error = "TOPIC_ALREADY_EXISTS"
        yield plan.day.noisy(asks)
        yield request

    plan.day.span(first, last, lambda each: each.client in producer.clients and each.api == "Produce", creates)
    where = ("TOPIC_ALREADY_EXISTS", "CreateTopics")
    return Expected("creates_before_each_write", _who(producer), where, first, last, CREATES)


def commits_forgotten(plan: Plan) -> Expected:
    """Since a deployment a group commits nothing: the library no longer does, and the program does not yet (librdkafka, 1076)."""
    group, first, draw = plan.group(), plan.draw.uniform(4, 18) * HOUR_S, plan.draw
    last = DAY_S if draw.random() < 0.5 else min(DAY_S, first + draw.uniform(2, 6) * HOUR_S)
    plan.day.span(first, last, lambda each: each.group == group.name and each.api == "OffsetCommit", lambda _: ())

    def deploys() -> Iterator[Request]:
        for index, client in enumerate(group.clients):
            yield from plan.day.connect(client, plan.day.coordinator(group.name), first - 8 + index * 0.2)
            yield from group.join(index, first - 7 + index * 0.2, 2)

    plan.day.add(deploys)
    return Expected("commits_forgotten", (group.name, *names(group.clients)), ("commit",), first, last, NO_COMMITS)


def topic_comes_back(plan: Plan) -> Expected:
    """A person deletes a topic again and again; a forgotten program asks for it, and it is back (Strimzi, issue 1157)."""
    (first, last), draw, topic = plan.span(15, 70), plan.draw, plan.day.topic("legacy.exports", 3)
    person = Client("adminclient-1", "User:lena", "192.168.61.8", JAVA, "3.7.1")
    forgotten = Client("old-exporter", "User:exports", "10.3.44.12", PYTHON, "1.4.7")
    times = sorted([first, last - 1, *(draw.uniform(first, last) for _ in range(draw.randint(1, 4)))])
    for at in times:
        _admin(plan, replace(person, ports={}), at, [("DeleteTopics", [("topic", topic)], None)])

    def asks() -> Iterator[Request]:
        node, before = plan.day.brokers[-1], 40.0
        yield from plan.day.connect(forgotten, node, before)
        for at in plan.day.times(0.5, before + 1, follows_load=False):
            was_deleted = any(before < each + 1 <= at for each in times)
            error = "UNKNOWN_TOPIC_OR_PARTITION" if was_deleted else None
            yield plan.day.noisy(Request(at, forgotten, node, "Metadata", 4, [Part(topic, (), error=error)]))
            before = at

    plan.day.add(asks)
    return Expected("topic_comes_back", ("lena", person.host, "old-exporter"), (topic,), first, last, COMES_BACK)


def namespace_recreated(plan: Plan) -> Expected:
    """A namespace is made again without its resources: the operator starts, and deletes a team's topics (Strimzi, 3080)."""
    producer, first, draw = plan.producer(), plan.draw.uniform(1, 22) * HOUR_S, plan.draw
    operator = Client("strimzi-topic-operator", "User:strimzi-topic-operator", "10.7.0.30", JAVA, "3.7.0")
    topics = [*(f"{producer.name}.internal-{each:02}" for each in range(draw.randint(6, 30))), *producer.topics]
    again = first + draw.uniform(10, 50) * 60
    _admin(plan, operator, first, [("DeleteTopics", [("topic", each)], None) for each in topics])
    _admin(plan, replace(operator, ports={}), again, [("CreateTopics", [("topic", each)], None) for each in topics])

    def fails(request: Request) -> Iterable[Request]:
        for part in request.parts:
            if part.topic in producer.topics:
                part.error, part.records, part.bytes = "UNKNOWN_TOPIC_OR_PARTITION", 0, 0
        yield request

    def is_of_topics(request: Request) -> bool:
        return request.api in ("Produce", "Fetch", "Metadata") and any(part.topic in producer.topics for part in request.parts)

    plan.day.span(first + len(topics), again + len(topics), is_of_topics, fails)
    who = ("strimzi-topic-operator", operator.host)
    return Expected("namespace_recreated", who, ("DeleteTopics", *topics), first, first + len(topics) + 2, NAMESPACE)


def purges_refused(plan: Plan) -> Expected:
    """A streams program may not delete records: each half minute it tries, and its repartition topic grows (devgem.io)."""
    draw = plan.draw
    topic = plan.day.topic("order-totals-KSTREAM-KEY-SELECT-0000000004-repartition", 3)
    first = 0.0 if draw.random() < 0.4 else draw.uniform(3, 19) * HOUR_S
    last = DAY_S if draw.random() < 0.5 else min(DAY_S, first + draw.uniform(1, 9) * HOUR_S)
    admins = [
        Client(f"order-totals-{each}7be2-admin", "User:order-totals", f"10.2.81.{10 + each}", JAVA, "3.8.0")
        for each in range(draw.randint(1, 2))
    ]

    def purges(admin: Client) -> Iterator[Request]:
        for at in plan.day.times(2, follows_load=False):
            for node in sorted({plan.day.leaders[topic, index] for index in range(3)}):
                owned = tuple(index for index in range(3) if plan.day.leaders[topic, index] == node)
                purge = Request(at, admin, node, "DeleteRecords", 2, [Part(topic, owned)])
                if first <= at < last:
                    purge.parts[0].error = "TOPIC_AUTHORIZATION_FAILED"
                    purge.denied = ("topic", topic, "Delete")
                yield plan.day.noisy(purge)

    for admin in admins:
        plan.day.add(lambda admin=admin: purges(admin))  # type: ignore[misc]
    who = (*names(admins), "User:order-totals", *(each.host for each in admins))
    return Expected("purges_refused", who, ("AUTHORIZATION", "denied", "refus"), first, last, PURGES)


def wiped_by_a_stranger(plan: Plan) -> Expected:
    """A program from the internet finds an open listener, deletes all records and leaves one per topic (WeLiveSecurity, 2020)."""
    first, draw = plan.draw.uniform(0.75, 23) * HOUR_S, plan.draw
    stranger = Client("meow", "User:ANONYMOUS", f"185.159.157.{draw.randint(2, 250)}", "kafka-python", "2.0.1")
    topics, pause = sorted(plan.day.topics), draw.uniform(0.5, 6)
    last = first + 8 + len(topics) * pause

    def wipes() -> Iterator[Request]:
        node = draw.choice(plan.day.brokers)
        yield from plan.day.connect(stranger, node, first)
        yield plan.day.noisy(Request(first + 1, stranger, node, "Metadata", 5, [Part(each, ()) for each in topics]))
        for number, topic in enumerate(topics):
            at = first + 5 + number * pause
            for leader in sorted({plan.day.leaders[topic, index] for index in range(plan.day.topics[topic])}):
                mine = tuple(index for index in range(plan.day.topics[topic]) if plan.day.leaders[topic, index] == leader)
                yield plan.day.noisy(Request(at, stranger, leader, "DeleteRecords", 1, [Part(topic, mine)]))
            note = Part(topic, (0,), 1, 90)
            yield plan.day.noisy(Request(at + 0.3, stranger, plan.day.leaders[topic, 0], "Produce", 7, [note], acks=1))

    plan.day.add(wipes)
    return Expected("wiped_by_a_stranger", (stranger.host, "ANONYMOUS", "meow"), (), first, last, MEOW)


def tokens_pile_up(plan: Plan) -> Expected:
    """Jobs create a delegation token every seven and a half minutes instead of renewing their last one (Spark, 23906)."""
    (first, last), draw = _since(plan, 2.0, 8.0), plan.draw
    jobs = [
        Client(f"adminclient-spark-{each:02}", "User:spark", f"10.44.{each % 8}.{10 + each}", JAVA, "3.4.1")
        for each in range(draw.randint(6, 40))
    ]

    def creates(job: Client) -> Iterator[Request]:
        at = first + draw.uniform(0, 450)
        while at < last:
            node = draw.choice(plan.day.brokers)
            yield from plan.day.connect(job, node, at - 0.1)
            yield plan.day.noisy(Request(at, job, node, "CreateDelegationToken", 3))
            at += 450 * draw.uniform(0.97, 1.03)

    for job in jobs:
        plan.day.add(lambda job=job: creates(job))  # type: ignore[misc]
    return Expected("tokens_pile_up", (*names(jobs), "User:spark"), ("DelegationToken", "token"), first, last, TOKENS)


def compacted_without_keys(plan: Plan) -> Expected:
    """A person sets a topic to compact; some records have no key, and are refused from then on (spring-cloud-stream, issue 602)."""
    producer, (first, last), draw = plan.producer(), plan.span(15, 180), plan.draw
    topic, share = producer.topics[0], draw.uniform(0.1, 0.9)
    producer.per_minute = max(producer.per_minute, 2.0)
    person = Client("adminclient-1", "User:tomas", "192.168.62.15", LIBRDKAFKA, "2.5.3")
    _admin(plan, person, first - 2, [("IncrementalAlterConfigs", [("topic", topic)], None)])
    _admin(plan, replace(person, ports={}), last, [("IncrementalAlterConfigs", [("topic", topic)], None)])

    def refuses(request: Request) -> Iterable[Request]:
        if draw.random() < share:
            request.parts[0].error = "INVALID_RECORD"
        yield request

    plan.day.span(first, last, lambda each: each.client in producer.clients and each.api == "Produce", refuses)
    return Expected("compacted_without_keys", (*_who(producer), "tomas"), ("INVALID_RECORD", topic), first, last, NO_KEYS)


SHAPES = (
    creates_before_each_write,
    commits_forgotten,
    topic_comes_back,
    namespace_recreated,
    purges_refused,
    wiped_by_a_stranger,
    tokens_pile_up,
    compacted_without_keys,
)
