"""Simulated members of a group: each has a connection and behaves like a consumer, with one request at a time.

A member with an assignment sends a heartbeat every ``BEAT_S`` seconds; with more than 100 members, there is one heartbeat per
millisecond. All members run on one thread, so that thread switches do not distort the measurement of the broker.
"""

import selectors
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from twisted_kafka.protocol.api import response_class
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import request_header_version, response_header_version
from twisted_kafka.protocol.messages.coordinators.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from twisted_kafka.protocol.messages.coordinators.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

BEAT_S = 0.1
TIMEOUT_S = 60
SESSION_MS = 60_000
REJOIN_ERRORS = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class Connection:
    """Sends requests to a broker and receives its responses."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self._decode: Callable[[bytes], Any] = bytes

    def send(self, request: Any, version: int) -> None:
        key = request.KEY
        tail = b"\0" if request_header_version(key, version) == 2 else b""
        body = struct.pack(">hhih", key, version, 1, 5) + b"bench" + tail + request.encode(version)
        skip = 5 if response_header_version(key, version) else 4
        cls = response_class(key)
        self._decode = lambda frame: cls.decode(frame, version, skip)
        self.socket.sendall(struct.pack(">i", len(body)) + body)

    def receive(self) -> Any:
        """Return the response if it is complete, otherwise None."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the broker closed the connection")
        self._buffer += data
        if len(self._buffer) < 4 or len(self._buffer) < 4 + (size := struct.unpack_from(">i", self._buffer)[0]):
            return None
        frame, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
        return self._decode(frame)

    def ask(self, request: Any, version: int) -> Any:
        self.send(request, version)
        while (answer := self.receive()) is None:
            pass
        return answer


class ClassicMember:
    """A consumer of the classic protocol."""

    def __init__(self, port: int, group: str, number: int) -> None:
        self.connection = Connection(port)
        self.group = group
        self.metadata = b"%d" % number
        self.member_id, self.generation, self.is_settled = "", -1, False
        self.due_s = 0.0

    def begin(self) -> None:
        """Join the group."""
        protocols = [JoinGroupRequestProtocol(name="range", metadata=self.metadata)]
        self.is_settled = False
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=protocols,
        )
        self.connection.send(request, 7)

    def beat(self) -> None:
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)
        self.connection.send(request, 4)

    def handle(self, answer: Any) -> None:
        if isinstance(answer, JoinGroupResponse):
            self._joined(answer)
        elif isinstance(answer, SyncGroupResponse):
            self.is_settled = not answer.error_code
            if answer.error_code:
                self.begin()
        elif isinstance(answer, HeartbeatResponse) and answer.error_code:
            self.begin()

    def _joined(self, answer: JoinGroupResponse) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error_code in REJOIN_ERRORS:
            self.member_id = ""
        if answer.error_code:
            self.begin()
            return
        self.member_id, self.generation = answer.member_id, answer.generation_id
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"x" * 30) for each in answer.members],
        )
        self.connection.send(request, 5)


class ConsumerMember:
    """A consumer of the new protocol, which revokes partitions at once."""

    def __init__(self, port: int, group: str, number: int, topic: str) -> None:
        self.connection = Connection(port)
        self.group, self.topic = group, topic
        self.member_id, self.generation, self.is_settled = "", 0, False
        self.owned: list[ConsumerGroupHeartbeatRequestTopicPartitions] = []
        self.due_s = 0.0

    def begin(self) -> None:
        """Join the group."""
        self.generation = 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=[self.topic],
            topic_partitions=[],
        )
        self.connection.send(request, 0)

    def beat(self) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, member_epoch=self.generation)
        request.topic_partitions = self.owned
        self.connection.send(request, 0)

    def handle(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        if answer.error_code:
            self.begin()
            return
        self.member_id, self.generation, self.is_settled = answer.member_id or self.member_id, answer.member_epoch, True
        if answer.assignment is not None:
            self.owned = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                for each in answer.assignment.topic_partitions
            ]
            self.beat()  # reports revoked partitions at once

    @property
    def count(self) -> int:
        return sum(len(each.partitions) for each in self.owned)


Member = ClassicMember | ConsumerMember


def find_coordinator(port: int) -> None:
    """Repeat FindCoordinator until there is a coordinator: the first request creates its topic."""
    connection = Connection(port)
    deadline_s = time.monotonic() + TIMEOUT_S
    while connection.ask(FindCoordinatorRequest(key="bench"), 3).error_code:
        assert time.monotonic() < deadline_s
        time.sleep(0.1)
    connection.socket.close()


def run(members: Sequence[Member], is_done: Callable[[], bool]) -> float:
    """Run the members until ``is_done``; return the seconds that it took."""
    beat_s = max(BEAT_S, len(members) / 1000)
    selector = selectors.DefaultSelector()
    for member in members:
        selector.register(member.connection.socket, selectors.EVENT_READ, member)
    waiting: dict[Member, None] = {}
    started_s = time.perf_counter()
    for member in members:
        if not member.is_settled:
            member.begin()
        else:
            waiting[member] = None
    while not is_done():
        now_s = time.perf_counter()
        assert now_s - started_s < TIMEOUT_S, "the group did not settle"
        for member in [each for each in waiting if each.due_s <= now_s]:
            del waiting[member]
            member.beat()
        for key, _ in selector.select(0.002):
            member = key.data
            answer = member.connection.receive()
            if answer is None:
                continue
            is_beat = isinstance(answer, HeartbeatResponse | ConsumerGroupHeartbeatResponse)
            had = member.owned if isinstance(member, ConsumerMember) else None
            member.handle(answer)
            if (is_beat and not answer.error_code and had is getattr(member, "owned", None)) or (
                isinstance(answer, SyncGroupResponse) and member.is_settled
            ):
                member.due_s = time.perf_counter() + beat_s
                waiting[member] = None
    took_s = time.perf_counter() - started_s
    for member in members:
        selector.unregister(member.connection.socket)
    selector.close()
    drain(members, waiting)
    return took_s


def drain(members: Sequence[Member], waiting: dict[Member, None]) -> None:
    """Receive all outstanding responses, so that the next run starts without any."""
    for member in members:
        if member not in waiting:
            while (answer := member.connection.receive()) is None:
                pass
            if isinstance(answer, HeartbeatResponse) and answer.error_code:
                member.is_settled = False
