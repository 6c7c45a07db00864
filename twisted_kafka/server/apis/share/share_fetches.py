"""ShareFetch and ShareAcknowledge v1-2: members of share groups acquire records and acknowledge them (KIP-932).

v2 (Kafka 4.2): renewed locks (KIP-1222), and a strict limit of records (KIP-1206).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from typing_extensions import override

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.group_configs import ShareGroupConfigs
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import ErrorCode, InvalidRequestError, UnsupportedVersionError
from twisted_kafka.protocol.messages.share.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeResponsePartitionData,
    ShareAcknowledgeTopicResponse,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchResponsePartitionData,
)
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.quota.quota_managers import QuotaManagers
from twisted_kafka.replication.partition.topic_stats import (
    BYTES_OUT,
    FAILED_SHARE_ACKNOWLEDGEMENTS,
    FAILED_SHARE_FETCHES,
    SHARE_ACKNOWLEDGEMENT_REQUESTS,
    SHARE_FETCH_REQUESTS,
)
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.apis.data.leader_hints import LeaderHints
from twisted_kafka.server.apis.groups.share_groups import require_member_id
from twisted_kafka.server.apis.share.share_notes import note_acknowledged, note_acquired, note_partitions, note_returned
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import Measured, api
from twisted_kafka.share.acknowledgements import REJECT, RENEW, acknowledgements_of, counts_of
from twisted_kafka.share.delayed_share_fetch import Fetched, ShareFetchAnswer, ShareFetchParams
from twisted_kafka.share.share_partition import OK, Result
from twisted_kafka.share.share_partition_manager import Returned, SharePartitionManager, Target
from twisted_kafka.share.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, PartitionId, ShareSession
from twisted_kafka.waiting.futures import and_then, gather, then, when_done

_BATCH_OPTIMIZED: Final = 0
_RECORD_LIMIT: Final = 1
_MOVED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})

Acknowledged = dict[PartitionId, Result]
Answer = ShareFetchResponse | Measured
_Named = Target | tuple[PartitionId, ErrorCode]
"""A partition with its name, or with the reason why a member may not use it."""


class ShareFetchApis:
    """Handles the requests of members for partitions that this broker leads."""

    def __init__(
        self,
        shares: SharePartitionManager,
        replicas: ReplicaManager,
        config: KafkaConfig,
        configs_of: Callable[[str], ShareGroupConfigs],
        is_enabled: Callable[[], bool],
        quotas: QuotaManagers,
        authorization: IAuthorization = ALLOW_ALL,
    ) -> None:
        """``configs_of`` returns a group's configs. ``is_enabled`` returns whether the cluster has share groups."""
        self._shares = shares
        self._replicas = replicas
        self._max_bytes = config.int("fetch.max.bytes")
        self._configs_of = configs_of
        self._is_enabled = is_enabled
        self._quotas = quotas
        self._authorization = authorization

    @api(ShareFetchRequest, ShareFetchResponse, versions=(1, 2))
    def share_fetch(self, context: RequestContext, request: ShareFetchRequest) -> "Answer | Future[Answer]":
        """Acknowledge the records that the request names, then acquire others; wait up to ``max_wait_ms`` for ``min_bytes``."""
        group_id, member_id = self._begin(context, request)
        params = self._params(context, request)
        partitions = [(topic.topic_id, partition) for topic in request.topics for partition in topic.partitions]
        acknowledged = _acknowledged_last(request.topics)
        epoch = request.share_session_epoch
        added = [(topic_id, partition.partition_index) for topic_id, partition in partitions]
        if epoch == INITIAL_EPOCH and acknowledged:
            raise InvalidRequestError("The first ShareFetch of a session has no acknowledgements.")
        forgotten = [(topic.topic_id, each) for topic in request.forgotten_topics_data for each in topic.partitions]
        key = group_id, member_id
        session = self._shares.sessions.fetch(key, epoch, context.connection_id, added, forgotten)
        self._keep(context, session)
        acknowledging = self._acknowledge(context, session, acknowledged, request.is_renew_ack)

        def fetch(results: Acknowledged) -> "Answer | Future[Answer]":
            if epoch == FINAL_EPOCH:

                def ended(returned: Returned) -> Answer:
                    note_returned(context, returned)
                    return self._fetched(context, request, session, {}, results)

                return then(self._shares.end_session(session), ended)
            if not (request.max_records and request.max_bytes):  # it only acknowledges records, or changes the session
                session.unanswered.clear()
                return self._fetched(context, request, session, {}, results)
            named = self._named(context, session.rotated())
            targets = [(identity, name) for identity, name in named if isinstance(name, TopicPartition)]
            refused = {identity: Fetched(Result(name)) for identity, name in named if isinstance(name, ErrorCode)}
            fetching = self._shares.fetch(group_id, member_id, params, targets)
            if isinstance(fetching, ShareFetchAnswer):
                context.give_up = fetching.give_up

            def respond(found: list[Fetched]) -> Answer:
                data = dict(zip((identity for identity, _ in targets), found, strict=False))
                return self._fetched(context, request, session, {**data, **refused}, results)

            return when_done(fetching, respond)

        return and_then(acknowledging, fetch)

    @api(ShareAcknowledgeRequest, ShareAcknowledgeResponse, versions=(1, 2))
    def share_acknowledge(
        self, context: RequestContext, request: ShareAcknowledgeRequest
    ) -> "ShareAcknowledgeResponse | Future[ShareAcknowledgeResponse]":
        """Acknowledge records, without acquiring others."""
        group_id, member_id = self._begin(context, request)
        session = self._shares.sessions.acknowledge((group_id, member_id), request.share_session_epoch)
        self._keep(context, session)
        named = _acknowledged_last(request.topics)

        def respond(results: Acknowledged) -> ShareAcknowledgeResponse:
            return self._acknowledged(context, request, results)

        def end(results: Acknowledged) -> "ShareAcknowledgeResponse | Future[ShareAcknowledgeResponse]":
            if request.share_session_epoch != FINAL_EPOCH:
                return respond(results)

            def ended(returned: Returned) -> ShareAcknowledgeResponse:
                note_returned(context, returned)
                return respond(results)

            return then(self._shares.end_session(session), ended)

        return and_then(self._acknowledge(context, session, named, request.is_renew_ack), end)

    def _begin(self, context: RequestContext, request: ShareFetchRequest | ShareAcknowledgeRequest) -> tuple[str, str]:
        """Return the group and the member. Raises KafkaError for a request that is refused as a whole."""
        group_id, member_id = request.group_id or "", request.member_id or ""
        context.group = group_id, member_id, request.share_session_epoch
        if not self._is_enabled():
            raise UnsupportedVersionError("Share groups are not enabled in this cluster (the feature share.version).")
        if not group_id:
            raise InvalidRequestError("A share group's member has a group id.")
        self._authorization.require(context, AclOperation.READ, ResourceType.GROUP, group_id)
        require_member_id(member_id)
        if request.is_renew_ack and not self._configs_of(group_id).renew_acknowledge_enable:
            raise InvalidRequestError(f"Group {group_id} does not renew locks (share.renew.acknowledge.enable).")
        return group_id, member_id

    def _params(self, context: RequestContext, request: ShareFetchRequest) -> ShareFetchParams:
        if request.share_acquire_mode not in (_BATCH_OPTIMIZED, _RECORD_LIMIT):
            raise InvalidRequestError(f"Unknown share acquire mode {request.share_acquire_mode}.")
        waits_or_fetches = request.max_wait_ms or request.min_bytes or request.max_bytes or request.max_records
        if request.is_renew_ack and waits_or_fetches:
            raise InvalidRequestError("A ShareFetch that renews locks fetches nothing.")
        max_bytes = min(request.max_bytes, self._max_bytes)
        if self._quotas.is_enabled:
            max_bytes = int(min(max_bytes, self._quotas.most_fetched(context)))
        return ShareFetchParams(
            request.max_wait_ms,
            min(request.min_bytes, max_bytes),
            max_bytes,
            request.max_records,
            max(request.batch_size, 1),
            request.share_acquire_mode == _RECORD_LIMIT,
        )

    def _keep(self, context: RequestContext, session: ShareSession) -> None:
        """Let the session end with its connection."""
        self._shares.session_used(session)
        connection = context.connection
        closed = partial(self._shares.connection_closed, session.connection_id)
        if session.connection_id == context.connection_id and connection.on_closed is None:
            connection.on_closed = closed
        if connection.is_closed:
            closed()

    def _named(self, context: RequestContext, partitions: Sequence[PartitionId]) -> list[_Named]:
        """Return the names of partitions, or why the member may not use them."""
        metadata = self._replicas.metadata
        names = {topic_id: metadata.topic_name(topic_id) for topic_id, _ in partitions}
        known = {name for name in names.values() if name is not None}
        allowed = self._authorization.allowed_of(context, AclOperation.READ, ResourceType.TOPIC, known)
        named: list[_Named] = []
        for topic_id, index in partitions:
            name = names[topic_id]
            if name is None:
                named.append(((topic_id, index), ErrorCode.UNKNOWN_TOPIC_ID))
            elif name not in allowed:
                named.append(((topic_id, index), ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif metadata.partition((name, index)) is None:
                named.append(((topic_id, index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            else:
                named.append(((topic_id, index), TopicPartition(name, index)))
        return named

    # acknowledging

    def _acknowledge(
        self, context: RequestContext, session: ShareSession, asked: Sequence[tuple[bytes, Any]], is_renew_ack: bool
    ) -> "Acknowledged | Future[Acknowledged]":
        """Acknowledge records; return the results by partition."""
        group_id, member_id = session.key
        stats = self._replicas.stats
        identities = [(topic_id, partition.partition_index) for topic_id, partition in asked]
        values: list[Result | Future[Result]] = []
        counted: list[tuple[str, dict[int, int]]] = []
        for (identity, name), (_, partition) in zip(self._named(context, identities), asked, strict=True):
            stats.all_topics.mark(SHARE_ACKNOWLEDGEMENT_REQUESTS, 1)
            if isinstance(name, ErrorCode):
                values.append(Result(name))
                counted.append(("", {}))
                continue
            stats.mark(name.topic, SHARE_ACKNOWLEDGEMENT_REQUESTS, 1)
            batches = acknowledgements_of(partition.acknowledgement_batches, RENEW if is_renew_ack else REJECT)
            if batches is None:
                values.append(Result(ErrorCode.INVALID_REQUEST, "The acknowledgement batches are malformed."))
            else:
                values.append(self._shares.acknowledge(group_id, member_id, identity, batches))
            counted.append((name.topic, counts_of(batches or ())))

        def done(results: list[Result]) -> Acknowledged:
            for result, (topic, counts) in zip(results, counted, strict=True):
                if result.error:
                    stats.all_topics.mark(FAILED_SHARE_ACKNOWLEDGEMENTS, 1)
                else:
                    self._shares.metrics.acknowledged(counts)
                note_acknowledged(context, topic, counts, result)
            return dict(zip(identities, results, strict=True))

        return gather(values, done)

    def _acknowledged(
        self, context: RequestContext, request: ShareAcknowledgeRequest, results: Acknowledged
    ) -> ShareAcknowledgeResponse:
        hints = LeaderHints(self._replicas, context.listener_name)
        topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
        for (topic_id, index), result in results.items():
            answered = topics.setdefault(topic_id, ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=[]))
            data = ShareAcknowledgeResponsePartitionData(
                partition_index=index, error_code=result.error, error_message=result.message
            )
            name = self._replicas.metadata.topic_name(topic_id)
            if result.error in _MOVED and name is not None:
                data.current_leader = _leader(hints, TopicPartition(name, index))
            answered.partitions.append(data)
        for topic_id, answered in topics.items():
            note_partitions(context, self._replicas.metadata.topic_name(topic_id) or topic_id.hex(), answered.partitions, 0)
        return ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=self._configs_of(request.group_id or "").record_lock_duration_ms,
            responses=list(topics.values()),
            node_endpoints=_endpoints(hints),
        )

    # fetching

    def _fetched(
        self,
        context: RequestContext,
        request: ShareFetchRequest,
        session: ShareSession,
        found: dict[PartitionId, Fetched],
        results: Acknowledged,
    ) -> Answer:
        """Return the response: partitions with records or an error, those of acknowledgements, and new ones of the session."""
        hints = LeaderHints(self._replicas, context.listener_name)
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        size_bytes = 0
        for identity in dict.fromkeys([*found, *results]):
            fetched, result = found.get(identity, Fetched()), results.get(identity)
            is_tried = identity in found and fetched.is_tried
            is_new = is_tried and identity in session.unanswered
            if not (is_new or fetched.result.error or fetched.acquired or result is not None):
                continue
            if fetched.result.error and identity in session.partitions:
                session.unanswered.add(identity)
            elif is_tried:
                session.unanswered.discard(identity)
            topic_id, index = identity
            topic = topics.setdefault(topic_id, ShareFetchableTopicResponse(topic_id=topic_id, partitions=[]))
            data = _data(index, fetched, result or OK)
            name = self._replicas.metadata.topic_name(topic_id)
            if name is not None and (data.error_code in _MOVED or data.acknowledge_error_code in _MOVED):
                data.current_leader = _leader(hints, TopicPartition(name, index))
            topic.partitions.append(data)
            if fetched.acquired:
                note_acquired(context, name or topic_id.hex(), fetched.acquired)
            size_bytes += self._count(name, fetched)
        for topic_id, topic in topics.items():
            name = self._replicas.metadata.topic_name(topic_id)
            note_partitions(
                context, name or topic_id.hex(), topic.partitions, sum(len(each.records or b"") for each in topic.partitions)
            )
        response = ShareFetchResponse(
            acquisition_lock_timeout_ms=self._configs_of(request.group_id or "").record_lock_duration_ms,
            responses=list(topics.values()),
            node_endpoints=_endpoints(hints),
        )
        return _Measured(response, size_bytes) if self._quotas.is_enabled else response

    def _count(self, name: str | None, fetched: Fetched) -> int:
        """Count a partition's part of a fetch; return its bytes."""
        stats = self._replicas.stats
        stats.all_topics.mark(SHARE_FETCH_REQUESTS, 1)
        size_bytes = len(fetched.records)
        if name is None:
            return size_bytes
        stats.topic(name).mark(SHARE_FETCH_REQUESTS, 1)
        if fetched.result.error:
            stats.mark(name, FAILED_SHARE_FETCHES, 1)
        if size_bytes:
            stats.mark(name, BYTES_OUT, size_bytes)
        return size_bytes


class _Measured(Measured):
    """A response whose bytes the client's quota counts. It is always sent, because its records are acquired."""

    __slots__ = ("_response", "_size_bytes")

    keeps_data = True

    def __init__(self, response: ShareFetchResponse, size_bytes: int) -> None:
        self._response = response
        self._size_bytes = size_bytes

    @override
    def size_bytes(self) -> int:
        return self._size_bytes

    @override
    def answer(self) -> ShareFetchResponse:
        return self._response

    @override
    def throttled(self, throttle_time_ms: int) -> ShareFetchResponse:
        self._response.throttle_time_ms = throttle_time_ms
        return self._response


def _acknowledged_last(topics: Sequence[Any]) -> list[tuple[bytes, Any]]:
    """Return the partitions with acknowledgements; as in Kafka, the last of several entries of a partition counts."""
    found = {
        (topic.topic_id, partition.partition_index): partition
        for topic in topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }
    return [(topic_id, partition) for (topic_id, _), partition in found.items()]


def _data(index: int, fetched: Fetched, acknowledged: Result) -> ShareFetchResponsePartitionData:
    return ShareFetchResponsePartitionData(
        partition_index=index,
        error_code=fetched.result.error,
        error_message=fetched.result.message,
        acknowledge_error_code=acknowledged.error,
        acknowledge_error_message=acknowledged.message,
        records=fetched.records,
        acquired_records=[
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count) for first, last, count in fetched.acquired
        ],
    )


def _leader(hints: LeaderHints, partition: TopicPartition) -> LeaderIdAndEpoch:
    leader_id, leader_epoch = hints.leader(partition)
    return LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)


def _endpoints(hints: LeaderHints) -> list[NodeEndpoint]:
    return [NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in hints.nodes.values()]
