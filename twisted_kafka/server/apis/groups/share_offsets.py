"""DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets: where share groups start (KIP-932).

DescribeShareGroupOffsets v0-1: v1 (Kafka 4.2) the lag (KIP-1226). The others v0.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future

from twisted_kafka.group_coordinator.group_coordinator import GroupCoordinator
from twisted_kafka.group_coordinator.share.persister_requests import SharePartitionId
from twisted_kafka.group_coordinator.share_groups import ShareOffset
from twisted_kafka.metadata.cache import MetadataCache, MetadataSnapshot
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.compiler.types import NO_UUID
from twisted_kafka.protocol.errors import ErrorCode, KafkaError, error_of
from twisted_kafka.protocol.messages.share.share_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.server.apis.groups.classic_groups import note_groups
from twisted_kafka.server.apis.groups.share_groups import require_share_groups
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.waiting.futures import gather, recover, when_done

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_MESSAGES = {
    _UNKNOWN: "This server does not host this topic-partition.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.INVALID_REQUEST: "The start offset must be 0 or more, or -1 for the group's reset strategy.",
}
_NO_OFFSETS = "There is no offset information to delete."
_LEAST_OFFSET = -1

_Group = DescribeShareGroupOffsetsResponseGroup


class ShareOffsetApis:
    """Offsets of share groups; while ``is_enabled`` returns false, every request fails with UNSUPPORTED_VERSION."""

    def __init__(
        self,
        groups: GroupCoordinator,
        metadata: MetadataCache,
        is_enabled: Callable[[], bool],
        authorization: IAuthorization = ALLOW_ALL,
    ) -> None:
        self._authorization = authorization
        self._groups = groups.share
        self._metadata = metadata
        self._is_enabled = is_enabled

    # describing

    @api(DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse, versions=(0, 1))
    def describe_share_group_offsets(
        self, context: RequestContext, request: DescribeShareGroupOffsetsRequest
    ) -> "DescribeShareGroupOffsetsResponse | Future[DescribeShareGroupOffsetsResponse]":
        """Return the start offset and the lag of partitions, of all that a group has if the request names no topics."""
        asked: dict[str, DescribeShareGroupOffsetsRequestGroup] = {}
        for each in request.groups:
            asked.setdefault(each.group_id, each)  # each once: a group may have many offsets
        note_groups(context, asked)
        require_share_groups(self._is_enabled)
        allowed = self._authorization.allowed_of(context, AclOperation.DESCRIBE, ResourceType.GROUP, asked)

        def respond(groups: list[_Group]) -> DescribeShareGroupOffsetsResponse:
            context.note_error(next((each.error_code for each in groups if each.error_code), 0))
            return DescribeShareGroupOffsetsResponse(groups=groups)

        return gather([self._describe(context, each, group_id in allowed) for group_id, each in asked.items()], respond)

    def _describe(
        self, context: RequestContext, wanted: DescribeShareGroupOffsetsRequestGroup, is_allowed: bool
    ) -> "_Group | Future[_Group]":
        def refused(error: KafkaError) -> _Group:
            return _Group(group_id=wanted.group_id, error_code=error_of(error), error_message=str(error))

        if not is_allowed:
            return _Group(group_id=wanted.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        try:
            if wanted.topics is None:
                answer = self._describe_all(context, wanted.group_id)
            else:
                answer = self._describe_topics(context, wanted)
        except KafkaError as error:
            return refused(error)
        return recover(answer, KafkaError, refused) if isinstance(answer, Future) else answer

    def _describe_all(self, context: RequestContext, group_id: str) -> "_Group | Future[_Group]":
        def respond(found: Mapping[SharePartitionId, ShareOffset]) -> _Group:
            names = self._metadata.snapshot.topic_names
            topics = _described(found, names)
            shown = self._allowed(context, AclOperation.DESCRIBE, [each.topic_name for each in topics])
            return _Group(group_id=group_id, topics=[each for each in topics if each.topic_name in shown])

        return when_done(self._groups.describe_offsets(group_id, None), respond)

    def _describe_topics(self, context: RequestContext, wanted: DescribeShareGroupOffsetsRequestGroup) -> "_Group | Future[_Group]":
        snapshot = self._metadata.snapshot
        asked = wanted.topics or []
        allowed = self._allowed(context, AclOperation.DESCRIBE, [each.topic_name for each in asked])
        known = {
            snapshot.topic_ids[each.topic_name]: each
            for each in asked
            if each.topic_name in allowed and _exists(snapshot, each.topic_name)
        }
        # The share coordinators are asked for partitions that exist, each once: a request may name very many others.
        nothing = {(topic_id, index): ShareOffset() for topic_id, each in known.items() for index in each.partitions}
        partitions = {
            topic_id: sorted(snapshot.topics[each.topic_name].keys() & set(each.partitions)) for topic_id, each in known.items()
        }
        others = [
            DescribeShareGroupOffsetsResponseTopic(
                topic_name=each.topic_name,
                topic_id=NO_UUID,
                partitions=[_nothing_known(index, each.topic_name in allowed) for index in each.partitions],
            )
            for each in asked
            if snapshot.topic_ids.get(each.topic_name) not in known
        ]

        def respond(found: Mapping[SharePartitionId, ShareOffset]) -> _Group:
            topics = _described({**nothing, **found}, snapshot.topic_names)
            return _Group(group_id=wanted.group_id, topics=[*topics, *others])

        asked_for = {topic_id: indexes for topic_id, indexes in partitions.items() if indexes}
        return when_done(self._groups.describe_offsets(wanted.group_id, asked_for), respond)

    # altering

    @api(AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, versions=(0, 0))
    def alter_share_group_offsets(
        self, context: RequestContext, request: AlterShareGroupOffsetsRequest
    ) -> "AlterShareGroupOffsetsResponse | Future[AlterShareGroupOffsetsResponse]":
        """Set the start offsets of a group without members; the group is created if it does not exist."""
        note_groups(context, [request.group_id])
        require_share_groups(self._is_enabled)
        self._authorization.require(context, AclOperation.READ, ResourceType.GROUP, request.group_id)
        snapshot = self._metadata.snapshot
        allowed = self._allowed(context, AclOperation.READ, [each.topic_name for each in request.topics])
        errors: dict[tuple[str, int], ErrorCode] = {}
        offsets: dict[SharePartitionId, int] = {}
        for topic in request.topics:
            for each in topic.partitions:
                error = ErrorCode.NONE
                if topic.topic_name not in allowed:
                    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                elif not _exists(snapshot, topic.topic_name) or each.partition_index not in snapshot.topics[topic.topic_name]:
                    error = _UNKNOWN
                elif each.start_offset < _LEAST_OFFSET:
                    error = ErrorCode.INVALID_REQUEST
                else:
                    offsets[snapshot.topic_ids[topic.topic_name], each.partition_index] = each.start_offset
                errors[topic.topic_name, each.partition_index] = error

        def respond(failed: Mapping[SharePartitionId, ErrorCode]) -> AlterShareGroupOffsetsResponse:
            names = snapshot.topic_names
            errors.update({(names[topic_id], index): error for (topic_id, index), error in failed.items()})
            context.note_error(next((each for each in errors.values() if each), 0))
            asked: dict[str, list[int]] = {}
            for topic in request.topics:
                asked.setdefault(topic.topic_name, []).extend(each.partition_index for each in topic.partitions)
            return AlterShareGroupOffsetsResponse(
                responses=[_altered(name, indexes, snapshot, errors) for name, indexes in asked.items()]
            )

        return when_done(self._groups.alter_offsets(request.group_id, offsets), respond)

    # deleting

    @api(DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse, versions=(0, 0))
    def delete_share_group_offsets(
        self, context: RequestContext, request: DeleteShareGroupOffsetsRequest
    ) -> "DeleteShareGroupOffsetsResponse | Future[DeleteShareGroupOffsetsResponse]":
        """Delete the offsets of topics for a group without members."""
        note_groups(context, [request.group_id])
        require_share_groups(self._is_enabled)
        self._authorization.require(context, AclOperation.DELETE, ResourceType.GROUP, request.group_id)
        snapshot = self._metadata.snapshot
        names = list(dict.fromkeys(each.topic_name for each in request.topics))
        allowed = self._allowed(context, AclOperation.READ, names)
        topic_ids = {name: snapshot.topic_ids[name] for name in names if name in allowed and _exists(snapshot, name)}

        def respond(failed: Mapping[bytes, ErrorCode]) -> DeleteShareGroupOffsetsResponse:
            results = []
            for name in names:
                topic_id = topic_ids.get(name)
                if topic_id is None:
                    error = _UNKNOWN if name in allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    message = _MESSAGES[error]
                else:
                    error = failed.get(topic_id, ErrorCode.NONE)
                    message = _NO_OFFSETS if error is _UNKNOWN else ""
                shown_id = NO_UUID if topic_id is None or error is _UNKNOWN else topic_id
                result = DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=shown_id, error_code=error)
                result.error_message = message or None
                results.append(result)
            context.note_error(next((each.error_code for each in results if each.error_code), 0))
            return DeleteShareGroupOffsetsResponse(responses=results)

        return when_done(self._groups.delete_offsets(request.group_id, topic_ids.values()), respond)

    def _allowed(self, context: RequestContext, operation: AclOperation, topics: list[str]) -> set[str]:
        return self._authorization.allowed_of(context, operation, ResourceType.TOPIC, topics)


def _exists(snapshot: MetadataSnapshot, name: str) -> bool:
    return name in snapshot.topics and name in snapshot.topic_ids


def _described(
    found: Mapping[SharePartitionId, ShareOffset], names: Mapping[bytes, str]
) -> list[DescribeShareGroupOffsetsResponseTopic]:
    topics: dict[bytes, DescribeShareGroupOffsetsResponseTopic] = {}
    for (topic_id, index), each in found.items():
        if topic_id not in names:
            continue
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = DescribeShareGroupOffsetsResponseTopic(
                topic_name=names[topic_id], topic_id=topic_id, partitions=[]
            )
        topic.partitions.append(
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=each.start_offset,
                leader_epoch=each.leader_epoch,
                lag=each.lag,
                error_code=each.error,
                error_message="The partition's end offset is not known." if each.error else None,
            )
        )
    return list(topics.values())


def _nothing_known(index: int, is_allowed: bool) -> DescribeShareGroupOffsetsResponsePartition:
    """Return the answer for a partition of a topic that does not exist, which is no error, or may not be described."""
    error = ErrorCode.NONE if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=-1, error_code=error, error_message=_MESSAGES.get(error)
    )


def _altered(
    name: str, indexes: list[int], snapshot: MetadataSnapshot, errors: Mapping[tuple[str, int], ErrorCode]
) -> AlterShareGroupOffsetsResponseTopic:
    partitions = []
    for index in indexes:
        error = errors[name, index]
        message = _MESSAGES.get(error, "The share coordinator refused it.") if error else None
        partitions.append(AlterShareGroupOffsetsResponsePartition(partition_index=index, error_code=error, error_message=message))
    topic_id = snapshot.topic_ids.get(name, NO_UUID)
    return AlterShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id, partitions=partitions)
