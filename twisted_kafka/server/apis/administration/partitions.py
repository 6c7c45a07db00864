"""ElectLeaders v0-2: v1 unclean elections. AlterPartitionReassignments v0-1: v1 may forbid changing the replication
factor. ListPartitionReassignments v0 (KIP-455)."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future

from twisted_kafka.admin.partitions import PartitionAdmin, PartitionOutcome
from twisted_kafka.controller.context.context import ReplicaAssignment
from twisted_kafka.controller.machines.leader_elections import ElectionType
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import (
    ErrorCode,
    InvalidReplicationFactorError,
    InvalidRequestError,
    KafkaError,
    error_of,
)
from twisted_kafka.protocol.messages.administration.partitions import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    PartitionResult,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.security.authorizer.acl_types import AclOperation
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.waiting.futures import then


class PartitionApis:
    """Elects leaders of partitions, and reassigns their replicas."""

    def __init__(self, admin: PartitionAdmin, metadata: MetadataCache, authorization: IAuthorization = ALLOW_ALL) -> None:
        self._authorization = authorization
        self._admin = admin
        self._metadata = metadata

    @api(ElectLeadersRequest, ElectLeadersResponse, versions=(0, 2))
    def elect_leaders(self, context: RequestContext, request: ElectLeadersRequest) -> "Future[ElectLeadersResponse]":
        """Elect leaders of the requested partitions, or of all."""
        self._authorization.require_cluster(context, AclOperation.ALTER)
        try:
            election = ElectionType(request.election_type)
        except ValueError:
            raise InvalidRequestError(f"Unknown election type {request.election_type}") from None
        wanted = None
        if request.topic_partitions is not None:
            wanted = [TopicPartition(each.topic, index) for each in request.topic_partitions for index in each.partitions]

        def answer(outcomes: list[PartitionOutcome]) -> ElectLeadersResponse:
            topics: dict[str, list[PartitionResult]] = {}
            for each in outcomes:
                context.note_topic(each.name, (each.partition,), 0, 0, each.error)
                result = PartitionResult(partition_id=each.partition, error_code=each.error, error_message=each.message)
                topics.setdefault(each.name, []).append(result)
            results = [ReplicaElectionResult(topic=topic, partition_result=each) for topic, each in topics.items()]
            return ElectLeadersResponse(replica_election_results=results)

        return then(self._admin.elect_leaders(wanted, election, request.timeout_ms), answer)

    @api(AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, versions=(0, 1))
    def alter_reassignments(
        self, context: RequestContext, request: AlterPartitionReassignmentsRequest
    ) -> "Future[AlterPartitionReassignmentsResponse]":
        """Start or cancel reassignments."""
        self._authorization.require_cluster(context, AclOperation.ALTER)
        wanted = {
            TopicPartition(topic.name, partition.partition_index): partition.replicas
            for topic in request.topics
            for partition in topic.partitions
        }
        refused: dict[TopicPartition, KafkaError | None] = {}
        if not request.allow_replication_factor_change:
            refused = {each: _other_factor() for each, replicas in wanted.items() if self._changes_factor(each, replicas)}
        orders = {each: replicas for each, replicas in wanted.items() if each not in refused}

        def answer(results: dict[TopicPartition, KafkaError | None]) -> AlterPartitionReassignmentsResponse:
            topics: dict[str, list[ReassignablePartitionResponse]] = {}
            for each in wanted:
                error = refused[each] if each in refused else results[each]
                code = ErrorCode.NONE if error is None else error_of(error)
                context.note_topic(each.topic, (each.partition,), 0, 0, code)
                topics.setdefault(each.topic, []).append(
                    ReassignablePartitionResponse(
                        partition_index=each.partition, error_code=code, error_message=None if error is None else str(error) or None
                    )
                )
            return AlterPartitionReassignmentsResponse(
                allow_replication_factor_change=request.allow_replication_factor_change,
                responses=[ReassignableTopicResponse(name=topic, partitions=each) for topic, each in topics.items()],
            )

        return then(self._admin.alter_reassignments(orders), answer)

    def _changes_factor(self, partition: TopicPartition, replicas: list[int] | None) -> bool:
        state = self._metadata.partition(partition)
        return replicas is not None and state is not None and len(state.replicas) != len(replicas)

    @api(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, versions=(0, 0))
    def list_reassignments(
        self, context: RequestContext, request: ListPartitionReassignmentsRequest
    ) -> "Future[ListPartitionReassignmentsResponse]":
        """List the ongoing reassignments of the requested partitions, or of all."""
        self._authorization.require_cluster(context, AclOperation.DESCRIBE)
        wanted = None
        if request.topics is not None:
            wanted = {TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes}

        def answer(under_way: Mapping[TopicPartition, ReplicaAssignment]) -> ListPartitionReassignmentsResponse:
            listed = under_way if wanted is None else {each: under_way[each] for each in under_way if each in wanted}
            return ListPartitionReassignmentsResponse(topics=_listed(listed.items()))

        return then(self._admin.reassignments(), answer)


def _other_factor() -> KafkaError:
    return InvalidReplicationFactorError("The reassignment would change the replication factor, which the request does not allow")


def _listed(under_way: Iterable[tuple[TopicPartition, ReplicaAssignment]]) -> list[OngoingTopicReassignment]:
    topics: dict[str, list[OngoingPartitionReassignment]] = {}
    for partition, assignment in under_way:
        topics.setdefault(partition.topic, []).append(
            OngoingPartitionReassignment(
                partition_index=partition.partition,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            )
        )
    return [OngoingTopicReassignment(name=topic, partitions=partitions) for topic, partitions in topics.items()]
