"""OffsetCommit, OffsetFetch, OffsetDelete: committed offsets of groups.

OffsetCommit v0-10: v1 generation and member (and only in v1 a commit timestamp), v2-v4 retention time, v6 leader epoch, v7 static
members, v10 topic ids. OffsetFetch v0-10: v2 all partitions and a top-level error, v5 leader epoch, v7 require stable (KIP-447), v8
several groups (KIP-709), v9 member epoch (KIP-848), v10 topic ids. OffsetDelete v0 (KIP-496).
Version 0 of the first two is older than the group coordinator: its offsets are stored separately, in the metadata store.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, TypeVar

from twisted_kafka.config.keys.declare import MAX_LONG
from twisted_kafka.group_coordinator.group_coordinator import GroupCoordinator, OffsetCommit
from twisted_kafka.group_coordinator.offsets.legacy_offsets import LegacyOffsets
from twisted_kafka.group_coordinator.offsets.offset_metadata_manager import Fetched, OffsetFetch
from twisted_kafka.group_coordinator.requests import Sender
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.network.requests.request_context import GroupNote, RequestContext
from twisted_kafka.protocol.compiler.schema import maker
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.protocol.topic_partition import TopicPartition, topic_partition_of
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.apis.groups.classic_groups import note_groups
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import Later, api
from twisted_kafka.server.large_requests import SMALL_ELEMENTS
from twisted_kafka.server.topic_ids import UNKNOWN_NAME, name_topics, names_of, text_of
from twisted_kafka.timing.clock import IClock
from twisted_kafka.waiting.futures import gather, then, when_done

NO_OFFSET: Final = -1
GROUP_ERROR_SINCE: Final = 2
SEVERAL_GROUPS_SINCE: Final = 8
COMMIT_BY_ID_SINCE: Final = 10
FETCH_BY_ID_SINCE: Final = 10

_commit_value: Final = maker(OffsetCommitValue)
_committed_partition: Final = maker(OffsetCommitResponsePartition)
_committed_topic: Final = maker(OffsetCommitResponseTopic)
_commit_response: Final = maker(OffsetCommitResponse)

_NONE: Final = ErrorCode.NONE
_UNKNOWN_PARTITION: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_UNKNOWN_ID: Final = ErrorCode.UNKNOWN_TOPIC_ID
_NOT_AUTHORIZED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_NOT_FOR_GROUP: Final = (_UNKNOWN_PARTITION, _UNKNOWN_ID, _NOT_AUTHORIZED)
"""The errors of partitions that the group does not get to see."""
_METADATA_TOO_LARGE: Final = ErrorCode.OFFSET_METADATA_TOO_LARGE

_P = TypeVar("_P")
_T = TypeVar("_T")
_AskedTopics = list[OffsetFetchRequestTopic] | list[OffsetFetchRequestTopics] | None


class _Commit(NamedTuple):
    request: OffsetCommitRequest
    refused: dict[TopicPartition, ErrorCode]
    commit: OffsetCommit


class GroupOffsetApis:
    """Commits, fetches and deletes offsets of groups."""

    def __init__(
        self,
        groups: GroupCoordinator,
        metadata: MetadataCache,
        clock: IClock,
        legacy: LegacyOffsets,
        authorization: IAuthorization = ALLOW_ALL,
    ) -> None:
        self._authorization = authorization
        self._groups = groups
        self._legacy = legacy
        self._metadata = metadata
        self._clock = clock

    @api(OffsetCommitRequest, OffsetCommitResponse, versions=(0, 10))
    def offset_commit(
        self, context: RequestContext, request: OffsetCommitRequest
    ) -> "OffsetCommitResponse | Future[OffsetCommitResponse]":
        """Commit offsets; respond when they are replicated."""
        context.group = _group_of(request)
        self._authorization.require(context, AclOperation.READ, ResourceType.GROUP, request.group_id)
        offsets, refused = self._sort(context, request)
        if context.api_version == 0:
            for key, value in offsets.items():
                refused[key] = self._legacy.commit(request.group_id, key, value.offset)
            return _committed(context, request, refused, _NONE)
        if not offsets and all(error in _NOT_FOR_GROUP for error in refused.values()):
            return _committed(context, request, refused, _NONE)
        result = self._groups.commit_offsets(_sender(request), offsets, context.api_version)
        return when_done(result, lambda error: _committed(context, request, refused, error))

    @offset_commit.read_together
    def read_commit(self, context: RequestContext, frame: Buffer, offset: int) -> tuple[int, _Commit] | None:
        """Return the partition of the request's group, and the commit; None if it must be handled alone."""
        if context.api_version == 0:
            return None
        request = OffsetCommitRequest.decode(frame, context.api_version, offset, SMALL_ELEMENTS)
        context.group = _group_of(request)
        if self._authorization.enforces and not self._authorization.is_allowed(
            context, AclOperation.READ, ResourceType.GROUP, request.group_id, logs_denied=False
        ):
            return None  # `offset_commit` asks again, and responds
        offsets, refused = self._sort(context, request)
        if not offsets:
            return None
        commit = OffsetCommit(_sender(request), offsets, context.api_version)
        return self._groups.partition_for(request.group_id), _Commit(request, refused, commit)

    @offset_commit.handle_together
    def commit_together(self, partition: int, each: Sequence[_Commit]) -> "Sequence[ErrorCode | Future[ErrorCode]]":
        """Commit the offsets of groups in the same partition."""
        return self._groups.commit_each([one.commit for one in each])

    @offset_commit.answer_together
    def answer_commit(
        self, context: RequestContext, one: _Commit, result: "ErrorCode | Future[ErrorCode]"
    ) -> OffsetCommitResponse | Later:
        """Return the response for the outcome."""
        request, refused, _ = one
        if isinstance(result, Future):
            return Later(then(result, lambda error: _committed(context, request, refused, error)), request)
        return _committed(context, request, refused, result)

    def _denied(self, context: RequestContext, names: Iterable[str], operation: AclOperation = AclOperation.READ) -> set[str]:
        """Return the topics whose offsets the principal may not use."""
        if not self._authorization.enforces:
            return set()
        asked = set(names)
        return asked - self._authorization.allowed_of(context, operation, ResourceType.TOPIC, asked)

    def _sort(
        self, context: RequestContext, request: OffsetCommitRequest
    ) -> tuple[dict[TopicPartition, OffsetCommitValue], dict[TopicPartition, ErrorCode]]:
        """Return the offsets to commit, and the errors of other partitions."""
        offsets: dict[TopicPartition, OffsetCommitValue] = {}
        refused: dict[TopicPartition, ErrorCode] = {}
        now_ms = self._clock.wall_ms()
        retention_ms = request.retention_time_ms
        expire_ms = -1 if retention_ms == -1 else min(now_ms + retention_ms, MAX_LONG)
        limit = self._groups.config.offset_metadata_max_bytes
        partition_of = self._metadata.partition
        by_id = context.api_version >= COMMIT_BY_ID_SINCE
        if by_id:
            name_topics(request.topics, self._metadata.topic_name)
        denied = self._denied(context, names_of(request.topics, by_id=by_id)) if self._authorization.enforces else ()
        for topic in request.topics:
            name = topic.name
            for partition in topic.partitions:
                key = topic_partition_of((name, partition.partition_index))
                metadata = partition.committed_metadata or ""
                if name in denied:
                    refused[key] = _NOT_AUTHORIZED
                elif partition_of(key) is None:
                    refused[key] = _UNKNOWN_ID if by_id and name == UNKNOWN_NAME else _UNKNOWN_PARTITION
                elif len(metadata) > limit:
                    refused[key] = _METADATA_TOO_LARGE
                else:
                    committed_ms = partition.commit_timestamp
                    offsets[key] = _commit_value(
                        offset=partition.committed_offset,
                        leader_epoch=partition.committed_leader_epoch,
                        metadata=metadata,
                        commit_timestamp=now_ms if committed_ms == -1 else committed_ms,
                        expire_timestamp=expire_ms,
                    )
        return offsets, refused

    @api(OffsetFetchRequest, OffsetFetchResponse, versions=(0, 10))
    def offset_fetch(
        self, context: RequestContext, request: OffsetFetchRequest
    ) -> "OffsetFetchResponse | Future[OffsetFetchResponse]":
        """Return committed offsets."""
        if context.api_version >= SEVERAL_GROUPS_SINCE:
            first: dict[str, OffsetFetchRequestGroup] = {}
            for each in request.groups:
                first.setdefault(each.group_id, each)  # each once: a group may have many offsets
            groups = list(first.values())
            for each in groups:
                each.topics = _once(each.topics)
            _note_groups(context, groups)
            if context.api_version >= FETCH_BY_ID_SINCE:
                for each in groups:
                    name_topics(each.topics or (), self._metadata.topic_name)
            fetched = [
                self._fetch(context, Sender(each.group_id, each.member_id or "", None, each.member_epoch), each.topics, request)
                for each in groups
            ]
            return gather(fetched, lambda results: self._fetched_groups(context, groups, results))
        context.group = request.group_id, "", -1
        request.topics = _once(request.topics)
        if context.api_version == 0:
            return self._fetched_legacy(context, request)
        fetching = self._fetch(context, Sender(request.group_id), request.topics, request)
        return when_done(fetching, lambda answer: _fetched_group(context, request, *answer))

    def _fetch(
        self, context: RequestContext, sender: Sender, topics: _AskedTopics, request: OffsetFetchRequest
    ) -> "tuple[ErrorCode, Fetched] | Future[tuple[ErrorCode, Fetched]]":
        """Fetch a group's offsets. Topics that may not be described are left out of all, and get an error if they are named."""
        authorization = self._authorization
        if not authorization.is_allowed(context, AclOperation.DESCRIBE, ResourceType.GROUP, sender.group_id):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED, {}
        partitions = _partitions(topics)
        refused = self._refused_fetches(context, partitions or ())
        wanted = partitions
        if partitions is not None and refused:
            wanted = [each for each in partitions if each not in refused]
        fetching = self._groups.fetch_offsets(OffsetFetch(sender, wanted, request.require_stable))
        if not refused and (partitions is not None or not authorization.enforces):
            return fetching

        def filtered(answer: tuple[ErrorCode, Fetched]) -> tuple[ErrorCode, Fetched]:
            error, fetched = answer
            if error:
                return answer
            if partitions is None:
                hidden = self._denied(context, (each.topic for each in fetched), AclOperation.DESCRIBE)
                return error, {each: found for each, found in fetched.items() if each.topic not in hidden}
            return error, {**fetched, **refused}

        return when_done(fetching, filtered)

    def _refused_fetches(self, context: RequestContext, partitions: Sequence[TopicPartition]) -> Fetched:
        """Return the errors of partitions whose topics are unknown by their ids, or may not be described."""
        names = {each.topic for each in partitions}
        refusals: dict[str, ErrorCode] = {}
        if context.api_version >= FETCH_BY_ID_SINCE and UNKNOWN_NAME in names:
            names.discard(UNKNOWN_NAME)
            refusals[UNKNOWN_NAME] = _UNKNOWN_ID
        refusals |= dict.fromkeys(self._denied(context, names, AclOperation.DESCRIBE), _NOT_AUTHORIZED)
        return {each: refusals[each.topic] for each in partitions if each.topic in refusals} if refusals else {}

    def _fetched_legacy(self, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """Respond to v0, in which a partition without offset is an unknown partition."""
        if not self._authorization.is_allowed(context, AclOperation.DESCRIBE, ResourceType.GROUP, request.group_id):
            return _fetched_group(context, request, ErrorCode.GROUP_AUTHORIZATION_FAILED, {})
        denied = self._denied(context, (topic.name for topic in request.topics or ()), AclOperation.DESCRIBE)
        topics = []
        for topic in request.topics or ():
            partitions = []
            if topic.name in denied:
                refused: Fetched = {TopicPartition(topic.name, index): _NOT_AUTHORIZED for index in topic.partition_indexes}
                answered = [
                    _answered_partition(OffsetFetchResponsePartition, refused, topic.name, index, _NONE)
                    for index in topic.partition_indexes
                ]
                context.note_topic(topic.name, tuple(topic.partition_indexes), 0, 0, _NOT_AUTHORIZED)
                topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=answered))
                continue
            for index in topic.partition_indexes:
                key = TopicPartition(topic.name, index)
                offset = None if self._metadata.partition(key) is None else self._legacy.fetch(request.group_id, key)
                partitions.append(
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=NO_OFFSET if offset is None else offset,
                        error_code=_UNKNOWN_PARTITION if offset is None else _NONE,
                    )
                )
            context.note_topic(topic.name, tuple(topic.partition_indexes), 0, 0)
            topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
        return OffsetFetchResponse(topics=topics)

    def _fetched_groups(
        self, context: RequestContext, groups: list[OffsetFetchRequestGroup], results: list[tuple[ErrorCode, Fetched]]
    ) -> OffsetFetchResponse:
        answered = []
        for group, (error, fetched) in zip(groups, results, strict=True):
            if error:
                context.note_error(error)
                answered.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=error))
                continue
            topics = []
            for topic in self._topics_of(context, group, fetched):
                name, indexes = topic.name, topic.partition_indexes
                partitions = [_answered_partition(OffsetFetchResponsePartitions, fetched, name, index, error) for index in indexes]
                context.note_topic(text_of(topic), tuple(indexes), 0, 0)
                topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic.topic_id, partitions=partitions))
            answered.append(OffsetFetchResponseGroup(group_id=group.group_id, topics=topics))
        return OffsetFetchResponse(groups=answered)

    def _topics_of(
        self, context: RequestContext, group: OffsetFetchRequestGroup, fetched: Fetched
    ) -> Sequence[OffsetFetchRequestTopics]:
        """Return the topics of a group's answer: the requested topics, or all with offsets; by id without deleted ones."""
        if group.topics is not None:
            return group.topics
        topic_id = self._metadata.topic_id
        found = [
            OffsetFetchRequestTopics(name=name, topic_id=topic_id(name), partition_indexes=indexes)
            for name, indexes in _answered_topics(None, fetched)
        ]
        return found if context.api_version < FETCH_BY_ID_SINCE else [each for each in found if each.topic_id != NO_UUID]

    @api(OffsetDeleteRequest, OffsetDeleteResponse, versions=(0, 0))
    def offset_delete(
        self, context: RequestContext, request: OffsetDeleteRequest
    ) -> "OffsetDeleteResponse | Future[OffsetDeleteResponse]":
        """Delete committed offsets."""
        context.group = request.group_id, "", -1
        self._authorization.require(context, AclOperation.DELETE, ResourceType.GROUP, request.group_id)
        denied = self._denied(context, (topic.name for topic in request.topics))
        known = [
            key
            for topic in request.topics
            if topic.name not in denied
            for partition in topic.partitions
            if self._metadata.partition(key := TopicPartition(topic.name, partition.partition_index)) is not None
        ]
        refused = {
            TopicPartition(topic.name, partition.partition_index): _NOT_AUTHORIZED
            for topic in request.topics
            if topic.name in denied
            for partition in topic.partitions
        }
        return when_done(
            self._groups.delete_offsets(request.group_id, known),
            lambda answer: _deleted(context, request, answer[0], {**answer[1], **refused}),
        )


def _group_of(request: OffsetCommitRequest) -> GroupNote:
    return request.group_id, request.member_id, request.generation_id_or_member_epoch


def _note_groups(context: RequestContext, groups: Sequence[OffsetFetchRequestGroup]) -> None:
    """Note the group of a request; one about several, which an administrator sends, has them as resources."""
    if len(groups) == 1:
        context.group = groups[0].group_id, groups[0].member_id or "", groups[0].member_epoch
    else:
        note_groups(context, (each.group_id for each in groups))


def _once(topics: list[_T] | None) -> list[_T] | None:
    """Return the topics with each partition once: the metadata of an offset takes kilobytes, its index in a request four bytes."""
    found: dict[object, Any] = {}
    asked: Any
    for asked in topics or ():
        first = found.setdefault((asked.name, getattr(asked, "topic_id", None)), asked)
        if first is not asked:
            first.partition_indexes += asked.partition_indexes
    for asked in found.values():
        asked.partition_indexes = list(dict.fromkeys(asked.partition_indexes))
    return None if topics is None else list(found.values())


def _sender(request: OffsetCommitRequest) -> Sender:
    return Sender(request.group_id, request.member_id, request.group_instance_id, request.generation_id_or_member_epoch)


def _committed(
    context: RequestContext,
    request: OffsetCommitRequest,
    refused: dict[TopicPartition, ErrorCode],
    error: ErrorCode,
) -> OffsetCommitResponse:
    """Build the response. Errors of unknown or denied topics precede the group's error, which precedes too large metadata."""
    topics = []
    for topic in request.topics:
        name = topic.name
        partitions = []
        first_error = _NONE
        for partition in topic.partitions:
            index = partition.partition_index
            code = error
            if refused:
                own = refused.get(TopicPartition(name, index), _NONE)
                if own in _NOT_FOR_GROUP or not error:
                    code = own
            first_error = first_error or code
            partitions.append(_committed_partition(partition_index=index, error_code=code))
        context.note_topic(text_of(topic), tuple([each.partition_index for each in partitions]), 0, 0, first_error)
        topics.append(_committed_topic(name=name, topic_id=topic.topic_id, partitions=partitions))
    return _commit_response(topics=topics)


def _partitions(
    topics: _AskedTopics,
) -> list[TopicPartition] | None:
    if topics is None:
        return None
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes]


def _answered_topics(topics: _AskedTopics, fetched: Fetched) -> list[tuple[str, list[int]]]:
    """Return the topics and partitions of the response: the requested ones, or all found."""
    if topics is not None:
        return [(topic.name, topic.partition_indexes) for topic in topics]
    found: dict[str, list[int]] = {}
    for name, index in fetched:
        found.setdefault(name, []).append(index)
    return list(found.items())


def _answered_partition(kind: Callable[..., _P], fetched: Fetched, topic: str, index: int, error: ErrorCode) -> _P:
    """Build one partition of the response; ``kind`` is its class, which depends on the version."""
    value = fetched.get(TopicPartition(topic, index))
    if value is None or isinstance(value, ErrorCode):
        offset, epoch, metadata = NO_OFFSET, -1, ""
        error = error if value is None else value
    else:
        offset, epoch, metadata = value.offset, value.leader_epoch, value.metadata
    return kind(partition_index=index, committed_offset=offset, committed_leader_epoch=epoch, metadata=metadata, error_code=error)


def _fetched_group(context: RequestContext, request: OffsetFetchRequest, error: ErrorCode, fetched: Fetched) -> OffsetFetchResponse:
    context.note_error(error)
    if error and context.api_version >= GROUP_ERROR_SINCE:
        return OffsetFetchResponse(error_code=error)
    topics = []
    for name, indexes in _answered_topics(request.topics, fetched):
        partitions = [_answered_partition(OffsetFetchResponsePartition, fetched, name, index, error) for index in indexes]
        context.note_topic(name, tuple(indexes), 0, 0, error)
        topics.append(OffsetFetchResponseTopic(name=name, partitions=partitions))
    return OffsetFetchResponse(topics=topics)


def _deleted(
    context: RequestContext,
    request: OffsetDeleteRequest,
    error: ErrorCode,
    results: dict[TopicPartition, ErrorCode],
) -> OffsetDeleteResponse:
    context.note_error(error)
    if error:
        return OffsetDeleteResponse(error_code=error)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=results.get(TopicPartition(topic.name, partition.partition_index), _UNKNOWN_PARTITION),
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
