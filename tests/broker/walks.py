"""The walks of requests: which functions of the package a request crosses, followed in a running broker.

As a program, this prints them, each function where a thread first calls it, indented by depth: python -m tests.broker.walks. Not
listed are generated codecs, lambdas, the reactor, and the work of threads between requests. The first request of its kind crosses
more (codecs are compiled, caches filled); these are later ones.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import twisted_kafka
from twisted_kafka.broker.peers import cluster_parts
from twisted_kafka.network.loop import stall_watch
from twisted_kafka.protocol.api import response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.headers import parse_response_header, request_header_version
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreateTopicsRequest
from twisted_kafka.protocol.messages.coordinators.groups import JoinGroupRequest, JoinGroupRequestProtocol
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from twisted_kafka.protocol.messages.coordinators.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
)
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord

ROOT = Path(__file__).parents[2]
PACKAGE = str(ROOT / "twisted_kafka") + "/"
TIMEOUT_S = 30

ROOTS = ("KafkaTransport.doRead", "KafkaApis.handle", "Processor.process_new_responses")
"""Below these network threads work for a request. Their other calls are their loop."""
LOOPING = "network thread"

THREADS = {
    "data-plane-kafka-network-thread": "network thread",
    "config-change-thread": "config changes",
    "metadata-watch-thread": "metadata watches",
    "controller-event-thread": "controller",
    "controller-to-own-broker-thread": "the controller's own broker",
}
"""The threads that are followed, by the beginning of their names."""

COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>")
"""Calls before Python 3.12, and none from then on (PEP 709)."""

WARM_UPS = 3
"""Requests before the one that is followed: the first ones compile codecs and fill caches."""
QUIET_S = 0.5
"""How long nothing may happen until a walk counts as ended: threads go on after the response."""


class Step(NamedTuple):
    """A function that a request crosses, with its depth below the first one of its thread."""

    depth: int
    function: str
    module: str


class Follower:
    """Notes the package's functions that the threads call, each once a thread, while it records."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._is_recording = False
        self._last_call = 0.0
        self._walks: dict[str, list[Step]] = {}

    def follow(self, request: Callable[[], object]) -> dict[str, list[Step]]:
        """Record what a request causes; return the steps by thread.

        Raises:
            TimeoutError: the threads did not come to rest, before the request or after it.
        """
        self._wait_for_rest()  # of what earlier requests caused
        self._walks = {}
        self._is_recording = True
        request()
        self._wait_for_rest()
        self._is_recording = False
        return self._walks

    def _wait_for_rest(self) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() - self._last_call < QUIET_S:
            if time.monotonic() > deadline:
                raise TimeoutError(f"threads still worked after {TIMEOUT_S} s")
            time.sleep(QUIET_S / 10)

    def profile(self, frame: FrameType, event: str, _argument: object) -> None:
        """Take an event of ``threading.setprofile``."""
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(PACKAGE) or code.co_name in COMPREHENSIONS:
            return
        stack: list[CodeType] = self._local.__dict__.setdefault("stack", [])
        if event == "return":
            if stack and stack[-1] is code:
                stack.pop()
        else:
            thread = _thread()
            if thread and (stack or thread != LOOPING or code.co_qualname in ROOTS):
                self._last_call = time.monotonic()
                if self._is_recording:
                    stack.append(code)
                    self._note(thread, Step(len(stack) - 1, code.co_qualname, code.co_filename.removeprefix(PACKAGE)))

    def _note(self, thread: str, step: Step) -> None:
        walk = self._walks.setdefault(thread, [])
        if "<" not in step.function and step[1:] not in [each[1:] for each in walk]:
            walk.append(step)


def _thread() -> str:
    current = threading.current_thread().name
    return next((title for name, title in THREADS.items() if current.startswith(name)), "")


@contextmanager
def followed_broker() -> Iterator[tuple[twisted_kafka.Broker, Follower]]:
    follower = Follower()
    threading.setprofile(follower.profile)
    # The profile hook makes requests slow, and none is to be continued by another thread.
    put_off_s, stall_watch.PUT_OFF_S = stall_watch.PUT_OFF_S, 10 * TIMEOUT_S
    # Nor does the controller balance the leaders meanwhile, which it begins some seconds after a start.
    first_balance_ms, cluster_parts.FIRST_BALANCE_MS = cluster_parts.FIRST_BALANCE_MS, 100 * TIMEOUT_S * 1000  # type: ignore[misc]
    try:
        with twisted_kafka.Broker() as broker:
            yield broker, follower
    finally:
        threading.setprofile(None)
        stall_watch.PUT_OFF_S = put_off_s
        cluster_parts.FIRST_BALANCE_MS = first_balance_ms  # type: ignore[misc]


class Client:
    """Sends requests over one connection."""

    def __init__(self, broker: twisted_kafka.Broker) -> None:
        self._socket = socket.create_connection(("127.0.0.1", broker.listeners[0].port), TIMEOUT_S)
        self._stream = self._socket.makefile("rb")

    def ask(self, request: Message, version: int) -> Any:
        """Send a request and return its response."""
        tags = b"\0" if request_header_version(request.KEY, version) == 2 else b""
        frame = struct.pack(">hhih", request.KEY, version, 7, -1) + tags + request.encode(version)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        size = int.from_bytes(self._stream.read(4))
        answer = self._stream.read(size)
        assert len(answer) == size
        _, offset = parse_response_header(request.KEY, version, answer)
        return response_class(request.KEY).decode(answer, version, offset)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def _create(topic: str) -> tuple[Message, int]:
    return CreateTopicsRequest(topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=1)], timeout_ms=10_000), 7


def _produce(topic: str) -> tuple[Message, int]:
    records = build_batch([SimpleRecord(0, b"key", b"value")])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data]), 9


def _commit(topic: str) -> tuple[Message, int]:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return OffsetCommitRequest(group_id="group", topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]), 8


def _fetch(topic: str) -> tuple[Message, int]:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    return FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=topics), 11


def _join(client: Client, group: str) -> Callable[[], object]:
    """Return the request with which the first member of a group joins, with the id that the broker has given it."""
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    options: dict[str, Any] = {"session_timeout_ms": 600_000, "rebalance_timeout_ms": 600_000, "protocol_type": "consumer"}
    request = JoinGroupRequest(group_id=group, protocols=[protocol], **options)
    request.member_id = client.ask(request, 5).member_id
    return partial(client.ask, request, 5)


def _end(client: Client, transactional_id: str) -> Callable[[], object]:
    """Return the request that commits a transaction with one partition."""
    init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=600_000)
    producer = client.ask(init, 3)
    identity: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    topics = [AddPartitionsToTxnTopic(name="topic-0", partitions=[0])]
    client.ask(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_topics=topics,
            **{f"v3_and_below_{name}": value for name, value in identity.items()},
        ),
        2,
    )
    return partial(client.ask, EndTxnRequest(transactional_id=transactional_id, committed=True, **identity), 3)


def follow_walks() -> dict[str, dict[str, list[Step]]]:
    """Return the functions that one request crosses, by name of the request and title of the thread."""
    walks = {}
    with followed_broker() as (broker, follower):
        client = Client(broker)
        internal = ["__consumer_offsets", "__transaction_state"]
        for topic in [*internal, *(f"topic-{number}" for number in range(WARM_UPS))]:
            client.ask(*_create(topic))
        for name, make in (("Produce", _produce), ("Fetch", _fetch), ("OffsetCommit", _commit)):
            for _ in range(WARM_UPS):
                client.ask(*make("topic-0"))
            walks[name] = follower.follow(partial(client.ask, *make("topic-0")))
        for name, prepare in (("JoinGroup", _join), ("EndTxn", _end)):
            for number in range(WARM_UPS):
                prepare(client, f"warm-{number}")()
            walks[name] = follower.follow(prepare(client, "last"))
        walks["CreateTopics"] = follower.follow(lambda: client.ask(*_create("last")))
        client.close()
    return walks


def size_of(threads: dict[str, list[Step]]) -> tuple[int, int]:
    """Return how many functions and files a walk crosses."""
    steps = {step[1:] for walk in threads.values() for step in walk}
    return len(steps), len({module for _, module in steps})


def as_text(walks: dict[str, dict[str, list[Step]]]) -> str:
    """Return a list of calls for each walk and thread, indented by depth."""
    lines = []
    for name, threads in walks.items():
        functions, files = size_of(threads)
        deepest = 1 + max(step.depth for walk in threads.values() for step in walk)
        lines.append(f"{name}: {functions} functions in {files} files, {deepest} deep")
        for thread in (each for each in THREADS.values() if each in threads):
            lines.append(f"[{thread}]")
            lines += [f"{'  ' * depth + function:<72} {module}" for depth, function, module in threads[thread]]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(as_text(follow_walks()))
