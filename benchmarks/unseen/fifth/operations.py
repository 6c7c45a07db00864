"""Trouble with brokers, transactions, registries and connectors, from trackers, pull requests and case studies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchmarks.unseen.expected import Expected, Plan, names
from benchmarks.unseen.shapes import broker_names
from benchmarks.unseen.shapes_of_clients import _who
from benchmarks.unseen.shapes_of_forums import _since
from benchmarks.unseen.world import DAY_S, GO, HOUR_S, JAVA, MINUTE_S, Client, Part, Request, copied

SUPER_USERS = "https://github.com/confluentinc/cp-docker-images/issues/859"
SLOW_LOADING = "https://github.com/streamnative/kop/issues/432"
FLINK_TIMEOUT = "https://github.com/j3-signalroom/apache_flink-kickstarter/issues/787"
BACK_TO_BACK = "https://github.com/confluentinc/librdkafka/issues/3003"
RANDOM_IDS = "https://github.com/redpanda-data/docs/pull/1425"
REGISTRY = "https://github.com/confluentinc/schema-registry/issues/3910"
OLD_KEYS = "https://github.com/strimzi/strimzi-kafka-oauth/issues/120"
AUTO_RESTART = "https://github.com/strimzi/strimzi-kafka-operator/pull/9041"
TWO_OF_ONE_ID = "https://github.com/AutoMQ/automq/issues/718"
DEBUG_LOGS = "https://grokdatum.github.io/grokdevops-wiki/library/case-studies/ops-archaeology/15-cascading-debug-logs/answer_key"


def brokers_not_allowed(plan: Plan) -> Expected:
    """A broker restarts without super.users: it refuses its followers, whose copies fall behind (cp-docker-images, issue 859)."""
    leader, (first, last) = plan.broker(2), plan.span(12, 90)

    def refuses(request: Request) -> Iterable[Request]:
        for part in request.parts:
            part.bytes, part.error = 0, "TOPIC_AUTHORIZATION_FAILED"
        request.denied = ("cluster", "kafka-cluster", "ClusterAction")
        request.remote_us, request.response_bytes = 0, 60
        yield request

    def is_copying(request: Request) -> bool:
        return request.node == leader and request.api == "Fetch" and request.client.principal == "User:kafka"

    plan.day.span(first, last, is_copying, refuses)
    followers = tuple(f"broker-{each}-fetcher-0" for each in plan.day.brokers if each != leader)
    who = (*broker_names(leader), *followers, "User:kafka")
    return Expected("brokers_not_allowed", who, ("AUTHORIZATION", "denied", "refus"), first, last, SUPER_USERS)


def offsets_load_slowly(plan: Plan) -> Expected:
    """A broker restarts and reads offsets that nobody compacted for months: its groups wait for minutes (kop, issue 432)."""
    group, (first, last) = plan.group(), plan.span(8, 50)
    broker = plan.day.coordinator(group.name)
    groups = [each for each in plan.day.groups if plan.day.coordinator(each.name) == broker]
    plan.day.span(first - 40, first, lambda each: each.node == broker, lambda _: ())

    def waits(request: Request) -> Iterable[Request]:
        for at in (request.at, request.at + 3, request.at + 6):
            again = copied(request, at=at, error="COORDINATOR_LOAD_IN_PROGRESS", remote_us=0)
            again.parts = [Part(part.topic, part.partitions) for part in request.parts]
            yield plan.day.noisy(again) if at > request.at and request.api != "JoinGroup" else again

    apis = ("Heartbeat", "OffsetCommit", "JoinGroup", "SyncGroup")
    plan.day.span(first, last, lambda each: each.node == broker and each.group is not None and each.api in apis, waits)
    who = (*broker_names(broker), *(name for each in groups for name in (each.name, *names(each.clients))))
    return Expected("offsets_load_slowly", who, ("COORDINATOR_LOAD_IN_PROGRESS",), first, last, SLOW_LOADING)


def transaction_timeout_too_long(plan: Plan) -> Expected:
    """A Flink job asks for transactions of an hour, the brokers allow a quarter: it starts again and again (kickstarter, 787)."""
    (first, last), draw = plan.span(25, 400), plan.draw
    tasks = [Client(f"producer-invoice-sink-0-{each}", "User:flink", f"10.31.0.{20 + each}", JAVA, "3.4.0") for each in range(4)]
    pause = draw.uniform(10, 60)

    def starts(task: Client, number: int) -> Iterator[Request]:
        name, at = f"invoice-sink-0-{number}", first + number * 0.3
        while at < last:
            node = plan.day.coordinator(name)
            yield from plan.day.connect(task, node, at)
            asks = Request(at + 0.5, task, node, "InitProducerId", 4, error="INVALID_TRANSACTION_TIMEOUT", transaction={"id": name})
            yield plan.day.noisy(asks)
            at += pause * draw.uniform(0.95, 1.3)

    for number, task in enumerate(tasks):
        plan.day.add(lambda task=task, number=number: starts(task, number))  # type: ignore[misc]
    who = (*names(tasks), "User:flink", *(f"invoice-sink-0-{each}" for each in range(4)))
    where = ("INVALID_TRANSACTION_TIMEOUT", "InitProducerId")
    return Expected("transaction_timeout_too_long", who, where, first, last, FLINK_TIMEOUT)


def transactions_collide(plan: Plan) -> Expected:
    """Markers are written slowly: each transaction begins before the last one has ended, and asks again (librdkafka, 3003)."""
    producer, (first, last), draw = plan.transactional(), plan.span(20, 180), plan.draw

    def asks_again(request: Request) -> Iterable[Request]:
        at = request.at
        for _ in range(draw.randint(2, 12)):
            yield plan.day.noisy(copied(request, at=at, error="CONCURRENT_TRANSACTIONS"))
            at += draw.uniform(0.02, 0.4)
        request.at = at
        yield request

    def is_begun(request: Request) -> bool:
        return request.api == "AddPartitionsToTxn" and request.client in producer.clients

    plan.day.span(first, last, is_begun, asks_again)
    who = (*_who(producer), *(f"{each}-tx" for each in names(producer.clients)))
    return Expected("transactions_collide", who, ("CONCURRENT_TRANSACTIONS",), first, last, BACK_TO_BACK)


def transactional_ids_without_end(plan: Plan) -> Expected:
    """A new version draws a transactional id for each batch, and the brokers remember them for a week (Redpanda docs, 1425)."""
    producer, (first, last), draw = plan.producer(), _since(plan, 2.0, 8.0), plan.draw

    def begins(request: Request) -> Iterable[Request]:
        name = f"{producer.name}-{draw.getrandbits(64):016x}"
        client, node, id_of = request.client, plan.day.coordinator(name), {"id": name}
        parts = [Part(part.topic, part.partitions) for part in request.parts]
        yield plan.day.noisy(Request(request.at - 0.06, client, node, "InitProducerId", 4, transaction=dict(id_of)))
        yield plan.day.noisy(Request(request.at - 0.02, client, node, "AddPartitionsToTxn", 3, parts, transaction=dict(id_of)))
        request.transaction = dict(id_of)
        yield request
        end: dict[str, object] = {**id_of, "outcome": "committed", "duration_ms": draw.randint(40, 300)}
        yield plan.day.noisy(Request(request.at + 0.2, client, node, "EndTxn", 3, transaction=end))

    plan.day.span(first, last, lambda each: each.client in producer.clients and each.api == "Produce", begins)
    where = ("InitProducerId", "transactional id", "transaction")
    return Expected("transactional_ids_without_end", _who(producer), where, first, last, RANDOM_IDS)


def registry_elects_again(plan: Plan) -> Expected:
    """The schema registry's processes join their group again and again, and accept no schemas (schema-registry, issue 3910)."""
    (first, last), draw = plan.span(15, 200), plan.draw
    node = plan.day.coordinator("schema-registry")
    processes = [Client("sr-1", "User:schema-registry", f"10.8.0.{11 + each}", JAVA, "3.5.0") for each in range(2)]
    pause = draw.uniform(12, 70)

    def beats(client: Client, number: int) -> Iterator[Request]:
        yield from plan.day.connect(client, node, 20 + number)
        at, generation, member = 25.0 + number, 1, f"sr-1-{number}f06"
        while at < DAY_S:
            is_lost = first <= at < last
            for api, version in (("JoinGroup", 9), ("SyncGroup", 5)) if is_lost or generation == 1 else (("Heartbeat", 4),):
                request = plan.day.noisy(Request(at, client, node, api, version, group="schema-registry"))
                request.member, request.generation = member, generation
                yield request
                at += 3.1 if api == "JoinGroup" else 0
            generation += is_lost or generation == 1
            at += pause * draw.uniform(0.8, 1.2) if is_lost else 60 * draw.uniform(0.9, 1.1)

    for number, client in enumerate(processes):
        plan.day.add(lambda client=client, number=number: beats(client, number))  # type: ignore[misc]
    who = ("schema-registry", "sr-1", *(each.host for each in processes))
    return Expected("registry_elects_again", who, ("JoinGroup", "rebalanc", "join"), first, last, REGISTRY)


def keys_not_refreshed(plan: Plan) -> Expected:
    """The identity server has another key, and one broker refuses tokens until it asks for keys (strimzi-kafka-oauth, 120)."""
    broker, (first, last), draw = plan.broker(), plan.span(5, 60), plan.draw
    services = [*(each.clients[0] for each in plan.day.producers), *(each.clients[0] for each in plan.day.groups)]
    refused = draw.sample(services, min(len(services), draw.randint(2, 6)))
    plan.day.span(first, last, lambda each: each.node == broker and each.client in refused, lambda _: ())

    def tries(client: Client) -> Iterator[Request]:
        stranger = replace(client, principal="User:ANONYMOUS", ports={})
        for at in plan.day.times(draw.uniform(1, 10), first, last, follows_load=False):
            port = draw.randint(32768, 60999)
            yield plan.day.noisy(Request(at, stranger, broker, "ApiVersions", 3, port=port))
            yield plan.day.noisy(Request(at + 0.01, stranger, broker, "SaslHandshake", 1, port=port))
            failed = Request(at + 0.03, stranger, broker, "SaslAuthenticate", 2, error="SASL_AUTHENTICATION_FAILED", port=port)
            yield plan.day.noisy(failed)

    for client in refused:
        plan.day.add(lambda client=client: tries(client))  # type: ignore[misc]
    who = (*broker_names(broker), *names(refused), *(each.host for each in refused))
    return Expected("keys_not_refreshed", who, ("SASL", "login", "authenticat"), first, last, OLD_KEYS)


def connector_restarts(plan: Plan) -> Expected:
    """A sink fails at each start; its operator starts it after 2, 6, 12, 20, 30 and 42 minutes, and so on (Strimzi, 9041)."""
    group, first, draw = plan.group(), plan.draw.uniform(2, 17) * HOUR_S, plan.draw
    starts, wait = [first], 2
    for number in range(2, 3 + draw.randint(3, 7)):
        starts.append(starts[-1] + wait * MINUTE_S)
        wait = min(60, number * number + number)
    last, works_s = starts[-1], draw.uniform(8, 40)

    def is_down(request: Request) -> bool:
        return request.client in group.clients and not any(0 <= request.at - each < works_s for each in starts)

    plan.day.span(first, last, is_down, lambda _: ())

    def joins() -> Iterator[Request]:
        for generation, at in enumerate(starts[:-1], 2):
            for index, client in enumerate(group.clients):
                yield from plan.day.connect(client, plan.day.coordinator(group.name), at + index * 0.2)
                yield from group.join(index, at + 0.3 + index * 0.2, generation)

    plan.day.add(joins)
    who = (group.name, *names(group.clients))
    return Expected("connector_restarts", who, (), first, last, AUTO_RESTART)


def broker_id_taken(plan: Plan) -> Expected:
    """A second machine starts with the id of a living broker, is refused, and is started again by its supervisor (AutoMQ, 718)."""
    taken, (first, last), draw = plan.broker(), plan.span(30, 240), plan.draw
    second = Client(str(taken), "User:kafka", f"10.0.7.{draw.randint(2, 250)}", JAVA, "3.9.0")
    controller = plan.day.brokers[0]

    def registers() -> Iterator[Request]:
        at, pause = first, 10.0
        while at < last:
            for each in plan.day.connect(second, controller, at):
                each.listener = "CONTROLLER"
                yield each
            attempt, wait = at + 0.5, 0.4
            while attempt < at + 60:
                asks = Request(attempt, second, controller, "BrokerRegistration", 4, error="DUPLICATE_BROKER_REGISTRATION")
                asks.listener = "CONTROLLER"
                yield plan.day.noisy(asks)
                attempt, wait = attempt + wait, min(wait * 2, 15)
            at, pause = at + 62 + pause, min(pause * 2, 300)

    plan.day.add(registers)
    where = ("DUPLICATE_BROKER_REGISTRATION", "BrokerRegistration")
    return Expected("broker_id_taken", (second.host, f"broker {taken}"), where, first, last, TWO_OF_ONE_ID)


def debug_logs_shipped(plan: Plan) -> Expected:
    """Somebody leaves a log level at DEBUG: an agent ships ten to forty times its lines (GrokDevOps, "The Slow Death")."""
    (first, last), draw, topic = _since(plan, 2.0, 9.0), plan.draw, plan.day.topic("logs.raw", 6)
    agents = [Client(f"fluent-bit-{each}", "User:logging", f"10.20.0.{10 + each}", GO, "1.17.1") for each in range(3)]
    loud, factor, per_minute = agents[draw.randrange(3)], draw.uniform(10, 40), draw.uniform(0.6, 1.5)

    def ships(agent: Client) -> Iterator[Request]:
        at, known = draw.uniform(1, 60), set[int]()
        while at < DAY_S:
            share = factor**0.5 if agent is loud and first <= at < last else 1.0
            index, records = draw.randrange(6), int(draw.randint(60, 140) * share)
            node = plan.day.leaders[topic, index]
            if node not in known:
                known.add(node)
                yield from plan.day.connect(agent, node, at - 0.1)
            part = Part(topic, (index,), records, records * draw.randint(180, 260))
            yield plan.day.noisy(Request(at, agent, node, "Produce", 9, [part], acks=1, request_bytes=part.bytes + 80))
            at += MINUTE_S / (per_minute * share * max(plan.day.level(at), 0.1)) * draw.uniform(0.7, 1.3)

    for agent in agents:
        plan.day.add(lambda agent=agent: ships(agent))  # type: ignore[misc]
    who = (loud.client_id, loud.host, "User:logging", topic)
    return Expected("debug_logs_shipped", who, (), first, last, DEBUG_LOGS)


SHAPES = (
    brokers_not_allowed,
    offsets_load_slowly,
    transaction_timeout_too_long,
    transactions_collide,
    transactional_ids_without_end,
    registry_elects_again,
    keys_not_refreshed,
    connector_restarts,
    broker_id_taken,
    debug_logs_shipped,
)
