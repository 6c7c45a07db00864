"""The walks of requests in docs/walks.md: which functions a request crosses, followed in a running broker.

As a program, write them: python -m tests.broker.walks
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
from typing import NamedTuple

import twisted_kafka
from twisted_kafka.network.loop import stall_watch
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.headers import request_header_version
from twisted_kafka.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "walks.md"
PACKAGE = str(ROOT / "twisted_kafka") + "/"
BEGIN, END = "<!-- walks -->\n", "<!-- end of walks -->\n"
TIMEOUT_S = 20

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
    try:
        with twisted_kafka.Broker() as broker:
            yield broker, follower
    finally:
        threading.setprofile(None)
        stall_watch.PUT_OFF_S = put_off_s


class Client:
    """Sends requests over one connection."""

    def __init__(self, broker: twisted_kafka.Broker) -> None:
        self._socket = socket.create_connection(("127.0.0.1", broker.listeners[0].port), TIMEOUT_S)
        self._stream = self._socket.makefile("rb")

    def ask(self, request: Message, version: int) -> None:
        """Send a request and wait for its response."""
        tags = b"\0" if request_header_version(request.KEY, version) == 2 else b""
        frame = struct.pack(">hhih", request.KEY, version, 7, -1) + tags + request.encode(version)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        size = int.from_bytes(self._stream.read(4))
        assert len(self._stream.read(size)) == size

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


def follow_walks() -> dict[str, dict[str, list[Step]]]:
    """Return the functions that one request crosses, by name of the request and title of the thread."""
    walks = {}
    with followed_broker() as (broker, follower):
        client = Client(broker)
        for topic in ["__consumer_offsets", *(f"topic-{number}" for number in range(WARM_UPS))]:
            client.ask(*_create(topic))
        for name, make in (("Produce", _produce), ("OffsetCommit", _commit)):
            for _ in range(WARM_UPS):
                client.ask(*make("topic-0"))
            walks[name] = follower.follow(partial(client.ask, *make("topic-0")))
        walks["CreateTopics"] = follower.follow(lambda: client.ask(*_create("last")))
        client.close()
    return walks


def written_walks() -> str:
    return DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0]


def as_text(walks: dict[str, dict[str, list[Step]]]) -> str:
    """Return the section of the document: a list of calls for each walk and thread, indented by depth."""
    lines = []
    for name, threads in walks.items():
        total = sum(map(len, threads.values()))
        lines += [f"### {name}: {total} functions", "", "```"]
        for thread in (each for each in THREADS.values() if each in threads):
            lines.append(f"[{thread}]")
            lines += [f"{'  ' * depth + function:<72} {module}" for depth, function, module in threads[thread]]
        lines += ["```", ""]
    return "\n".join(lines)


def write() -> None:
    before, begin, rest = DOCUMENT.read_text().partition(BEGIN)
    DOCUMENT.write_text(before + begin + as_text(follow_walks()) + END + rest.partition(END)[2])


if __name__ == "__main__":
    write()
