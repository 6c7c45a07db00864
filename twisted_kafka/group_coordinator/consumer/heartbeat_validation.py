"""Validates a ConsumerGroupHeartbeat; all but ``check_epoch`` do so without looking at the group."""

from collections.abc import Collection

from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    CurrentAssignment,
    Partitions,
)
from twisted_kafka.protocol.errors import FencedMemberEpochError, InvalidRequestError, UnsupportedAssignorError
from twisted_kafka.protocol.messages.coordinators.consumer_groups import ConsumerGroupHeartbeatRequest

CLIENT_ID_SINCE = 1
"""Since this version (Kafka 4.0), members generate their ids themselves (KIP-1082)."""


def is_leaving(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the member leaves the group, for good or temporarily."""
    return request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the request has all fields, as it does after an error: then it gets a full response."""
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and has_subscription and request.topic_partitions is not None


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Raise InvalidRequestError or UnsupportedAssignorError for a request that is invalid for any group."""
    epoch = request.member_epoch
    if not request.member_id.strip() and (version >= CLIENT_ID_SINCE or epoch != 0):
        raise InvalidRequestError("MemberId can't be empty.")
    for name, value in (("GroupId", request.group_id), ("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        if value is not None and not value.strip():
            raise InvalidRequestError(f"{name} can't be empty.")
    if epoch == 0:
        _check_join(request, version)
    elif epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise InvalidRequestError("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise InvalidRequestError("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignorError(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        )


def _check_join(request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    if request.rebalance_timeout_ms == -1:
        raise InvalidRequestError("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise InvalidRequestError("TopicPartitions must be empty when (re-)joining.")
    names = request.subscribed_topic_names
    # A newer client whose pattern matches no topic yet sends an empty list.
    if request.subscribed_topic_regex is None and (names is None or (version < CLIENT_ID_SINCE and not names)):
        raise InvalidRequestError("SubscribedTopicNames or SubscribedTopicRegex must be set in first request.")


def check_epoch(current: CurrentAssignment, epoch: int, owned: Partitions | None) -> None:
    """Raise FencedMemberEpochError unless ``epoch`` is the member's current epoch.

    Epoch 0 rejoins. The previous epoch is also valid if the partitions the member reports are part of its current assignment:
    the response with the new epoch was lost.
    """
    if epoch in (0, current.epoch):
        return
    if epoch < current.epoch and epoch == current.previous_epoch and owned is not None:
        assigned = current.assigned
        if all(indexes <= assigned.get(topic_id, frozenset()) for topic_id, indexes in owned.items()):
            return
    raise FencedMemberEpochError(
        f"Member epoch {epoch} is {'greater' if epoch > current.epoch else 'smaller'} than {current.epoch}, the one known to the "
        "coordinator. The member must give up its partitions and rejoin."
    )
