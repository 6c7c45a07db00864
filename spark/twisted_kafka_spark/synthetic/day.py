"""Write a synthetic day: lines in the broker's format, one file per hour."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from twisted_kafka_spark.records.kafka_names import API_KEYS
from twisted_kafka_spark.synthetic.flows import Flow, usual_flows
from twisted_kafka_spark.synthetic.incidents import Incident
from twisted_kafka_spark.synthetic.transactions import REQUESTS, usual_transactions

MINUTES = 24 * 60
NODE = 1
PARTITIONS = 6
"""Of each topic; the first ones have most of the traffic."""
_OF_GROUPS = ("OffsetCommit", "Heartbeat", "JoinGroup", "SyncGroup", "LeaveGroup")
_POOL = 1 << 12
_MICROSECOND = 1_000_000
_TRANSACTION = ',"transaction":{%s}'
_OWN = f'"node":{NODE},"topics":[{{"topic":"%s","partitions":1,"records":0,"bytes":0,"error":null}}]'
_SPREAD = 0.45
"""Standard deviation of the logarithm of a time."""


class Day:
    """Generates the lines of a day.

    There are about `rows` lines, and those of the incidents in addition. The same seed gives the same lines.
    """

    def __init__(
        self, rows: int, incidents: Sequence[Incident] = (), *, topics: int = 40, seed: int = 1, date: str = "2026-11-20"
    ) -> None:
        self._rows_per_minute = rows / MINUTES
        self._incidents = incidents
        self._random = random.Random(seed)
        self._flows = usual_flows(topics, extra_clients=topics // 20)
        self._transactions = usual_transactions(topics)
        self._weight = sum(flow.weight for flow in self._flows) + sum(each.weight for each in self._transactions)
        self._factors = [math.exp(self._random.gauss(0, _SPREAD)) for _ in range(_POOL)]
        self._midnight = datetime.datetime.fromisoformat(date).replace(tzinfo=datetime.UTC)
        # Like the line numbers of a broker that was started at midnight.
        self._sequence = int(self._midnight.timestamp()) * _MICROSECOND

    def hours(self) -> Iterator[tuple[datetime.datetime, list[str]]]:
        """Yield the lines of each hour, in order."""
        for hour in range(24):
            lines: list[str] = []
            for minute in range(hour * 60, hour * 60 + 60):
                lines += self._minute(minute)
            yield self._midnight + datetime.timedelta(hours=hour), lines

    def write(self, directory: Path) -> int:
        """Write the files below `directory` in the broker's layout; return the number of lines."""
        count = 0
        for hour, lines in self.hours():
            folder = directory / f"date={hour:%Y-%m-%d}" / f"hour={hour:%H}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"node-{NODE}-000001.jsonl").write_text("".join(lines))
            count += len(lines)
        return count

    def _minute(self, minute: int) -> list[str]:
        busy = 1 + 0.25 * math.sin(minute / MINUTES * 2 * math.pi - 1.5)
        present = [incident for incident in self._incidents if incident.covers(minute)]
        slower = math.prod(incident.slower_writes for incident in present)
        flows = [*self._flows, *(flow for incident in present for flow in incident.flows)]
        made: list[tuple[float, str]] = []
        for flow in flows:
            expected = flow.per_minute or busy * self._rows_per_minute * flow.weight / self._weight
            for _ in range(int(expected + self._random.random())):
                at = self._random.random() * 60
                made.append((at, self._line(flow, slower)))
        for incident in (None, *present):
            made += self._of_transactions(incident, minute, busy)
        made.sort()
        start = self._midnight + datetime.timedelta(minutes=minute)
        prefix = start.strftime('{"v":2,"time":"%Y-%m-%dT%H:%M:')
        lines = []
        for at, rest in made:
            self._sequence += 1
            lines.append(f'{prefix}{at if at < 59.9995 else 59.999:06.3f}Z",{rest},"sequence":{self._sequence}}}\n')
        return lines

    def _of_transactions(self, incident: Incident | None, minute: int, busy: float) -> Iterator[tuple[float, str]]:
        """Yield the lines of the transactions of an incident, or the usual ones, in a minute."""
        is_first = minute == (incident.first_minute if incident else 0)
        for each in incident.transactions if incident else self._transactions:
            if is_first:
                flow, said = each.start()
                yield 0.0, self._line(flow, 1.0) + _TRANSACTION % said
            expected = each.per_minute or busy * self._rows_per_minute * each.weight / self._weight / REQUESTS
            for _ in range(int(expected + self._random.random())):
                factor = self._factors[int(self._random.random() * _POOL)]
                for at, request, said in each.lines(self._random, factor):
                    start = _OWN % each.topics[0] if request is None else self._line(request, 1.0)
                    yield at, start + _TRANSACTION % said

    def _line(self, flow: Flow, slower_writes: float) -> str:
        pick, factors = self._random.random, self._factors
        local = int(flow.local_us * factors[int(pick() * _POOL)] * (slower_writes if flow.api == "Produce" else 1))
        remote = int(flow.remote_us * factors[int(pick() * _POOL)])
        throttle = int(flow.throttle_us * factors[int(pick() * _POOL)])
        factor = factors[int(pick() * _POOL)]
        queue, response_queue, send = int(25 * factor), int(12 * factor), int(18 * factor)
        total = queue + local + remote + throttle + response_queue + send
        error = f'"{flow.errors[0]}"' if flow.error_share and pick() < flow.error_share else "null"
        topics = ",".join(
            f'{{"topic":"{flow.topics[int(pick() * len(flow.topics))]}","partitions":1,"records":{int(flow.records * factor)},'
            f'"bytes":{int(flow.batch_bytes * factor)},"error":{error},"partition_ids":[{int(pick() ** 2 * PARTITIONS)}]}}'
            for _ in range(flow.per_request if flow.topics else 0)
        )
        client = flow.client
        number = 40_000 + hash_of(client.client_id) % 20_000
        return (
            f'"node":{NODE},"listener":"PLAINTEXT","protocol":"PLAINTEXT",'
            f'"connection":"10.0.0.1:9092-10.0.1.{number % 200}:{number}-0","principal":"{client.principal}",'
            f'"client_id":"{client.client_id}","software":"{client.software}","software_version":"{client.software_version}",'
            f'"api":"{flow.api}","api_key":{API_KEYS[flow.api]},"version":{flow.version},"correlation_id":{int(pick() * 1e6)},'
            f'"request_bytes":{int(flow.request_bytes * factor)},"response_bytes":{int(flow.response_bytes * factor)},'
            f'"request_queue_us":{queue},"local_us":{local},"remote_us":{remote},"throttle_us":{throttle},'
            f'"response_queue_us":{response_queue},"send_us":{send},"total_us":{total},"error":{error},"topics":[{topics}]{_said(flow)}'
        )


def _said(flow: Flow) -> str:
    """Return the fields about acks and the group."""
    if flow.api == "Produce":
        return ',"acks":-1'
    if flow.api not in _OF_GROUPS:
        return ""
    name = flow.client.client_id
    return f',"group_id":"{name}","member_id":"{name}-{hash_of(name):x}","generation":{flow.version}'


def hash_of(text: str) -> int:
    """Return a hash of a text that is the same in every run."""
    value = 0
    for byte in text.encode():
        value = (value * 31 + byte) & 0x7FFFFFFF
    return value
