"""Fetch v0-18: v3 max bytes of the response, v4 isolation level and batches of format 2, v5 log start offset, v7 sessions, v9
leader epochs, v10 zstd, v11 fetching from followers, v12 flexible and diverging epochs, v13 topic ids, v15 replica state, v16
current leaders, v17 directory ids, v18 the high watermark that a follower of the metadata quorum knows (KIP-1166)."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final

from typing_extensions import override

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.compiler.schema import maker
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import ErrorCode, InvalidRequestError
from twisted_kafka.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.protocol.topic_partition import topic_partition_of
from twisted_kafka.quota.quota_managers import QuotaManagers
from twisted_kafka.replication.operations.delayed_fetch import FetchAnswer
from twisted_kafka.replication.partition.fetch_data import (
    CONSUMER_REPLICA_ID,
    FUTURE_LOCAL_REPLICA_ID,
    ClientMetadata,
    FetchParams,
    PartitionFetch,
    PartitionRead,
)
from twisted_kafka.replication.partition.fetch_watch import FetchWatch
from twisted_kafka.replication.partition.topic_stats import BYTES_OUT, REPLICATION_BYTES_OUT
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.apis.data.down_conversion import DownConversion
from twisted_kafka.server.apis.data.fetched_response import (
    FIRST_VERSION,
    LAST_VERSION,
    FetchedResponse,
    by_topic,
    size_of,
    topic_of,
)
from twisted_kafka.server.apis.data.flat_forms import OneFetch
from twisted_kafka.server.apis.data.leader_hints import LeaderHints
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import Measured, api
from twisted_kafka.server.fetch_context import NO_FETCHES, FetchContext, FetchManager
from twisted_kafka.server.fetch_session import FetchedPartitions, FetchSessionCache, PartitionKey
from twisted_kafka.timing.clock import IClock
from twisted_kafka.waiting.futures import when_done

_FIRST_VERSION_WITH_RACKS: Final = 11
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
_FIRST_VERSION_WITH_REPLICA_STATE: Final = 15
_FIRST_VERSION_WITH_LEADERS: Final = 16
_LAST_VERSION_WITHOUT_STORAGE_ERROR: Final = 5
_READ_COMMITTED: Final = 1
_READ: Final = AclOperation.READ
_TOPIC: Final = ResourceType.TOPIC

_response: Final = maker(FetchResponse)
_topic_response: Final = maker(FetchableTopicResponse)
_data: Final = maker(PartitionData)

_NOT_CONVERTED: Final = frozenset({ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.UNSUPPORTED_VERSION})
_NOT_READ: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        *_NOT_CONVERTED,
    }
)
"""With these errors the aborted transactions are an empty list; with errors of a read they are null, as in Kafka."""

Answer = FetchResponse | FetchedResponse | Measured


class FetchApis:
    """Handles fetch requests of consumers and followers."""

    def __init__(
        self,
        replicas: ReplicaManager,
        sessions: FetchSessionCache,
        config: KafkaConfig,
        clock: IClock,
        quotas: QuotaManagers,
        authorization: IAuthorization = ALLOW_ALL,
    ) -> None:
        self._authorization = authorization
        self._replicas = replicas
        self._quotas = quotas
        self._metadata = replicas.metadata
        self._prefers_replicas = replicas.reader.prefers_replicas
        self._manager = FetchManager(
            sessions,
            replicas.metadata.topic_name,
            replicas.purgatories.watches,
            # ACLs and the state of other replicas change without a word to the watches.
            watches_consumers=not (authorization.enforces or self._prefers_replicas),
        )
        self._conversion = DownConversion(replicas, clock)
        self._max_bytes = config.int("fetch.max.bytes")

    @api(FetchRequest, FetchResponse, versions=(0, LAST_VERSION))
    def fetch(self, context: RequestContext, request: FetchRequest) -> "Answer | Future[Answer]":
        """Read the partitions of the request and its session; wait up to ``max_wait_ms`` for ``min_bytes``."""
        version = context.api_version
        replica_id, replica_epoch = request.replica_id, -1
        if version >= _FIRST_VERSION_WITH_REPLICA_STATE:
            state = request.replica_state
            replica_id, replica_epoch = (CONSUMER_REPLICA_ID, -1) if state is None else (state.replica_id, state.replica_epoch)
        limits = request.max_wait_ms, request.min_bytes, request.max_bytes
        params = self._params(context, replica_id, replica_epoch, limits, request.isolation_level)
        if self._prefers_replicas and replica_id == CONSUMER_REPLICA_ID and version >= _FIRST_VERSION_WITH_RACKS:
            params.client = _client_of(context, request.rack_id)
        uses_topic_ids = version >= _FIRST_VERSION_WITH_TOPIC_IDS
        if params.is_from_follower:
            context.is_special = True
        session = request.session_id, request.session_epoch
        fetches = self._fetches(request, uses_topic_ids) if request.topics else NO_FETCHES
        forgotten = _forgotten(request, uses_topic_ids) if request.forgotten_topics_data else ()
        return self._answer(context, params, session, fetches, forgotten)

    @fetch.undecoded
    def fetch_one(self, context: RequestContext, frame: Buffer, offset: int) -> "Answer | Future[Answer] | None":
        """Handle the request if it is a consumer's with at most one partition; otherwise return None.

        It does the same as ``fetch``, without decoding a message.
        """
        version = context.api_version
        is_simple = version >= FIRST_VERSION and not self._prefers_replicas
        one = OneFetch.read(frame, version, offset) if is_simple else None
        if one is None or one.replica_id != CONSUMER_REPLICA_ID:
            return None
        limits = one.max_wait_ms, one.min_bytes, one.max_bytes
        params = self._params(context, CONSUMER_REPLICA_ID, -1, limits, one.isolation_level)
        fetches = (self._the_fetch(one, version >= _FIRST_VERSION_WITH_TOPIC_IDS),) if one.topics else NO_FETCHES
        return self._answer(context, params, (one.session_id, one.session_epoch), fetches, ())

    def _params(
        self, context: RequestContext, replica_id: int, replica_epoch: int, limits: tuple[int, int, int], isolation_level: int
    ) -> FetchParams:
        """Return the parameters; ``limits`` are the request's maximum wait in milliseconds, minimum bytes and maximum bytes.

        A consumer gets no more at once than its quota allows in all windows: it could never get it without being throttled.
        """
        max_wait_ms, min_bytes, max_bytes = limits
        if max_bytes > self._max_bytes:
            max_bytes = self._max_bytes
        if self._quotas.is_enabled and replica_id < 0:
            most = self._quotas.most_fetched(context)
            if max_bytes > most:
                max_bytes = int(most)
        if min_bytes > max_bytes:
            min_bytes = max_bytes
        isolation = _isolation(replica_id, isolation_level)
        return FetchParams(replica_id, max_wait_ms, min_bytes, max_bytes, isolation, context.api_version, replica_epoch)

    def _answer(
        self,
        context: RequestContext,
        params: FetchParams,
        session: tuple[int, int],
        fetches: Sequence[PartitionFetch],
        forgotten: Sequence[PartitionKey],
    ) -> "Answer | Future[Answer]":
        """Read the partitions of a request; ``session`` is its session id and epoch."""
        session_id, session_epoch = session
        fetch_context = self._manager.new_context(
            session_id,
            session_epoch,
            fetches,
            forgotten,
            is_from_follower=params.is_from_follower,
            uses_topic_ids=params.version >= _FIRST_VERSION_WITH_TOPIC_IDS,
        )
        respond = partial(self._respond, context, params, fetch_context)
        if self._authorization.enforces and not self._is_known_to_be_allowed(context, params, fetch_context.fetches):
            if params.is_from_follower:
                if not self._authorization.is_allowed_on_cluster(context, AclOperation.CLUSTER_ACTION):
                    if fetch_context.watch is not None:
                        fetch_context.watch.unsettle_all(fetch_context.fetches)
                    return respond([PartitionRead(ErrorCode.TOPIC_AUTHORIZATION_FAILED) for _ in fetch_context.fetches])
            else:
                denied = self._denied(context, fetch_context.fetches)
                if denied:
                    return self._fetch_allowed(context, params, fetch_context.fetches, denied, respond)
        return when_done(self._read(context, params, fetch_context.fetches, fetch_context.watch), respond)

    def _read(
        self, context: RequestContext, params: FetchParams, fetches: Sequence[PartitionFetch], watch: FetchWatch | None = None
    ) -> "list[PartitionRead] | FetchAnswer":
        reads = self._replicas.reader.fetch(params, fetches, watch)
        if isinstance(reads, FetchAnswer):
            context.give_up = reads.give_up
        return reads

    def _is_known_to_be_allowed(self, context: RequestContext, params: FetchParams, fetches: Sequence[PartitionFetch]) -> bool:
        if params.is_from_follower:
            return False
        remembers = self._authorization.remembers
        last = None
        for fetch in fetches:
            partition = fetch.topic_partition
            if partition is not None and partition[0] != last:
                last = partition[0]
                if not remembers(context, _READ, _TOPIC, last):
                    return False
        return True

    def _denied(self, context: RequestContext, fetches: Sequence[PartitionFetch]) -> set[int]:
        """Return the positions of what may not be read; topics whose ids are unknown are not among them."""
        topics = [None if fetch.topic_partition is None else fetch.topic_partition.topic for fetch in fetches]
        names = {name for name in topics if name is not None}
        allowed = self._authorization.allowed_of(context, AclOperation.READ, ResourceType.TOPIC, names)
        if len(allowed) == len(names):
            return set()
        return {position for position, name in enumerate(topics) if name is not None and name not in allowed}

    def _fetch_allowed(
        self,
        context: RequestContext,
        params: FetchParams,
        fetches: Sequence[PartitionFetch],
        denied: set[int],
        respond: Callable[[Sequence[PartitionRead]], Answer],
    ) -> "Answer | Future[Answer]":
        """Read the partitions that are not denied. As in Kafka, denied partitions end no wait, unless all are denied."""
        allowed = [fetch for position, fetch in enumerate(fetches) if position not in denied]

        def merged(reads: Sequence[PartitionRead]) -> Answer:
            left = iter(reads)
            refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return respond([PartitionRead(refusal) if position in denied else next(left) for position in range(len(fetches))])

        return when_done(self._read(context, params, allowed), merged)

    def _the_fetch(self, one: OneFetch, uses_topic_ids: bool) -> PartitionFetch:
        topic_id = one.topic_id if uses_topic_ids else NO_UUID
        name = self._metadata.topic_name(topic_id) if uses_topic_ids else one.topic
        return _fetch_of(name, topic_id, one)

    def _fetches(self, request: FetchRequest, uses_topic_ids: bool) -> list[PartitionFetch]:
        fetches = []
        for topic in request.topics:
            topic_id = topic.topic_id if uses_topic_ids else NO_UUID
            name = self._metadata.topic_name(topic_id) if uses_topic_ids else topic.topic
            fetches += [_fetch_of(name, topic_id, partition) for partition in topic.partitions]
        return fetches

    def _respond(
        self, context: RequestContext, params: FetchParams, fetch_context: FetchContext, reads: Sequence[PartitionRead]
    ) -> Answer:
        if self._quotas.is_enabled and not params.is_from_follower:
            return _Measured(self, context, params, fetch_context, reads)
        return self.send(context, params, fetch_context, reads)

    def send(
        self,
        context: RequestContext,
        params: FetchParams,
        fetch_context: FetchContext,
        reads: Sequence[PartitionRead],
        topics: Sequence[FetchedPartitions] | None = None,
    ) -> FetchResponse | FetchedResponse:
        """Return the response with the read data, and count it. ``topics`` is the result of ``peek``, if it was called."""
        if self._conversion.concerns(params.version):
            for fetch, read in zip(fetch_context.fetches, reads, strict=True):
                self._conversion.convert(context, fetch, read, params)
        if topics is None or fetch_context.has_session:
            topics = by_topic(fetch_context.answer(reads))
        is_plain = params.version >= FIRST_VERSION and not fetch_context.error and params.client is None
        for fetched in topics:
            if not self._note(context, params, fetched):
                is_plain = False
        if is_plain:
            if topics:  # the top-level error and each partition's
                context.error_counts = {ErrorCode.NONE: 1 + sum(map(len, topics))}
            return FetchedResponse(fetch_context.session_id, topics)
        return self._message(context, params, fetch_context, topics)

    def _message(
        self, context: RequestContext, params: FetchParams, fetch_context: FetchContext, topics: Sequence[FetchedPartitions]
    ) -> FetchResponse:
        hints: LeaderHints | None = None
        responses = []
        for fetched in topics:
            topic = _topic_response(topic=topic_of(fetched[0][0]), topic_id=fetched[0][0].topic_id, partitions=[])
            for fetch, read in fetched:
                if not read.error:
                    topic.partitions.append(_read_data(fetch, read))
                    continue
                hints = hints or LeaderHints(self._replicas, context.listener_name)
                topic.partitions.append(_failed_data(fetch, read, params, hints))
            responses.append(topic)
        response = _response(error_code=fetch_context.error, session_id=fetch_context.session_id, responses=responses)
        if fetch_context.error:
            context.note_error(fetch_context.error)
        if hints is not None and hints.nodes:
            response.node_endpoints = [
                NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in hints.nodes.values()
            ]
        return response

    def _note(self, context: RequestContext, params: FetchParams, fetched: FetchedPartitions) -> bool:
        """Count a topic's response for the metrics and the access log; return whether it has only records and offsets.

        The number of records is unknown, as batches are not decoded.
        """
        size_bytes = error = 0
        is_plain = True
        for _, read in fetched:
            if read.error:
                error = error or _error_code(read, params)
                is_plain = False
            else:
                size_bytes += len(read.records)
                if read.aborted_transactions or read.diverging_epoch is not None:
                    is_plain = False
        fetch = fetched[0][0]
        topic = topic_of(fetch)
        partitions = (fetch.partition,) if len(fetched) == 1 else tuple([each.partition for each, _ in fetched])
        context.note_topic(topic or fetch.topic_id.hex(), partitions, 0, size_bytes, error)
        if size_bytes:
            if params.is_from_follower:
                for each, read in fetched:
                    self._replicas.reader.sent_to_follower(each, params.replica_id, read.size_bytes)
                self._replicas.stats.all_topics.mark(REPLICATION_BYTES_OUT, size_bytes)
            else:
                self._replicas.stats.mark(topic, BYTES_OUT, size_bytes)
        return is_plain


class _Measured(Measured):
    """The result of reading, until it is known whether the client's quota allows it to be sent."""

    __slots__ = ("_apis", "_context", "_fetch_context", "_params", "_reads", "_topics")

    def __init__(
        self,
        apis: FetchApis,
        context: RequestContext,
        params: FetchParams,
        fetch_context: FetchContext,
        reads: Sequence[PartitionRead],
    ) -> None:
        self._apis = apis
        self._context = context
        self._params = params
        self._fetch_context = fetch_context
        self._reads = reads
        self._topics: Sequence[FetchedPartitions] | None = None

    @override
    def size_bytes(self) -> int:
        self._topics = topics = by_topic(self._fetch_context.peek(self._reads))
        return size_of(self._params.version, topics)

    @override
    def answer(self) -> FetchResponse | FetchedResponse:
        return self._apis.send(self._context, self._params, self._fetch_context, self._reads, self._topics)

    @override
    def throttled(self, throttle_time_ms: int) -> FetchResponse:
        """Return an empty response: the next fetch reads the data again."""
        fetch_context = self._fetch_context
        fetch_context.answer_nothing()
        if fetch_context.error:
            self._context.note_error(fetch_context.error)
        return _response(
            throttle_time_ms=throttle_time_ms,
            error_code=fetch_context.error,
            session_id=fetch_context.session_id,
            responses=[],
        )


def _fetch_of(name: str | None, topic_id: bytes, asked: FetchPartition | OneFetch) -> PartitionFetch:
    """Return the fetch of a partition; without a name, the topic's id is unknown."""
    index = asked.partition
    fetch = PartitionFetch(
        None if name is None else topic_partition_of((name, index)),
        topic_id,
        index,
        asked.fetch_offset,
        asked.partition_max_bytes,
        asked.current_leader_epoch,
        asked.last_fetched_epoch,
    )
    fetch.log_start_offset = asked.log_start_offset
    return fetch


def _client_of(context: RequestContext, rack_id: str) -> ClientMetadata:
    """Return the consumer's properties for a replica selector."""
    name = context.client_id or ""
    return ClientMetadata(rack_id, name, context.client_address, str(context.principal), context.listener_name)


def _isolation(replica_id: int, isolation_level: int) -> FetchIsolation:
    if isolation_level not in (0, _READ_COMMITTED):
        raise InvalidRequestError(f"Invalid isolation level {isolation_level}")
    if replica_id >= 0 or replica_id == FUTURE_LOCAL_REPLICA_ID:
        return FetchIsolation.LOG_END
    return FetchIsolation.TXN_COMMITTED if isolation_level else FetchIsolation.HIGH_WATERMARK


def _error_code(read: PartitionRead, params: FetchParams) -> int:
    if read.error == ErrorCode.KAFKA_STORAGE_ERROR and params.version <= _LAST_VERSION_WITHOUT_STORAGE_ERROR:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER  # these consumers look for another leader only with this error
    return read.error


def _forgotten(request: FetchRequest, uses_topic_ids: bool) -> list[PartitionKey]:
    return [
        (topic.topic_id if uses_topic_ids else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]


def _read_data(fetch: PartitionFetch, read: PartitionRead) -> PartitionData:
    data = _data(
        partition_index=fetch.partition,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=None,
        preferred_read_replica=read.preferred_read_replica,
        records=read.records,
    )
    if read.aborted_transactions is not None:
        data.aborted_transactions = [
            AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
            for aborted in read.aborted_transactions
        ]
    if read.diverging_epoch is not None:
        epoch, end_offset = read.diverging_epoch
        data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return data


def _failed_data(fetch: PartitionFetch, read: PartitionRead, params: FetchParams, hints: LeaderHints) -> PartitionData:
    error = _error_code(read, params)
    data = PartitionData(
        partition_index=fetch.partition,
        error_code=error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=[] if error in _NOT_READ else None,
        records=None if error in _NOT_CONVERTED else b"",
    )
    misplaced = error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
    if misplaced and params.version >= _FIRST_VERSION_WITH_LEADERS and fetch.topic_partition is not None:
        leader_id, leader_epoch = hints.leader(fetch.topic_partition)
        data.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    return data
