"""What time does to groups and to committed offsets, on Apache Kafka 3.9 and on this broker: the same answers, none too early.

Both are asked at the same time. A step that waits for something notes what was answered then, and whether its time had come.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.budget import patient
from tests.support.clients.clients import java_class_path
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.oracle.compared import running
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.groups import (
    DescribeGroupsRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from twisted_kafka.protocol.messages.coordinators.offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from twisted_kafka.tools.compare.preparation import SETTINGS
from twisted_kafka.tools.compare.scenarios.coordinators.groups import commit
from twisted_kafka.tools.compare.scenarios.coordinators.members import beating, described, joining, syncing
from twisted_kafka.tools.compare.talk import Talk

DELAY_MS = 1500
SESSION_MS = 2000
REBALANCE_MS = 4000
RETENTION_MS = 60_000
PAUSE_S = 0.05
WAIT_S = patient(120.0)
JOIN, SYNC, BEAT = 9, 5, 4
TIMES = SETTINGS | {
    "group.initial.rebalance.delay.ms": DELAY_MS,
    "group.min.session.timeout.ms": 500,
    "offsets.retention.minutes": RETENTION_MS // 60_000,
    "offsets.retention.check.interval.ms": 500,
}

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.alone]

Events = list[Any]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Apache Kafka's and this broker's."""
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"), **TIMES)  # type: ignore[arg-type]
    ours = ServedBroker(tmp_path_factory.mktemp("ours") / "data", *(f"{key}={value}" for key, value in TIMES.items()))
    with running(kafka), running(ours):
        yield kafka.port, ours.port


class Told:
    """What one broker answers, and since when a step waits."""

    def __init__(self, port: int, name: str) -> None:
        self.talk = Talk(port, name)
        self.group = self.talk.topic("group")
        self.events: Events = []
        self.since = 0.0
        deadline = time.monotonic() + WAIT_S
        nobody = JoinGroupResponse(member_id="nobody", generation_id=0)
        while self.beat(nobody).error_code != ErrorCode.UNKNOWN_MEMBER_ID:  # its coordinator may be loading
            assert time.monotonic() < deadline, "the group has no coordinator"
            time.sleep(PAUSE_S)

    def begin(self) -> None:
        self.since = time.monotonic()

    def note(self, what: str, answer: Any, after_ms: int = 0) -> None:
        """Note the answer's error, and whether ``after_ms`` have passed since ``begin``."""
        is_time = (time.monotonic() - self.since) * 1000 >= after_ms
        self.events.append((what, ErrorCode(answer.error_code).name, "in time" if is_time else "too early"))

    def join(self, talk: Talk, metadata: bytes, **times: int) -> JoinGroupResponse:
        member = self.new_id(talk, metadata, **times)
        answer: JoinGroupResponse = talk.ask(self.joining(member, metadata, **times), JOIN, note=False)
        return answer

    def new_id(self, talk: Talk, metadata: bytes, **times: int) -> str:
        answer = talk.ask(self.joining("", metadata, **times), JOIN, note=False)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        member_id: str = answer.member_id
        return member_id

    def joining(self, member: str, metadata: bytes, **times: int) -> JoinGroupRequest:
        fields = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": REBALANCE_MS, **times}
        return joining(JOIN, self.group, member, metadata, **fields)

    def sync(self, talk: Talk, member: JoinGroupResponse, **assignments: str) -> Any:
        return talk.ask(syncing(SYNC, self.group, member, **assignments), SYNC, note=False)

    def beat(self, member: JoinGroupResponse) -> Any:
        return self.talk.ask(beating(self.group, member), BEAT, note=False)

    def beat_until(self, error: ErrorCode, member: JoinGroupResponse, *others: JoinGroupResponse) -> Any:
        """Let members beat until the first one's answer is this one; return it."""
        deadline = time.monotonic() + WAIT_S
        while (answer := self.beat(member)).error_code != error:
            assert time.monotonic() < deadline, f"{error.name} was not answered, but {ErrorCode(answer.error_code).name}"
            for other in others:
                self.beat(other)
            time.sleep(PAUSE_S)
        return answer

    def members(self) -> int:
        return len(self.talk.ask(DescribeGroupsRequest(groups=[self.group]), 5, note=False).groups[0].members)


def initial_delay(told: Told) -> None:
    """The first members of a group are waited for, and a late one prolongs that."""
    one = told.new_id(told.talk, b"a")
    other = told.talk.another()
    two = told.new_id(other, b"b")
    told.begin()
    told.talk.send(told.joining(one, b"a"), JOIN)
    time.sleep(DELAY_MS / 2000)
    other.send(told.joining(two, b"b"), JOIN)
    first = told.talk.receive(JoinGroupRequest, JOIN, note=False)
    told.note("the first one joins", first, DELAY_MS + DELAY_MS // 2)
    second = other.receive(JoinGroupRequest, JOIN, note=False)
    told.note("the second one joins", second)
    told.events.append((len(first.members), len(second.members), first.generation_id, second.generation_id))
    told.begin()
    told.note("the leader syncs", told.sync(told.talk, first, one=first.member_id, two=second.member_id))


def alone(told: Told, **times: int) -> JoinGroupResponse:
    """Return the only member of a stable group."""
    member = told.join(told.talk, b"a", **times)
    assert told.sync(told.talk, member, one=member.member_id).error_code == 0
    return member


def session_timeout(told: Told) -> None:
    """A member that is silent is removed: the other one hears of a rebalance."""
    long_ms = 30_000
    first = alone(told, session_timeout_ms=long_ms)
    other = told.talk.another()
    other.send(told.joining(told.new_id(other, b"b"), b"b"), JOIN)
    described(told.talk, told.group, "PreparingRebalance")
    first = told.talk.ask(told.joining(first.member_id, b"a", session_timeout_ms=long_ms), JOIN, note=False)
    second = other.receive(JoinGroupRequest, JOIN, note=False)
    other.send(syncing(SYNC, told.group, second), SYNC)
    told.sync(told.talk, first, one=first.member_id, two=second.member_id)
    other.receive(SyncGroupRequest, SYNC, note=False)
    told.begin()
    told.note("the silent one beats for the last time", told.beat(second))
    told.note("a rebalance", told.beat_until(ErrorCode.REBALANCE_IN_PROGRESS, first), SESSION_MS)
    told.note("the silent one beats", told.beat(second))
    again = told.talk.ask(told.joining(first.member_id, b"a", session_timeout_ms=long_ms), JOIN, note=False)
    told.note("the other one joins", again)
    told.events.append((again.generation_id, len(again.members)))


def last_member(told: Told) -> None:
    """A group whose only member is silent is empty in the end."""
    told.begin()
    member = alone(told)
    described(told.talk, told.group, "Empty")
    told.note("it beats", told.beat(member), SESSION_MS)


def rebalance_timeout(told: Told) -> None:
    """A member that beats but does not join again is left out."""
    first = alone(told)
    other = told.talk.another()
    newcomer = told.new_id(other, b"b")
    told.begin()
    other.send(told.joining(newcomer, b"b"), JOIN)
    described(told.talk, told.group, "PreparingRebalance")
    told.note("the one that does not join", told.beat_until(ErrorCode.UNKNOWN_MEMBER_ID, first), REBALANCE_MS)
    second = other.receive(JoinGroupRequest, JOIN, note=False)
    told.note("the newcomer", second, REBALANCE_MS)
    told.events.append((second.generation_id, len(second.members), second.leader == second.member_id))


def sync_timeout(told: Told) -> None:
    """A leader that beats but assigns nothing is left out, and the members join again."""
    told.begin()
    member = told.join(told.talk, b"a")
    told.note("it syncs no more", told.beat_until(ErrorCode.UNKNOWN_MEMBER_ID, member), REBALANCE_MS)
    told.note("too late", told.sync(told.talk, member, one=member.member_id))


def pending_member(told: Told) -> None:
    """An id that was given and is not used is forgotten after its session."""
    # Kafka's next search for expired offsets removes a group that has neither members nor offsets, with its pending ids.
    commit_as(told, told.talk.create("t"), None, 7)
    used, unused = told.new_id(told.talk, b"a", session_timeout_ms=30_000), told.new_id(told.talk, b"a")
    time.sleep(1.5 * SESSION_MS / 1000)
    told.begin()
    told.note("it joins too late", told.talk.ask(told.joining(unused, b"a"), JOIN, note=False))
    told.note("another one", told.talk.ask(told.joining(used, b"a"), JOIN, note=False))
    told.events.append(told.members())


def commit_as(told: Told, topic: str, member: JoinGroupResponse | None, version: int, retention_ms: int = -1) -> Any:
    request = commit(version, told.group, topic)
    if member is not None:
        request.generation_id_or_member_epoch, request.member_id = member.generation_id, member.member_id
    if retention_ms >= 0:
        request.retention_time_ms = retention_ms
    return told.talk.ask(request, version, note=False)


def offset_of(told: Told, topic: str) -> int:
    request = OffsetFetchRequest(group_id=told.group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])])
    answer = told.talk.ask(request, 7, note=False)
    assert not answer.error_code
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


def expired(told: Told, topic: str, after_ms: int, member: JoinGroupResponse | None = None) -> None:
    """Wait until the offset is gone."""
    deadline = time.monotonic() + WAIT_S
    while offset_of(told, topic) >= 0:
        assert time.monotonic() < deadline, "the offset is still there"
        if member is not None:
            told.beat(member)
        time.sleep(PAUSE_S)
    is_time = (time.monotonic() - told.since) * 1000 >= after_ms
    told.events.append(("expired", "in time" if is_time else "too early"))


def own_retention(told: Told) -> None:
    """A commit of versions 2 to 4 may say itself how long its offsets are kept."""
    topic = told.talk.create("t")
    told.begin()
    commit_as(told, topic, None, 4, retention_ms=2000)
    told.events.append(offset_of(told, topic) >= 0)
    expired(told, topic, 2000)


def standalone_retention(told: Told) -> None:
    """Offsets of a group without members are kept from their commit on."""
    topic = told.talk.create("t")
    told.begin()
    commit_as(told, topic, None, 7)
    expired(told, topic, RETENTION_MS)
    told.events.append(told.members())


def group_retention(told: Told) -> None:
    """Offsets of a group with members are kept, and from when its last member left on for their time."""
    topic = told.talk.create("t")
    member = alone(told, session_timeout_ms=30_000)
    told.begin()
    commit_as(told, topic, member, 7)
    while (time.monotonic() - told.since) * 1000 < RETENTION_MS + 3000:
        told.beat(member)
        time.sleep(10 * PAUSE_S)
    told.events.append(offset_of(told, topic) >= 0)
    told.begin()
    told.talk.ask(LeaveGroupRequest(group_id=told.group, members=[MemberIdentity(member_id=member.member_id)]), 3, note=False)
    expired(told, topic, RETENTION_MS)


SCENARIOS: list[Callable[[Told], None]] = [
    initial_delay,
    session_timeout,
    last_member,
    rebalance_timeout,
    sync_timeout,
    pending_member,
    own_retention,
    standalone_retention,
    group_retention,
]


def events_of(run: Callable[[Told], None], port: int) -> Events:
    told = Told(port, run.__name__)
    try:
        run(told)
    finally:
        told.talk.close()
    return told.events


def test_time_does_the_same_to_groups(ports: tuple[int, int]) -> None:
    with ThreadPoolExecutor(2 * len(SCENARIOS)) as threads:
        started = [[threads.submit(events_of, run, port) for port in ports] for run in SCENARIOS]
        found = {run.__name__: [each.result() for each in pair] for run, pair in zip(SCENARIOS, started, strict=True)}
    assert {name: ours for name, (_, ours) in found.items()} == {name: theirs for name, (theirs, _) in found.items()}
    assert not [name for name, pair in found.items() if "too early" in str(pair)], found
