"""Creates and deletes topics and partitions for clients: validates, writes nodes, and waits for the controller.

Kafka's ``ZkAdminManager``. All topics of a request are written in one transaction. The results are futures that are done when the
metadata cache has the change, or after the timeout (REQUEST_TIMED_OUT; the work continues).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final

from twisted.logger import Logger

from twisted_kafka.admin.placement import (
    ReplicaPlacement,
    ensure_known_brokers,
    ensure_some_brokers,
    ensure_valid_assignment,
    ensure_valid_replicas,
)
from twisted_kafka.admin.policies import Policies, TopicOrder
from twisted_kafka.admin.topic_names import CLUSTER_TOPIC, CollidingNames, collision_key, ensure_valid_name
from twisted_kafka.admin.topic_orders import DEFAULT_COUNT, NewPartitions, NewTopic, TopicResult
from twisted_kafka.admin.topic_waits import TopicWaits
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.topic_config import ensure_no_null, validated_overrides
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.cache import NO_LEADER, MetadataCache
from twisted_kafka.metadata.store import (
    Create,
    IMetadataStore,
    NodeExistsError,
    NoNodeError,
    Operation,
    Set,
    Stat,
    StoreDisconnectedError,
    StoreError,
)
from twisted_kafka.metadata.znode_json import BadNodeError
from twisted_kafka.metadata.znodes import ConfigNode, TopicNode
from twisted_kafka.protocol.compiler.types import NO_UUID, random_uuid
from twisted_kafka.protocol.errors import (
    ErrorCode,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    InvalidTopicError,
    KafkaError,
    NotControllerError,
    PolicyViolationError,
    ReassignmentInProgressError,
    TopicDeletionDisabledError,
    TopicExistsError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC, is_legal_topic
from twisted_kafka.quota.controller_mutation_quota_manager import UNBOUNDED, ControllerMutationQuota

_log = Logger()

MAX_NEW_PARTITIONS: Final = 10_000
"""The most partitions that one request may create, as in Kafka's KRaft mode: a typo could exhaust memory and files."""

_IN_PROGRESS: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER)


class TopicManager:
    """Changes topics for clients. This broker must be the controller, but for topics that are created automatically."""

    def __init__(
        self,
        config: KafkaConfig,
        store: IMetadataStore,
        metadata: MetadataCache,
        controller: KafkaController,
        waits: TopicWaits,
        placement: ReplicaPlacement,
        policies: Policies | None = None,
    ) -> None:
        self._config = config
        self._store = store
        self._metadata = metadata
        self._controller = controller
        self.waits = waits
        self._policies = policies or Policies(config)
        self._placement = placement
        self._logged_failures: dict[str, str] = {}
        self._colliding = CollidingNames(metadata)
        controller.add_topics_listener(waits.topics_changed)

    # Creation

    def create_topics(
        self,
        topics: Sequence[NewTopic],
        timeout_ms: int,
        *,
        validate_only: bool = False,
        mutations: ControllerMutationQuota = UNBOUNDED,
    ) -> "Future[list[TopicResult]]":
        """Create topics; one result for each, in order. ``mutations`` may refuse some of them, and counts the new partitions."""
        if not self._controller.is_active:
            results = [TopicResult(topic.name) for topic in topics]
            _refuse_all(results, NotControllerError(""))
            return _done(results)
        return self._create(topics, timeout_ms, validate_only=validate_only, mutations=mutations)

    def _create(
        self, topics: Sequence[NewTopic], timeout_ms: int, *, validate_only: bool, mutations: ControllerMutationQuota
    ) -> "Future[list[TopicResult]]":
        """Write the topics' nodes, which any broker may do: the controller, wherever it is, hears of them."""
        results = [TopicResult(topic.name) for topic in topics]
        planned: list[tuple[TopicResult, TopicNode]] = []
        if sum(max(self._partitions_of(topic), 0) for topic in topics) > MAX_NEW_PARTITIONS:
            _refuse_all(results, _too_many_partitions())
            return _done(results)
        times = Counter(topic.name for topic in topics)
        existing = self._existing(times)
        asked: dict[str, str] = {}
        for topic, result in zip(topics, results, strict=True):
            try:
                if times[topic.name] > 1:
                    raise InvalidRequestError("Duplicate topic: the request has multiple entries for it")
                if topic.name in existing or self._metadata.contains(topic.name):
                    raise TopicExistsError(f"Topic '{topic.name}' already exists.")
                node = self._plan(topic, asked, result)
                if not validate_only:
                    mutations.record(len(node.partitions))
                planned.append((result, node))
                asked[collision_key(topic.name)] = topic.name
            except KafkaError as error:
                result.refuse(error)
        if validate_only:
            return _done(results)
        self._write(planned)
        made = [result for result, _ in planned if not result.error]
        return self.waits.until(self._has_leaders, made, results, timeout_ms)

    def _partitions_of(self, topic: NewTopic) -> int:
        if topic.assignments:
            return len(topic.assignments)
        return self._config.int("num.partitions") if topic.num_partitions == DEFAULT_COUNT else topic.num_partitions

    def _existing(self, names: Iterable[str]) -> set[str]:
        """Return the names that belong to topics, including topics that the controller does not know yet."""
        possible = [name for name in names if is_legal_topic(name)]
        if not possible:
            return set()
        found = self._store.get_many([znodes.topic_path(name) for name in possible])
        return {name for name, node in zip(possible, found, strict=True) if node is not None}

    def _ensure_possible_name(self, name: str, asked: Mapping[str, str]) -> None:
        """Raise InvalidTopicError for an invalid name, or one that collides with another topic, also one of this request."""
        ensure_valid_name(name)
        other = asked.get(collision_key(name)) or next(iter(self._existing(self._colliding.like(name))), None)
        if other is not None:
            raise InvalidTopicError(f"Topic '{name}' collides with existing topic '{other}': metrics write '.' as '_'")

    def _plan(self, topic: NewTopic, asked: Mapping[str, str], result: TopicResult) -> TopicNode:
        """Return the topic's node; raises a KafkaError if the topic cannot be created.

        The checks are in Kafka's order (ZkAdminManager.createTopics), so that of two mistakes the same one is reported.
        """
        if topic.name == CLUSTER_TOPIC:
            raise InvalidRequestError(f"Creation of internal topic {topic.name} is not allowed")
        ensure_no_null(topic.configs)
        if topic.assignments:
            if topic.num_partitions != DEFAULT_COUNT or topic.replication_factor != DEFAULT_COUNT:
                raise InvalidRequestError(
                    "Either replica assignments or the number of partitions and the replication factor can be set, not both"
                )
            assignment = {index: list(replicas) for index, replicas in sorted(topic.assignments.items())}
        else:
            factor = topic.replication_factor
            factor = self._config.int("default.replication.factor") if factor == DEFAULT_COUNT else factor
            assignment = self._placement.of_topic(self._partitions_of(topic), factor)
        self._ensure_possible_name(topic.name, asked)
        if topic.assignments:
            ensure_valid_assignment(assignment)
        result.configs = validated_overrides(self._config, topic.configs)
        if topic.assignments:
            # Kafka in ZooKeeper mode accepts partitions without brokers, and unknown brokers.
            ensure_some_brokers(assignment.values())
            ensure_known_brokers(assignment.values(), self._metadata.snapshot.brokers)
        result.num_partitions = len(assignment)
        result.replication_factor = len(assignment[0])
        self._policies.ensure_topic(_order(topic, result))
        return TopicNode(partitions=assignment, topic_id=random_uuid())

    def _write(self, planned: Sequence[tuple[TopicResult, TopicNode]]) -> None:
        config_paths = [znodes.config_path(f"topics/{result.name}") for result, _ in planned]
        groups: list[list[Operation]] = []
        left_over = self._store.get_many(config_paths)
        for (result, node), path, found in zip(planned, config_paths, left_over, strict=True):
            data = ConfigNode(result.configs).encode()
            # The config first: it must exist when the topic appears.
            change: Operation = Create(path, data) if found is None else Set(path, data)
            groups.append([change, Create(znodes.topic_path(result.name), node.encode())])
        for (result, node), written in zip(planned, self._store.batch(groups), strict=True):
            if isinstance(written, StoreError):
                _refuse_storing(result, written)
            else:
                result.topic_id = node.topic_id or NO_UUID
                self._colliding.add(result.name)

    def _has_leaders(self, name: str) -> bool:
        partitions = self._metadata.partitions(name)
        return bool(partitions) and all(partition.leader != NO_LEADER for partition in partitions)

    def create_internal_topic(self, topic: str, mutations: ControllerMutationQuota = UNBOUNDED) -> None:
        """Start to create ``__consumer_offsets`` or ``__transaction_state``, with their own settings.

        A failure is logged once per reason, as clients that look for their coordinator retry.
        """
        (result,) = self._create_automatically([topic], mutations)
        reason = f"{result.error.name}: {result.message}"
        if result.error not in _IN_PROGRESS and self._logged_failures.get(topic) != reason:
            self._logged_failures[topic] = reason
            _log.error("Topic {topic} cannot be created: {reason}", topic=topic, reason=reason)

    def create_dead_letter_topic(self, topic: str) -> None:
        """Start to create a dead-letter topic of share groups (KIP-1191)."""
        order = NewTopic(topic, configs={"errors.deadletterqueue.group.enable": "true"})
        self._create([order], 0, validate_only=False, mutations=UNBOUNDED)

    def auto_create(self, topics: Iterable[str], mutations: ControllerMutationQuota = UNBOUNDED) -> list[TopicResult]:
        """Start to create topics that a client asked for; the error is LEADER_NOT_AVAILABLE for those in progress.

        A result of this call's own topics has a topic id. Internal topics get their own configs, others the defaults (Kafka:
        ``AutoTopicCreationManager``).
        """
        results = self._create_automatically(topics, mutations)
        for each in results:
            if each.error in _IN_PROGRESS:
                each.error = ErrorCode.LEADER_NOT_AVAILABLE
        return results

    def create_for_application(self, orders: Sequence[NewTopic], mutations: ControllerMutationQuota) -> list[TopicResult]:
        """Start to create topics that an application needs; those in progress, or made by another member, have no error."""
        results = self._create(orders, 0, validate_only=False, mutations=mutations).result()
        for each in results:
            if each.error in _IN_PROGRESS:
                each.error = ErrorCode.NONE
        return results

    def _create_automatically(self, topics: Iterable[str], mutations: ControllerMutationQuota) -> list[TopicResult]:
        """Any broker creates topics that clients use, as in ZooKeeper mode; it need not be the controller."""
        orders = [self._automatic(topic) for topic in topics]
        try:
            return self._create(orders, 0, validate_only=False, mutations=mutations).result()
        except StoreDisconnectedError as error:
            results = [TopicResult(order.name) for order in orders]
            _refuse_all(results, error)
            return results

    def _automatic(self, topic: str) -> NewTopic:
        config = self._config
        if topic == GROUP_METADATA_TOPIC:
            own = {"compression.type": "producer", "cleanup.policy": "compact"}
            own["segment.bytes"] = str(config.int("offsets.topic.segment.bytes"))
            return NewTopic(
                topic, config.int("offsets.topic.num.partitions"), config.int("offsets.topic.replication.factor"), configs=own
            )
        if topic == TRANSACTION_TOPIC:
            own = {"compression.type": "uncompressed", "cleanup.policy": "compact"}
            own["min.insync.replicas"] = str(config.int("transaction.state.log.min.isr"))
            own["segment.bytes"] = str(config.int("transaction.state.log.segment.bytes"))
            own["unclean.leader.election.enable"] = "false"
            partitions = config.int("transaction.state.log.num.partitions")
            return NewTopic(topic, partitions, config.int("transaction.state.log.replication.factor"), configs=own)
        if topic == SHARE_TOPIC:
            # The share coordinator deletes records that nobody needs: the log does not compact or expire any.
            own = {"cleanup.policy": "delete", "retention.ms": "-1"}
            own["min.insync.replicas"] = str(config.int("share.coordinator.state.topic.min.isr"))
            own["segment.bytes"] = str(config.int("share.coordinator.state.topic.segment.bytes"))
            partitions = config.int("share.coordinator.state.topic.num.partitions")
            return NewTopic(topic, partitions, config.int("share.coordinator.state.topic.replication.factor"), configs=own)
        return NewTopic(topic)

    # Deletion

    def delete_topics(
        self, topics: Sequence[str], timeout_ms: int, *, mutations: ControllerMutationQuota = UNBOUNDED
    ) -> "Future[list[TopicResult]]":
        """Delete topics; there is one result for each, in order. ``mutations`` may refuse some, and counts their partitions."""
        results = [TopicResult(topic) for topic in topics]
        if not self._controller.is_active:
            _refuse_all(results, NotControllerError(""))
            return _done(results)
        if not self._config.boolean("delete.topic.enable"):
            for result in results:
                result.refuse(TopicDeletionDisabledError("Topic deletion is disabled: delete.topic.enable is false"))
            return _done(results)
        for result in results:
            try:
                if not self._metadata.contains(result.name):
                    raise UnknownTopicOrPartitionError("")
                mutations.record(self._metadata.partition_count(result.name) or 0)
            except KafkaError as error:
                result.refuse(error)
        known = [result for result in results if not result.error]
        names = list(dict.fromkeys(result.name for result in known))
        written = self._store.batch([[Create(znodes.delete_topic_path(name))] for name in names])
        failed = {
            name: error
            for name, error in zip(names, written, strict=True)
            if isinstance(error, StoreError) and not isinstance(error, NodeExistsError)
        }
        for result in known:
            if result.name in failed:
                _refuse_storing(result, failed[result.name])
        waiting = [result for result in known if not result.error]
        return self.waits.until(self._is_gone, waiting, results, timeout_ms)

    def _is_gone(self, name: str) -> bool:
        return not self._metadata.contains(name) and not self._controller.is_to_be_deleted(name)

    # Growth

    def create_partitions(
        self,
        topics: Sequence[NewPartitions],
        timeout_ms: int,
        *,
        validate_only: bool = False,
        mutations: ControllerMutationQuota = UNBOUNDED,
    ) -> "Future[list[TopicResult]]":
        """Add partitions to topics; one result for each, in order. A topic that is named twice is refused, once.

        ``mutations`` may refuse some, and counts the new partitions.
        """
        times = Counter(topic.name for topic in topics)
        topics = list({topic.name: topic for topic in topics}.values())
        results = [TopicResult(topic.name) for topic in topics]
        if not self._controller.is_active:
            _refuse_all(results, NotControllerError(""))
            return _done(results)
        found = self._store.get_many([znodes.topic_path(topic.name) for topic in topics])
        groups: list[list[Operation]] = []
        grown: list[TopicResult] = []
        left = MAX_NEW_PARTITIONS
        for topic, result, node in zip(topics, results, found, strict=True):
            try:
                if times[topic.name] > 1:
                    raise InvalidRequestError("Duplicate topic: the request has multiple entries for it")
                change, added = self._grown(topic, result, node, left)
                left -= added
                if not validate_only:
                    mutations.record(added)
            except KafkaError as error:
                result.refuse(error)
            else:
                groups.append([change])
                grown.append(result)
        if validate_only:
            return _done(results)
        for result, written in zip(grown, self._store.batch(groups), strict=True):
            if isinstance(written, StoreError):
                _refuse_storing(result, written)
        counts = {result.name: result.num_partitions for result in grown}
        waiting = [result for result in grown if not result.error]
        return self.waits.until(
            lambda name: self._has_leaders(name) and (self._metadata.partition_count(name) or 0) >= counts[name],
            waiting,
            results,
            timeout_ms,
        )

    def _grown(
        self, topic: NewPartitions, result: TopicResult, found: tuple[bytes, Stat] | None, most: int
    ) -> tuple[Operation, int]:
        """Return the change of the topic's node, and the number of new partitions, at most ``most``; raises a KafkaError."""
        # With a slash in its name, the path is that of another node.
        if found is None or not is_legal_topic(topic.name) or self._controller.is_to_be_deleted(topic.name):
            raise UnknownTopicOrPartitionError(f"The topic '{topic.name}' does not exist.")
        try:
            node = TopicNode.decode(found[0])
        except BadNodeError as error:
            raise UnknownServerError(f"The node of topic '{topic.name}' is damaged: {error}") from error
        if 0 not in node.partitions:
            raise UnknownServerError(f"The node of topic '{topic.name}' has no partition 0")
        if node.adding_replicas or node.removing_replicas:
            raise ReassignmentInProgressError(f"A reassignment of topic '{topic.name}' is in progress")
        before = len(node.partitions)
        if topic.count <= before:
            wrong = f"already has {before} partitions"
            if topic.count < before:
                wrong += f", which is higher than {topic.count}"
            raise InvalidPartitionsError(f"Topic {topic.name!r} {wrong}")
        added = topic.count - before
        if added > most:
            raise _too_many_partitions()
        brokers = self._metadata.snapshot.brokers
        first = node.partitions[0]
        if topic.assignments is not None:
            ensure_known_brokers(topic.assignments, brokers)
            if len(topic.assignments) != added:
                raise InvalidReplicaAssignmentError(
                    f"{added} partitions are new, but {len(topic.assignments)} replica assignments are given"
                )
            ensure_some_brokers(topic.assignments)
            ensure_valid_replicas(topic.assignments)
            if len(topic.assignments[0]) != len(first):
                raise InvalidReplicaAssignmentError(
                    f"Inconsistent replication factor: the topic's partitions have {len(first)} replicas each"
                )
            new = {before + index: list(replicas) for index, replicas in enumerate(topic.assignments)}
        else:
            new = self._placement.of_more(first, before, added)
        result.num_partitions = topic.count
        larger = TopicNode(partitions={**node.partitions, **new}, topic_id=node.topic_id)
        return Set(znodes.topic_path(topic.name), larger.encode(), found[1].version), added


def _too_many_partitions() -> PolicyViolationError:
    return PolicyViolationError(f"Excessively large number of partitions per request: the maximum is {MAX_NEW_PARTITIONS}")


def _order(topic: NewTopic, result: TopicResult) -> TopicOrder:
    if topic.assignments:
        return TopicOrder(topic.name, None, None, topic.assignments, result.configs)
    return TopicOrder(topic.name, result.num_partitions, result.replication_factor, None, result.configs)


def _refuse_all(results: Iterable[TopicResult], error: KafkaError) -> None:
    for result in results:
        result.refuse(error)


def _refuse_storing(result: TopicResult, error: StoreError) -> None:
    if isinstance(error, NodeExistsError):
        result.refuse(TopicExistsError(f"Topic '{result.name}' already exists."))
    elif isinstance(error, NoNodeError):
        result.refuse(UnknownTopicOrPartitionError(f"The topic '{result.name}' does not exist any more."))
    elif isinstance(error, StoreDisconnectedError):
        result.refuse(error)
    else:
        result.refuse(UnknownServerError(str(error)))


def _done(results: list[TopicResult]) -> "Future[list[TopicResult]]":
    future: Future[list[TopicResult]] = Future()
    future.set_result(results)
    return future
