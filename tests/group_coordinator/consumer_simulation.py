"""A simulated group of the consumer protocol."""

import concurrent.futures._base
import contextlib
from typing import Any

from typing_extensions import override

from tests.group_coordinator.heartbeating import HeartbeatingMember
from tests.support.coordinator_fakes import Bench
from twisted_kafka.group_coordinator.requests import Client
from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import STATIC_LEAVE_EPOCH
from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.messages.coordinators.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

BEGIN_ANEW = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class Modern(HeartbeatingMember):
    """A consumer of the new protocol as clients are: nothing is taken before it's given up."""

    @override
    def reset(self) -> None:
        super().reset()
        self.used: set[Any] = set()
        self.told: set[Any] = set()
        self.reported: set[Any] = set()

    @override
    def send(self, bench: Bench) -> ErrorCode | concurrent.futures._base.Future[Any] | ConsumerGroupHeartbeatResponse:
        tells_all = self.epoch == 0 or self.is_full
        if self.chance.random() < 0.7:
            self.used &= self.told  # what it was told to give up it does in its own time
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=300_000 if tells_all else -1,
            subscribed_topic_names=["t", "u"] if tells_all else None,
        )
        if tells_all or self.used != self.reported:
            by_topic: dict[Any, Any] = {}
            for topic_id, index in self.used:
                by_topic.setdefault(topic_id, []).append(index)
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in by_topic.items()
            ]
            self.reported = set(self.used)
        self.is_full = False
        try:
            return bench.groups.consumer_heartbeat(request, Client(str(self.number), "/h"), 1)
        except KafkaError as error:
            return error.code

    @override
    def got(self, answer: ErrorCode | ConsumerGroupHeartbeatResponse) -> None:
        code = answer if isinstance(answer, ErrorCode) else ErrorCode(answer.error_code)
        if code in BEGIN_ANEW:
            self.reset()
        elif code:
            self.is_full = True  # an earlier life of it may hold the place until its session ends
        else:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.told = {(each.topic_id, index) for each in answer.assignment.topic_partitions for index in each.partitions}
                self.used |= self.told

    @override
    def away(self, bench: Bench) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=self.member_id, member_epoch=STATIC_LEAVE_EPOCH, instance_id=self.instance_id
        )
        with contextlib.suppress(KafkaError):
            bench.groups.consumer_heartbeat(request, Client(str(self.number), "/h"), 1)
        self.restart()


def look(members: list[Any]) -> None:
    """No partition is used twice at this moment."""
    users: dict[Any, Any] = {}
    for member in members:
        for part in member.used:
            assert users.setdefault(part, member) is member, f"{part} is used by {users[part].number} and {member.number}"
