"""A broker under test, with its clock, its faults, its requests, and records without a client.

with Broker() as broker:
    broker.create_topic("orders")
    ...  # clients connect to broker.bootstrap_servers
    broker.wait_for_offset("orders", 0, 3)
    assert [record.value for record in broker.records("orders")] == [b"1", b"2", b"3"]
"""

import contextlib
import difflib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from twisted_kafka.broker.broker import Broker as EmbeddedBroker
from twisted_kafka.broker.errors import StartError
from twisted_kafka.broker.personas import persona_of
from twisted_kafka.broker.temporary_directory import make_temporary_directory
from twisted_kafka.client.one_request import NotAResponseError, ask
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.config.keys import BROKER_KEYS
from twisted_kafka.config.prefixes import base_key
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.groups import DescribeGroupsRequest, FindCoordinatorRequest, ListGroupsRequest
from twisted_kafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.protocol.messages.offsets import OffsetFetchRequest
from twisted_kafka.protocol.messages.partitions import ElectLeadersRequest, ElectLeadersRequestTopicPartitions
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest, DeleteTopicsRequest
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import Record, SimpleRecord
from twisted_kafka.recording.recording import Recording
from twisted_kafka.recording.replay import Replay, Report
from twisted_kafka.testing.clock import Clock
from twisted_kafka.testing.faults import Faults, Rule
from twisted_kafka.testing.groups import NO_GROUP, DescribedGroup, check_state, classic_group_of, consumer_group_of, lag_of
from twisted_kafka.testing.interception import OWN_CLIENT_ID, Interceptor
from twisted_kafka.testing.recorder import RequestRecorder
from twisted_kafka.testing.requests import Requests
from twisted_kafka.testing.rules_file import Rules, RulesError, read_rules
from twisted_kafka.testing.snapshot import Snapshot, SnapshotError, first_line
from twisted_kafka.timing.clock import SystemClock

_NOT_RUNNING: Final = "the broker does not run: use it inside its with block, and a fixture in its own test"
_TIMEOUT_S: Final = 30.0
_LOOK_S: Final = 0.05
"""The interval of a wait's checks, besides the one after each request: a group also changes when time passes."""
_LOOKS_LIKE: Final = 0.85
"""A setting's name with this similarity (difflib's ratio) to one of Kafka's counts as misspelt."""
_LATEST: Final = -1
_EARLIEST: Final = -2
_FETCH_BYTES: Final = 8 * 1024 * 1024
_VERSIONS: Final[dict[type[Message], int]] = {
    ProduceRequest: 7,
    FetchRequest: 11,
    ListOffsetsRequest: 5,
    MetadataRequest: 5,
    CreateTopicsRequest: 4,
    DescribeGroupsRequest: 4,
    OffsetFetchRequest: 5,
    ElectLeadersRequest: 1,
    DeleteTopicsRequest: 4,
    ListGroupsRequest: 4,
    FindCoordinatorRequest: 3,
    ConsumerGroupDescribeRequest: 0,
}
"""Versions that every persona from 2.8 on serves; ConsumerGroupDescribe is used only where it is served."""


_NO_COORDINATOR: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Until a first client asks for the coordinator, the topic of groups does not exist."""


class BrokerError(Exception):
    """The broker rejected a request of the test. The text is one line, with Kafka's name of the error."""


class Broker:
    """A broker in its own temporary directory. Its methods that need no client need a PLAINTEXT listener.

    The requests of these methods are not in ``requests``, and no fault applies to them. A broker starts once, like
    ``twisted_kafka.Broker``.
    """

    def __init__(
        self,
        properties: Mapping[str, object] | None = None,
        *,
        data_dir: Path | str | None = None,
        clock: Clock | None = None,
        persona: str | None = None,
        rules: Rules | None = None,
        cluster_faults: Faults | None = None,
    ) -> None:
        """Check ``properties``, by Kafka's names; raise ConfigError for an invalid one and for one that looks misspelt.

        ``rules`` are fault rules that are in force from the start, or a file of them. Raises RulesError for invalid ones.
        ``cluster_faults`` are shared with other brokers; they count after the broker's own.
        """
        _check_names(properties or {})
        self._rules = read_rules(rules)
        self.clock = clock if clock is not None else Clock()
        self.faults = _faults_of(self._rules, persona)
        self.requests = Requests()
        self._each_faults = (self.faults,) if cluster_faults is None else (self.faults, cluster_faults)
        self._properties = dict(properties or {})
        self._data_dir = data_dir
        self._persona = persona
        self._last_servers = ""  # for while it restarts
        self._remove: Callable[[], object] = _nothing
        self._is_temporary = data_dir is None and {"log.dir", "log.dirs"}.isdisjoint(self._properties)
        if self._is_temporary:  # its own, so that it outlives the broker in it
            self._data_dir, self._remove = make_temporary_directory(self)
        try:
            self._embed()
        except BaseException:
            self._remove()
            raise

    def _embed(self) -> None:
        self._interceptor = Interceptor(self._each_faults, self.requests, self.clock)
        self._broker = EmbeddedBroker(
            self._properties, data_dir=self._data_dir, clock=self.clock, persona=self._persona, interceptor=self._interceptor
        )

    def start(self) -> None:
        """Start and serve; raise StartError, one line."""
        if self.is_running:
            raise RuntimeError("the broker runs already: a with block and the fixtures start it")
        try:
            self._broker.start()
        except BaseException:
            self._remove()
            raise
        self.requests.open()

    def stop(self) -> None:
        """Stop, and remove the data. Harmless when it does not run."""
        # Faults first: a delayed answer must not keep a connection's last request open.
        self.faults.clear()
        self._end()
        self._remove()

    def _end(self) -> None:
        self.clock.release()
        self._interceptor.stop()
        self._broker.stop()
        self.requests.close()

    def reset(self) -> None:
        """Return to the state at the start, at the same addresses: no topics, groups or requests, and the same rules and time.

        It takes as long as a start, and closes connections. Raises ValueError if the test chose the data's directory.
        """
        if not self._is_temporary:
            raise ValueError("a broker with a directory of its own is not reset: it has data that was there before")
        self.faults.clear()
        self.clock.release()
        with self._stopped() as directories:
            for directory in directories:
                shutil.rmtree(directory)
            self.clock.reset()
            self.requests.clear()
            for rule in self._rules:
                self.faults.add(rule)

    def snapshot(self) -> Snapshot:
        """Copy the broker's topics, records, groups, offsets, transactions, settings and ACLs. The broker restarts for this.

        The restart is like an operator's: requests under way are answered, connections are closed, and clients reconnect to the
        same addresses. Requests that a rule delays or stalls are dropped. Rules, requests and the clock stay.
        Raises SnapshotError if the files cannot be copied; the broker then runs with its present state.
        """
        with self._telling("no snapshot was taken"), self._stopped() as directories:
            return Snapshot(directories)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore a snapshot of this broker, or of one with the same number of log directories; restart like ``snapshot``.

        If the broker acknowledged more than the snapshot contains, clients see a broker that lost data: an idempotent producer
        fails. Raises ValueError if the number of log directories differs. Raises SnapshotError if the files cannot be copied, or
        if the broker does not start with them; the broker then runs with its present state.
        """
        snapshot.check(self._directories())
        with self._telling("the snapshot was not restored"), self._stopped() as directories, snapshot.put(directories):
            self._start_again()

    def _directories(self) -> list[Path]:
        return [Path(each) for each in self._broker.config.log_dirs]

    @contextlib.contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        """Raise SnapshotError for errors of files, and of the start after them."""
        try:
            yield
        except (OSError, StartError) as error:
            state = "runs with its previous state" if self.is_running else "has stopped"
            raise SnapshotError(f"{what}, and the broker {state}: {first_line(error)}") from error

    @contextlib.contextmanager
    def _stopped(self) -> Iterator[list[Path]]:
        """Stop for a ``with`` block, which may change the log directories; then start at the same addresses if it has not."""
        if not self.is_running:
            raise RuntimeError(_NOT_RUNNING)
        self._properties["listeners"] = ",".join(each.text for each in self._broker.listeners)
        self._last_servers = self.bootstrap_servers
        was_held = self.clock.is_held
        for faults in self._each_faults:
            faults.drop_held()
        self._end()
        try:
            yield self._directories()
        finally:
            if not self.is_running:
                self._start_again()
            if was_held:
                self.clock.hold()

    def _start_again(self) -> None:
        self._embed()
        self._broker.start()
        self.requests.open()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether it has started and not stopped."""
        return self._broker.is_running

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, host:port; it stays after a stop. Raises RuntimeError before the start."""
        if not (servers := self._broker.bootstrap_servers or self._last_servers):
            raise RuntimeError(_NOT_RUNNING)
        return servers

    @property
    def embedded(self) -> EmbeddedBroker:
        """The broker itself, with its configuration and metrics."""
        return self._broker

    @property
    def diagnoses(self) -> list[str]:
        """The clients' mistakes that the broker has seen, a line each, with advice."""
        return self._broker.diagnoses

    def create_topic(self, topic: str, partitions: int = 1, replication_factor: int = 1, **config: object) -> str:
        """Create a topic, with Kafka's topic settings, ``_`` for ``.``; return its name. Raises BrokerError.

        A ``replication_factor`` of -1 is the broker's default.
        """
        settings = [CreatableTopicConfig(name=name.replace("_", "."), value=str(value)) for name, value in config.items()]
        new = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replication_factor, configs=settings)
        (result,) = self._ask(CreateTopicsRequest(topics=[new], timeout_ms=int(_TIMEOUT_S * 1000))).topics
        _check(result.error_code, f"cannot create topic {topic!r}", result.error_message)
        return topic

    def topics(self) -> list[str]:
        """Return the sorted names of the topics, without Kafka's internal ones."""
        return sorted(topic.name for topic in self._ask(MetadataRequest(topics=None)).topics if not topic.is_internal)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic. Raises BrokerError."""
        (result,) = self._ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=int(_TIMEOUT_S * 1000))).responses
        _check(result.error_code, f"cannot delete topic {topic!r}")

    def partitions(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions, sorted. Raises BrokerError."""
        return sorted(each.partition_index for each in self._described(topic).partitions)

    def produce(self, topic: str, values: Iterable[bytes | str], *, key: bytes | None = None, partition: int = 0) -> int:
        """Append records to a partition; return the offset of the first one. Raises BrokerError."""
        now_ms = self.clock.wall_ms()
        records = [SimpleRecord(now_ms, key, each.encode() if isinstance(each, str) else each) for each in values]
        return self.append(topic, records, partition)

    def append(self, topic: str, records: Iterable[SimpleRecord], partition: int = 0) -> int:
        """Append records with their keys, headers and times; return the offset of the first one. Raises BrokerError."""
        batch = list(records)
        if not batch:
            raise ValueError("there are no values to produce")
        data = PartitionProduceData(index=partition, records=build_batch(batch))
        request = ProduceRequest(
            acks=-1, timeout_ms=int(_TIMEOUT_S * 1000), topic_data=[TopicProduceData(name=topic, partition_data=[data])]
        )
        answer = self._ask(request).responses[0].partition_responses[0]
        _check(answer.error_code, f"cannot produce to {topic}-{partition}")
        return int(answer.base_offset)

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """Return all records of a topic, or of one of its partitions, including those of open and aborted transactions.

        Raises BrokerError for a topic that does not exist.
        """
        wanted = self.partitions(topic) if partition is None else [partition]
        return [record for index in wanted for record in self._read(topic, index)]

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """Return the offset after the last record. Raises BrokerError."""
        return self._offset(topic, partition, _LATEST)

    def start_offset(self, topic: str, partition: int = 0) -> int:
        """Return the offset of the first record that is still there. Raises BrokerError."""
        return self._offset(topic, partition, _EARLIEST)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Return the offsets that a group has committed, by topic and partition."""
        answer = self._ask(OffsetFetchRequest(group_id=group, topics=None))
        if answer.error_code in _NO_COORDINATOR:
            return {}
        _check(answer.error_code, f"group {group!r} has no offsets")
        return {(topic.name, each.partition_index): each.committed_offset for topic in answer.topics for each in topic.partitions}

    def broker_ids(self) -> list[int]:
        """Return the sorted ids of the brokers that this one reports to clients."""
        return sorted(each.node_id for each in self._ask(MetadataRequest(topics=[])).brokers)

    def controller_id(self) -> int:
        """Return the id of the controller that this broker reports to clients; -1 if it knows no controller."""
        return int(self._ask(MetadataRequest(topics=[])).controller_id)

    def partition_state(self, topic: str, partition: int = 0) -> Any:
        """Return a partition as clients see it: ``leader_id``, ``replica_nodes``, ``isr_nodes``. Raises BrokerError."""
        for found in self._described(topic).partitions:
            if found.partition_index == partition:
                return found
        raise BrokerError(f"there is no partition {partition} of {topic!r}")

    def elect_preferred(self, topic: str, partition: int = 0) -> None:
        """Make the first replica of a partition its leader, unless it leads already. Raises BrokerError if it cannot lead."""
        wanted = ElectLeadersRequestTopicPartitions(topic=topic, partitions=[partition])
        answer = self._ask(ElectLeadersRequest(topic_partitions=[wanted], timeout_ms=int(_TIMEOUT_S * 1000)))
        for found in answer.replica_election_results[0].partition_result if answer.replica_election_results else ():
            if found.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                _check(found.error_code, f"no election for {topic}-{partition}", found.error_message)

    def groups(self) -> dict[str, str]:
        """Return the states of the groups that this broker coordinates, by group."""
        answer = self._ask(ListGroupsRequest())
        return {} if answer.error_code in _NO_COORDINATOR else {each.group_id: each.group_state for each in answer.groups}

    def group_state(self, group: str) -> str:
        """Return the state of a group: Stable, Empty, PreparingRebalance, CompletingRebalance, or Dead if it does not exist.

        A group of the consumer protocol (KIP-848) is Stable, Empty, Assigning or Reconciling.
        """
        return self.described_group(group).state

    def described_group(self, group: str) -> DescribedGroup:
        """Return the state of a group, and its members with their assignments."""
        (found,) = self._ask(DescribeGroupsRequest(groups=[group])).groups
        if found.error_code in _NO_COORDINATOR:
            return DescribedGroup(NO_GROUP, ())
        if found.group_state == NO_GROUP and ApiKey.CONSUMER_GROUP_DESCRIBE in self._broker.supported_apis:
            (other,) = self._ask(ConsumerGroupDescribeRequest(group_ids=[group])).groups
            if not other.error_code:
                return consumer_group_of(other)
        _check(found.error_code, f"group {group!r} cannot be described")
        return classic_group_of(found)

    def coordinator_id(self, group: str) -> int:
        """Return the id of the broker that coordinates a group; -1 if none does yet."""
        return int(self._ask(FindCoordinatorRequest(key=group)).node_id)

    def lag(self, group: str, topic: str | None = None) -> int | None:
        """Return how many records a group still has to read, in one topic or in all topics that it has committed offsets of.

        A partition without a committed offset counts from its start. Returns None if the group has committed nothing.
        """
        return lag_of(self.committed(group), topic, self)

    def wait_for_offset(self, topic: str, partition: int, offset: int, timeout_s: float = 10.0) -> None:
        """Wait until ``end_offset`` is at least ``offset``. Raises TimeoutError, which reports the last end offset."""
        self._wait(
            lambda: self._end_or_none(topic, partition),
            lambda end: end is not None and end >= offset,
            f"end of {topic}-{partition} at {offset} or more",
            timeout_s,
        )

    def wait_for_group(self, group: str, state: str = "Stable", timeout_s: float = 10.0) -> None:
        """Wait until a group is in this state. Raises TimeoutError with its last state, and ValueError for an unknown state."""
        check_state(state)
        self._wait(lambda: self.group_state(group), lambda seen: seen == state, f"group {group!r} {state}", timeout_s)

    def wait_for_commit(self, group: str, topic: str, partition: int, offset: int, timeout_s: float = 10.0) -> None:
        """Wait until a group has committed at least this offset. Raises TimeoutError, which reports the committed offset."""
        self._wait(
            lambda: self.committed(group).get((topic, partition), -1),
            lambda seen: seen >= offset,
            f"group {group!r} at {offset} or more of {topic}-{partition}",
            timeout_s,
        )

    def wait_for_lag(self, group: str, most: int = 0, topic: str | None = None, timeout_s: float = 10.0) -> None:
        """Wait until ``lag`` is at most ``most``. Raises TimeoutError, which reports the last lag."""
        self._wait(
            lambda: self.lag(group, topic),
            lambda seen: seen is not None and seen <= most,
            f"group {group!r} with a lag of {most} or less{f' in {topic}' if topic else ''}",
            timeout_s,
        )

    @contextlib.contextmanager
    def record(self, path: Path | str) -> Iterator[Recording]:
        """Write the clients' requests in a ``with`` block, and their answers, to a file. Raises OSError.

        An existing file is replaced. Secrets are left out. The context value is the Recording, which counts the requests.
        """
        with Recording(path, self.clock, broker=self.bootstrap_servers) as recording:
            end = self.requests.follow(RequestRecorder(recording).add)
            try:
                yield recording
            finally:
                end()

    def replay(self, path: Path | str, timeout_s: float = 30.0) -> Report:
        """Send the requests of a recording to this broker; report answers that differ. Raises OSError and RecordingError.

        Best use a recording that began with a new broker. ``timeout_s`` limits the wait for each answer.
        """
        if not self.is_running:
            raise RuntimeError(_NOT_RUNNING)
        host, _, port = self.bootstrap_servers.split(",")[0].rpartition(":")
        return Replay(host.strip("[]"), int(port), SystemClock(), timeout_s).run(path)

    def wait_for(self, look: Callable[[], Any], is_there: Callable[[Any], bool], wanted: str, timeout_s: float = 10.0) -> None:
        """Wait until ``is_there(look())`` is true; check it after each request, too.

        Raises TimeoutError, which names ``wanted``, the last value of ``look``, and the last requests.
        """
        self._wait(look, is_there, wanted, timeout_s)

    def _wait(self, look: Callable[[], Any], is_there: Callable[[Any], bool], wanted: str, timeout_s: float) -> None:
        seen: list[Any] = [None]

        def there() -> bool:
            seen[0] = look()
            return is_there(seen[0])

        if not self.requests.wait_until(there, timeout_s, _LOOK_S):
            raise TimeoutError(f"waited {timeout_s:g} s for {wanted}; the last value was {seen[0]!r}; {self.requests.told()}")

    def _end_or_none(self, topic: str, partition: int) -> int | None:
        try:
            return self.end_offset(topic, partition)
        except BrokerError:  # the topic may be created yet
            return None

    def _described(self, topic: str) -> Any:
        (found,) = self._ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)).topics
        _check(found.error_code, f"topic {topic!r} cannot be read")
        return found

    def _read(self, topic: str, partition: int) -> list[Record]:
        at, end, found = self._offset(topic, partition, _EARLIEST), self.end_offset(topic, partition), list[Record]()
        while at < end:
            part = FetchPartition(partition=partition, fetch_offset=at, partition_max_bytes=_FETCH_BYTES)
            request = FetchRequest(max_bytes=_FETCH_BYTES, topics=[FetchTopic(topic=topic, partitions=[part])])
            answer = self._ask(request).responses[0].partitions[0]
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:  # retention has deleted it meanwhile
                at, found = self._offset(topic, partition, _EARLIEST), []
                continue
            _check(answer.error_code, f"{topic}-{partition} cannot be read")
            before = at
            for batch in batches(answer.records or b""):
                at = batch.last_offset + 1
                if not batch.is_control:
                    found += [record for record in batch.records() if before <= record.offset]
            if at == before:
                raise BrokerError(f"{topic}-{partition} cannot be read: nothing at offset {at} of {end}")
        return found

    def _offset(self, topic: str, partition: int, position: int) -> int:
        asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=position)])
        answer = self._ask(ListOffsetsRequest(replica_id=-1, topics=[asked])).topics[0].partitions[0]
        _check(answer.error_code, f"{topic}-{partition} has no offsets")
        return int(answer.offset)

    def _ask(self, request: Message) -> Any:
        """Send a request over its own connection, as any client would; return the response."""
        if not self.is_running:
            raise RuntimeError(_NOT_RUNNING)
        version = _VERSIONS[type(request)]
        host, _, port = self.bootstrap_servers.split(",")[0].rpartition(":")
        try:
            return ask((host.strip("[]"), int(port)), request, version, OWN_CLIENT_ID, _TIMEOUT_S)
        except NotAResponseError:
            what = f"{type(request).__name__} v{version}"
            raise BrokerError(f"the broker closed the connection instead of answering {what}") from None


def _nothing() -> None: ...


def _faults_of(rules: list[Rule], persona: str | None) -> Faults:
    """Return the faults of a broker with a persona. Raises ConfigError for an unknown persona, RulesError for invalid rules."""
    try:
        return Faults(rules, None if persona is None else persona_of(persona).served.get)
    except ConfigError:
        raise
    except ValueError as error:
        raise RulesError(f"rules: {error}") from None


def _check_names(properties: Mapping[str, object]) -> None:
    """Raise ConfigError for an unknown setting that looks like one of Kafka's. Other unknown settings may be a plug-in's."""
    for name in properties:
        if base_key(name) is None and (near := difflib.get_close_matches(name, BROKER_KEYS, 1, _LOOKS_LIKE)):
            raise ConfigError(f"There is no setting {name!r}: did you mean {near[0]!r}?")


def _check(code: int, what: str, why: str | None = None) -> None:
    if code:
        raise BrokerError(f"{what}: {ErrorCode(code).name}{f', {why}' if why else ''}")
