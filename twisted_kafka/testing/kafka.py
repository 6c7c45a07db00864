"""What a test does with Kafka, whether it is one broker or a cluster: topics, records, groups, waits, recordings.

    with Broker() as kafka:  # or Cluster()
        kafka.create_topic("orders")
        ...  # clients connect to kafka.bootstrap_servers
        kafka.wait_for_offset("orders", 0, 3)
        assert [record.value for record in kafka.records("orders")] == [b"1", b"2", b"3"]

A Broker sends each request to itself. A Cluster sends it to the leader of the partition, the group's coordinator or the controller.
"""

import abc
import contextlib
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, Self

from typing_extensions import override

from twisted_kafka.broker.broker import Broker
from twisted_kafka.broker.errors import StartError
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.types import uuid_text
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from twisted_kafka.protocol.messages.administration.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from twisted_kafka.protocol.messages.administration.scram import AlterUserScramCredentialsRequest
from twisted_kafka.protocol.messages.administration.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from twisted_kafka.protocol.messages.coordinators.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from twisted_kafka.protocol.messages.coordinators.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
)
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
)
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.messages.share.share_groups import ShareGroupDescribeRequest
from twisted_kafka.protocol.messages.share.share_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from twisted_kafka.protocol.messages.streams.streams_groups import StreamsGroupDescribeRequest
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.recording.recording import Recording
from twisted_kafka.recording.replay import Report
from twisted_kafka.security.authorizer.acl_types import AclOperation, PatternType, PermissionType, ResourceType
from twisted_kafka.testing.access import acl_entry, credentials, no_credentials
from twisted_kafka.testing.arguments import check_number, check_text, check_whole
from twisted_kafka.testing.clock import Clock
from twisted_kafka.testing.fault_rules.faults import Faults, Rule
from twisted_kafka.testing.groups import (
    NO_GROUP,
    DescribedGroup,
    DescribedShareGroup,
    DescribedStreamsGroup,
    check_share_state,
    check_state,
    check_streams_state,
    classic_group_of,
    consumer_group_of,
    members_of_streams_group,
    share_group_of,
    streams_group_of,
)
from twisted_kafka.testing.recorded.recorder import RequestRecorder
from twisted_kafka.testing.recorded.requests import Requests
from twisted_kafka.testing.records import Headers, Record, Value, Values, batches_of, records_of
from twisted_kafka.testing.snapshot import Snapshot, SnapshotError, first_line
from twisted_kafka.testing.waiting import LOOK_S, WAIT_S, Aio, check_may_block

__tracebackhide__ = True

REQUEST_TIMEOUT_S: Final = 30.0
_FORKED: Final = "the broker runs in the process from which this one was forked: here, clients can use its bootstrap_servers"
NOT_RUNNING: Final = "the broker does not run: start() it, or use it inside its with block, and a fixture in its own test"
_TIMEOUT_MS: Final = int(REQUEST_TIMEOUT_S * 1000)
_TOPIC_RESOURCE: Final = 2
_LATEST: Final = -1
_EARLIEST: Final = -2
_FETCH_BYTES: Final = 8 * 1024 * 1024
_NO_COORDINATOR: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Until a first client asks for the coordinator, the topic of groups does not exist."""
_NOT_YET_LEADING: Final = (ErrorCode.OFFSET_NOT_AVAILABLE.name, ErrorCode.NOT_LEADER_OR_FOLLOWER.name)
"""Until its followers have fetched, a new leader does not know which records are committed."""
_OF_MODULES: Final = ("kafka-python", ("KafkaProducer", "KafkaConsumer", "KafkaAdminClient", "TopicPartition", "admin", "errors"))


_NO_AUTHORIZER: Final = "the broker has no authorizer: set authorizer.class.name to kafka.security.authorizer.AclAuthorizer"


class BrokerError(Exception):
    """The broker rejected a request of the test. The text is one line, with Kafka's name of the error."""


class INode(Protocol):
    """A broker, as its requests are sent to it."""

    @property
    def broker_id(self) -> int:
        """Its id."""

    @property
    def embedded(self) -> Broker:
        """The broker itself."""

    def ask(self, request: Message) -> Any:
        """Send a request of the kit; return the response. Raises BrokerError."""


class Kafka(abc.ABC):
    """One broker or several under test. The methods need no client, but a PLAINTEXT listener.

    The requests of these methods are not in ``requests``, and no fault applies to them.
    """

    clock: Clock
    """The brokers' clock."""
    made_ns: int
    """When it was made, by its clock. The times of requests count from here, for all brokers of a cluster."""
    faults: Faults
    """The rules for requests to any of the brokers."""
    _rules: Sequence[Rule]
    network: Faults
    """The rules of a network or a broker that fails: of ``freeze`` and ``cut_off``. ``faults`` do not contain them."""
    requests: Requests
    """The clients' requests to any of the brokers, oldest first."""

    _process_id: int
    replaced: int = 0
    """How often ``reset`` and ``restore`` have replaced the data."""

    # Life

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked from the one with the brokers: here, only ``bootstrap_servers`` is of use."""
        return os.getpid() != self._process_id

    def _why_not_running(self) -> str:
        return _FORKED if self.is_forked else NOT_RUNNING

    @property
    @abc.abstractmethod
    def nodes(self) -> Mapping[int, INode]:
        """All brokers by id, running or not."""

    @property
    @abc.abstractmethod
    def brokers(self) -> Mapping[int, INode]:
        """The running brokers by id."""

    @property
    @abc.abstractmethod
    def bootstrap_servers(self) -> str:
        """The addresses for clients, host:port; they stay after a stop. Raises RuntimeError before the start."""

    @abc.abstractmethod
    def start(self) -> None:
        """Start and serve, at the same addresses and with the same data as before a stop. Raises StartError, one line."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Stop as an operator does. The data, the addresses, the rules and the clock stay. Harmless when it does not run."""

    @abc.abstractmethod
    def close(self) -> None:
        """Stop, and remove the data and the rules. A ``with`` block ends with it."""

    def reset(self) -> None:
        """Return to the state at the start, at the same addresses: no topics, groups or requests, and the same rules and time.

        It takes as long as a start, and closes connections. Raises ValueError if the test chose the data's directory.
        """
        self._check_own_data()
        self.faults.clear()
        self.clock.release()
        self.stop()
        self.replaced += 1
        try:
            for directory in self._directories():
                shutil.rmtree(directory, ignore_errors=True)
            self.clear_state()
        finally:
            self.start()

    def clear_state(self) -> None:
        """Forget requests, and return to the rules and the time of the start. The data stays."""
        self.network.clear()
        self.faults.clear()
        self.clock.reset()
        self.requests.clear()
        for rule in self._rules:
            self.faults.add(rule)

    def snapshot(self) -> Snapshot:
        """Copy topics, records, groups, offsets, transactions, settings, ACLs and users. The brokers restart for this.

        The restart is like an operator's: requests under way are answered, connections are closed, and clients reconnect to the
        same addresses. Requests that a rule delays or holds are dropped. Rules, requests and the clock stay.
        Raises SnapshotError if the files cannot be copied; the brokers then run with their present state.
        """
        with self._telling("no snapshot was taken"), self._stopped():
            return Snapshot(self._directories())

    def restore(self, snapshot: Snapshot) -> None:
        """Restore a snapshot of this, or of one with the same number of brokers and log directories; restart like ``snapshot``.

        If a broker acknowledged more than the snapshot contains, clients see a broker that lost data: an idempotent producer
        fails. Raises ValueError if the number of log directories differs. Raises SnapshotError if the files cannot be copied, or
        if a broker does not start with them; the brokers then run with their present state.
        """
        if not isinstance(snapshot, Snapshot):
            raise TypeError(f"{snapshot!r:.80} is of type {type(snapshot).__name__}: expected what snapshot() returned")
        directories, ran = self._directories(), list(self.brokers)
        snapshot.check(directories)
        self.replaced += 1
        with self._telling("the snapshot was not restored"), self._stopped(), snapshot.put(directories):
            self._start_again(ran)

    @contextlib.contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        """Raise SnapshotError for errors of files, and of the start after them."""
        try:
            yield
        except (OSError, StartError) as error:
            state = "runs with its previous state" if self.is_running else "has stopped"
            raise SnapshotError(f"{what}, and the broker {state}: {first_line(error)}") from error

    @contextlib.contextmanager
    def _stopped(self) -> Iterator[None]:
        """Stop for a ``with`` block, which may change the log directories; then start what ran, unless the block has."""
        if not self.is_running:
            raise RuntimeError(self._why_not_running())
        ran = list(self.brokers)
        self.stop()
        try:
            yield
        finally:
            if not self.is_running:
                self._start_again(ran)

    def _start_again(self, broker_ids: Collection[int]) -> None:
        """Start these brokers."""
        self.start()

    @abc.abstractmethod
    def _check_own_data(self) -> None:
        """Raise ValueError if the data was there before the test."""

    @abc.abstractmethod
    def _directories(self) -> list[Path]:
        """Return the directories with the data."""

    def restart(self) -> None:
        """Stop and start as an operator does: clients reconnect to the same addresses, and find the same data."""
        self.stop()
        self.start()

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """Be stopped for a ``with`` block: clients get no connection."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    @property
    @abc.abstractmethod
    def is_closed(self) -> bool:
        """Whether it was closed: it cannot start again."""

    @property
    def is_running(self) -> bool:
        """Whether a broker runs."""
        return bool(self.brokers)

    @override
    def __reduce__(self) -> NoReturn:
        """Raise TypeError: a broker stays in its process."""
        raise TypeError(f"a {type(self).__name__} cannot be copied or sent to another process: send its bootstrap_servers")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    # The brokers for a request

    @abc.abstractmethod
    def leader(self, topic: str, partition: int = 0) -> INode:
        """Return the broker that leads a partition; wait for one. Raises BrokerError and TimeoutError."""

    @abc.abstractmethod
    def coordinator(self, group: str) -> INode:
        """Return the broker that coordinates a group; wait for one. Raises TimeoutError."""

    @abc.abstractmethod
    def controller(self) -> INode:
        """Return the controller; wait for one. Raises TimeoutError."""

    def any(self) -> INode:
        """Return a running broker. Raises RuntimeError if none runs."""
        for broker in self.brokers.values():
            return broker
        raise RuntimeError(self._why_not_running())

    # Topics

    def create_topic(self, topic: str, partitions: int = -1, replication_factor: int = -1, **config: object) -> str:
        """Create a topic, with Kafka's topic settings, ``_`` for ``.``; return its name. Raises BrokerError.

        By default it has as many partitions and replicas as the broker's ``num.partitions`` and ``default.replication.factor``.
        """
        check_text("topic", topic)
        check_whole("number of partitions", partitions)
        check_whole("replication factor", replication_factor)
        for wrong, right in (("num_partitions", "partitions=3"), ("config", "Kafka's settings by name, as in retention_ms=1000")):
            if wrong in config:
                raise TypeError(f"create_topic has no {wrong!r}: expected {right}")
        settings = [CreatableTopicConfig(name=name.replace("_", "."), value=_text(value)) for name, value in config.items()]
        new = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replication_factor, configs=settings)
        (result,) = self.controller().ask(CreateTopicsRequest(topics=[new], timeout_ms=_TIMEOUT_MS)).topics
        check(result.error_code, f"cannot create topic {topic!r}", result.error_message)
        self.settle()
        return topic

    @abc.abstractmethod
    def settle(self) -> None:
        """Wait until all running brokers report the same brokers, topics and leaders. Raises TimeoutError."""

    def topics(self) -> list[str]:
        """Return the sorted names of the topics, without Kafka's internal ones."""
        return sorted(topic.name for topic in self.any().ask(MetadataRequest(topics=None)).topics if not topic.is_internal)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic. Raises BrokerError."""
        check_text("topic", topic)
        (result,) = self.controller().ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=_TIMEOUT_MS)).responses
        check(result.error_code, f"cannot delete topic {topic!r}")

    def alter_topic(self, topic: str, *, partitions: int | None = None, **config: object) -> None:
        """Change a topic's number of partitions and its settings, ``_`` for ``.``; None sets a default. Raises BrokerError.

        It returns when all brokers use the settings.
        """
        check_text("topic", topic)
        if partitions is not None:
            check_whole("number of partitions", partitions)
            more = CreatePartitionsTopic(name=topic, count=partitions, assignments=None)
            (result,) = self.controller().ask(CreatePartitionsRequest(topics=[more], timeout_ms=_TIMEOUT_MS)).results
            check(result.error_code, f"topic {topic!r} cannot have {partitions} partitions", result.error_message)
        if config:
            changed = {name.replace("_", "."): None if value is None else _text(value) for name, value in config.items()}
            entries = [
                IncrementalAlterConfigsRequestAlterableConfig(name=name, config_operation=value is None, value=value)
                for name, value in changed.items()
            ]
            resource = IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=_TOPIC_RESOURCE, resource_name=topic, configs=entries
            )
            (response,) = self.any().ask(IncrementalAlterConfigsRequest(resources=[resource])).responses
            check(response.error_code, f"topic {topic!r} cannot be altered", response.error_message)
            self._apply_config_changes()
        self.settle()

    def _apply_config_changes(self) -> None:
        for broker in self.brokers.values():
            broker.embedded.apply_config_changes(WAIT_S)

    def partitions(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions, sorted. Raises BrokerError."""
        return sorted(each.partition_index for each in self._described(topic).partitions)

    def partition_state(self, topic: str, partition: int = 0) -> Any:
        """Return a partition as clients see it: ``leader_id``, ``replica_nodes``, ``isr_nodes``. Raises BrokerError."""
        for found in self._described(topic).partitions:
            if found.partition_index == partition:
                return found
        raise BrokerError(f"there is no partition {partition} of {topic!r}")

    def topic_id(self, topic: str) -> str:
        """Return Kafka's text of a topic's id, as a rule's ``topic_id`` takes it. Raises BrokerError."""
        return uuid_text(self._described(topic).topic_id)

    # Records

    def produce(
        self,
        topic: str,
        values: Values,
        *,
        key: Value = None,
        headers: Headers = (),
        partition: int = 0,
    ) -> int:
        """Append records to a partition; return the offset of the first one. Raises BrokerError, TypeError and ValueError.

        ``values`` is a value (bytes, or a text, or None for a tombstone), a Record, or several of them. ``key`` and ``headers`` (a
        mapping, or pairs) are for each value that is not a Record.
        """
        check_text("topic", topic)
        check_whole("partition", partition)
        found = records_of(values, key, headers)
        leader = self.leader(topic, partition)
        return min(_append(leader, topic, partition, batch) for batch in batches_of(found, self.clock.wall_ms()))

    def append(self, topic: str, records: Iterable[Record], partition: int = 0) -> int:
        """Append Records; the same as ``produce``."""
        return self.produce(topic, records, partition=partition)

    def records(self, topic: str, partition: int | None = None, *, start: int = 0) -> list[Record]:
        """Return all records of a topic, or of one of its partitions, including those of open and aborted transactions.

        In a cluster, these are the leaders' records up to the high watermark. ``start`` is the first offset. Raises BrokerError for
        an unknown topic.
        """
        check_whole("start", start)
        wanted = self.partitions(topic) if partition is None else [partition]
        return [record for index in wanted for record in self._read(topic, index, start)]

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """Return the offset after the last record. Raises BrokerError."""
        return self._offset(topic, partition, _LATEST)

    def start_offset(self, topic: str, partition: int = 0) -> int:
        """Return the offset of the first record that is still there. Raises BrokerError."""
        return self._offset(topic, partition, _EARLIEST)

    # Groups

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Return the offsets that a group has committed, by topic and partition."""
        check_text("group", group)
        answer = self.coordinator(group).ask(OffsetFetchRequest(group_id=group, topics=None))
        if answer.error_code in _NO_COORDINATOR:
            return {}
        check(answer.error_code, f"group {group!r} has no offsets")
        return {(topic.name, each.partition_index): each.committed_offset for topic in answer.topics for each in topic.partitions}

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int | None]) -> None:
        """Set a group's offsets, by topic and partition; None removes one. Raises BrokerError, for example if it has members.

        A group that does not exist is created.
        """
        check_text("group", group)
        _check_offsets(offsets)
        coordinator = self.coordinator(group)
        set_to = {where: offset for where, offset in offsets.items() if offset is not None}
        if set_to:
            topics = [
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                        for (name, index), offset in set_to.items()
                        if name == topic
                    ],
                )
                for topic in dict.fromkeys(name for name, _ in set_to)
            ]
            found: list[ErrorCode] = []

            def commit() -> list[ErrorCode]:
                self.coordinator_id(group)  # the first one to ask creates the topic of groups
                answer = coordinator.ask(OffsetCommitRequest(group_id=group, topics=topics))
                found[:] = [ErrorCode(each.error_code) for topic in answer.topics for each in topic.partitions]
                return found

            self._wait(commit, lambda codes: not set(codes) & set(_NO_COORDINATOR), f"a coordinator of group {group!r}", WAIT_S)
            for code in found:
                why = "it has members, which commit themselves" if code == ErrorCode.UNKNOWN_MEMBER_ID else None
                check(code, f"the offsets of group {group!r} cannot be set", why)
        removed = [where for where in offsets if offsets[where] is None]
        for topic, partition in removed:
            part = OffsetDeleteRequestPartition(partition_index=partition)
            deleted = [OffsetDeleteRequestTopic(name=topic, partitions=[part])]
            answer = coordinator.ask(OffsetDeleteRequest(group_id=group, topics=deleted))
            code = answer.error_code or answer.topics[0].partitions[0].error_code
            check(code, f"the offset of group {group!r} in {topic}-{partition} cannot be removed")

    def delete_group(self, group: str) -> None:
        """Delete a group with its offsets. Raises BrokerError, for example if it has members."""
        check_text("group", group)
        (result,) = self.coordinator(group).ask(DeleteGroupsRequest(groups_names=[group])).results
        check(result.error_code, f"group {group!r} cannot be deleted")

    def groups(self) -> dict[str, str]:
        """Return the states of all groups, by group."""
        states: dict[str, str] = {}
        for broker in self.brokers.values():
            answer = broker.ask(ListGroupsRequest())
            if answer.error_code not in _NO_COORDINATOR:
                states |= {each.group_id: each.group_state for each in answer.groups}
        return dict(sorted(states.items()))

    def group_state(self, group: str) -> str:
        """Return the state of a group: Stable, Empty, PreparingRebalance, CompletingRebalance, or Dead if it does not exist.

        A group of the consumer protocol (KIP-848) is Stable, Empty, Assigning or Reconciling.
        """
        return self.described_group(group).state

    def described_group(self, group: str) -> DescribedGroup:
        """Return the state of a group of any type, and its members with their assignments."""
        check_text("group", group)
        coordinator = self.coordinator(group)
        (found,) = coordinator.ask(DescribeGroupsRequest(groups=[group])).groups
        if found.error_code in _NO_COORDINATOR:
            return DescribedGroup(NO_GROUP, ())
        if found.group_state == NO_GROUP:
            for asked in (ConsumerGroupDescribeRequest, ShareGroupDescribeRequest):
                if asked.KEY in coordinator.embedded.supported_apis:
                    (other,) = coordinator.ask(asked(group_ids=[group])).groups
                    if not other.error_code:
                        return consumer_group_of(other)
            streams = self._described_streams_group(group)
            if streams is not None and not streams.error_code:
                return members_of_streams_group(streams)
        check(found.error_code, f"group {group!r} cannot be described")
        return classic_group_of(found)

    def share_group(self, group: str) -> DescribedShareGroup:
        """Return the state of a share group (KIP-932), its members with their assignments, its offsets and its records in flight.

        The state is Stable, Empty, or Dead if it does not exist. Raises BrokerError if the brokers do not serve share groups.
        """
        check_text("group", group)
        coordinator = self.coordinator(group)
        if ApiKey.SHARE_GROUP_DESCRIBE not in coordinator.embedded.supported_apis:
            raise BrokerError(f"share group {group!r} cannot be described: {ErrorCode.UNSUPPORTED_VERSION.name}")
        (found,) = coordinator.ask(ShareGroupDescribeRequest(group_ids=[group])).groups
        if found.error_code in (*_NO_COORDINATOR, ErrorCode.GROUP_ID_NOT_FOUND):
            return DescribedShareGroup(NO_GROUP, (), {}, {})
        check(found.error_code, f"share group {group!r} cannot be described")
        wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
        (offsets,) = coordinator.ask(DescribeShareGroupOffsetsRequest(groups=[wanted])).groups
        check(offsets.error_code, f"the offsets of share group {group!r} cannot be described")
        in_flight = [each for broker in self.brokers.values() for each in broker.embedded.in_flight(group)]
        return share_group_of(found, offsets.topics, in_flight)

    def streams_group(self, group: str) -> DescribedStreamsGroup:
        """Return the state of a streams group (KIP-1071), its members with their tasks, and the topics of its topology.

        The state is Stable, Empty, NotReady, Assigning, Reconciling, or Dead if it does not exist. Raises BrokerError if the
        brokers do not serve streams groups.
        """
        check_text("group", group)
        found = self._described_streams_group(group)
        if found is None:
            raise BrokerError(f"streams group {group!r} cannot be described: {ErrorCode.UNSUPPORTED_VERSION.name}")
        if found.error_code in (*_NO_COORDINATOR, ErrorCode.GROUP_ID_NOT_FOUND):
            return DescribedStreamsGroup(NO_GROUP, (), frozenset(), frozenset())
        check(found.error_code, f"streams group {group!r} cannot be described")
        return streams_group_of(found)

    def _described_streams_group(self, group: str) -> Any:
        """Return the coordinator's description; None if the brokers do not serve streams groups."""
        coordinator = self.coordinator(group)
        if ApiKey.STREAMS_GROUP_DESCRIBE not in coordinator.embedded.supported_apis:
            return None
        (found,) = coordinator.ask(StreamsGroupDescribeRequest(group_ids=[group])).groups
        return found

    def coordinator_id(self, group: str) -> int:
        """Return the id of the broker that coordinates a group; -1 if none does yet, for example while it loads the groups."""
        found = int(self.any().ask(FindCoordinatorRequest(key=group)).node_id)
        if found not in self.brokers:
            return -1
        (told,) = self.brokers[found].ask(DescribeGroupsRequest(groups=[group])).groups
        return -1 if told.error_code in _NO_COORDINATOR else found

    def lag(self, group: str, topic: str | None = None) -> int | None:
        """Return how many records a group still has to read, in one topic or in all topics that it has committed offsets of.

        A partition without a committed offset counts from its start. Returns None if the group has committed nothing.
        """
        committed = self.committed(group)
        topics = {name for name, _ in committed if topic in (None, name)}
        lag = 0
        for name in topics:
            for partition in self.partitions(name):
                at = committed.get((name, partition))
                lag += self.end_offset(name, partition) - (self.start_offset(name, partition) if at is None else at)
        return lag if topics else None

    def rebalance(self, group: str) -> None:
        """Let a group rebalance: all members have to join again. Raises BrokerError for a group without members.

        In a group of the consumer protocol (KIP-848), which has no such step, the members lose their membership and come back.
        """
        check_text("group", group)
        coordinator = self.coordinator(group)
        error = coordinator.embedded.rebalance(group)
        if error == ErrorCode.GROUP_ID_NOT_FOUND and (members := self.described_group(group).members):
            for member in members:
                leave = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member.member_id, member_epoch=-1)
                check(coordinator.ask(leave).error_code, f"group {group!r} cannot rebalance")
            return
        check(ErrorCode.GROUP_ID_NOT_FOUND if error in _NO_COORDINATOR else error, f"group {group!r} cannot rebalance")

    # Users and their rights

    def allow(
        self,
        principal: str,
        operation: str,
        *,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        host: str = "*",
    ) -> None:
        """Add an ACL: ``allow("alice", "Write", topic="orders")``. It needs an authorizer (``authorizer.class.name``).

        A name that ends in ``*`` is a prefix, ``*`` alone every name. Without a name, the ACL is about the cluster. It returns when
        all brokers know of it. Raises BrokerError, and ValueError for an operation that does not exist.
        """
        resource = {"topic": topic, "group": group, "transactional_id": transactional_id}
        self._add_acl(acl_entry(principal, operation, PermissionType.ALLOW, resource, host))

    def deny(
        self,
        principal: str,
        operation: str,
        *,
        topic: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        host: str = "*",
    ) -> None:
        """Add an ACL that denies an operation, like ``allow``. A denial overrides every permission."""
        resource = {"topic": topic, "group": group, "transactional_id": transactional_id}
        self._add_acl(acl_entry(principal, operation, PermissionType.DENY, resource, host))

    def _add_acl(self, entry: AclCreation) -> None:
        (result,) = self.any().ask(CreateAclsRequest(creations=[entry])).results
        why = _NO_AUTHORIZER if result.error_code == ErrorCode.SECURITY_DISABLED else result.error_message
        check(result.error_code, f"no ACL for {entry.principal}", why)
        wanted = DescribeAclsRequest(
            resource_type_filter=entry.resource_type,
            resource_name_filter=entry.resource_name,
            pattern_type_filter=entry.resource_pattern_type,
            principal_filter=entry.principal,
            host_filter=entry.host,
            operation=entry.operation,
            permission_type=entry.permission_type,
        )
        self._wait_for_acls(wanted, all)

    def remove_acls(self, principal: str | None = None) -> None:
        """Remove the ACLs of a principal, or all ACLs. It returns when all brokers know of it. Raises BrokerError."""
        named = principal if principal is None or ":" in principal else f"User:{principal}"
        matching: dict[str, Any] = {
            "resource_type_filter": ResourceType.ANY,
            "resource_name_filter": None,
            "pattern_type_filter": PatternType.ANY,
            "principal_filter": named,
            "host_filter": None,
            "operation": AclOperation.ANY,
            "permission_type": PermissionType.ANY,
        }
        (result,) = self.any().ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**matching)])).filter_results
        check(result.error_code, "the ACLs cannot be removed", result.error_message)
        self._wait_for_acls(DescribeAclsRequest(**matching), lambda seen: not any(seen))

    def _wait_for_acls(self, wanted: DescribeAclsRequest, is_there: Callable[[list[int]], bool]) -> None:
        """Wait until the numbers of matching ACLs that each broker knows of are as they should be."""

        def known() -> list[int]:
            return [len(broker.ask(wanted).resources) for broker in self.brokers.values()]

        self._wait(known, is_there, "the ACLs everywhere", WAIT_S)

    def add_user(self, name: str, password: str) -> None:
        """Add a user for SASL/SCRAM, with SHA-256 and SHA-512, or give it another password. Raises BrokerError."""
        check_text("user", name)
        check_text("password", password)
        self._alter_credentials(AlterUserScramCredentialsRequest(upsertions=credentials(name, password)), name)

    def remove_user(self, name: str) -> None:
        """Remove a user of ``add_user``. Raises BrokerError."""
        check_text("user", name)
        self._alter_credentials(AlterUserScramCredentialsRequest(deletions=no_credentials(name)), name)

    def _alter_credentials(self, request: AlterUserScramCredentialsRequest, name: str) -> None:
        for result in self.controller().ask(request).results:
            check(result.error_code, f"user {name!r} cannot be altered", result.error_message)
        self._apply_config_changes()

    # Waits

    @property
    def aio(self) -> Aio:
        """The waits for an asyncio loop: ``await kafka.aio.wait_for_commit("g", "orders", 0, 3)``."""
        return Aio(self)

    def wait_for(self, look: Callable[[], Any], is_there: Callable[[Any], bool], wanted: str, timeout_s: float = WAIT_S) -> None:
        """Wait until ``is_there(look())`` is true; check it after each request, too.

        Raises TimeoutError, which names ``wanted``, the last value of ``look``, and the last requests.
        """
        check_may_block("kafka.wait_for")
        self._wait(look, is_there, wanted, timeout_s)

    def wait_for_offset(self, topic: str, partition: int, offset: int, timeout_s: float = WAIT_S) -> None:
        """Wait until ``end_offset`` is at least ``offset``. Raises TimeoutError, which reports the last end offset."""
        check_may_block("kafka.wait_for_offset")
        check_whole("offset", offset)
        self._wait(
            lambda: self._end_or_why(topic, partition),
            lambda end: isinstance(end, int) and end >= offset,
            f"end of {topic}-{partition} at {offset} or more",
            timeout_s,
        )

    def wait_for_group(self, group: str, state: str = "Stable", timeout_s: float = WAIT_S) -> None:
        """Wait until a group is in this state. Raises TimeoutError with its last state, and ValueError for an unknown state."""
        check_may_block("kafka.wait_for_group")
        check_state(state)
        self._wait(lambda: self.group_state(group), lambda seen: seen == state, f"group {group!r} {state}", timeout_s)

    def wait_for_share_group(
        self, group: str, state: str = "Stable", timeout_s: float = WAIT_S, *, offsets: Mapping[tuple[str, int], int] | None = None
    ) -> None:
        """Wait until a share group is in this state, and has at least these ``offsets``, by topic and partition.

        Raises TimeoutError with the last state and offsets, and ValueError for an unknown state.
        """
        check_may_block("kafka.wait_for_share_group")
        check_share_state(state)
        least = dict(offsets or {})
        wanted = f"share group {group!r} {state}" + (f" at {least} or more" if least else "")

        def look() -> tuple[str, dict[tuple[str, int], int]]:
            found = self.share_group(group)
            return found.state, {where: found.offsets.get(where, -1) for where in least}

        def is_there(seen: tuple[str, dict[tuple[str, int], int]]) -> bool:
            return seen[0] == state and all(seen[1][where] >= offset for where, offset in least.items())

        self._wait(look, is_there, wanted, timeout_s)

    def wait_for_streams_group(self, group: str, state: str = "Stable", timeout_s: float = WAIT_S) -> None:
        """Wait until a streams group is in this state.

        Raises TimeoutError with the last state, and ValueError for an unknown state.
        """
        check_may_block("kafka.wait_for_streams_group")
        check_streams_state(state)
        wanted = f"streams group {group!r} {state}"
        self._wait(lambda: self.streams_group(group).state, lambda seen: seen == state, wanted, timeout_s)

    def wait_for_commit(self, group: str, topic: str, partition: int, offset: int, timeout_s: float = WAIT_S) -> None:
        """Wait until a group has committed at least this offset. Raises TimeoutError, which reports the committed offset."""
        check_may_block("kafka.wait_for_commit")
        check_whole("offset", offset)
        self._wait(
            lambda: self.committed(group).get((topic, partition), -1),
            lambda seen: seen >= offset,
            f"group {group!r} at {offset} or more of {topic}-{partition}",
            timeout_s,
        )

    def wait_for_lag(self, group: str, most: int = 0, topic: str | None = None, timeout_s: float = WAIT_S) -> None:
        """Wait until ``lag`` is at most ``most``. Raises TimeoutError, which reports the last lag."""
        check_may_block("kafka.wait_for_lag")
        check_whole("lag", most)
        where = f" in {topic}" if topic else ""
        self._wait(
            lambda: self._lag_or_why(group, topic),
            lambda seen: isinstance(seen, int) and seen <= most,
            f"group {group!r} with a lag of {most} or less{where}",
            timeout_s,
        )

    def _lag_or_why(self, group: str, topic: str | None) -> int | str:
        lag = self.lag(group, topic)
        return f"no lag: the group has committed no offset{f' of {topic}' if topic else ''}" if lag is None else lag

    def _end_or_why(self, topic: str, partition: int) -> int | str:
        try:
            code, end = self._offset_or_error(topic, partition, _LATEST)
            check(code, f"{topic}-{partition} has no offsets")
        except BrokerError as error:  # the topic may be created yet
            return f"no end: {error}"
        return end

    def _wait(self, look: Callable[[], Any], is_there: Callable[[Any], bool], wanted: str, timeout_s: float) -> None:
        check_number("timeout_s", timeout_s)
        seen: list[Any] = [None]

        def there() -> bool:
            seen[0] = look()
            return is_there(seen[0])

        if not self.requests.wait_until(there, timeout_s, LOOK_S):
            raise TimeoutError(f"waited {timeout_s:g} s for {wanted}; the last value was {seen[0]!r}; {self.requests.told()}")

    # Recordings and diagnoses

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

    @abc.abstractmethod
    def replay(self, path: Path | str, timeout_s: float = 30.0) -> Report:
        """Send the requests of a recording; report answers that differ. Raises OSError and RecordingError.

        Best use a recording that began with a new broker. ``timeout_s`` limits the wait for each answer.
        """

    @property
    @abc.abstractmethod
    def diagnoses(self) -> list[str]:
        """The clients' mistakes that the brokers have seen, a line each, with advice."""

    def told(self, count: int = 20) -> str:
        """Return the last requests of clients, a line each."""
        return self.requests.told(count)

    if not TYPE_CHECKING:  # a type checker has to find misspelt names

        def __getattr__(self, name: str) -> Any:
            """Say what a name of the module kafka is, as which the fixture ``kafka`` is easily taken."""
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            package, names = _OF_MODULES
            if name in names or name.startswith("Kafka"):
                text += (
                    f": `kafka` is the fixture here, which hides {package}'s module of that name; "
                    f"import what you need at the top, as in `from kafka import {name}`"
                )
            raise AttributeError(text, name=name, obj=self)

    def _described(self, topic: str) -> Any:
        check_text("topic", topic)
        wanted = [MetadataRequestTopic(name=topic)]
        (found,) = self.any().ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False)).topics
        check(found.error_code, f"topic {topic!r} cannot be read")
        return found

    def _read(self, topic: str, partition: int, start: int = 0) -> list[Record]:
        at, end = max(start, self.start_offset(topic, partition)), self.end_offset(topic, partition)
        found: list[Record] = []
        leader = self.leader(topic, partition)
        while at < end:
            part = FetchPartition(partition=partition, fetch_offset=at, partition_max_bytes=_FETCH_BYTES)
            request = FetchRequest(max_bytes=_FETCH_BYTES, topics=[FetchTopic(topic=topic, partitions=[part])])
            answer = leader.ask(request).responses[0].partitions[0]
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:  # retention has deleted it meanwhile
                at, found = max(start, self.start_offset(topic, partition)), []
                continue
            check(answer.error_code, f"{topic}-{partition} cannot be read")
            before = at
            for batch in batches(answer.records or b""):
                at = batch.last_offset + 1
                if not batch.is_control:
                    found += [
                        Record(each.value, each.key, each.headers, each.timestamp_ms, topic, partition, each.offset)
                        for each in batch.records()
                        if before <= each.offset
                    ]
            if at == before:
                raise BrokerError(f"{topic}-{partition} cannot be read: nothing at offset {at} of {end}")
        return found

    def _offset(self, topic: str, partition: int, position: int) -> int:
        found: list[tuple[ErrorCode, int]] = []

        def ask() -> str:
            found[:] = [self._offset_or_error(topic, partition, position)]
            return found[0][0].name

        self._wait(
            ask, lambda seen: seen not in _NOT_YET_LEADING, f"a leader of {topic}-{partition} that knows its offsets", WAIT_S
        )
        ((code, offset),) = found
        check(code, f"{topic}-{partition} has no offsets")
        return offset

    def _offset_or_error(self, topic: str, partition: int, position: int) -> tuple[ErrorCode, int]:
        check_text("topic", topic)
        check_whole("partition", partition)
        asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=position)])
        answer = self.leader(topic, partition).ask(ListOffsetsRequest(replica_id=-1, topics=[asked])).topics[0].partitions[0]
        return ErrorCode(answer.error_code), int(answer.offset)


def _append(leader: INode, topic: str, partition: int, batch: Sequence[SimpleRecord]) -> int:
    """Append a batch, acks=all, in halves if it is too large for the topic; return the first offset. Raises BrokerError."""
    data = PartitionProduceData(index=partition, records=build_batch(batch))
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    answer = leader.ask(ProduceRequest(acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=topics)).responses[0].partition_responses[0]
    if answer.error_code == ErrorCode.MESSAGE_TOO_LARGE and len(batch) > 1:
        middle = len(batch) // 2
        first = _append(leader, topic, partition, batch[:middle])
        _append(leader, topic, partition, batch[middle:])
        return first
    check(answer.error_code, f"cannot produce to {topic}-{partition}")
    return int(answer.base_offset)


def _check_offsets(offsets: Mapping[tuple[str, int], int | None]) -> None:
    """Raise TypeError or ValueError, one line, unless these are offsets by topic and partition."""
    if not isinstance(offsets, Mapping) or not all(isinstance(where, tuple) and len(where) == 2 for where in offsets):
        raise TypeError(f"the offsets {offsets!r:.80}: expected a topic and a partition each, as in {{('orders', 0): 7}}")
    for (topic, partition), offset in offsets.items():
        check_text("topic", topic)
        check_whole("partition", partition)
        if offset is not None:
            check_whole("offset", offset)
            if offset < 0:
                raise ValueError(f"the offset {offset} of {topic}-{partition}: expected 0 or more, or None to remove the offset")


_REMEDIES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "create the topic first, or check its name and the partition",
    ErrorCode.MESSAGE_TOO_LARGE: "raise the topic's max.message.bytes",
}
"""What to do about an error to which the broker adds no text."""


def check(code: int, what: str, why: str | None = None) -> None:
    """Raise BrokerError for an error code."""
    if code:
        text = why or _REMEDIES.get(ErrorCode(code))
        raise BrokerError(f"{what}: {ErrorCode(code).name}{f', {text}' if text else ''}")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
