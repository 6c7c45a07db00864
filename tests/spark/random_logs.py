"""Random access logs: both versions of the line, several brokers, damaged and repeated lines, every kind of field, incidents."""

import gzip
import json
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard
from hypothesis import strategies as st

from tests.spark.access_lines import topic
from twisted_kafka_spark.records.schema import FIELDS, OUTCOMES, PHASES

APIS = (
    *("Produce", "Fetch", "Metadata", "ListOffsets", "JoinGroup", "SyncGroup", "LeaveGroup", "Heartbeat", "OffsetCommit"),
    *("ApiVersions", "SaslHandshake", "SaslAuthenticate", "InitProducerId", "AddPartitionsToTxn", "TxnOffsetCommit", "EndTxn"),
    "New",
)
ERRORS = ("NOT_LEADER_OR_FOLLOWER", "TOPIC_AUTHORIZATION_FAILED", "INVALID_PRODUCER_EPOCH", "REBALANCE_IN_PROGRESS", "NEW")
LISTENERS = (("PLAINTEXT", "PLAINTEXT"), ("SSL", "SSL"), ("CLIENTS", "SASL_SSL"), ("CLIENTS", "SASL_PLAINTEXT"))
STRANGE = (None, "", "a b", 'say "no"', "café", "back\\slash", "null", "tab\there", "名前", "\u2028", "others")
DAMAGES = (
    *("", "torn", '{"v":1,"time":"2026-11-2', "[]", "{}", "null", "\x00\x01", '{"api":"Fetch"}'),
    '{"time":"2026-11-20T08:00:00.000Z"}',
    *('{"time":"2026-02-30T08:00:00.000Z","api":"Fetch"}', '{"time":"yesterday","api":"Fetch"}', "\ufeff{}", '{"api":1,"time":2}'),
)
FIRST_NUMBER = 1000


@dataclass(frozen=True, slots=True)
class Shape:
    """What a log is drawn from."""

    seed: int
    brokers: int
    days: int
    hours: int
    clients: int
    lines: int
    """Lines of an hour of a broker, without incidents."""
    incidents: int
    damaged: float
    is_old: float
    """The share of lines of version 1."""
    has_repeats: bool


SHAPES = st.builds(
    Shape,
    seed=st.integers(0, 1 << 32),
    brokers=st.integers(1, 3),
    days=st.integers(1, 3),
    hours=st.integers(1, 2),
    clients=st.integers(1, 40),
    lines=st.integers(1, 60),
    incidents=st.integers(0, 3),
    damaged=st.sampled_from((0.0, 0.05)),
    is_old=st.sampled_from((0.0, 0.3, 1.0)),
    has_repeats=st.booleans(),
)


@dataclass(slots=True)
class RandomLog:
    """Writes the log of a shape: `date=D/hour=H/node-N-*` below a directory."""

    shape: Shape
    chosen: random.Random = field(init=False)
    sequences: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.chosen = random.Random(self.shape.seed)
        self.sequences = dict.fromkeys(range(self.shape.brokers), FIRST_NUMBER)

    def write(self, directory: Path) -> Path:
        """Write the log; return the directory."""
        first_hour = self.chosen.randrange(24 - self.shape.hours)
        for day in range(20, 20 + self.shape.days):
            for hour in range(first_hour, first_hour + self.shape.hours):
                incidents = [self._incident() for _ in range(self.shape.incidents)]
                for node in range(self.shape.brokers):
                    folder = directory / f"date=2026-11-{day}" / f"hour={hour:02}"
                    folder.mkdir(parents=True, exist_ok=True)
                    self._file(folder / f"node-{node}-{day}{hour:02}.jsonl", node, f"2026-11-{day}T{hour:02}", incidents)
        return directory

    def _file(self, path: Path, node: int, hour: str, incidents: list[dict[str, Any]]) -> None:
        texts = [self._line(node, hour, {}) for _ in range(self.shape.lines)]
        for incident in incidents:
            first = self.chosen.randrange(56)
            texts += [
                self._line(node, f"{hour}:{minute:02}", incident)
                for minute in range(first, first + 4)
                for _ in range(self.chosen.randint(20, 60))
            ]
        for at in range(len(texts) - 1, -1, -1):
            if self.chosen.random() < self.shape.damaged:
                texts.insert(at, self.chosen.choice(DAMAGES))
        content = ("\n".join(texts) + "\n").encode()
        if self.shape.has_repeats and self.chosen.random() < 0.3:
            again = path.with_name(path.name.replace("node", "copy"))
            again.write_bytes(content[: self.chosen.randint(len(content) // 2, len(content))])
        form, pack = self.chosen.choice((("", bytes), ("", bytes), (".gz", gzip.compress), (".zst", zstandard.compress)))
        path.with_name(path.name + form).write_bytes(pack(content))

    def _incident(self) -> dict[str, Any]:
        """Return the fields that the lines of an incident have in common."""
        who = self._client()
        return self.chosen.choice(
            (
                {"error": self.chosen.choice(ERRORS), "api": self.chosen.choice(APIS), **who},
                {"api": self.chosen.choice(APIS), **who},
                {self.chosen.choice(PHASES): self.chosen.randint(100_000, 10_000_000), "api": self.chosen.choice(APIS)},
                {"throttle_us": 500_000, **who},
                {"api": "SaslAuthenticate", "error": "SASL_AUTHENTICATION_FAILED", "connection": "10.0.0.1:9092-10.9.9.9:1-0"},
            )
        )

    def _client(self) -> dict[str, Any]:
        who = min(int(self.chosen.expovariate(3 / self.shape.clients)), self.shape.clients - 1)
        listener, protocol = LISTENERS[who % len(LISTENERS)]
        return {
            "listener": listener,
            "protocol": protocol,
            "connection": f"10.0.0.1:9092-10.0.1.{who}:{40_000 + self.chosen.randrange(3)}-{who}",
            "principal": f"User:{who % 7}",
            "client_id": STRANGE[who] if who < len(STRANGE) else f"client-{who}",
            "software": ("librdkafka", "apache-kafka-java", "unknown")[who % 3],
            "software_version": f"2.{who % 5}",
        }

    def _line(self, node: int, moment: str, changes: dict[str, Any]) -> str:
        chosen = self.chosen
        at = moment if len(moment) > 13 else f"{moment}:{chosen.randrange(60):02}"
        self.sequences[node] += 1
        times = {phase: int(chosen.lognormvariate(4, 2)) if chosen.random() < 0.8 else 0 for phase in PHASES}
        values: dict[str, Any] = {
            "v": 2,
            "time": f"{at}:{chosen.randrange(60):02}.{chosen.randrange(1000):03}Z",
            "node": node,
            **self._client(),
            "api": chosen.choice(APIS),
            "api_key": chosen.randrange(70),
            "version": chosen.randint(-1, 17),
            "correlation_id": chosen.randrange(1 << 31),
            "request_bytes": chosen.randrange(1 << chosen.randrange(31)),
            "response_bytes": chosen.randrange(1 << chosen.randrange(31)),
            **times,
            "throttle_us": times["throttle_us"] if chosen.random() < 0.1 else 0,
            "error": chosen.choice(ERRORS) if chosen.random() < 0.1 else None,
            "topics": [self._topic() for _ in range(int(chosen.expovariate(1)))],
            **self._more(),
            "sequence": self.sequences[node],
        } | changes
        values["total_us"] = sum(values[phase] for phase in PHASES)
        if chosen.random() < 0.05:
            values["weight"] = chosen.randint(2, 100)
        if chosen.random() < self.shape.is_old:
            self._make_old(values)
        if chosen.random() < 0.02:
            return json.dumps({name: values[name] for name in ("v", "time", "node", "topics", "sequence")} | self._ended())
        if chosen.random() < 0.02:  # not as the broker writes it: in another order, with blanks and unknown fields
            return json.dumps({"later": {"a": [1]}, **dict(sorted(values.items()))}, ensure_ascii=False)
        ordered = {each.name: values[each.name] for each in FIELDS if each.name in values}
        return json.dumps(ordered, separators=(",", ":"), ensure_ascii=chosen.random() < 0.5)

    def _topic(self) -> dict[str, Any]:
        chosen = self.chosen
        name = f"topic-{int(chosen.expovariate(0.1))}" if chosen.random() < 0.95 else chosen.choice(STRANGE[1:])
        found = topic(name, chosen.randrange(1000), chosen.choice(ERRORS) if chosen.random() < 0.05 else None)
        if chosen.random() < 0.5:
            found["partition_ids"] = [chosen.randrange(100) for _ in range(chosen.randrange(4))]
        return found

    def _more(self) -> dict[str, Any]:
        """Return fields that only some lines have."""
        chosen = self.chosen
        found: dict[str, Any] = {}
        if chosen.random() < 0.2:
            found |= {"acks": chosen.choice((-1, 0, 1))}
        if chosen.random() < 0.2:
            found |= {"group_id": f"group-{chosen.randrange(5)}", "member_id": "app-1", "generation": chosen.randint(-1, 50)}
        if chosen.random() < 0.05:
            found |= {"resources": [{"type": "user", "name": None}, {"type": "group", "name": "g"}], "resources_left_out": 1}
        if chosen.random() < 0.05:
            found |= {"topics_left_out": chosen.randrange(1, 50)}
        if chosen.random() < 0.15:
            found |= self._ended() if chosen.random() < 0.5 else {"transaction": {"id": f"tx-{chosen.randrange(6)}"}}
        return found

    def _ended(self) -> dict[str, Any]:
        name, outcome = f"tx-{self.chosen.randrange(6)}", self.chosen.choice((*OUTCOMES, "later"))
        return {"transaction": {"id": name, "outcome": outcome, "duration_ms": self.chosen.randrange(10_000)}}

    def _make_old(self, values: dict[str, Any]) -> None:
        """Leave what only version 2 has."""
        values["v"] = 1
        for name in ("acks", "group_id", "member_id", "generation", "resources", "resources_left_out"):
            values.pop(name, None)
        values["topics"] = [{name: each[name] for name in each if name != "partition_ids"} for each in values["topics"]]


def divided(log: Path, directory: Path, by: str) -> list[Path]:
    """Copy the files of a log into folders by `hour`, `day`, `broker`, or at random: `file`."""
    for path in sorted(log.rglob("*.jsonl*")):
        day, hour = path.parent.parent.name, path.parent.name
        part = {"hour": f"{day}-{hour}", "day": day, "broker": path.name[5:6], "file": str(sum(path.name.encode()) % 3)}[by]
        copy = directory / part / day / hour / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return sorted(directory.iterdir())
