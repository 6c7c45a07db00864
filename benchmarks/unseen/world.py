"""A cluster, its clients and a day of their requests, without anything wrong.

Rates are a tenth or less of a real cluster's, so that a day has some 100,000 lines. Incidents are changes that `Day` applies to
each request, and requests that are added.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

HOUR_S, DAY_S = 3600.0, 86_400.0
MINUTE_S = 60.0
JAVA, LIBRDKAFKA, PYTHON, GO = "apache-kafka-java", "librdkafka", "kafka-python", "franz-go"


@dataclass(slots=True)
class Part:
    """What a request does with one topic."""

    topic: str
    partitions: tuple[int, ...]
    records: int = 0
    bytes: int = 0
    error: str | None = None


@dataclass(slots=True)
class Client:
    """One process: where it runs, as whom and with which library."""

    client_id: str
    principal: str
    host: str
    software: str
    software_version: str
    ports: dict[int, int] = field(default_factory=dict)
    connections: int = 0

    def port(self, node: int, draw: random.Random) -> int:
        """Return its port of the connection to a broker, which it opens on demand."""
        if node not in self.ports:
            self.connections += 1
            self.ports[node] = draw.randint(32768, 60999)
        return self.ports[node]


@dataclass(slots=True)
class Request:
    """One request; times in microseconds, `at` in seconds since midnight."""

    at: float
    client: Client
    node: int
    api: str
    version: int
    parts: list[Part] = field(default_factory=list)
    error: str | None = None
    acks: int = -1
    group: str | None = None
    member: str | None = None
    generation: int = 1
    resources: list[tuple[str, str | None]] = field(default_factory=list)
    transaction: dict[str, object] | None = None
    request_bytes: int = 120
    response_bytes: int = 90
    queue_us: int = 60
    local_us: int = 250
    remote_us: int = 0
    throttle_us: int = 0
    response_queue_us: int = 30
    send_us: int = 40
    port: int = 0
    listener: str = "CLIENTS"
    denied: tuple[str, str, str] | None = None
    """Type and name of a resource, and the operation that was refused."""


Change = Callable[[Request], Iterable[Request]]


class Day:
    """The requests of a day: each part yields its own in the order of time, and each change sees every request."""

    def __init__(self, brokers: int, seed: int, load: str = "plain") -> None:
        self.draw = random.Random(seed)
        self.brokers = list(range(1, brokers + 1))
        self.load = load
        self.topics: dict[str, int] = {}
        self.leaders: dict[tuple[str, int], int] = {}
        self.producers: list[Producer] = []
        self.groups: list[Group] = []
        self.others: list[Callable[[], Iterator[Request]]] = []
        self.changes: list[Change] = []
        self.taken: set[str] = set()

    def topic(self, name: str, partitions: int) -> str:
        self.topics[name] = partitions
        first = self.draw.randrange(len(self.brokers))
        for index in range(partitions):
            self.leaders[name, index] = self.brokers[(first + index) % len(self.brokers)]
        return name

    def coordinator(self, group: str) -> int:
        return self.brokers[sum(group.encode()) % len(self.brokers)]

    def level(self, at: float) -> float:
        """Return the load at a time, 1 on average over the day."""
        hour = at / HOUR_S
        wave = 1 + 0.55 * math.sin((hour - 9) / 24 * 2 * math.pi)
        match self.load:
            case "flat":
                return 1.0
            case "weekend":
                return 0.35 * (1 + 0.25 * math.sin((hour - 12) / 24 * 2 * math.pi))
            case "growth":
                return wave * (0.7 + 0.6 * hour / 24)
            case "office":
                return 0.15 + 1.7 * max(0.0, math.sin((hour - 7) / 12 * math.pi)) if 7 <= hour <= 19 else 0.15
        return wave

    def times(self, per_minute: float, first: float = 0.0, last: float = DAY_S, follows_load: bool = True) -> Iterator[float]:
        """Yield times at a rate, which follows the load of the day."""
        at = first + self.draw.random() * MINUTE_S / per_minute
        while at < last:
            yield at
            level = self.level(at) if follows_load else 1.0
            at += MINUTE_S / (per_minute * max(level, 0.02)) * self.draw.uniform(0.6, 1.4)

    def noisy(self, request: Request) -> Request:
        """Give a request the phases that nothing wrong gives it."""
        draw = self.draw
        request.queue_us = int(draw.lognormvariate(4.2, 0.5))
        request.response_queue_us = int(draw.lognormvariate(3.5, 0.4))
        request.send_us = int(draw.lognormvariate(3.9, 0.5)) + request.response_bytes // 2000
        base = {"Produce": 6.3, "Fetch": 5.6, "JoinGroup": 6.0, "CreateTopics": 9.0}.get(request.api, 5.3)
        request.local_us = int(draw.lognormvariate(base, 0.45)) + request.request_bytes // 400
        if request.api == "Produce" and request.acks == -1 and len(self.brokers) > 1:
            request.remote_us = int(draw.lognormvariate(7.4, 0.4))
        elif request.api == "Fetch" and not any(part.bytes for part in request.parts):
            request.remote_us = int(500_000 + draw.lognormvariate(6, 0.5))
        elif request.api == "Fetch":
            request.remote_us = int(draw.expovariate(1 / 120_000))
        elif request.api == "JoinGroup":
            request.remote_us = int(draw.uniform(20_000, 3_000_000))
        if draw.random() < 0.0015:
            request.local_us += int(draw.expovariate(1 / 60_000))
        return request

    def connect(self, client: Client, node: int, at: float) -> Iterator[Request]:
        """Yield the requests that open a connection."""
        client.ports.pop(node, None)
        yield Request(at, client, node, "ApiVersions", 3, request_bytes=60, response_bytes=400)
        if client.principal != "User:ANONYMOUS":
            yield Request(at + 0.003, client, node, "SaslHandshake", 1, request_bytes=50, response_bytes=40)
            yield Request(at + 0.006, client, node, "SaslAuthenticate", 2, request_bytes=160, response_bytes=140)
            yield Request(at + 0.009, client, node, "SaslAuthenticate", 2, request_bytes=150, response_bytes=90)

    def requests(self) -> Iterator[Request]:
        """Yield the day's requests in the order of time, changed by each change."""
        streams = [each.requests() for each in self.producers] + [each.requests() for each in self.groups]
        streams += [each() for each in self.others]
        for request in heapq.merge(*streams, key=lambda each: each.at):
            kept: list[Request] = [request]
            for change in self.changes:
                kept = [after for each in kept for after in change(each)]
            yield from kept

    def span(self, first: float, last: float, what: Callable[[Request], bool], then: Change) -> None:
        """Change the requests of a span that a condition selects."""

        def change(request: Request) -> Iterable[Request]:
            return then(request) if first <= request.at < last and what(request) else (request,)

        self.changes.append(change)

    def add(self, requests: Callable[[], Iterator[Request]]) -> None:
        """Add a stream of requests, whose times must not decrease."""
        self.others.append(requests)


@dataclass
class Producer:
    """A service that writes: its processes write each to all partitions in turn."""

    day: Day
    name: str
    topics: list[str]
    clients: list[Client]
    per_minute: float
    records: int
    record_bytes: int
    acks: int = -1
    follows_load: bool = True
    hours: tuple[float, float] = (0.0, 24.0)
    transactional: bool = False

    def requests(self) -> Iterator[Request]:
        return heapq.merge(*(self._of(client) for client in self.clients), key=lambda each: each.at)

    def _of(self, client: Client) -> Iterator[Request]:
        day, draw = self.day, self.day.draw
        known: set[int] = set()
        first, last = self.hours[0] * HOUR_S, self.hours[1] * HOUR_S
        refresh = first
        for count, at in enumerate(day.times(self.per_minute, first, last, self.follows_load)):
            topic = self.topics[count % len(self.topics)]
            partition = draw.randrange(day.topics[topic])
            node = day.leaders[topic, partition]
            if node not in known:
                known.add(node)
                yield from (day.noisy(each) for each in day.connect(client, node, at - 0.1))
            if at >= refresh:
                refresh = at + 300 * draw.uniform(0.9, 1.1)
                yield day.noisy(Request(at - 0.05, client, node, "Metadata", 12, [Part(each, ()) for each in self.topics]))
            yield from self._write(client, at, topic, partition, node, count)

    def _write(self, client: Client, at: float, topic: str, partition: int, node: int, count: int) -> Iterator[Request]:
        day, draw = self.day, self.day.draw
        records = max(1, int(draw.gauss(self.records, self.records / 4)))
        size = 70 + records * int(draw.gauss(self.record_bytes, self.record_bytes / 10))
        request = Request(at, client, node, "Produce", 9, [Part(topic, (partition,), records, size)], acks=self.acks)
        request.request_bytes, request.response_bytes = size + 80, 70
        if not self.transactional:
            yield day.noisy(request)
            return
        name = f"{client.client_id}-tx"
        coordinator = day.coordinator(name)
        yield day.noisy(
            Request(at - 0.02, client, coordinator, "AddPartitionsToTxn", 3, [Part(topic, (partition,))], transaction={"id": name})
        )
        request.transaction = {"id": name}
        yield day.noisy(request)
        end: dict[str, object] = {
            "id": name,
            "outcome": "aborted" if count % 97 == 96 else "committed",
            "duration_ms": int(draw.uniform(40, 300)),
        }
        yield day.noisy(Request(at + 0.15, client, coordinator, "EndTxn", 3, transaction=end))


@dataclass
class Group:
    """A consumer group: members fetch from the partitions that they own, commit, and send heartbeats."""

    day: Day
    name: str
    topics: list[str]
    clients: list[Client]
    fetches_per_minute: float
    commits_per_minute: float = 1.0
    heartbeats_per_minute: float = 1.0
    fetch_bytes: int = 20_000

    def owned(self, index: int) -> list[tuple[str, int]]:
        every = [(topic, part) for topic in self.topics for part in range(self.day.topics[topic])]
        return every[index :: len(self.clients)]

    def member(self, index: int) -> str:
        return f"{self.clients[index].client_id}-{abs(hash((self.name, index))) % 10**12:012d}"

    def join(self, index: int, at: float, generation: int = 1) -> Iterator[Request]:
        """Yield what a member sends to join, 3 s at most."""
        client, node = self.clients[index], self.day.coordinator(self.name)
        day = self.day
        yield day.noisy(Request(at, client, node, "FindCoordinator", 4, resources=[("group", self.name)]))
        join = day.noisy(Request(at + 0.02, client, node, "JoinGroup", 9, request_bytes=300, response_bytes=200))
        join.group, join.member, join.generation = self.name, self.member(index), generation
        yield join
        sync = day.noisy(Request(at + 3.0, client, node, "SyncGroup", 5, request_bytes=200, response_bytes=200))
        sync.group, sync.member, sync.generation = self.name, self.member(index), generation
        yield sync

    def requests(self) -> Iterator[Request]:
        return heapq.merge(*(self._of(index) for index in range(len(self.clients))), key=lambda each: each.at)

    def _of(self, index: int) -> Iterator[Request]:
        day, client, owned = self.day, self.clients[index], self.owned(index)
        coordinator = day.coordinator(self.name)
        start = day.draw.uniform(1, 50)
        for node in {coordinator, *(day.leaders[each] for each in owned)}:
            yield from (day.noisy(each) for each in day.connect(client, node, start))
        yield from self.join(index, start + 0.2)
        parts = [self._fetches(client, owned, start + 5)] if owned else []
        parts.append(self._calls(index, "Heartbeat", 4, self.heartbeats_per_minute, start + 5))
        parts.append(self._calls(index, "OffsetCommit", 8, self.commits_per_minute, start + 8))
        parts.append(self._metadata(client, coordinator, start + 5))
        yield from heapq.merge(*parts, key=lambda each: each.at)

    def _metadata(self, client: Client, node: int, first: float) -> Iterator[Request]:
        for at in self.day.times(0.2, first, follows_load=False):
            yield self.day.noisy(Request(at, client, node, "Metadata", 12, [Part(each, ()) for each in self.topics]))

    def _calls(self, index: int, api: str, version: int, per_minute: float, first: float) -> Iterator[Request]:
        node, owned = self.day.coordinator(self.name), self.owned(index)
        for at in self.day.times(per_minute, first, follows_load=False):
            request = self.day.noisy(Request(at, self.clients[index], node, api, version, group=self.name))
            request.member = self.member(index)
            if api == "OffsetCommit":
                request.parts = _parts(owned)
            yield request

    def _fetches(self, client: Client, owned: list[tuple[str, int]], first: float) -> Iterator[Request]:
        nodes = sorted({self.day.leaders[each] for each in owned})
        streams = [
            self._fetches_of(client, node, [each for each in owned if self.day.leaders[each] == node], first) for node in nodes
        ]
        yield from heapq.merge(*streams, key=lambda each: each.at)

    def _fetches_of(self, client: Client, node: int, owned: list[tuple[str, int]], first: float) -> Iterator[Request]:
        day, draw = self.day, self.day.draw
        nodes = len({day.leaders[each] for each in self.owned(self.clients.index(client))})
        for at in day.times(self.fetches_per_minute / nodes, first, follows_load=False):
            size = int(self.fetch_bytes * day.level(at) * draw.uniform(0.4, 1.6)) if draw.random() < 0.8 else 0
            parts = _parts(owned)
            parts[draw.randrange(len(parts))].bytes = size
            request = Request(at, client, node, "Fetch", 15, parts, request_bytes=110, response_bytes=size + 60)
            yield day.noisy(request)


def _parts(owned: list[tuple[str, int]]) -> list[Part]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in owned:
        by_topic.setdefault(topic, []).append(partition)
    return [Part(topic, tuple(partitions)) for topic, partitions in by_topic.items()]


SERVICES = (
    "checkout orders",
    "cart baskets",
    "ledger bookings",
    "shipping parcels",
    "search queries",
    "pricing prices",
    "stock levels",
    "signup accounts",
    "mailer mails",
    "clicks pageviews",
    "sensors readings",
    "fraud scores",
    "loyalty points",
    "returns refunds",
    "adserver impressions",
    "crm contacts",
    "telemetry spans",
    "billing invoices",
)
READERS = ("warehouse", "indexer", "notifier", "archiver", "scorer", "exporter", "enricher", "auditor", "recommender", "reporter")


def quiet(brokers: int, seed: int, load: str = "plain", scale: float = 0.35) -> Day:
    """Return a day of a cluster of a size: services that write, groups that read, scripts and the brokers themselves."""
    day = Day(brokers, seed, load)
    draw = day.draw
    names = draw.sample(SERVICES, min(len(SERVICES), 6 + brokers // 8))
    for number, name in enumerate(names):
        service, subject = name.split()
        topic = day.topic(f"{service}.{subject}", draw.choice([6, 12, 12, 24]) if brokers > 1 else draw.choice([3, 6]))
        software, version = draw.choice([(JAVA, "3.7.1"), (JAVA, "3.9.0"), (LIBRDKAFKA, "2.6.1"), (GO, "1.18.0")])
        clients = [
            Client(f"{service}-{pod}", f"User:{service}", f"10.{1 + pod % 3}.{number}.{10 + pod}", software, version)
            for pod in range(draw.choice([1, 2, 3]))
        ]
        rate = draw.choice([2.0, 4.0, 6.0, 10.0]) * scale
        day.producers.append(
            Producer(
                day,
                service,
                [topic],
                clients,
                rate,
                draw.choice([3, 20, 80, 200]),
                draw.choice([120, 400, 900]),
                draw.choice([-1, -1, -1, 1]),
            )
        )
    for number, reader in enumerate(draw.sample(READERS, min(len(READERS), 5 + brokers // 20))):
        topics = draw.sample(sorted(day.topics), draw.choice([1, 1, 2, 3]))
        software, version = draw.choice([(JAVA, "3.7.1"), (LIBRDKAFKA, "2.6.1"), (PYTHON, "2.0.6")])
        clients = [
            Client(f"{reader}-{pod}", f"User:{reader}", f"10.{1 + pod % 3}.{100 + number}.{10 + pod}", software, version)
            for pod in range(draw.choice([1, 2, 3]))
        ]
        day.groups.append(
            Group(day, f"{reader}-group", topics, clients, 4 * scale, fetch_bytes=draw.choice([3000, 40_000, 150_000]))
        )
    day.producers[-1].transactional = True
    _scripts(day)
    _brokers(day)
    return day


def _scripts(day: Day) -> None:
    exporter = Client("kafka-exporter", "User:monitoring", "10.9.0.5", "sarama", "1.43.0")
    terraform = Client("terraform", "User:terraform", "10.9.0.9", GO, "1.15.0")
    groups = [("group", group.name) for group in day.groups]

    def watch() -> Iterator[Request]:
        for at in day.times(1.0, follows_load=False):
            node = day.draw.choice(day.brokers)
            yield day.noisy(Request(at, exporter, node, "ListGroups", 4))
            yield day.noisy(Request(at + 0.1, exporter, node, "DescribeGroups", 5, resources=list(groups)))
            yield day.noisy(Request(at + 0.2, exporter, node, "ListOffsets", 7, [Part(topic, (0,)) for topic in day.topics]))

    def plan() -> Iterator[Request]:
        for at in (9.2 * HOUR_S, 14.6 * HOUR_S):
            node = day.brokers[0]
            yield from (day.noisy(each) for each in day.connect(terraform, node, at))
            yield day.noisy(Request(at + 0.5, terraform, node, "Metadata", 12, [Part(topic, ()) for topic in day.topics]))
            topics: list[tuple[str, str | None]] = [("topic", topic) for topic in day.topics]
            yield day.noisy(Request(at + 1, terraform, node, "DescribeConfigs", 4, resources=topics))

    day.add(watch)
    day.add(plan)


def _brokers(day: Day) -> None:
    """Let followers fetch."""
    if len(day.brokers) == 1:
        return

    def fetches(follower: int, leader: int) -> Iterator[Request]:
        client = Client(f"broker-{follower}-fetcher-0", "User:kafka", f"10.0.0.{follower}", JAVA, "3.9.0")
        mine = [each for each, owner in day.leaders.items() if owner == leader][:20]
        for at in day.times(2.0 if len(day.brokers) < 6 else 0.1, follows_load=False):
            parts = _parts(mine)
            if parts:
                parts[0].bytes = int(30_000 * day.level(at) * day.draw.uniform(0.5, 1.5))
            size = sum(part.bytes for part in parts)
            yield day.noisy(Request(at, client, leader, "Fetch", 16, parts, response_bytes=size + 60))

    for number, follower in enumerate(day.brokers):
        for step in (1, 2) if len(day.brokers) > 2 else (1,):
            leader = day.brokers[(number + step) % len(day.brokers)]
            day.add(lambda follower=follower, leader=leader: fetches(follower, leader))  # type: ignore[misc]


def copied(request: Request, **changes: object) -> Request:
    """Return a request with other values, and parts of its own."""
    new = replace(request, parts=[replace(part) for part in request.parts])
    for name, value in changes.items():
        setattr(new, name, value)
    return new
