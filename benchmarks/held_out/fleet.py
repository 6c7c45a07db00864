"""The usual traffic of a day: a drawn fleet of clients whose sizes, topics and habits differ, with the noise that real days have.

What is usual here is below the floors that `thresholds` states: restarts of a few clients, elections with some failing requests,
pauses of less than a minute, jobs at full hours, consumers that find nothing at night.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from benchmarks.held_out.streams import MINUTES, Numbers, Stream, Topic, Weather, Who

_SOFTWARE = (
    ("apache-kafka-java", ("3.9.0", "3.7.1", "3.5.2", "2.8.2"), 0.5),
    ("librdkafka", ("2.8.0", "2.3.0", "1.9.2"), 0.25),
    ("kafka-python", ("2.2.15", "2.0.6"), 0.1),
    ("sarama", ("1.45.0",), 0.08),
    ("unknown", ("unknown",), 0.07),
)
_NAMES = ("orders", "billing", "search", "mail", "stock", "fraud", "audit", "metrics", "clicks", "prices", "ledger", "export")
_ROLES = ("service", "worker", "sync", "agent", "loader", "api", "job")
_ELECTION = ("NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION", "REQUEST_TIMED_OUT")


@dataclass(slots=True)
class Fleet:
    """The streams of a quiet day, and what incidents need to know about it."""

    draw: np.random.Generator
    topics: list[Topic]
    streams: list[Stream] = field(default_factory=list)
    weather: Weather = field(default_factory=Weather)
    producers: list[Stream] = field(default_factory=list)
    consumers: list[Stream] = field(default_factory=list)

    def per_minute(self, api: str) -> Numbers:
        """Return how many requests of an API are expected in each minute."""
        return sum((each.per_minute for each in self.streams if each.api == api), np.zeros(MINUTES))

    def newcomer(self, name: str, *, is_known_library: bool = True) -> Who:
        """Return a client that has no other stream."""
        library, version = _library(self.draw) if is_known_library else ("unknown", "unknown")
        return Who(f"{name}-{self.draw.integers(1000)}", f"User:{name}", library, version)

    def connection(self) -> str:
        """Return a client's end of a connection."""
        octets = self.draw.integers(0, 250, 2)
        return f"10.1.{octets[0]}.{octets[1]}:{self.draw.integers(30_000, 60_000)}-{self.draw.integers(9)}"


def quiet_day(draw: np.random.Generator) -> Fleet:
    """Return a day without incidents."""
    topics = [
        Topic(
            f"{draw.choice(_NAMES)}.{draw.choice(['events', 'state', 'log', 'v1', 'dlq'])}.{at:02}", int(draw.choice([1, 3, 6, 12]))
        )
        for at in range(int(draw.integers(4, 120)))
    ]
    fleet = Fleet(draw, topics)
    fleet.weather.node_weights = tuple(draw.uniform(0.6, 1.4, int(draw.choice([1, 1, 1, 3]))))
    curve = _day_curve(draw)
    clients = int(draw.integers(6, 36))
    size = draw.uniform(3, 22)  # requests a minute of the largest client
    for rank in range(clients):
        scale = size / (rank + 1) ** draw.uniform(0.8, 1.3)
        who = _client(draw, rank)
        add = _add_producer if draw.random() < 0.5 else _add_consumer
        add(fleet, who, scale, curve, _connections(fleet))
    for _ in range(int(draw.integers(1, 4))):
        _add_monitor(fleet)
    if draw.random() < 0.6:
        _add_transactional(fleet, curve)
    _spread_topics(fleet)
    _add_noise(fleet)
    return fleet


def _spread_topics(fleet: Fleet) -> None:
    """Make the batches of the busiest topics smaller until none of them has most of what is produced."""
    while True:
        produced: dict[str, float] = {}
        for stream in fleet.producers:
            weights = 1 / np.arange(1, len(stream.topics) + 1) ** stream.popularity
            for topic, weight in zip(stream.topics, weights / weights.sum(), strict=True):
                produced[topic.name] = produced.get(topic.name, 0.0) + weight * stream.per_minute.sum() * stream.batch_bytes
        most = max(produced, key=lambda name: produced[name], default=None)
        if most is None or len(produced) < 3 or produced[most] <= 0.6 * sum(produced.values()):
            return
        for stream in fleet.producers:
            if any(topic.name == most for topic in stream.topics):
                stream.batch_bytes = max(900, stream.batch_bytes // 2)
        if all(stream.batch_bytes == 900 for stream in fleet.producers if any(topic.name == most for topic in stream.topics)):
            return


def _day_curve(draw: np.random.Generator) -> Numbers:
    minute = np.arange(MINUTES)
    depth, phase = draw.uniform(0.05, 0.6), draw.uniform(0, 2 * np.pi)
    return 1 + depth * np.sin(minute / MINUTES * 2 * np.pi + phase)


def _own_noise(draw: np.random.Generator) -> Numbers:
    """Return the factor of a client's own ups and downs, which last for minutes."""
    steps = draw.normal(0, draw.uniform(0.02, 0.12), MINUTES)
    level = np.zeros(MINUTES)
    for at in range(1, MINUTES):
        level[at] = 0.9 * level[at - 1] + steps[at]
    return np.exp(np.clip(level, -1, 0.8))


def _library(draw: np.random.Generator) -> tuple[str, str]:
    names, versions, weights = zip(*_SOFTWARE, strict=True)
    at = int(draw.choice(len(names), p=np.array(weights) / sum(weights)))
    return names[at], str(draw.choice(versions[at]))


def _client(draw: np.random.Generator, rank: int) -> Who:
    area, role = draw.choice(_NAMES), draw.choice(_ROLES)
    library, version = _library(draw)
    listener = ("SASL", "SASL_SSL") if draw.random() < 0.4 else ("PLAINTEXT", "PLAINTEXT")
    principal = f"User:{area}" if listener[0] == "SASL" else "User:ANONYMOUS"
    return Who(None if draw.random() < 0.03 else f"{area}-{role}-{rank}", principal, library, version, *listener)


def _connections(fleet: Fleet) -> list[str]:
    return [fleet.connection() for _ in range(int(fleet.draw.choice([1, 2, 3, 5, 12, 40], p=[0.35, 0.25, 0.2, 0.1, 0.07, 0.03])))]


def _some_topics(fleet: Fleet) -> list[Topic]:
    draw = fleet.draw
    count = min(len(fleet.topics), int(draw.choice([1, 1, 2, 4, 10])))
    weights = 1 / np.arange(1, len(fleet.topics) + 1) ** 0.6
    return [fleet.topics[at] for at in draw.choice(len(fleet.topics), count, replace=False, p=weights / weights.sum())]


def _common(fleet: Fleet, who: Who, connections: list[str], rate: Numbers) -> None:
    """Add what every client does now and then, and what it does when it connects."""
    draw = fleet.draw
    base = Stream(who=who, api="Metadata", version=12, per_minute=rate * 0 + draw.uniform(0.01, 0.1), connections=connections)
    base = base.with_(response_bytes=2500, times_us={"local_us": 150.0})
    fleet.streams.append(base)
    starts = np.zeros(MINUTES)
    for minute in (0, *draw.integers(0, MINUTES, int(draw.choice([0, 0, 1, 2])))):
        starts[minute] += min(len(connections), 12)
    handshake = base.with_(api="ApiVersions", version=3, per_minute=starts, response_bytes=600, times_us={"local_us": 40.0})
    fleet.streams.append(handshake)
    if who.listener == "SASL":
        fleet.streams.append(handshake.with_(api="SaslHandshake", version=1, times_us={"local_us": 30.0}))
        fleet.streams.append(handshake.with_(api="SaslAuthenticate", version=2, times_us={"local_us": 900.0}))


def _add_producer(fleet: Fleet, who: Who, scale: float, curve: Numbers, connections: list[str]) -> None:
    draw = fleet.draw
    acks = int(draw.choice([-1, -1, -1, 1]))
    batch = int(draw.lognormal(np.log(6000), 0.9)) + 900
    rate = scale * curve * _own_noise(draw)
    stream = Stream(
        who=who,
        api="Produce",
        version=int(draw.choice([7, 8, 9, 11])),
        per_minute=rate,
        connections=connections,
        request_bytes=batch + 150,
        response_bytes=70,
        times_us={"local_us": draw.uniform(90, 400), "remote_us": draw.uniform(300, 2500) if acks == -1 else 0.0},
        spread=draw.uniform(0.3, 0.8),
        topics=_some_topics(fleet),
        records=max(1, batch // int(draw.integers(80, 800))),
        batch_bytes=batch,
        error="NOT_LEADER_OR_FOLLOWER",
        error_share=float(draw.choice([0, 0, 0.0005])),
        said=f',"acks":{acks}',
    )
    fleet.streams.append(stream)
    fleet.producers.append(stream)
    if draw.random() < 0.5:
        fleet.streams.append(
            stream.with_(api="InitProducerId", version=4, per_minute=rate * 0 + 0.01, topics=(), said="", error_share=0.0)
        )
    _common(fleet, who, connections, rate)


def _add_consumer(fleet: Fleet, who: Who, scale: float, curve: Numbers, connections: list[str]) -> None:
    draw = fleet.draw
    rate = scale * curve * _own_noise(draw)
    group = f"{who.client_id or 'nameless'}-group"
    said = f',"group_id":"{group}","member_id":"{who.client_id}-{draw.integers(10**9)}","generation":{draw.integers(1, 40)}'
    topics = _some_topics(fleet)
    base = Stream(who=who, api="Fetch", version=13, per_minute=rate, connections=connections)
    fetch = base.with_(
        version=int(draw.choice([11, 12, 13, 16])),
        response_bytes=int(draw.lognormal(np.log(20_000), 1.0)) + 500,
        times_us={"local_us": draw.uniform(60, 200), "remote_us": float(draw.choice([0, 3_000, 90_000, 400_000])), "send_us": 60.0},
        spread=draw.uniform(0.3, 0.9),
        topics=topics,
        batch_bytes=int(draw.lognormal(np.log(15_000), 1.0)) + 400,
        empty_share=draw.uniform(0, 0.85),
    )
    fleet.consumers.append(fetch)
    commits = np.minimum(rate * draw.choice([0.02, 0.1, 0.3, 1.0]), 30)
    fleet.streams += [
        fetch,
        base.with_(
            api="OffsetCommit",
            version=8,
            per_minute=commits,
            topics=topics,
            said=said,
            times_us={"local_us": 160.0, "remote_us": 500.0},
        ),
        base.with_(
            api="Heartbeat", version=4, per_minute=rate * 0 + draw.uniform(0.1, 0.6), said=said, times_us={"local_us": 25.0}
        ),
        base.with_(api="ListOffsets", version=7, per_minute=rate * 0 + draw.uniform(0, 0.1), topics=topics),
        base.with_(api="OffsetFetch", version=8, per_minute=rate * 0 + 0.02, topics=topics, said=f',"group_id":"{group}"'),
        base.with_(
            api="FindCoordinator",
            version=4,
            per_minute=rate * 0 + 0.02,
            said=f',"resources":[{{"type":"group","name":"{group}"}}]',
        ),
    ]
    deploys = np.zeros(MINUTES)
    for minute in draw.integers(0, MINUTES - 3, int(draw.choice([0, 1, 1, 3]))):
        deploys[minute : minute + 2] += draw.uniform(1, 6)  # members leave and join again
    for api, version in (("JoinGroup", 9), ("SyncGroup", 5), ("LeaveGroup", 5)):
        remote = {"local_us": 90.0, "remote_us": 0.0 if api == "LeaveGroup" else 900_000.0}
        fleet.streams.append(base.with_(api=api, version=version, per_minute=deploys, said=said, times_us=remote))
    rebalancing = base.with_(
        api="Heartbeat", version=4, per_minute=deploys * 2, said=said, error="REBALANCE_IN_PROGRESS", error_share=1.0
    )
    fleet.streams.append(rebalancing)
    _common(fleet, who, connections, rate)


def _add_monitor(fleet: Fleet) -> None:
    """Add a program that asks for everything each minute or so, as exporters and user interfaces do."""
    draw = fleet.draw
    who = fleet.newcomer(str(draw.choice(["exporter", "console", "autoscaler"])))
    connections = [fleet.connection() for _ in range(2)]
    each = np.zeros(MINUTES)
    each[int(draw.integers(5)) :: int(draw.choice([1, 5, 15]))] = draw.uniform(0.5, 2)
    asked = (
        ("ListGroups", 4),
        ("DescribeGroups", 5),
        ("OffsetFetch", 8),
        ("ListOffsets", 7),
        ("DescribeConfigs", 4),
        ("Metadata", 12),
    )
    asked += ("DescribeLogDirs", 4), ("DescribeCluster", 1), ("ListTransactions", 1), ("DescribeAcls", 3)
    for api, version in asked[: int(draw.integers(3, len(asked) + 1))]:
        said = ',"resources":[{"type":"broker","name":"1"}]' if api == "DescribeConfigs" else ""
        fleet.streams.append(
            Stream(
                who=who,
                api=api,
                version=version,
                per_minute=each,
                connections=connections,
                response_bytes=9_000,
                times_us={"local_us": 700.0},
                said=said,
                topics=fleet.topics[:3] if api in ("OffsetFetch", "ListOffsets") else (),
            )
        )


def _add_transactional(fleet: Fleet, curve: Numbers) -> None:
    draw = fleet.draw
    for number in range(int(draw.integers(1, 4))):
        who = fleet.newcomer("ledger")
        transactions(
            fleet, who, f"{who.client_id}-{number}", curve * draw.uniform(0.1, 0.8), aborted_share=draw.choice([0, 0.02, 0.15])
        )


def transactions(
    fleet: Fleet,
    who: Who,
    name: str,
    per_minute: Numbers,
    *,
    aborted_share: float = 0.0,
    took_ms: float = 300.0,
    timed_out: bool = False,
) -> None:
    """Add the transactions of a transactional id. Those that time out end 60 s after their begin, in a line without a request."""
    draw, connections = fleet.draw, [fleet.connection()]
    topics = _some_topics(fleet)[:1]
    transaction = f',"transaction":{{"id":"{name}"'
    base = Stream(
        who=who,
        api="AddPartitionsToTxn",
        version=3,
        per_minute=np.zeros(MINUTES),
        connections=connections,
        times_us={"local_us": 150.0, "remote_us": 700.0},
        topics=topics,
        said=transaction + "}",
        exact=True,
    )
    counts = draw.poisson(per_minute)
    first = np.zeros(MINUTES)
    first[int(np.flatnonzero(counts)[0]) if counts.any() else 0] = 1
    fleet.streams.append(
        base.with_(api="InitProducerId", version=4, per_minute=first, topics=(), said=transaction + ',"timeout_ms":60000}')
    )
    fleet.streams.append(base.with_(per_minute=counts))
    fleet.streams.append(base.with_(api="Produce", version=9, per_minute=counts * 2, records=20, batch_bytes=3_000))
    if timed_out:
        return
    aborted = draw.binomial(counts, aborted_share)
    # They end in the next minute: their other requests are anywhere in this one.
    for outcome, ended in (("aborted", aborted), ("committed", counts - aborted)):
        later = np.concatenate(([0], ended[:-1]))
        later[-1] += ended[-1]
        said = f'{transaction},"outcome":"{outcome}","duration_ms":{int(took_ms)}}}'
        fleet.streams.append(base.with_(api="EndTxn", version=3, per_minute=later, said=said))


def _add_noise(fleet: Fleet) -> None:
    """Add what happens on days when nothing happens."""
    draw = fleet.draw
    for _ in range(int(draw.integers(0, 4))):  # an election: a few requests of a minute fail
        stream = fleet.streams[int(draw.integers(len(fleet.streams)))]
        failing = np.zeros(MINUTES)
        failing[int(draw.integers(MINUTES))] = draw.uniform(1, 9)
        fleet.streams.append(stream.with_(per_minute=failing, error=str(draw.choice(_ELECTION)), error_share=1.0, exact=False))
    for _ in range(int(draw.integers(0, 5))):  # a pause: some requests of a minute take long
        phase = str(draw.choice(["local_us", "request_queue_us", "send_us", "remote_us"]))
        minute = int(draw.integers(MINUTES))
        for api in ("Produce", "OffsetCommit", "Metadata") if phase != "send_us" else ("Fetch",):
            fleet.weather.add(phase, api, slice(minute, minute + 1), draw.uniform(500, 40_000))
    for _ in range(int(draw.integers(0, 3))):  # a slower hour: by up to a half
        start = int(draw.integers(MINUTES - 90))
        for api in ("Produce", "OffsetCommit"):
            fleet.weather.multiply("local_us", api, slice(start, start + int(draw.integers(10, 90))), draw.uniform(1.05, 1.5))
    if fleet.producers and draw.random() < 0.6:  # a job at full hours
        job = fleet.producers[int(draw.integers(len(fleet.producers)))]
        extra = np.zeros(MINUTES)
        extra[int(draw.integers(60)) :: 60 * int(draw.choice([1, 1, 4]))] = job.per_minute.mean() * draw.uniform(0.5, 2.0)
        fleet.streams.append(job.with_(per_minute=extra))
    if draw.random() < 0.4:  # somebody mistypes a password
        failed = np.zeros(MINUTES)
        failed[int(draw.integers(MINUTES))] = draw.uniform(1, 4)
        nobody = Who(f"shell-{draw.integers(99)}", "User:ANONYMOUS", "apache-kafka-java", "3.9.0", "SASL", "SASL_SSL")
        fleet.streams.append(
            Stream(
                who=nobody,
                api="SaslAuthenticate",
                version=2,
                per_minute=failed,
                connections=[fleet.connection()],
                error="SASL_AUTHENTICATION_FAILED",
                error_share=1.0,
            )
        )
