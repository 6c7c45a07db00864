"""Streams of requests and the lines that they make: who sends how much of what in each minute of a day, and how long it takes."""

from __future__ import annotations

import datetime
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twisted_kafka_spark.records.kafka_names import API_KEYS
from twisted_kafka_spark.records.schema import PHASES

MINUTES = 24 * 60
Numbers = Any
"""An array of numpy."""
_FIRST_SEQUENCE = 1_700_000_000_000_000


class Topic(NamedTuple):
    """A topic, the number of its partitions, and which share of the requests goes to the last of them, however even the rest."""

    name: str
    partitions: int
    hot: float = 0.0

    def partition(self, chance: float) -> int:
        """Return the partition that a number between 0 and 1 draws."""
        if chance < self.hot:
            return self.partitions - 1
        return int(((chance - self.hot) / (1 - self.hot)) ** 1.5 * self.partitions)


class Who(NamedTuple):
    """A client: what all its lines have in common."""

    client_id: str | None
    principal: str
    software: str
    software_version: str
    listener: str = "PLAINTEXT"
    protocol: str = "PLAINTEXT"


@dataclass(slots=True, kw_only=True)
class Stream:
    """Requests of one API by one client, or, without an API, ends of transactions without a request.

    Times are medians in microseconds; `per_minute` is what is expected in each minute.
    """

    who: Who
    api: str
    version: int
    per_minute: Numbers
    connections: Sequence[str]
    """The clients' ends of its connections; each is to every broker."""
    request_bytes: int = 120
    response_bytes: int = 120
    times_us: dict[str, float] = field(default_factory=dict)
    spread: float = 0.5
    """Standard deviation of the logarithm of a time."""
    throttled_share: float = 0.0
    topics: Sequence[Topic] = ()
    popularity: float = 1.0
    """Exponent of the Zipf distribution of the stream's topics."""
    records: int = 0
    batch_bytes: int = 0
    empty_share: float = 0.0
    error: str = ""
    error_share: float = 0.0
    said: str = ""
    """Fields between topics and sequence, as JSON with a leading comma."""
    exact: bool = False
    """Whether the numbers of each minute are `per_minute` itself, not drawn around it."""
    new_connections: bool = False
    """Whether each request has a connection of its own."""

    def with_(self, **changes: Any) -> Stream:
        """Return it with other values."""
        return replace(self, **changes)


@dataclass(slots=True)
class Weather:
    """What concerns all clients: by phase and API, how many microseconds each minute adds, and what it multiplies with."""

    node_weights: Sequence[float] = (1.0,)
    """The share of each broker in the requests."""
    added_us: dict[tuple[str, str], Numbers] = field(default_factory=dict)
    factor: dict[tuple[str, str], Numbers] = field(default_factory=dict)

    def add(self, phase: str, api: str, minutes: slice, us: float) -> None:
        """Let a phase of an API take longer in these minutes, by this much on average."""
        self.added_us.setdefault((phase, api), np.zeros(MINUTES))[minutes] += us

    def multiply(self, phase: str, api: str, minutes: slice, factor: float) -> None:
        """Let a phase of an API take this many times as long in these minutes."""
        self.factor.setdefault((phase, api), np.ones(MINUTES))[minutes] *= factor


class Line(NamedTuple):
    """A line without its start: when, and what. It is of a broker, and has no number yet."""

    at_ms: int
    node: int
    rest: str


def lines_of(stream: Stream, weather: Weather, draw: np.random.Generator) -> list[Line]:
    """Return the lines of a stream."""
    counts = np.round(stream.per_minute).astype(int) if stream.exact else draw.poisson(np.maximum(stream.per_minute, 0))
    minute = np.repeat(np.arange(MINUTES), counts)
    size = len(minute)
    if not size:
        return []
    at_ms = minute * 60_000 + draw.integers(0, 60_000, size)
    times = _times(stream, minute, weather, draw)
    amounts = draw.lognormal(0, 0.35, size)
    failed = draw.random(size) < stream.error_share
    topics = _topics(stream, amounts, failed, draw)
    weights = np.array(weather.node_weights)
    node = draw.choice(np.arange(1, len(weights) + 1), size, p=weights / weights.sum()).tolist()
    if stream.new_connections:
        node = [1 + at % len(weights) for at in range(size)]  # the same for each stream of a connection
    one = draw.integers(0, max(len(stream.connections), 1), size)
    if not stream.api:
        rest = [f'"node":{node[at]},"topics":[{topics[at]}]{stream.said}' for at in range(size)]
        return [Line(*line) for line in zip(at_ms.tolist(), node, rest, strict=True)]
    identity = _identity(stream.who)
    name = f'"api":"{stream.api}","api_key":{API_KEYS[stream.api]},"version":{stream.version},"correlation_id":'
    error = f'"{stream.error}"' if stream.error else "null"
    request = (stream.request_bytes * amounts).astype(int).tolist()
    response = (stream.response_bytes * amounts).astype(int).tolist()
    phases = [times[phase].tolist() for phase in PHASES]
    total = sum(times[phase] for phase in PHASES).tolist()
    found = []
    for at in range(size):
        connection = f"{stream.connections[0]}{at}-0" if stream.new_connections else stream.connections[one[at]]
        spent = ",".join(f'"{phase}":{values[at]}' for phase, values in zip(PHASES, phases, strict=True))
        found.append(
            Line(
                int(at_ms[at]),
                node[at],
                f'"node":{node[at]},{identity[0]}"connection":"10.0.0.{node[at]}:9092-{connection}",{identity[1]}{name}{at},'
                f'"request_bytes":{request[at]},"response_bytes":{response[at]},{spent},"total_us":{total[at]},'
                f'"error":{error if failed[at] else "null"},"topics":[{topics[at]}]{stream.said}',
            )
        )
    return found


def _times(stream: Stream, minute: Numbers, weather: Weather, draw: np.random.Generator) -> dict[str, Numbers]:
    found = {}
    usual = {"request_queue_us": 22.0, "local_us": 90.0, "response_queue_us": 11.0, "send_us": 18.0, **stream.times_us}
    for phase in PHASES:
        size = len(minute)
        values = usual.get(phase, 0.0) * draw.lognormal(0, stream.spread, size)
        if phase == "throttle_us" and stream.throttled_share < 1:
            values *= draw.random(size) < stream.throttled_share
        for api in (stream.api, "*"):
            if (phase, api) in weather.factor:
                values = values * weather.factor[phase, api][minute]
            if (phase, api) in weather.added_us:
                # A mean of one: what is stated is what a minute has on average.
                values = values + weather.added_us[phase, api][minute] * draw.lognormal(-0.18, 0.6, size)
        found[phase] = values.astype(int)
    return found


def _topics(stream: Stream, amounts: Numbers, failed: Numbers, draw: np.random.Generator) -> list[str]:
    size = len(amounts)
    if not stream.topics:
        return [""] * size
    weights = 1 / np.arange(1, len(stream.topics) + 1) ** stream.popularity
    chosen = draw.choice(len(stream.topics), size, p=weights / weights.sum())
    empty = draw.random(size) < stream.empty_share
    partition = draw.random(size)
    error = f'"{stream.error}"'
    found = []
    for at, which in enumerate(chosen.tolist()):
        topic = stream.topics[which]
        moved = 0 if empty[at] or failed[at] else max(1, int(stream.batch_bytes * amounts[at])) if stream.batch_bytes else 0
        records = int(stream.records * amounts[at]) if moved else 0
        found.append(
            f'{{"topic":"{topic.name}","partitions":1,"records":{records},"bytes":{moved},'
            f'"error":{error if failed[at] else "null"},"partition_ids":[{topic.partition(partition[at])}]}}'
        )
    return found


def _identity(who: Who) -> tuple[str, str]:
    quoted = json.dumps
    return (
        f'"listener":{quoted(who.listener)},"protocol":{quoted(who.protocol)},',
        f'"principal":{quoted(who.principal)},"client_id":{quoted(who.client_id)},"software":{quoted(who.software)},'
        f'"software_version":{quoted(who.software_version)},',
    )


def write(lines: Iterable[Line], damaged: Sequence[tuple[int, str]], date: str, directory: Path) -> int:
    """Write the lines in the broker's layout, numbered by broker; return how many. `damaged`: hours with text that is no line."""
    by_file: dict[tuple[int, int], list[Line]] = defaultdict(list)
    for line in lines:
        by_file[line.at_ms // 3_600_000, line.node].append(line)
    midnight = datetime.datetime.fromisoformat(date)
    number: dict[int, int] = defaultdict(lambda: _FIRST_SEQUENCE)
    count = 0
    for (hour, node), held in sorted(by_file.items()):
        held.sort(key=lambda line: line.at_ms)
        made = []
        for line in held:
            number[node] += 1
            moment = (midnight + datetime.timedelta(milliseconds=line.at_ms)).isoformat(timespec="milliseconds")
            made.append(f'{{"v":2,"time":"{moment}Z",{line.rest},"sequence":{number[node]}}}\n')
        made += [text for at, text in damaged if at == hour]
        folder = directory / f"date={date}" / f"hour={hour:02}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"node-{node}-000001.jsonl").write_text("".join(made))
        count += len(made)
    return count
