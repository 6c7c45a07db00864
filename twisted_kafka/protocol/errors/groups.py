"""Errors of consumer, share and streams groups, and of their offsets."""

from twisted_kafka.protocol.errors.base import ErrorCode, KafkaError, RetriableError


class OffsetMetadataTooLargeError(KafkaError, code=ErrorCode.OFFSET_METADATA_TOO_LARGE):
    """The metadata of a committed offset is longer than the broker keeps."""


class CoordinatorLoadInProgressError(RetriableError, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
    """The coordinator still reads its partition and cannot answer yet."""


class CoordinatorNotAvailableError(RetriableError, code=ErrorCode.COORDINATOR_NOT_AVAILABLE):
    """There is no coordinator at the moment."""


class NotCoordinatorError(RetriableError, code=ErrorCode.NOT_COORDINATOR):
    """This broker is not the coordinator of the group or transactional id."""


class IllegalGenerationError(KafkaError, code=ErrorCode.ILLEGAL_GENERATION):
    """The generation of the member is not the group's."""


class InconsistentGroupProtocolError(KafkaError, code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
    """The member's protocols have nothing in common with those of the group."""


class InvalidGroupIdError(KafkaError, code=ErrorCode.INVALID_GROUP_ID):
    """The group id is not allowed."""


class UnknownMemberIdError(KafkaError, code=ErrorCode.UNKNOWN_MEMBER_ID):
    """The group does not know this member."""


class InvalidSessionTimeoutError(KafkaError, code=ErrorCode.INVALID_SESSION_TIMEOUT):
    """The session timeout is outside of what the broker allows."""


class RebalanceInProgressError(KafkaError, code=ErrorCode.REBALANCE_IN_PROGRESS):
    """The group rebalances, so the member has to join again."""


class InvalidCommitOffsetSizeError(KafkaError, code=ErrorCode.INVALID_COMMIT_OFFSET_SIZE):
    """The offset commit is too large to be written."""


class GroupNotEmptyError(KafkaError, code=ErrorCode.NON_EMPTY_GROUP):
    """The group still has members."""


class GroupIdNotFoundError(KafkaError, code=ErrorCode.GROUP_ID_NOT_FOUND):
    """There is no such group."""


class MemberIdRequiredError(KafkaError, code=ErrorCode.MEMBER_ID_REQUIRED):
    """The member has to join again with the id that it got in this answer."""


class GroupMaxSizeReachedError(KafkaError, code=ErrorCode.GROUP_MAX_SIZE_REACHED):
    """The group is full."""


class FencedInstanceIdError(KafkaError, code=ErrorCode.FENCED_INSTANCE_ID):
    """Another member uses this group instance id now."""


class GroupSubscribedToTopicError(KafkaError, code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC):
    """The group is subscribed to the topic, so its offsets cannot be deleted."""


class UnstableOffsetCommitError(RetriableError, code=ErrorCode.UNSTABLE_OFFSET_COMMIT):
    """Offsets of an open transaction wait to be committed."""


class FencedMemberEpochError(KafkaError, code=ErrorCode.FENCED_MEMBER_EPOCH):
    """The member's epoch was fenced by the coordinator, so it has to join again."""


class UnreleasedInstanceIdError(KafkaError, code=ErrorCode.UNRELEASED_INSTANCE_ID):
    """Another member still holds this instance id."""


class UnsupportedAssignorError(KafkaError, code=ErrorCode.UNSUPPORTED_ASSIGNOR):
    """The group's members or the broker do not have this assignor."""


class StaleMemberEpochError(KafkaError, code=ErrorCode.STALE_MEMBER_EPOCH):
    """The member's epoch is older than the coordinator's."""


class InvalidRecordStateError(KafkaError, code=ErrorCode.INVALID_RECORD_STATE):
    """The record is not in a state that allows this acknowledgement."""


class ShareSessionNotFoundError(RetriableError, code=ErrorCode.SHARE_SESSION_NOT_FOUND):
    """There is no such share session."""


class InvalidShareSessionEpochError(RetriableError, code=ErrorCode.INVALID_SHARE_SESSION_EPOCH):
    """The epoch of the share session is not the next one."""


class FencedStateEpochError(KafkaError, code=ErrorCode.FENCED_STATE_EPOCH):
    """The share coordinator has a newer epoch of this state."""


class InvalidRegularExpressionError(KafkaError, code=ErrorCode.INVALID_REGULAR_EXPRESSION):
    """The regular expression cannot be understood."""


class StreamsInvalidTopologyError(KafkaError, code=ErrorCode.STREAMS_INVALID_TOPOLOGY):
    """The topology of the streams application is not allowed."""


class StreamsInvalidTopologyEpochError(KafkaError, code=ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH):
    """The epoch of the streams topology is not allowed."""


class StreamsTopologyFencedError(KafkaError, code=ErrorCode.STREAMS_TOPOLOGY_FENCED):
    """The epoch of the streams topology is older than the group's."""


class ShareSessionLimitReachedError(RetriableError, code=ErrorCode.SHARE_SESSION_LIMIT_REACHED):
    """The broker holds as many share sessions as it may."""


class GroupDeletionFailedError(KafkaError, code=ErrorCode.GROUP_DELETION_FAILED):
    """The group could not be deleted whole."""


class StreamsTopologyDescriptionUpdateFailedError(KafkaError, code=ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED):
    """The description of the streams topology could not be kept."""
