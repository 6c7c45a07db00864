"""A day of a cluster as its operators know it: many habits, no incident, and no number taken from the findings' thresholds.

Applications with a rhythm of the day, nightly and hourly jobs, a mirror of all topics, monitoring, deployments with new instance
names, rolling restarts of brokers, short pauses, a developer's console, typing errors in passwords, changes of topics' configs.
"""

from __future__ import annotations

import datetime
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from twisted_kafka_spark.records.kafka_names import API_KEYS
from twisted_kafka_spark.records.schema import PHASES

MINUTES = 24 * 60
DAY_MS = MINUTES * 60_000
DATE = "2026-04-14"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Client:
    """Who sends requests."""

    client_id: str | None
    principal: str
    software: str = "apache-kafka-java"
    version: str = "3.7.1"
    address: str = "10.20.1.1"
    listener: str = "CLIENTS"
    protocol: str = "SASL_SSL"


@dataclass(slots=True)
class Flow:
    """Requests of one API by a client; `rate` has the expected number of each minute."""

    client: Client
    api: str
    rate: Array
    version: int = 9
    topics: tuple[tuple[str, int], ...] = ()
    bytes: float = 0.0
    empty: float = 0.0
    us: dict[str, float] = field(default_factory=dict)
    error: str = ""
    error_share: float = 1.0
    fields: str = ""
    nodes: tuple[int, ...] = ()
    """The brokers that get the requests; all of them if empty."""
    connections: int = 1
    """Connections that the requests share; 0: each has its own."""
    hot: float = 0.0
    """Share of the requests about the last partition of a topic, from minute `hot_since` on."""
    hot_since: int = 0
    addresses: tuple[str, ...] = ()
    """Addresses in place of the client's, one for each request."""


@dataclass(slots=True)
class Requests:
    """The requests of a flow, as columns that effects change before they become lines."""

    flow: Flow
    at_ms: Array
    node: Array
    us: dict[str, Array]
    bytes: Array
    failed: Array
    error: str

    @property
    def minute(self) -> Array:
        return self.at_ms // 60_000


Effect = Callable[["Requests", np.random.Generator], None]


@dataclass(slots=True)
class Day:
    """All flows of a day and what happens to their requests."""

    draw: np.random.Generator
    brokers: int
    flows: list[Flow] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    topics: list[tuple[str, int]] = field(default_factory=list)
    producers: list[Flow] = field(default_factory=list)
    consumers: list[Flow] = field(default_factory=list)
    """The flows of Fetch of consumers with a group named `<principal>-group`."""

    def add(self, *flows: Flow) -> None:
        self.flows += flows

    def lines(self) -> Iterator[tuple[int, int, str]]:
        """Yield time, broker and text of each line, in no order."""
        for flow in self.flows:
            yield from _lines(self, flow)


def constant(rate: float) -> Array:
    return np.full(MINUTES, rate)


def between(first: int, last: int, rate: float) -> Array:
    """Return a rate in the minutes from `first` to `last`, inclusive."""
    found = np.zeros(MINUTES)
    found[max(first, 0) : last + 1] = rate
    return found


def group_fields(group: str, member: str) -> str:
    return f',"group_id":"{group}","member_id":"{member}","generation":7'


def quiet(draw: np.random.Generator) -> Day:
    """Return a day without incidents."""
    brokers = int(draw.choice([1, 3, 3, 3, 5]))
    day = Day(draw, brokers)
    day.topics = [
        (f"{name}.{kind}", int(draw.choice([3, 6, 12]))) for name in _NAMES for kind in draw.choice(_KINDS, 2, replace=False)
    ]
    for rank, name in enumerate(draw.permutation(_NAMES)):
        _application(day, str(name), float(draw.uniform(1, 6)) / (1 + rank / 3))
    _habits(day)
    return day


_NAMES = ("orders", "payments", "catalog", "shipping", "users", "clicks", "pricing", "invoices")
_KINDS = ("events", "commands", "state", "audit")


def _curve(draw: np.random.Generator) -> Array:
    minute = np.arange(MINUTES)
    depth = draw.choice([0.1, 0.4, 0.7])
    wave = 1 + depth * np.sin((minute - draw.uniform(420, 600)) / MINUTES * 2 * np.pi)
    noise = np.repeat(np.exp(draw.normal(0, 0.08, MINUTES // 10)), 10)
    found: Array = wave * noise
    return found


def _application(day: Day, name: str, rate: float) -> None:
    draw, curve = day.draw, _curve(day.draw)
    software = [("apache-kafka-java", "3.7.1"), ("apache-kafka-java", "3.9.0"), ("librdkafka", "2.5.0"), ("sarama", "1.43.0")]
    library = software[int(draw.integers(4))]
    mine = [topic for topic in day.topics if topic[0].startswith(name + ".")]
    network = f"10.20.{draw.integers(1, 200)}"
    instances = int(draw.integers(1, 4))
    for instance in range(instances):
        who = Client(f"{name}-writer-{instance}", f"User:{name}", *library, f"{network}.{instance + 10}")
        size = float(draw.lognormal(np.log(5_000), 0.6))
        produce = Flow(who, "Produce", curve * rate / instances, topics=tuple(mine), bytes=size, fields=',"acks":-1')
        produce.us = {"local_us": draw.uniform(100, 400), "remote_us": draw.uniform(400, 2500)}
        day.add(produce, *_upkeep(who, draw))
        day.producers.append(produce)
    readers = draw.choice([each for each in _NAMES if each != name], int(draw.integers(1, 4)), replace=False)
    for reader in readers:
        group = f"{reader}-reads-{name}"
        for instance in range(int(draw.integers(1, 4))):
            who = Client(f"{reader}-reader-{name}-{instance}", f"User:{reader}", *library, f"10.21.{len(reader)}.{instance + 20}")
            fetch = Flow(who, "Fetch", curve * rate * draw.uniform(0.4, 1.2), 13, (mine[int(draw.integers(2))],), 12_000.0)
            fetch.empty, fetch.us = float(draw.uniform(0.05, 0.7)), {"local_us": 120, "remote_us": float(draw.choice([5e3, 2e5]))}
            said = group_fields(group, f"{who.client_id}-1")
            heart = Flow(who, "Heartbeat", constant(2), 4, us={"local_us": 25}, fields=said)
            commit = Flow(
                who, "OffsetCommit", np.minimum(fetch.rate, 12) * 0.5 + 0.5, 8, fetch.topics, us={"local_us": 150}, fields=said
            )
            day.add(fetch, commit, heart, *_upkeep(who, draw))
            day.consumers.append(fetch)


def _upkeep(who: Client, draw: np.random.Generator) -> Iterator[Flow]:
    yield Flow(who, "Metadata", constant(0.2), 12, us={"local_us": 150})
    starts = np.zeros(MINUTES)
    starts[[0, int(draw.integers(MINUTES))]] = draw.integers(1, 4)
    yield Flow(who, "ApiVersions", starts, 3, us={"local_us": 30}, connections=0)
    if who.protocol.startswith("SASL"):
        yield Flow(who, "SaslHandshake", starts, 1, us={"local_us": 30}, connections=0)
        yield Flow(who, "SaslAuthenticate", starts, 2, us={"local_us": 800}, connections=0)


def _habits(day: Day) -> None:
    draw = day.draw
    exporter = Client("kafka-exporter", "User:monitoring", "sarama", "1.43.0", "10.30.0.5")
    for api in ("Metadata", "ListOffsets", "OffsetFetch", "DescribeGroups", "DescribeConfigs"):
        day.add(Flow(exporter, api, constant(2), 5, us={"local_us": 600}))
    mirror = Client("mirror-maker-0", "User:mirror", address="10.40.0.8")
    day.add(Flow(mirror, "Fetch", constant(20), 13, tuple(day.topics), 30_000.0, 0.3, {"remote_us": 3e5}), *_upkeep(mirror, draw))
    if draw.random() < 0.7:  # a nightly job reads a topic from where it stopped
        begin, length = int(draw.integers(30, 240)), int(draw.integers(30, 120))
        job = Client("nightly-report", "User:reporting", "librdkafka", "2.5.0", "10.50.0.3")
        topic = day.topics[int(draw.integers(len(day.topics)))]
        day.add(Flow(job, "Fetch", between(begin, begin + length, 25), 13, (topic,), 40_000.0), *_upkeep(job, draw))
    if draw.random() < 0.6:  # a job at each full hour that connects anew
        cron = Client("hourly-export", "User:export", "kafka-python", "2.2.15", "10.50.0.9")
        rate = np.zeros(MINUTES)
        rate[::60] = 4
        for api, version in (("ApiVersions", 3), ("SaslHandshake", 1), ("SaslAuthenticate", 2), ("Metadata", 8)):
            day.add(Flow(cron, api, rate, version, us={"local_us": 60}, connections=0))
        day.add(Flow(cron, "Fetch", rate * 8, 11, day.topics[:1], 8_000.0, us={"remote_us": 2e4}))
    if draw.random() < 0.5:  # a developer looks at a topic
        begin = int(draw.integers(540, 1020))
        console = Client("console-consumer", "User:dev-anna", address="10.60.0.77")
        day.add(Flow(console, "Fetch", between(begin, begin + int(draw.integers(5, 30)), 8), 13, day.topics[2:3], 6_000.0, 0.5))
    if draw.random() < 0.5:  # somebody mistypes a password
        at = int(draw.integers(480, 1080))
        typist = Client("cli", "User:ANONYMOUS", address="10.60.0.78")
        rate = between(at, at + 3, 1)
        day.add(Flow(typist, "SaslAuthenticate", rate, 2, error="SASL_AUTHENTICATION_FAILED", connections=0))
    for _ in range(int(draw.integers(0, 3))):  # topics are created and their retention is changed
        at = int(draw.integers(480, 1080))
        admin = Client("terraform", "User:provisioning", "sarama", "1.43.0", "10.30.0.40")
        topic = day.topics[int(draw.integers(len(day.topics)))][0]
        said = f',"resources":[{{"type":"topic","name":"{topic}"}}]'
        day.add(Flow(admin, "IncrementalAlterConfigs", between(at, at, 2), 1, fields=said))
        day.add(Flow(admin, "CreateTopics", between(at, at, 1), 7, ((f"new.{at}", 3),)))
    for _ in range(int(draw.integers(0, 4))):  # a deployment: each member of a group leaves and joins once or twice
        _deployment(day, int(draw.integers(480, 1080)))
    for _ in range(int(draw.integers(0, 6))):  # a pause of some seconds
        day.effects.append(
            _pause(int(draw.integers(1, day.brokers + 1)), int(draw.integers(DAY_MS)), int(draw.integers(2_000, 20_000)))
        )
    if day.brokers > 1 and draw.random() < 0.35:  # a rolling restart: each broker is away for one to three minutes
        _rolling_restart(day, int(draw.integers(60, 1300)))


def _deployment(day: Day, at: int) -> None:
    consumer = day.consumers[int(day.draw.integers(len(day.consumers)))]
    who = consumer.client
    said = group_fields(f"{who.principal[5:]}-group", f"{who.client_id}-2")
    for api, version in (("LeaveGroup", 5), ("JoinGroup", 9), ("SyncGroup", 5)):
        day.add(Flow(who, api, between(at, at + 2, day.draw.uniform(0.7, 2.5)), version, us={"remote_us": 1e6}, fields=said))
    day.add(Flow(who, "Heartbeat", between(at, at + 1, 2), 4, fields=said, error="REBALANCE_IN_PROGRESS"))


def _pause(node: int, at_ms: int, length_ms: int) -> Effect:
    def effect(made: Requests, draw: np.random.Generator) -> None:
        inside = (made.node == node) & (made.at_ms >= at_ms) & (made.at_ms < at_ms + length_ms)
        made.us["request_queue_us"][inside] += (at_ms + length_ms - made.at_ms[inside]) * 1000

    return effect


def _rolling_restart(day: Day, at: int) -> None:
    for node in range(1, day.brokers + 1):
        length = int(day.draw.integers(1, 3))
        first = at + (node - 1) * 8
        day.effects.append(away(node, first, first + length - 1, day.brokers))
        for flow in day.producers:
            errors = between(first, first, float(min(flow.rate[min(first, MINUTES - 1)] / day.brokers / 3, 4)))
            day.add(replace(flow, rate=errors, error="NOT_LEADER_OR_FOLLOWER", bytes=0.0))


def away(node: int, first: int, last: int, brokers: int) -> Effect:
    """Return the effect of a broker that is away: the other brokers get its requests."""

    def effect(made: Requests, draw: np.random.Generator) -> None:
        inside = (made.node == node) & (made.minute >= first) & (made.minute <= last)
        made.node[inside] = (made.node[inside] + draw.integers(0, brokers - 1, int(inside.sum()))) % brokers + 1

    return effect


_USUAL_US = {
    "request_queue_us": 25.0,
    "local_us": 90.0,
    "remote_us": 0.0,
    "throttle_us": 0.0,
    "response_queue_us": 12.0,
    "send_us": 20.0,
}


def _lines(day: Day, flow: Flow) -> Iterator[tuple[int, int, str]]:
    draw = day.draw
    minute = np.repeat(np.arange(MINUTES), draw.poisson(flow.rate))
    size = len(minute)
    if not size:
        return
    us = {phase: ({**_USUAL_US, **flow.us}[phase] * draw.lognormal(0, 0.5, size)) for phase in PHASES}
    node = draw.choice(flow.nodes or np.arange(1, day.brokers + 1), size)
    moved = flow.bytes * draw.lognormal(0, 0.4, size) * (draw.random(size) >= flow.empty)
    failed = (draw.random(size) < flow.error_share) & bool(flow.error)
    made = Requests(flow, minute * 60_000 + draw.integers(0, 60_000, size), node, us, moved, failed, flow.error)
    for effect in day.effects:
        effect(made, draw)
    yield from _texts(made, draw)


def _texts(made: Requests, draw: np.random.Generator) -> Iterator[tuple[int, int, str]]:
    flow, who = made.flow, made.flow.client
    quoted = json.dumps
    head = f'"listener":"{who.listener}","protocol":"{who.protocol}",'
    names = (
        f'"principal":{quoted(who.principal)},"client_id":{quoted(who.client_id)},"software":"{who.software}",'
        f'"software_version":"{who.version}","api":"{flow.api}","api_key":{API_KEYS[flow.api]},"version":{flow.version},'
    )
    size = len(made.at_ms)
    which = draw.integers(0, max(len(flow.topics), 1), size)
    spread, port = draw.random(size), draw.integers(0, max(flow.connections, 1), size)
    base = zlib.crc32(f"{who.client_id} {who.principal}".encode()) % 20_000 + 30_000
    for at in range(size):
        error = f'"{made.error}"' if made.failed[at] else "null"
        topics = ""
        moved = 0 if made.failed[at] else int(made.bytes[at])
        if flow.topics:
            topic, partitions = flow.topics[which[at]]
            is_hot = flow.hot and made.at_ms[at] >= flow.hot_since * 60_000 and spread[at] < flow.hot
            partition = partitions - 1 if is_hot else int(spread[at] * 7919) % partitions
            records = moved // 300 if flow.api == "Produce" else 0
            topics = (
                f'{{"topic":"{topic}","partitions":1,"records":{records},"bytes":{moved},"error":{error},'
                f'"partition_ids":[{partition}]}}'
            )
        address = flow.addresses[at % len(flow.addresses)] if flow.addresses else who.address
        number = f"{base + port[at]}-0" if flow.connections else f"{20_000 + at % 30_000}-{at}"
        spent = ",".join(f'"{phase}":{int(made.us[phase][at])}' for phase in PHASES)
        whole = sum(int(made.us[phase][at]) for phase in PHASES)
        sent, got = (moved + 150, 70) if flow.api == "Produce" else (120, moved + 90)
        node = int(made.node[at])
        yield (
            int(made.at_ms[at]),
            node,
            f'"node":{node},{head}"connection":"10.0.0.{node}:9092-{address}:{number}",{names}"correlation_id":{at},'
            f'"request_bytes":{sent},"response_bytes":{got},{spent},"total_us":{whole},"error":{error},"topics":[{topics}]{flow.fields}',
        )


def write(day: Day, directory: Path | None) -> list[str]:
    """Return the lines of a day by time, numbered by broker; write them in the broker's layout if there is a directory."""
    midnight = datetime.datetime.fromisoformat(DATE)
    numbers: dict[int, int] = {}
    found, files = [], {}
    for at_ms, node, rest in sorted(day.lines(), key=lambda line: line[:2]):
        numbers[node] = numbers.get(node, 1_700_000_000_000_000) + 1
        moment = (midnight + datetime.timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds")
        line = f'{{"v":2,"time":"{moment}Z",{rest},"sequence":{numbers[node]}}}\n'
        found.append(line)
        files.setdefault((at_ms // 3_600_000, node), []).append(line)
    for (hour, node), lines in files.items() if directory is not None else ():
        folder = directory / f"date={DATE}" / f"hour={hour:02}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"node-{node}-000001.jsonl").write_text("".join(lines))
    return found
