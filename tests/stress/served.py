"""A whole broker with several network threads and handlers, and clients that use one topic and one group at once."""

import json
import random
import socket
import struct
import tempfile
import threading
from collections import Counter, defaultdict, deque
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.stress.crew import STUCK_S, Crew
from twisted_kafka import Broker
from twisted_kafka.protocol.api import response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import parse_response_header, request_header_version
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreateTopicsRequest
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.coordinators.groups import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord

TOPIC: Final = "stress"
PARTITIONS: Final = 2
PRODUCERS: Final = 2
IN_FLIGHT: Final = 3
MAX_WAIT_MS: Final = 600_000
LAST: Final = b"last"
ALSO_AS_FETCH: Final = ("FetchConsumer", "FetchFollower")
"""Names of requests that are counted under another one, too."""
NOT_YET: Final = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
VERSIONS: Final = {
    ApiVersionsRequest: 2,
    CreateTopicsRequest: 4,
    FetchRequest: 11,
    FindCoordinatorRequest: 1,
    HeartbeatRequest: 2,
    JoinGroupRequest: 3,
    LeaveGroupRequest: 2,
    MetadataRequest: 5,
    ProduceRequest: 8,
    SyncGroupRequest: 2,
}


class Client:
    """One connection. Several requests may be in flight; their responses come in order."""

    def __init__(self, broker: Broker, name: str) -> None:
        host, port = broker.bootstrap_servers.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=STUCK_S)
        self._name = name.encode()
        self._file = self._socket.makefile("rb")
        self._waiting: deque[tuple[type[Message], int, int]] = deque()
        self.sent = 0

    def send(self, request: Message) -> None:
        kind = type(request)
        version = VERSIONS[kind]
        self.sent += 1
        assert request_header_version(kind.KEY, version) == 1
        head = struct.pack(">hhih", kind.KEY, version, self.sent, len(self._name)) + self._name
        frame = head + request.encode(version)
        self._waiting.append((kind, version, self.sent))
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self) -> Any:
        kind, version, correlation_id = self._waiting.popleft()
        (size,) = struct.unpack(">i", self._file.read(4))
        frame = self._file.read(size)
        assert int.from_bytes(frame[:4], "big") == correlation_id, "responses are not in order"
        return response_class(kind.KEY).decode(frame, version, parse_response_header(kind.KEY, version, frame)[1])

    def ask(self, request: Message) -> Any:
        self.send(request)
        return self.receive()

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def _produce(values: list[bytes], partition: int) -> ProduceRequest:
    batch = build_batch([SimpleRecord(1, None, value) for value in values])
    topic = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=partition, records=batch)])
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])


class Scene:
    """The broker, its clients, and what they have seen."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.clients: dict[str, Client] = {}
        self.own = threading.local()
        self._lock = threading.Lock()
        self.sent: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
        self.read: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
        self.generations: dict[int, list[tuple[str, str, list[str]]]] = defaultdict(list)
        """Member, leader, and for the leader all members."""

    def client(self) -> Client:
        """Return the client of this thread."""
        client: Client | None = getattr(self.own, "client", None)
        if client is None:
            with self._lock:
                name = f"client-{len(self.clients)}"
                client = self.own.client = self.clients[name] = Client(self.broker, name)
        return client

    def produce(self, own: random.Random) -> None:
        client = self.client()
        number = getattr(self.own, "number", 0)
        self.own.number = number + IN_FLIGHT
        partitions = [own.randrange(PARTITIONS) for _ in range(IN_FLIGHT)]
        values = [f"{threading.get_ident()} {number + at}".encode() for at in range(IN_FLIGHT)]
        for value, partition in zip(values, partitions, strict=True):
            client.send(_produce([value], partition))
        for value, partition in zip(values, partitions, strict=True):
            ((answer,),) = [each.partition_responses for each in client.receive().responses]
            assert not answer.error_code, answer
            self.sent[partition].append(value)

    def fetch(self, partition: int) -> None:
        """Read until the last record; each fetch waits for records, for longer than the run takes."""
        client = self.client()
        offset = 0
        while self.read[partition][-1:] != [LAST]:
            asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=5000)
            answer = client.ask(
                FetchRequest(max_wait_ms=MAX_WAIT_MS, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[asked])])
            )
            ((found,),) = [each.partitions for each in answer.responses]
            assert not found.error_code, found
            for batch in batches(found.records or b""):
                for record in batch.records():
                    if record.offset >= offset:
                        assert record.offset == offset, "records are missing"
                        offset += 1
                        self.read[partition].append(record.value)

    def ask_something(self, own: random.Random) -> None:
        client = self.client()
        client.ask(own.choice((ApiVersionsRequest(), MetadataRequest(topics=None))))

    def take_part(self, own: random.Random) -> None:
        """Join the group, get an assignment, and leave."""
        client = self.client()
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"x")]
        join = JoinGroupRequest(
            group_id="g", session_timeout_ms=30_000, rebalance_timeout_ms=30_000, protocol_type="consumer", protocols=protocols
        )
        while (joined := client.ask(join)).error_code in NOT_YET:
            continue
        assert not joined.error_code, joined
        member_id, generation = joined.member_id, joined.generation_id
        members = [each.member_id for each in joined.members]
        with self._lock:
            self.generations[generation].append((member_id, joined.leader, members))
        given = [SyncGroupRequestAssignment(member_id=each, assignment=each.encode()) for each in members]
        synced = client.ask(SyncGroupRequest(group_id="g", generation_id=generation, member_id=member_id, assignments=given))
        if synced.error_code:
            assert synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS, synced
        else:
            assert synced.assignment == member_id.encode(), "a member gets the assignment of another one"
        for _ in range(own.randrange(3)):
            beaten = client.ask(HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id))
            assert beaten.error_code in (0, ErrorCode.REBALANCE_IN_PROGRESS), beaten
        assert not client.ask(LeaveGroupRequest(group_id="g", member_id=member_id)).error_code

    def end(self) -> None:
        """Let the fetches end: nobody produces any more."""
        client = self.client()
        for partition in range(PARTITIONS):
            client.ask(_produce([LAST], partition))

    def check(self) -> None:
        for partition in range(PARTITIONS):
            found = self.read[partition][:-1]
            assert Counter(found) == Counter(self.sent[partition]), "records are lost, or there twice"
            for thread in {value.split()[0] for value in found}:
                numbers = [int(value.split()[1]) for value in found if value.split()[0] == thread]
                assert numbers == sorted(numbers), "records of a producer have changed their order"
        for generation, seen in self.generations.items():
            leaders = {leader for _, leader, _ in seen}
            assert len(leaders) == 1, f"generation {generation} has the leaders {leaders}"
            (members,) = [members for member, leader, members in seen if member == leader] or [[]]
            assert not members or {member for member, _, _ in seen} <= set(members)


def _lines(folder: Path) -> list[Any]:
    return [json.loads(line) for path in folder.rglob("*.jsonl") for line in path.read_text().splitlines()]


def served(crew: Crew) -> None:
    """Each request of each connection is answered, counted and logged once, and no record is lost or late."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        settings = {
            "num.network.threads": 3,
            "num.io.threads": 4,
            "queued.max.requests": 4,
            "access.log.dir": folder / "access",
            "log.segment.bytes": 20_000,
        }
        with Broker(settings, data_dir=folder / "data") as broker:
            scene = Scene(broker)
            topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
            (created,) = scene.client().ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics
            assert not created.error_code, created
            scene.client().ask(FindCoordinatorRequest(key="g"))  # creates the topic of the groups' offsets
            crew.add(scene.produce, PRODUCERS)
            crew.add(scene.take_part, 2)
            crew.add(scene.ask_something)
            for partition in range(PARTITIONS):
                crew.add_server(partial(scene.fetch, partition))
            crew.run(scene.end)
            scene.check()
            metrics = broker.metrics
            sent = sum(client.sent for client in scene.clients.values())
            for client in scene.clients.values():
                client.close()
        counts: list[int] = [
            instrument.count
            for name, instrument in metrics.items()
            if name[1:3] == ("RequestMetrics", "RequestsPerSec") and dict(name.tags)["request"] not in ALSO_AS_FETCH
        ]
        counted = sum(counts)
        assert counted == sent, f"{sent} requests are counted as {counted}"
        logged = Counter((line["client_id"], line["correlation_id"]) for line in _lines(folder / "access"))
        expected = {(name, number) for name, client in scene.clients.items() for number in range(1, client.sent + 1)}
        assert set(logged) == expected, "lines of the access log are missing"
        assert set(logged.values()) == {1}, "a request has two lines"
        sequences = [line["sequence"] for line in _lines(folder / "access")]
        assert len(set(sequences)) == len(sequences), "lines have the same number"
