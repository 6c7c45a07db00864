"""Incidents of brokers, administration and security from issue trackers and post-mortems, written before any detector was read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchmarks.unseen.expected import Expected, Plan, names
from benchmarks.unseen.shapes import broker_names
from benchmarks.unseen.shapes_of_clients import _who
from benchmarks.unseen.world import DAY_S, GO, HOUR_S, JAVA, LIBRDKAFKA, MINUTE_S, PYTHON, Client, Part, Request, copied

SEGMENT_ROLL = "https://github.com/apache/kafka/pull/13782"
BURST_CREDITS = "https://shoreline.io/runbooks/aws/aws-ebs-burst-credits-exhausted"
LONDON = "https://banzaicloud.com/blog/supertubes-focal/"
BITTEN = "https://www.honeycomb.io/blog/bitten-by-a-kafka-bug-postmortem"
KAFKAPOCALYPSE = "https://blog.parse.ly/post/1738/kafkapocalypse/"
SESSIONS = "https://github.com/linkedin/Burrow/issues/621"
OLD_VERSIONS = "https://github.com/netscaler/netscaler-observability-exporter/issues/78"
LOG_DIRS = "https://github.com/cruise-control-for-kafka/cruise-control/issues/1340"
TOPIC_CHANGES = "https://www.automq.com/blog/audit-ready-topic-changes-for-regulated-streaming-platforms"
DELETION = "https://www.automq.com/blog/how-platform-teams-should-standardize-safe-topic-deletion-workflows"
AUDIT_EVENTS = "https://docs.confluent.io/cloud/current/monitoring/audit-logging/event-methods/kafka-management.html"
WEB_CONSOLE = "https://github.com/cjmamo/kafka-web-console/issues/66"


def _has_records(request: Request) -> bool:
    return any(part.bytes for part in request.parts)


def segment_rolls(plan: Plan) -> Expected:
    """Each time that a broker's segments roll, its writes wait for the flush of a file: for some seconds, every few minutes."""
    broker, (first, last), draw = plan.broker(), plan.span(150, 480), plan.draw
    every, length, wait_ms = draw.uniform(300, 700), draw.uniform(25, 50), draw.uniform(400, 1500)

    def waits(request: Request) -> Iterable[Request]:
        if (request.at - first) % every < length:
            request.local_us += int(draw.uniform(0.4, 1.3) * wait_ms * 1000)
        yield request

    plan.day.span(first, last, lambda each: each.node == broker and each.api == "Produce", waits)
    return Expected("segment_rolls", broker_names(broker), ("Produce",), first, last, SEGMENT_ROLL)


def credits_exhausted(plan: Plan) -> Expected:
    """The disk of one broker becomes slower from hour to hour, until somebody enlarges it."""
    broker, (first, last), draw = plan.broker(), plan.span(180, 420), plan.draw
    factor = draw.uniform(30, 120)

    def slows(request: Request) -> Iterable[Request]:
        into = (request.at - first) / (last - first)
        request.local_us = int(request.local_us * (1 + into * factor) * draw.uniform(0.6, 1.4))
        yield request

    plan.day.span(first, last, lambda each: each.node == broker and each.api in ("Produce", "Fetch"), slows)
    return Expected("credits_exhausted", broker_names(broker), (), first, last, BURST_CREDITS)


def packets_lost(plan: Plan) -> Expected:
    """Between one zone and one broker most packets are lost: its clients there get few answers, and connect again and again."""
    broker, (first, last), draw = plan.broker(3), plan.span(20, 75), plan.draw

    def loses(request: Request) -> Iterable[Request]:
        if draw.random() < 0.3:
            yield request
        elif draw.random() < 0.6:
            yield from (plan.day.noisy(each) for each in plan.day.connect(request.client, broker, request.at))

    plan.day.span(first, last, lambda each: each.node == broker and each.client.host.startswith("10.2."), loses)
    services = [*(each.clients for each in plan.day.producers), *(each.clients for each in plan.day.groups)]
    there = [each for clients in services for each in clients if each.host.startswith("10.2.")]
    return Expected("packets_lost", ("10.2.", *names(there), *broker_names(broker)), (), first, last, LONDON)


def isolated_leader(plan: Plan) -> Expected:
    """A broker no longer sees the others: followers do not read from it, and writes that wait for them end after 30 s."""
    broker, (first, last), draw = plan.broker(3), plan.span(25, 150), plan.draw

    def waits(request: Request) -> Iterable[Request]:
        if request.client.client_id.startswith("broker-"):
            return
        if request.api == "Produce" and request.acks == -1:
            request.parts[0].error, request.remote_us = "REQUEST_TIMED_OUT", 30_000_000
        if request.api == "Fetch" and draw.random() < 0.9:
            for part in request.parts:
                part.bytes = 0
        yield request

    plan.day.span(first, last, lambda each: each.node == broker, waits)
    return Expected("isolated_leader", broker_names(broker), ("REQUEST_TIMED_OUT",), first, last, BITTEN)


def fetcher_ended(plan: Plan) -> Expected:
    """The thread of a broker that copies from another one has ended: it serves its clients and no longer follows."""
    broker, (first, last) = plan.broker(3), plan.span(90, 500)
    name = f"broker-{broker}-fetcher-0"
    plan.day.span(first, last, lambda each: each.client.client_id == name, lambda each: ())
    source = "https://github.com/apache/kafka/pull/6716"
    return Expected("fetcher_ended", (name, *broker_names(broker)), (), first, last, source)


def replication_throttled(plan: Plan) -> Expected:
    """A throttle of a reassignment was never removed: the followers of a broker are throttled for hours."""
    broker, (first, last), draw = plan.broker(3), plan.span(120, 480), plan.draw

    def waits(request: Request) -> Iterable[Request]:
        request.throttle_us += int(draw.uniform(0.5, 1.5) * 1_500_000)
        yield request

    plan.day.span(first, last, lambda each: each.node == broker and each.client.client_id.startswith("broker-"), waits)
    followers = tuple(f"broker-{each}-fetcher-0" for each in plan.day.brokers)
    source = "https://github.com/strimzi/strimzi.github.io/pull/163"
    return Expected("replication_throttled", (*broker_names(broker), *followers), ("throttl",), first, last, source)


def coordinator_of_transactions(plan: Plan) -> Expected:
    """A service's transactions do not end: each next one is told that the last is still being completed."""
    producer, (first, last), draw = plan.transactional(), plan.span(15, 90), plan.draw

    def fails(request: Request) -> Iterable[Request]:
        if request.api == "AddPartitionsToTxn":
            for step in range(draw.randint(4, 12)):
                yield copied(request, at=request.at + step * 0.1, error="CONCURRENT_TRANSACTIONS")
        elif request.api != "EndTxn" and draw.random() < 0.2:
            yield request

    apis = ("AddPartitionsToTxn", "EndTxn", "Produce")
    plan.day.span(first, last, lambda each: each.client in producer.clients and each.api in apis, fails)
    who = (*_who(producer), *(f"{each.client_id}-tx" for each in producer.clients))
    source = "https://github.com/redpanda-data/redpanda/issues/6423"
    return Expected("coordinator_of_transactions", who, ("CONCURRENT_TRANSACTIONS",), first, last, source)


def sessions_evicted(plan: Plan) -> Expected:
    """A new lag monitor makes a fetch session for each of its reads: a broker forgets those of its readers."""
    broker, (first, last), draw = plan.broker(), plan.span(60, 300), plan.draw
    tool = Client("burrow-lag", "User:burrow-lag", "10.9.0.77", "sarama", "1.26.0")
    share, topics = draw.uniform(0.1, 0.45), list(plan.day.topics)[:4]

    def forgets(request: Request) -> Iterable[Request]:
        if draw.random() < share:
            request.error, request.remote_us = "FETCH_SESSION_ID_NOT_FOUND", 0
            for part in request.parts:
                part.bytes = 0
        yield request

    def reads() -> Iterator[Request]:
        yield from plan.day.connect(tool, broker, first)
        for at in plan.day.times(draw.uniform(12, 40), first + 1, last, follows_load=False):
            yield plan.day.noisy(Request(at, tool, broker, "Fetch", 11, [Part(each, (0,), 0, 300) for each in topics]))

    plan.day.span(first, last, lambda each: each.node == broker and each.api == "Fetch" and each.client is not tool, forgets)
    plan.day.add(reads)
    who = (*broker_names(broker), "burrow-lag")
    return Expected("sessions_evicted", who, ("FETCH_SESSION_ID_NOT_FOUND", "burrow-lag"), first, last, SESSIONS)


def versions_refused(plan: Plan) -> Expected:
    """The brokers were upgraded, and an old client is told that its version is not supported, again and again."""
    producer, (first, last), draw = plan.producer(), plan.span(40, 300), plan.draw
    plan.day.span(first, last, lambda each: each.client in producer.clients and each.version != 0, lambda each: ())
    per_minute = draw.uniform(3, 20)

    def tries(index: int) -> Iterator[Request]:
        client, node = producer.clients[index], draw.choice(plan.day.brokers)
        for at in plan.day.times(per_minute, first, last, follows_load=False):
            part = Part(producer.topics[0], (0,), 0, 900, "UNSUPPORTED_VERSION")
            yield plan.day.noisy(Request(at, client, node, "Produce", 0, [part]))

    for index in range(len(producer.clients)):
        plan.day.add(lambda index=index: tries(index))  # type: ignore[misc]
    return Expected("versions_refused", _who(producer), ("UNSUPPORTED_VERSION",), first, last, OLD_VERSIONS)


def metadata_heavy(plan: Plan) -> Expected:
    """Since a migration the cluster has many more partitions: each Metadata of everybody is large and slow."""
    first, draw = plan.draw.uniform(6, 17) * HOUR_S, plan.draw
    factor, wait_ms = draw.uniform(20, 80), draw.uniform(60, 400)

    def grows(request: Request) -> Iterable[Request]:
        request.response_bytes = int(request.response_bytes * factor)
        request.local_us += int(draw.uniform(0.5, 1.5) * wait_ms * 1000)
        yield request

    plan.day.span(first, DAY_S, lambda each: each.api == "Metadata", grows)
    where = ("slow", "latency", "longer", "larger", "bytes", " ms")
    return Expected("metadata_heavy", ("Metadata",), where, first, DAY_S, "https://github.com/redpanda-data/redpanda/issues/5065")


def storage_stalls(plan: Plan) -> Expected:
    """The shared storage stands still for one or two minutes: no broker answers, and then all answer at once."""
    (first, last), draw = plan.span(1.0, 2.5), plan.draw

    def waits(request: Request) -> Iterable[Request]:
        request.queue_us += int((last - request.at) * 1_000_000)
        request.at = last + draw.uniform(0, 4)
        yield request

    plan.day.span(first, last, lambda each: True, waits)
    every = tuple(name for each in plan.day.brokers for name in broker_names(each))
    who = ("all brokers", "every broker", "cluster", *every)
    return Expected("storage_stalls", who, (), first, last + 10, "https://news.wingman.actor/item/2496850")


def everybody_reconnects(plan: Plan) -> Expected:
    """A firewall forgets its connections: all clients connect and log in again within a minute, several times."""
    (first, last), draw = plan.span(4, 12), plan.draw
    clients = [each for service in [*plan.day.producers, *plan.day.groups] for each in service.clients]

    def connects() -> Iterator[Request]:
        at = first
        while at < last:
            for client in draw.sample(clients, len(clients)):
                for node in draw.sample(plan.day.brokers, min(3, len(plan.day.brokers))):
                    yield from (plan.day.noisy(each) for each in plan.day.connect(client, node, at))
                    at += draw.uniform(0.1, 0.6)
            at += draw.uniform(5, 30)

    plan.day.add(connects)
    who = ("clients", "connections", "logins", *names(clients))
    return Expected("everybody_reconnects", who, ("connect", "log in", "login"), first, last, KAFKAPOCALYPSE)


def directory_slow(plan: Plan) -> Expected:
    """The directory behind the logins is slow: each login of the gateways, which come and go all day, takes seconds."""
    (first, last), draw, wait_ms = plan.span(25, 120), plan.draw, plan.draw.uniform(900, 6000)
    fleet = [Client(f"edge-gw-{number:02}", "User:edge", f"10.3.77.{10 + number}", LIBRDKAFKA, "2.3.0") for number in range(12)]

    def comes() -> Iterator[Request]:
        for at in plan.day.times(2.0, follows_load=False):
            client, node = draw.choice(fleet), draw.choice(plan.day.brokers)
            yield from (plan.day.noisy(each) for each in plan.day.connect(client, node, at))
            yield plan.day.noisy(Request(at + 0.05, client, node, "Metadata", 12))

    def waits(request: Request) -> Iterable[Request]:
        request.local_us += int(draw.uniform(0.5, 1.5) * wait_ms * 1000)
        yield request

    plan.day.add(comes)
    plan.day.span(first, last, lambda each: each.api == "SaslAuthenticate", waits)
    source = "https://github.com/hortonworks/cloudbreak/pull/12964"
    return Expected("directory_slow", ("SaslAuthenticate", "edge", "login", "logins"), (), first, last, source)


def listener_lost(plan: Plan) -> Expected:
    """The load balancer of one listener is down: its partners' programs have no requests."""
    (first, last), draw = plan.span(25, 180), plan.draw
    partners = [
        Client(f"partner-{name}", f"User:partner-{name}", f"172.20.{number}.9", JAVA, "3.6.0") for number, name in enumerate("abcd")
    ]

    def writes(client: Client) -> Iterator[Request]:
        topic = plan.day.topic(f"{client.client_id}.inbox", 3)
        for at in plan.day.times(1.0, follows_load=False):
            index = draw.randrange(3)
            part = Part(topic, (index,), 4, draw.randint(800, 3000))
            yield plan.day.noisy(
                Request(
                    at,
                    client,
                    plan.day.leaders[topic, index],
                    "Produce",
                    9,
                    [part],
                    request_bytes=part.bytes + 80,
                    listener="PARTNERS",
                )
            )

    for partner in partners:
        plan.day.add(lambda partner=partner: writes(partner))  # type: ignore[misc]
    plan.day.span(first, last, lambda each: each.listener == "PARTNERS", lambda each: ())
    who = ("PARTNERS", *names(partners))
    return Expected("listener_lost", who, (), first, last, "https://github.com/twmb/franz-go/issues/716")


def slow_principal(plan: Plan) -> Expected:
    """The authorizer asks a slow service about one account: all of its requests are slow, and nobody else's."""
    producer, (first, last), draw = plan.producer(), plan.span(30, 200), plan.draw
    wait_ms = draw.uniform(150, 1200)

    def waits(request: Request) -> Iterable[Request]:
        request.local_us += int(draw.uniform(0.5, 1.5) * wait_ms * 1000)
        yield request

    plan.day.span(first, last, lambda each: each.client in producer.clients, waits)
    who = (*_who(producer), producer.clients[0].principal)
    return Expected("slow_principal", who, (), first, last, "https://github.com/streamnative/kop/pull/1999")


def rights_probed(plan: Plan) -> Expected:
    """A service's account, taken over, asks for rights that it does not have: it lists ACLs, and tries to make some."""
    service, at, draw = plan.producer(), plan.draw.uniform(1, 23) * HOUR_S, plan.draw
    thief = Client("adminclient-7", service.clients[0].principal, "10.88.1.40", JAVA, "2.8.0")

    def tries() -> Iterator[Request]:
        node = draw.choice(plan.day.brokers)
        yield from plan.day.connect(thief, node, at)
        for number, api in enumerate(("DescribeAcls", "CreateAcls", "CreateAcls", "DescribeConfigs", "CreateAcls", "AlterConfigs")):
            request = plan.day.noisy(Request(at + 2 + number * 11, thief, node, api, 2))
            request.resources = [("broker", "1")] if "Configs" in api else [("cluster", "kafka-cluster")]
            request.error = "CLUSTER_AUTHORIZATION_FAILED"
            request.denied = "cluster", "kafka-cluster", "Alter" if api != "DescribeAcls" else "Describe"
            yield request

    plan.day.add(tries)
    who = ("adminclient-7", thief.host, thief.principal)
    return Expected("rights_probed", who, ("denied", "refus", "AUTHORIZATION", "CreateAcls"), at, at + 70, AUDIT_EVENTS)


def wrong_workspace(plan: Plan) -> Expected:
    """An apply with the wrong workspace deletes half of the topics: their clients are told that there is no such topic."""
    at, draw = plan.draw.uniform(8, 20) * HOUR_S, plan.draw
    topics = {plan.topic() for _ in range(3)}
    last = at + draw.uniform(15, 60) * MINUTE_S
    person = Client("terraform", "User:terraform", "10.9.0.9", GO, "1.15.0")

    def deletes() -> Iterator[Request]:
        yield from plan.day.connect(person, plan.day.brokers[0], at)
        for number, topic in enumerate(sorted(topics)):
            yield plan.day.noisy(
                Request(at + 1 + number * 0.3, person, plan.day.brokers[0], "DeleteTopics", 5, resources=[("topic", topic)])
            )

    def fails(request: Request) -> Iterable[Request]:
        for part in request.parts:
            if part.topic in topics:
                part.error, part.bytes = "UNKNOWN_TOPIC_OR_PARTITION", 0
        yield request

    plan.day.span(at + 3, last, lambda each: each.api in ("Produce", "Fetch", "Metadata"), fails)
    plan.day.add(deletes)
    return Expected("wrong_workspace", ("terraform",), tuple(topics), at, at + 60, DELETION)


def anonymous_reader(plan: Plan) -> Expected:
    """A listener without authentication was left open: somebody reads a topic there, slowly, for hours."""
    topic, (first, last), draw = plan.topic(), plan.span(90, 400), plan.draw
    who = Client("consumer-1", "User:ANONYMOUS", f"10.201.3.{draw.randint(2, 250)}", PYTHON, "1.4.7")

    def reads() -> Iterator[Request]:
        yield from plan.day.connect(who, plan.day.brokers[0], first)
        for number, at in enumerate(plan.day.times(draw.uniform(0.7, 3), first + 1, last, follows_load=False)):
            index = number % plan.day.topics[topic]
            part = Part(topic, (index,), 0, draw.randint(5_000, 60_000))
            yield plan.day.noisy(
                Request(
                    at, who, plan.day.leaders[topic, index], "Fetch", 4, [part], response_bytes=part.bytes + 60, listener="INTERNAL"
                )
            )

    plan.day.add(reads)
    return Expected("anonymous_reader", (who.host, "ANONYMOUS", "consumer-1"), (topic, "read"), first, last, AUDIT_EVENTS)


def strange_logins(plan: Plan) -> Expected:
    """An account that has two addresses all day logs in from three other networks within an hour, and asks for little."""
    group, (first, last), draw = plan.group(), plan.span(20, 60), plan.draw
    account = group.clients[0].principal
    hosts = [f"185.220.{draw.randint(1, 250)}.7", f"91.134.{draw.randint(1, 250)}.12", f"45.9.{draw.randint(1, 250)}.3"]

    def comes() -> Iterator[Request]:
        for number, host in enumerate(hosts):
            client, node = Client("rdkafka", account, host, LIBRDKAFKA, "1.9.2"), draw.choice(plan.day.brokers)
            at = first + (last - first) * number / 3
            yield from (plan.day.noisy(each) for each in plan.day.connect(client, node, at))
            for step in range(draw.randint(2, 5)):
                yield plan.day.noisy(Request(at + 1 + step * 20, client, node, "Metadata", 4))

    plan.day.add(comes)
    return Expected("strange_logins", (*hosts, account, "rdkafka"), (), first, last, AUDIT_EVENTS)


def configs_fought_over(plan: Plan) -> Expected:
    """Two tools each set the same topic's configuration back, every few minutes, for hours."""
    topic, (first, last), draw = plan.topic(), plan.span(120, 420), plan.draw
    tools = [
        Client("topic-operator", "User:topic-operator", "10.60.0.5", JAVA, "3.8.0"),
        Client("gitops-sync", "User:gitops", "10.60.0.6", GO, "1.17.0"),
    ]

    def sets() -> Iterator[Request]:
        for number, at in enumerate(plan.day.times(draw.uniform(0.3, 0.8), first, last, follows_load=False)):
            tool = tools[number % 2]
            resources: list[tuple[str, str | None]] = [("topic", topic)]
            yield plan.day.noisy(Request(at, tool, plan.day.brokers[0], "IncrementalAlterConfigs", 1, resources=resources))

    plan.day.add(sets)
    return Expected("configs_fought_over", ("topic-operator", "gitops-sync", "gitops"), (topic,), first, last, TOPIC_CHANGES)


def elections_forced(plan: Plan) -> Expected:
    """A script asks for an election of leaders each minute, and moves them about."""
    (first, last), draw = plan.span(30, 150), plan.draw
    script = Client("leader-balancer.sh", "User:sre-bot", "10.66.0.2", JAVA, "3.5.1")

    def asks() -> Iterator[Request]:
        for at in plan.day.times(draw.uniform(0.8, 2.0), first, last, follows_load=False):
            request = plan.day.noisy(Request(at, script, plan.day.brokers[0], "ElectLeaders", 2))
            request.error = "ELECTION_NOT_NEEDED" if draw.random() < 0.6 else None
            yield request

    plan.day.add(asks)
    source = "https://www.automq.com/blog/follower-fetch-economics-latency-traffic-and-availability-signals"
    return Expected("elections_forced", ("leader-balancer.sh", "sre-bot"), ("ElectLeaders",), first, last, source)


def directories_described(plan: Plan) -> Expected:
    """A new tool asks each broker for its directories every few seconds; each answer takes seconds of a handler."""
    (first, last), draw = plan.span(45, 240), plan.draw
    tool = Client("disk-watch", "User:disk-watch", "10.9.0.31", JAVA, "3.4.0")

    def asks() -> Iterator[Request]:
        for at in plan.day.times(draw.uniform(4, 15), first, last, follows_load=False):
            request = plan.day.noisy(Request(at, tool, draw.choice(plan.day.brokers), "DescribeLogDirs", 4))
            request.local_us, request.response_bytes = int(draw.uniform(1.0, 5.0) * 1_000_000), draw.randint(200_000, 900_000)
            yield request

    plan.day.add(asks)
    return Expected("directories_described", ("disk-watch",), ("DescribeLogDirs",), first, last, LOG_DIRS)


def console_leaks(plan: Plan) -> Expected:
    """A web console makes a client for each page that is looked at: thousands of client ids, each with a connection."""
    first, draw = plan.draw.uniform(7, 14) * HOUR_S, plan.draw
    last = first + draw.uniform(2, 6) * HOUR_S

    def asks() -> Iterator[Request]:
        for number, at in enumerate(plan.day.times(draw.uniform(3, 12), first, last, follows_load=False)):
            client = Client(f"webconsole-{number}", "User:webconsole", "10.70.0.4", JAVA, "2.4.1")
            node = draw.choice(plan.day.brokers)
            yield from (plan.day.noisy(each) for each in plan.day.connect(client, node, at))
            topic = draw.choice(list(plan.day.topics))
            yield plan.day.noisy(Request(at + 0.1, client, node, "ListOffsets", 5, [Part(topic, (0,))]))

    plan.day.add(asks)
    return Expected("console_leaks", ("webconsole", "10.70.0.4"), (), first, last, WEB_CONSOLE)


def broker_emptied(plan: Plan) -> Expected:
    """A broker comes back without its disk: for an hour it copies everything, and its clients are told that it does not lead."""
    broker, (first, last), draw = plan.broker(3), plan.span(40, 120), plan.draw
    others = [each for each in plan.day.brokers if each != broker]
    name = f"broker-{broker}-fetcher-0"

    def moves(request: Request) -> Iterable[Request]:
        if request.client.client_id == name:
            for step in range(3):
                more = copied(request, at=request.at + step * 3.0, remote_us=0)
                more.parts[0].bytes = draw.randint(900_000, 1_048_576)
                more.response_bytes = more.parts[0].bytes + 60
                yield more
        elif request.node == broker and request.api in ("Produce", "Fetch"):
            if draw.random() < 0.15:
                failed = copied(request)
                for part in failed.parts:
                    part.error, part.bytes = "NOT_LEADER_OR_FOLLOWER", 0
                yield failed
            request.node = draw.choice(others)
            yield request
        else:
            yield request

    plan.day.span(first, last, lambda each: True, moves)
    return Expected("broker_emptied", (name, *broker_names(broker)), (), first, last, BITTEN)


SHAPES = (
    segment_rolls,
    credits_exhausted,
    packets_lost,
    isolated_leader,
    fetcher_ended,
    replication_throttled,
    coordinator_of_transactions,
    sessions_evicted,
    versions_refused,
    metadata_heavy,
    storage_stalls,
    everybody_reconnects,
    directory_slow,
    listener_lost,
    slow_principal,
    rights_probed,
    wrong_workspace,
    anonymous_reader,
    strange_logins,
    configs_fought_over,
    elections_forced,
    directories_described,
    console_leaks,
    broker_emptied,
)
