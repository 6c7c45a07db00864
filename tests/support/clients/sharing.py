"""Members of a share group that note what they get and what becomes of their acknowledgements, and what must be true of that.

A member's notes are lines: ``got TIME PARTITION:OFFSET:COUNT ...``, ``ack TIME PARTITION:OFFSET:TYPE ...`` just before it
acknowledges, and ``end TIME PARTITION ...`` with the partitions whose acknowledgements failed. Times are of the monotonic clock, in
nanoseconds.
"""

import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import AcknowledgeType, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients.clients import PROGRAMS, java_library, java_machine
from tests.support.processes import start_tied
from tests.support.share_client import RawClient, set_group_configs
from twisted_kafka.protocol.messages.share.share_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)

ACCEPT, RELEASE, REJECT = 1, 2, 3
VERSION = "4.4.0"
POLL_S = 0.2
WORK_S = 0.005
END_S = 120

Place = tuple[int, int]
"""A partition and an offset."""

PARTITIONS = 4
TOPIC, GROUP = "shared", "sharers"
SETTLED_S = 300


class Sender:
    """Sends numbered values; knows where each acknowledged one is."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 900_000, "log_level": 0}
        self._producer = Producer(settings | {"reconnect.backoff.max.ms": 200, "linger.ms": 5})
        self.places: list[tuple[int, int]] = []
        self.sent = 0

    def send(self, count: int) -> None:
        for _ in range(count):
            self._producer.produce(TOPIC, b"%d" % self.sent, partition=self.sent % PARTITIONS, on_delivery=self._delivered)
            self.sent += 1
        self._producer.poll(0)

    def _delivered(self, error: object, message: object) -> None:
        assert error is None, error
        self.places.append((message.partition(), message.offset()))  # type: ignore[attr-defined]

    def has_stored_more(self, than: int) -> bool:
        """Return whether the broker has acknowledged more than so many records."""
        self._producer.poll(0)
        return len(self.places) > than

    def flush(self) -> None:
        assert self._producer.flush(SETTLED_S) == 0


def prepare(bootstrap: str) -> None:
    """Create the topic, and let the group begin with its first record."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).values():
        future.result(30)
    let_begin_early(bootstrap)


def let_begin_early(bootstrap: str) -> None:
    """Let the group begin with the first record of its topic."""
    with RawClient(bootstrap) as client:
        set_group_configs(client, GROUP, share_auto_offset_reset="earliest", share_delivery_count_limit="10")


def lag(bootstrap: str) -> int | None:
    """Return the group's lag, or None while it is not known."""
    request = DescribeShareGroupOffsetsRequest(groups=[DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)])
    with RawClient(bootstrap) as client:
        (group,) = client.call(request, DescribeShareGroupOffsetsResponse, 1).groups
    lags = [each.lag for topic in group.topics for each in topic.partitions]
    return sum(lags) if len(lags) == PARTITIONS and min(lags) >= 0 else None


def type_of(offset: int, count: int) -> int:
    """Return how a record is acknowledged: most are accepted, some released the first time, some rejected."""
    if offset % 20 == 7:
        return REJECT
    return RELEASE if offset % 10 == 3 and count == 1 else ACCEPT


class LibrdkafkaMember:
    """A member of librdkafka on a thread."""

    def __init__(self, bootstrap: str, group_id: str, topic: str, name: str) -> None:
        self.name = name
        self.lines: list[str] = []
        self.failed: list[str] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(bootstrap, group_id, topic), daemon=True)
        self._thread.start()

    def _run(self, bootstrap: str, group_id: str, topic: str) -> None:
        settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": group_id, "client.id": self.name, "log_level": 0}
        consumer = ShareConsumer(settings | {"share.acknowledgement.mode": "explicit", "reconnect.backoff.max.ms": 200})
        consumer.subscribe([topic])
        while not self._ending.is_set():
            self._round(consumer)
        consumer.close()

    def _round(self, consumer: ShareConsumer) -> None:
        messages = [each for each in consumer.poll(POLL_S) if each.error() is None]
        if not messages:
            return
        got = [(each.partition(), each.offset(), each.delivery_count()) for each in messages]
        self._note("got", (":".join(map(str, each)) for each in got))
        time.sleep(WORK_S)
        types = [type_of(offset, count) for _, offset, count in got]
        self._note("ack", (f"{each[0]}:{each[1]}:{kind}" for each, kind in zip(got, types, strict=True)))
        for message, kind in zip(messages, types, strict=True):
            consumer.acknowledge(message, AcknowledgeType(kind))
        try:
            outcome = consumer.commit_sync(30)
        except KafkaException:
            failed = {partition for partition, _, _ in got}
        else:
            failed = {each.partition for each, error in outcome.items() if error is not None}
        self._note("end", map(str, failed))

    def _note(self, what: str, words: Iterable[str]) -> None:
        self.lines.append(" ".join([what, str(time.monotonic_ns()), *words]))

    def stop(self) -> list[str]:
        self._ending.set()
        self._thread.join(END_S)
        assert not self._thread.is_alive(), self.name
        return self.lines


class JavaMember:
    """A member of Java's KafkaShareConsumer in a process (Sharing.java)."""

    def __init__(self, bootstrap: str, group_id: str, topic: str, name: str, folder: Path, version: str = VERSION) -> None:
        self.name = name
        class_path = java_library("kafka-clients", version)
        assert class_path is not None
        self._output = folder / f"{name}.out"
        program = [*java_machine(class_path), str(PROGRAMS / "java" / "Sharing.java"), bootstrap, group_id, topic, name]
        with self._output.open("wb") as output, (folder / f"{name}.err").open("wb") as errors:
            self._process = start_tied(program, stdin=subprocess.PIPE, stdout=output, stderr=errors)

    @property
    def lines(self) -> list[str]:
        return self._output.read_text().splitlines()

    def stop(self) -> list[str]:
        self._process.communicate(b"end\n", END_S)
        assert self._process.returncode == 0, self.name
        return self.lines


class Hold(NamedTuple):
    """A record in the hands of a member: from when until when, how it was acknowledged, and whether that succeeded.

    The broker sent it after ``since_ns``, when the member got the records of its last round.
    """

    member: str
    since_ns: int
    began_ns: int
    ended_ns: int
    delivery_count: int
    type: int
    is_done: bool
    answered_ns: int


def holds_of(members: dict[str, Sequence[str]]) -> dict[Place, list[Hold]]:
    """Return the holds of each record, in the order of their begin."""
    holds: dict[Place, list[Hold]] = {}
    for name, lines in members.items():
        rounds = [lines[at : at + 3] for at in range(0, len(lines) - len(lines) % 3, 3)]
        since_ns = 0
        for got, ack, end in rounds:
            (_, began, *places), (_, ended, *types), (_, answered, *failed) = got.split(), ack.split(), end.split()
            for each, kind in zip(places, types, strict=True):
                partition, offset, count = map(int, each.split(":"))
                is_done = str(partition) not in failed
                hold = Hold(name, since_ns, int(began), int(ended), count, int(kind.split(":")[2]), is_done, int(answered))
                holds.setdefault((partition, offset), []).append(hold)
            since_ns = int(began)
    return {place: sorted(each, key=lambda hold: hold.began_ns) for place, each in holds.items()}


def faults(
    holds: dict[Place, list[Hold]], produced: Iterable[Place], kills_ns: Mapping[int, Sequence[int]], lock_ns: int
) -> list[str]:
    """Return what must not be: a record that is lost, that is delivered after its end, or that two members have at once.

    ``kills_ns`` has by partition when its leader was killed. That ends all holds: their acknowledgements may fail, or succeed
    without an answer.
    """
    found = []
    for place in produced:
        history = holds.get(place, [])
        if not history:
            found.append(f"{place} was never delivered")
        elif history[-1].type == RELEASE and history[-1].is_done:
            found.append(f"{place} was released and not delivered again: {history}")
        ends = [hold for hold in history if hold.is_done and hold.type != RELEASE]
        if len(ends) > 1:
            found.append(f"{place} was completed {len(ends)} times: {history}")
        for first, second in pairwise(history):
            if ends and second.began_ns > ends[0].answered_ns:
                found.append(f"{place} was delivered after its end: {history}")
            is_ended = any(first.since_ns < kill < second.began_ns for kill in kills_ns.get(place[0], ()))
            if second.began_ns < first.ended_ns and not is_ended and second.began_ns - first.began_ns < lock_ns:
                found.append(f"{place} was delivered to two members at once: {history}")
    return found
