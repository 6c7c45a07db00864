"""Incidents of other sources, written before their days were seen by any detector: `--fresh` plants only these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchmarks.unseen.expected import Expected, Plan, names
from benchmarks.unseen.shapes import broker_names
from benchmarks.unseen.shapes_of_clients import _is_write_of, _who
from benchmarks.unseen.world import DAY_S, GO, HOUR_S, JAVA, MINUTE_S, PYTHON, Client, Part, Request, copied

FAILURE_MODES = "https://krivaltsevich.com/kafka-internals/op07-failure-modes.html"
RESPONSE = "https://www.data-dynamics.io/en/blog/kafka-incident-response-runbook"
COOKBOOK = "https://dsbasko.github.io/kafka-cookbook/en/08-operations/08-04-troubleshooting-runbook/"
CHECKLIST = "https://activewizards.com/blog/kafka-troubleshooting-checklist"
PLATFORM = "https://www.automq.com/blog/kafka-troubleshooting-runbooks-for-platform-teams"
CONNECTIONS = "https://www.confluent.io/blog/debug-apache-kafka-pt-4/"
PAGE_CACHE = "https://www.netdata.cloud/guides/kafka/kafka-page-cache-thrashing-latency-cliff/"
ADDRESSES = "https://www.automq.com/blog/advertised-listener-pitfalls-in-cloud-and-kubernetes-kafka-deployments"
REPEATED = "https://6e30dae9.alauda-kafka.pages.dev/kafka/trouble_shooting/40-messages-are-repeated-or-missing.html"
RESET = "https://www.fixwikihub.com/articles/message-consumer-offset-reset-earliest-losing-processed-events"
SMALL_BATCHES = "https://github.com/confluentinc/librdkafka/issues/2300"
WAR_STORIES = "https://tools.yiteai.com/ko/books/kafka/ch32"
SECURITY = "https://conduktor.io/glossary/real-time-threat-detection"


def _calls(plan: Plan, who: Client, at: float, api: str, resources: list[tuple[str, str | None]], error: str | None = None) -> None:
    """Let a person call an API once."""
    node = plan.draw.choice(plan.day.brokers)

    def asks() -> Iterator[Request]:
        yield from (plan.day.noisy(each) for each in plan.day.connect(who, node, at))
        yield plan.day.noisy(Request(at + 1, who, node, api, 1, resources=resources, error=error))

    plan.day.add(asks)


def isr_thrashing(plan: Plan) -> Expected:
    """Followers of one broker fall behind and catch up, again and again: writes fail for a minute each time."""
    broker, (first, last) = plan.broker(3), plan.span(60, 200)
    every, length = plan.draw.uniform(360, 720), plan.draw.uniform(40, 100)

    def fails(request: Request) -> Iterable[Request]:
        if (request.at - first) % every < length and plan.draw.random() < 0.8:
            request.parts[0].error = plan.draw.choice(["NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"])
        yield request

    plan.day.span(first, last, lambda each: each.node == broker and each.api == "Produce" and each.acks == -1, fails)
    return Expected("isr_thrashing", broker_names(broker), ("NOT_ENOUGH_REPLICAS",), first, last, WAR_STORIES)


def follower_rebuilt(plan: Plan) -> Expected:
    """A replaced broker copies its partitions without a limit."""
    broker, (first, last), factor = plan.broker(3), plan.span(40, 150), plan.draw.uniform(60, 200)
    name = f"broker-{broker}-fetcher-0"

    def copies(request: Request) -> Iterable[Request]:
        for step in range(5):
            more = copied(request, at=request.at + step * 2.0)
            more.parts[0].bytes = int(30_000 * factor * plan.draw.uniform(0.7, 1.3))
            more.response_bytes, more.remote_us = more.parts[0].bytes + 60, 0
            yield more

    plan.day.span(first, last, lambda each: each.client.client_id == name, copies)
    return Expected("follower_rebuilt", (name, *broker_names(broker)), (), first, last, RESPONSE)


def cold_reads(plan: Plan) -> Expected:
    """One broker reads from its disk, not from memory: every fetch that returns records is slow."""
    broker, (first, last), wait_ms = plan.broker(), plan.span(20, 90), plan.draw.uniform(80, 600)

    def slow(request: Request) -> Iterable[Request]:
        if any(part.bytes for part in request.parts):
            request.local_us += int(plan.draw.uniform(0.3, 1.7) * wait_ms * 1000)
        yield request

    plan.day.span(first, last, lambda each: each.node == broker and each.api == "Fetch", slow)
    return Expected("cold_reads", broker_names(broker), ("Fetch",), first, last, PAGE_CACHE)


def commits_slow(plan: Plan) -> Expected:
    """The coordinator of a group writes slowly: commits, joins and heartbeats wait."""
    group, (first, last), wait_ms = plan.group(), plan.span(25, 100), plan.draw.uniform(200, 3000)
    broker = plan.day.coordinator(group.name)

    def waits(request: Request) -> Iterable[Request]:
        request.remote_us += int(plan.draw.uniform(0.5, 1.5) * wait_ms * 1000)
        yield request

    apis = ("OffsetCommit", "JoinGroup", "SyncGroup")
    plan.day.span(first, last, lambda each: each.node == broker and each.api in apis, waits)
    who = (*broker_names(broker), group.name, *names(group.clients))
    return Expected("commits_slow", who, ("OffsetCommit",), first, last, FAILURE_MODES)


def zone_slow(plan: Plan) -> Expected:
    """The network to one zone is slow: responses to all of its clients leave slowly."""
    (first, last), wait_ms = plan.span(25, 120), plan.draw.uniform(150, 1500)

    def waits(request: Request) -> Iterable[Request]:
        request.send_us += int(plan.draw.uniform(0.5, 1.5) * wait_ms * 1000)
        yield request

    plan.day.span(first, last, lambda each: each.client.host.startswith("10.2."), waits)
    services = [*(each.clients for each in plan.day.producers), *(each.clients for each in plan.day.groups)]
    there = [each for clients in services for each in clients if each.host.startswith("10.2.")]
    return Expected("zone_slow", ("10.2.", *names(there)), (), first, last, CHECKLIST)


def controller_stuck(plan: Plan) -> Expected:
    """The controller does not answer: each attempt to create a topic times out."""
    (first, last), draw = plan.span(15, 70), plan.draw
    who = Client("helm-hook", "User:deployer", "10.60.2.4", JAVA, "3.8.0")

    def tries() -> Iterator[Request]:
        for at in plan.day.times(draw.uniform(0.5, 1.6), first, last, follows_load=False):
            request = Request(at, who, draw.choice(plan.day.brokers), "CreateTopics", 7, resources=[("topic", "audit.trail")])
            request.error, request.remote_us = "REQUEST_TIMED_OUT", 30_000_000
            yield request

    plan.day.add(tries)
    return Expected("controller_stuck", ("helm-hook", "deployer"), ("REQUEST_TIMED_OUT", "CreateTopics"), first, last, RESPONSE)


def unclean_election(plan: Plan) -> Expected:
    """An operator lets a stale replica lead a topic: its readers are beyond the end."""
    group, at = plan.group(), plan.draw.uniform(2, 22) * HOUR_S
    topic, last = group.topics[0], at + plan.draw.uniform(90, 400)
    person = Client("adminclient-1", "User:pia", "10.77.0.31", JAVA, "3.9.0")
    _calls(plan, person, at, "IncrementalAlterConfigs", [("topic", topic)])

    def fails(request: Request) -> Iterable[Request]:
        for step in range(4):
            again = copied(request, at=request.at + step)
            for part in again.parts:
                if part.topic == topic:
                    part.error, part.bytes = "OFFSET_OUT_OF_RANGE", 0
            again.remote_us = 0
            yield again

    def reads(request: Request) -> bool:
        return request.api == "Fetch" and any(part.topic == topic for part in request.parts)

    plan.day.span(at + 2, last, reads, fails)
    who = ("pia", topic, group.name, *names(group.clients))
    return Expected("unclean_election", who, (topic, "OFFSET_OUT_OF_RANGE"), at, last, FAILURE_MODES)


def writes_time_out(plan: Plan) -> Expected:
    """Writes of a service wait for a follower until they time out, and are sent again."""
    producer, (first, last), share = plan.producer(), plan.span(20, 90), plan.draw.uniform(0.25, 0.8)

    def fails(request: Request) -> Iterable[Request]:
        if plan.draw.random() < share:
            request.parts[0].error, request.remote_us = "REQUEST_TIMED_OUT", 30_000_000
            yield request
            yield plan.day.noisy(copied(request, at=request.at + 0.1, parts=[Part(request.parts[0].topic, (0,), 1, 500)]))
        else:
            yield request

    plan.day.span(first, last, lambda each: _is_write_of(producer, each), fails)
    return Expected("writes_time_out", _who(producer), ("REQUEST_TIMED_OUT",), first, last, CHECKLIST)


def wrong_address(plan: Plan) -> Expected:
    """After a change of a listener, a service reaches the bootstrap address only: it asks for metadata, and writes nothing."""
    producer, (first, last), per_minute = plan.producer(), plan.span(40, 200), plan.draw.uniform(2, 8)
    plan.day.span(first, last, lambda each: each.client in producer.clients, lambda each: ())

    def asks(index: int) -> Iterator[Request]:
        client, node = producer.clients[index], plan.day.brokers[0]
        for at in plan.day.times(per_minute, first, last, follows_load=False):
            yield from (plan.day.noisy(each) for each in plan.day.connect(client, node, at))
            yield plan.day.noisy(Request(at + 0.02, client, node, "Metadata", 12, [Part(each, ()) for each in producer.topics]))

    for index in range(len(producer.clients)):
        plan.day.add(lambda index=index: asks(index))  # type: ignore[misc]
    return Expected("wrong_address", _who(producer), (), first, last, ADDRESSES)


def metadata_refreshed(plan: Plan) -> Expected:
    """A deployment sets a service's metadata.max.age.ms to a second or two."""
    producer, first = plan.producer(), plan.draw.uniform(5, 18) * HOUR_S
    last, per_minute = min(DAY_S, first + plan.draw.uniform(1, 5) * HOUR_S), plan.draw.uniform(30, 90)

    def asks(index: int) -> Iterator[Request]:
        client, node = producer.clients[index], plan.draw.choice(plan.day.brokers)
        for at in plan.day.times(per_minute, first, last, follows_load=False):
            yield plan.day.noisy(Request(at, client, node, "Metadata", 12, [Part(each, ()) for each in producer.topics]))

    for index in range(len(producer.clients)):
        plan.day.add(lambda index=index: asks(index))  # type: ignore[misc]
    return Expected("metadata_refreshed", _who(producer), ("Metadata", "metadata"), first, last, CONNECTIONS)


def topics_without_end(plan: Plan) -> Expected:
    """A program creates a topic for each of its users."""
    (first, last), draw = plan.span(60, 300), plan.draw
    who = Client("tenant-manager", "User:tenants", "10.61.0.8", GO, "1.17.0")

    def creates() -> Iterator[Request]:
        for number, at in enumerate(plan.day.times(draw.uniform(1, 4), first, last, follows_load=False)):
            topic: list[tuple[str, str | None]] = [("topic", f"tenant.{number:05}.events")]
            yield plan.day.noisy(Request(at, who, plan.day.brokers[0], "CreateTopics", 7, resources=topic))

    plan.day.add(creates)
    return Expected("topics_without_end", ("tenant-manager", "tenants"), ("CreateTopics", "created"), first, last, PLATFORM)


def groups_without_end(plan: Plan) -> Expected:
    """A check of a build server reads with a new group each time."""
    first, draw = plan.draw.uniform(1, 14) * HOUR_S, plan.draw
    last, topic = first + draw.uniform(2, 8) * HOUR_S, plan.topic()
    who = Client("smoke-test", "User:ci", "10.62.0.3", PYTHON, "2.0.6")

    def reads() -> Iterator[Request]:
        for number, at in enumerate(plan.day.times(draw.uniform(1, 3), first, last, follows_load=False)):
            name, node = f"smoke-{number:06x}-{draw.randrange(1 << 32):08x}", draw.choice(plan.day.brokers)
            yield from plan.day.connect(who, node, at)
            for step, api in enumerate(("JoinGroup", "SyncGroup", "Fetch", "OffsetCommit", "LeaveGroup")):
                request = plan.day.noisy(Request(at + 0.1 + step * 0.2, who, node, api, 5))
                if api == "Fetch":
                    request.parts = [Part(topic, (0,), 0, 900)]
                else:
                    request.group, request.member = name, f"smoke-test-{number}"
                yield request

    plan.day.add(reads)
    return Expected("groups_without_end", ("smoke-test", "ci"), (), first, last, COOKBOOK)


def compression_lost(plan: Plan) -> Expected:
    """After a deployment a service no longer compresses."""
    producer, first, factor = plan.producer(), plan.draw.uniform(5, 18) * HOUR_S, plan.draw.uniform(3, 6)

    def grows(request: Request) -> Iterable[Request]:
        request.parts[0].bytes = int(request.parts[0].bytes * factor)
        request.request_bytes = request.parts[0].bytes + 80
        yield request

    plan.day.span(first, DAY_S, lambda each: _is_write_of(producer, each), grows)
    return Expected("compression_lost", _who(producer), ("bytes", "larger", "size"), first, DAY_S, SMALL_BATCHES)


def records_shrank(plan: Plan) -> Expected:
    """After a deployment the records of a service are nearly empty."""
    producer, first, factor = plan.producer(), plan.draw.uniform(5, 18) * HOUR_S, plan.draw.uniform(8, 30)

    def shrinks(request: Request) -> Iterable[Request]:
        request.parts[0].bytes = 70 + int(request.parts[0].bytes / factor)
        request.request_bytes = request.parts[0].bytes + 80
        yield request

    producer.records, producer.record_bytes = max(producer.records, 20), max(producer.record_bytes, 400)
    plan.day.span(first, DAY_S, lambda each: _is_write_of(producer, each), shrinks)
    return Expected("records_shrank", _who(producer), ("bytes", "smaller", "size"), first, DAY_S, REPEATED)


def sent_again(plan: Plan) -> Expected:
    """After a broker's restart a producer sends its batches again and again for some minutes."""
    producer, (first, last) = plan.producer(), plan.span(4, 15)
    client, factor = producer.clients[0], plan.draw.randint(30, 100)

    def repeats(request: Request) -> Iterable[Request]:
        for step in range(factor):
            yield copied(request, at=request.at + step * 0.3)

    plan.day.span(first, last, lambda each: each.client is client and each.api == "Produce", repeats)
    source = "https://github.com/confluentinc/librdkafka/issues/1389"
    return Expected("sent_again", _who(producer), (), first, last, source)


def transactions_abort(plan: Plan) -> Expected:
    """After a change in a service behind it, a service aborts most of its transactions."""
    producer, (first, last), share = plan.transactional(), plan.span(60, 240), plan.draw.uniform(0.6, 1.0)

    def aborts(request: Request) -> Iterable[Request]:
        if request.transaction is not None and plan.draw.random() < share:
            request.transaction = {**request.transaction, "outcome": "aborted"}
        yield request

    plan.day.span(first, last, lambda each: each.client in producer.clients and each.api == "EndTxn", aborts)
    who = (producer.name, *names(producer.clients), *(f"{each.client_id}-tx" for each in producer.clients))
    return Expected("transactions_abort", who, ("abort",), first, last, FAILURE_MODES)


def consumer_paused(plan: Plan) -> Expected:
    """A group's members are alive and read nothing: they pause, and never resume."""
    group, (first, last) = plan.group(), plan.span(60, 300)
    plan.day.span(first, last, lambda each: each.client in group.clients and each.api == "Fetch", lambda each: ())
    source = "https://github.com/akka/alpakka-kafka/issues/353"
    return Expected("consumer_paused", _who(group), (), first, last, source)


def partition_stuck(plan: Plan) -> Expected:
    """A process no longer fetches from one of the brokers, and does everything else."""
    plan.broker(3)
    group, (first, last) = plan.group(), plan.span(120, 400)
    client = group.clients[0]
    broker = plan.day.leaders[group.owned(0)[0]]
    plan.day.span(first, last, lambda each: each.client is client and each.api == "Fetch" and each.node == broker, lambda each: ())
    source = "https://github.com/confluentinc/librdkafka/issues/2830"
    return Expected("partition_stuck", (group.name, client.client_id), (), first, last, source)


def group_shared(plan: Plan) -> Expected:
    """Another application has the same group id: it takes half of the partitions."""
    group, first = plan.group(), plan.draw.uniform(4, 17) * HOUR_S
    last, draw = min(DAY_S, first + plan.draw.uniform(1, 6) * HOUR_S), plan.draw
    other = Client("invoice-mailer-0", "User:invoice-mailer", "10.3.140.9", JAVA, "3.6.1")
    coordinator, topic = plan.day.coordinator(group.name), group.topics[0]

    def reads() -> Iterator[Request]:
        yield from plan.day.connect(other, coordinator, first)
        for index in range(len(group.clients)):
            yield from group.join(index, first + 0.1 + index * 4, 2)
        at = first + 4 * len(group.clients) + 1
        for api in ("JoinGroup", "SyncGroup"):
            request = plan.day.noisy(Request(at, other, coordinator, api, 9, group=group.name))
            request.member = "invoice-mailer-0-77"
            yield request
        for number, when in enumerate(plan.day.times(4, at + 5, last, follows_load=False)):
            api = ("Fetch", "Fetch", "Heartbeat", "OffsetCommit")[number % 4]
            part = Part(topic, (0,), 0, draw.randint(500, 9000) if api == "Fetch" else 0)
            request = Request(when, other, coordinator if api != "Fetch" else plan.day.leaders[topic, 0], api, 8)
            request.parts = [part] if api != "Heartbeat" else []
            if api != "Fetch":
                request.group, request.member, request.generation = group.name, "invoice-mailer-0-77", 2
            yield plan.day.noisy(request)

    plan.day.span(
        first, last, lambda each: each.client in group.clients and each.api == "Fetch" and draw.random() < 0.5, lambda each: ()
    )
    plan.day.add(reads)
    who = ("invoice-mailer-0", "invoice-mailer", group.name)
    return Expected("group_shared", who, (), first, last, REPEATED)


def heartbeats_too_often(plan: Plan) -> Expected:
    """A deployment sets a group's heartbeat.interval.ms far too low."""
    group, first = plan.group(), plan.draw.uniform(5, 18) * HOUR_S
    last, factor = min(DAY_S, first + plan.draw.uniform(1.5, 6) * HOUR_S), plan.draw.randint(40, 120)

    def repeats(request: Request) -> Iterable[Request]:
        for step in range(factor):
            yield copied(request, at=request.at + step * 0.4)

    plan.day.span(first, last, lambda each: each.client in group.clients and each.api == "Heartbeat", repeats)
    return Expected("heartbeats_too_often", _who(group), ("Heartbeat", "heartbeat"), first, last, CHECKLIST)


def fetches_too_small(plan: Plan) -> Expected:
    """A deployment sets a group's max.partition.fetch.bytes far too low: many fetches, each with a little."""
    group, first = plan.group(), plan.draw.uniform(5, 18) * HOUR_S
    last, factor = min(DAY_S, first + plan.draw.uniform(2, 6) * HOUR_S), plan.draw.randint(15, 40)

    def splits(request: Request) -> Iterable[Request]:
        for step in range(factor):
            one = copied(request, at=request.at + step * 0.9)
            for part in one.parts:
                part.bytes //= factor
            one.response_bytes, one.remote_us = sum(part.bytes for part in one.parts) + 60, 0
            yield one

    plan.day.span(first, last, lambda each: each.client in group.clients and each.api == "Fetch", splits)
    return Expected("fetches_too_small", _who(group), ("Fetch", "fetch"), first, last, COOKBOOK)


def misspelt_topic(plan: Plan) -> Expected:
    """A deployment has a wrong topic name, which the brokers create: the right topic is written no more."""
    producer, first = plan.producer(), plan.draw.uniform(5, 17) * HOUR_S
    last, topic = min(DAY_S, first + plan.draw.uniform(1.5, 6) * HOUR_S), producer.topics[0]
    wrong = topic.replace(".", "_")

    def errs(request: Request) -> Iterable[Request]:
        for part in request.parts:
            part.topic = wrong if part.topic == topic else part.topic
            part.partitions = (0,) if part.partitions else ()
        yield request

    plan.day.span(first, last, lambda each: each.client in producer.clients and each.api in ("Produce", "Metadata"), errs)
    return Expected("misspelt_topic", (*_who(producer), wrong), (topic, wrong), first, last, REPEATED)


def timestamps_wrong(plan: Plan) -> Expected:
    """The clock of one process is wrong: the brokers reject its records."""
    producer, (first, last), share = plan.producer(), plan.span(30, 240), plan.draw.uniform(0.4, 1.0)
    client = producer.clients[0]

    def fails(request: Request) -> Iterable[Request]:
        if plan.draw.random() < share:
            request.parts[0].error, request.parts[0].records = "INVALID_TIMESTAMP", 0
        yield request

    plan.day.span(first, last, lambda each: each.client is client and each.api == "Produce", fails)
    return Expected("timestamps_wrong", _who(producer), ("INVALID_TIMESTAMP",), first, last, CHECKLIST)


def mirror_loop(plan: Plan) -> Expected:
    """A mirror copies its own copies: each round makes topics with longer names, and more of everything."""
    first, draw = plan.draw.uniform(3, 18) * HOUR_S, plan.draw
    last, topic = first + draw.uniform(1.5, 4) * HOUR_S, plan.topic()
    who = Client("mm2-east-west", "User:mirror", "10.63.0.2", JAVA, "3.7.0")

    def writes() -> Iterator[Request]:
        at = first
        while at < last:
            into = (at - first) / (last - first)
            depth = 1 + int(into * 6)
            name = "east.west." * depth + topic
            size = draw.randint(20_000, 90_000)
            yield plan.day.noisy(
                Request(at, who, plan.day.brokers[0], "Produce", 9, [Part(name, (0,), 60, size)], request_bytes=size + 80)
            )
            at += MINUTE_S / (3 + 50 * into)

    plan.day.add(writes)
    source = "https://github.com/strimzi/strimzi-kafka-operator/issues/3249"
    return Expected("mirror_loop", ("mm2-east-west", "mirror"), (), first, last, source)


def test_data(plan: Plan) -> Expected:
    """A load test writes to a topic of the production."""
    (first, last), topic, draw = plan.span(10, 60), plan.topic(), plan.draw
    who = Client("gatling-1", "User:loadtest", "192.168.30.7", JAVA, "3.7.1")

    def writes() -> Iterator[Request]:
        yield from plan.day.connect(who, plan.day.brokers[0], first)
        for at in plan.day.times(draw.uniform(20, 60), first + 1, last, follows_load=False):
            index = draw.randrange(plan.day.topics[topic])
            size = draw.randint(600, 4000)
            part = Part(topic, (index,), 5, size)
            yield plan.day.noisy(Request(at, who, plan.day.leaders[topic, index], "Produce", 9, [part], request_bytes=size + 80))

    plan.day.add(writes)
    return Expected("test_data", ("gatling-1", "loadtest"), ("writ", "wrote", "first", "new"), first, last, COOKBOOK)


def offsets_reset(plan: Plan) -> Expected:
    """A person sets a group's offsets while the group is down."""
    group, at = plan.group(), plan.draw.uniform(1, 22) * HOUR_S
    last = at + plan.draw.uniform(240, 700)
    person = Client("adminclient-1", "User:li", "10.77.0.19", JAVA, "3.9.0")
    plan.day.span(at - 120, last, lambda each: each.client in group.clients, lambda each: ())
    node = plan.day.coordinator(group.name)

    def asks() -> Iterator[Request]:
        yield from plan.day.connect(person, node, at)
        commit = Request(at + 1, person, node, "OffsetCommit", 8, [Part(group.topics[0], (0, 1, 2))], group=group.name)
        commit.member, commit.generation = "", -1
        yield plan.day.noisy(commit)
        for index in range(len(group.clients)):
            yield from (plan.day.noisy(each) for each in group.join(index, last + index * 5, 2))

    plan.day.add(asks)
    return Expected("offsets_reset", ("li",), (group.name,), at, at + 60, RESET)


def partitions_added(plan: Plan) -> Expected:
    """A person adds partitions to a topic whose records have keys."""
    topic, at = plan.topic(), plan.draw.uniform(1, 23) * HOUR_S
    _calls(plan, Client("adminclient-1", "User:tom", "10.77.0.23", JAVA, "3.9.0"), at, "CreatePartitions", [("topic", topic)])
    return Expected("partitions_added", ("tom",), (topic,), at, at + 60, REPEATED)


def records_deleted(plan: Plan) -> Expected:
    """A script deletes a topic's records."""
    topic, at = plan.topic(), plan.draw.uniform(1, 23) * HOUR_S
    _calls(plan, Client("purge.sh", "User:gdpr-tool", "10.64.0.5", JAVA, "3.7.0"), at, "DeleteRecords", [("topic", topic)])
    return Expected("records_deleted", ("gdpr-tool",), (topic,), at, at + 60, RESPONSE)


def password_set(plan: Plan) -> Expected:
    """Somebody sets an account's password at night."""
    at, who = plan.draw.uniform(0.8, 5) * HOUR_S, Client("adminclient-1", "User:jo", "10.200.9.14", JAVA, "3.5.0")
    _calls(plan, who, at, "AlterUserScramCredentials", [("user", "User:admin")])
    return Expected("password_set", ("jo",), ("AlterUserScramCredentials",), at, at + 60, SECURITY)


def quota_wrong(plan: Plan) -> Expected:
    """A person sets a quota a thousand times too low, and a service waits."""
    producer, (first, last), wait_ms = plan.producer(), plan.span(30, 150), plan.draw.uniform(300, 3000)
    person = Client("adminclient-1", "User:eva", "10.77.0.44", JAVA, "3.9.0")
    _calls(plan, person, first - 5, "AlterClientQuotas", [("user", producer.clients[0].principal)])

    def waits(request: Request) -> Iterable[Request]:
        request.throttle_us += int(plan.draw.uniform(0.6, 1.4) * wait_ms * 1000)
        yield request

    plan.day.span(first, last, lambda each: _is_write_of(producer, each), waits)
    return Expected("quota_wrong", (*_who(producer), producer.clients[0].principal), ("throttl",), first, last, PLATFORM)


def stolen_account(plan: Plan) -> Expected:
    """A service's account writes from another network, with another library."""
    producer, (first, last), draw = plan.producer(), plan.span(20, 120), plan.draw
    thief = Client("producer-1", producer.clients[0].principal, f"10.222.4.{draw.randint(2, 250)}", PYTHON, "2.0.2")
    topic = producer.topics[0]

    def writes() -> Iterator[Request]:
        yield from plan.day.connect(thief, plan.day.brokers[0], first)
        for at in plan.day.times(draw.uniform(4, 15), first + 1, last, follows_load=False):
            index = draw.randrange(plan.day.topics[topic])
            part = Part(topic, (index,), 1, draw.randint(200, 900))
            yield plan.day.noisy(
                Request(at, thief, plan.day.leaders[topic, index], "Produce", 7, [part], request_bytes=part.bytes + 80)
            )

    plan.day.add(writes)
    return Expected("stolen_account", (thief.host, "producer-1"), ("writ", "wrote", "address", "new"), first, last, SECURITY)


def tokens_expired(plan: Plan) -> Expected:
    """The identity provider is down: when their tokens expire, several services cannot log in again."""
    services = [plan.producer() for _ in range(2)]
    (first, last), draw = plan.span(8, 40), plan.draw
    clients = [each for service in services for each in service.clients]
    plan.day.span(first, last, lambda each: each.client in clients, lambda each: ())
    per_minute = draw.uniform(1, 4) * len(clients)

    def tries() -> Iterator[Request]:
        for at in plan.day.times(per_minute, first, last, follows_load=False):
            client, node, port = draw.choice(clients), draw.choice(plan.day.brokers), draw.randint(32768, 60999)
            stranger = Client(client.client_id, "User:ANONYMOUS", client.host, client.software, client.software_version)
            yield plan.day.noisy(Request(at, stranger, node, "SaslHandshake", 1, port=port))
            yield plan.day.noisy(
                Request(at + 0.02, stranger, node, "SaslAuthenticate", 2, error="SASL_AUTHENTICATION_FAILED", port=port)
            )

    plan.day.add(tries)
    who = (*names(clients), *(each.host for each in clients), *(each.name for each in services))
    source = "https://github.com/strimzi/strimzi-kafka-oauth/issues/232"
    return Expected("tokens_expired", who, ("login", "SASL", "silent", "stop"), first, last, source)


SHAPES = (
    isr_thrashing,
    follower_rebuilt,
    cold_reads,
    commits_slow,
    zone_slow,
    controller_stuck,
    unclean_election,
    writes_time_out,
    wrong_address,
    metadata_refreshed,
    topics_without_end,
    groups_without_end,
    compression_lost,
    records_shrank,
    sent_again,
    transactions_abort,
    consumer_paused,
    partition_stuck,
    group_shared,
    heartbeats_too_often,
    fetches_too_small,
    misspelt_topic,
    timestamps_wrong,
    mirror_loop,
    test_data,
    offsets_reset,
    partitions_added,
    records_deleted,
    password_set,
    quota_wrong,
    stolen_account,
    tokens_expired,
)
