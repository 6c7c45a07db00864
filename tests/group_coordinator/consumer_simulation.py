"""A simulated group of the consumer protocol."""

import concurrent.futures._base
import contextlib
import random
from concurrent.futures import Future
from typing import Any

from tests.support.coordinator_fakes import Bench
from twisted_kafka.group_coordinator.requests import Client
from twisted_kafka.group_coordinator.state.consumer_group_member import STATIC_LEAVE_EPOCH
from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

BEGIN_ANEW = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class Modern:
    """A consumer of the new protocol as clients are: one request at a time, and nothing is taken before it's given up."""

    def __init__(self, number: int, chance: random.Random, is_static: bool) -> None:
        self.number = number
        self.chance = chance
        self.instance_id = f"i{number}" if is_static else None
        self.lives = 0
        self.restart()

    def restart(self) -> None:
        self.lives += 1
        self.member_id = f"m{self.number}.{self.lives}"
        self.reset()
        self.asked: Any = None

    def reset(self) -> None:
        self.epoch, self.tells_all = 0, True
        self.used: set[Any] = set()
        self.told: set[Any] = set()
        self.reported: set[Any] = set()

    def step(self, bench: Bench, loses: bool) -> None:
        """Send a heartbeat, or look whether the last one was answered; ``loses``: the request or its answer gets lost."""
        if self.asked is None:
            if loses and self.chance.random() < 0.5:
                self.tells_all = True
                return
            self.asked = self.send(bench)
        if isinstance(self.asked, Future) and not self.asked.done():
            return
        answer, self.asked = self.asked, None
        if loses:
            self.tells_all = True
            return
        try:
            self.got(answer.result() if isinstance(answer, Future) else answer, bench)
        except KafkaError as error:
            self.got(error.code, bench)

    def send(self, bench: Bench) -> ErrorCode | concurrent.futures._base.Future[Any] | ConsumerGroupHeartbeatResponse:
        is_full = self.epoch == 0 or self.tells_all
        if self.chance.random() < 0.7:
            self.used &= self.told  # what it was told to give up it does in its own time
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=300_000 if is_full else -1,
            subscribed_topic_names=["t", "u"] if is_full else None,
        )
        if is_full or self.used != self.reported:
            by_topic: dict[Any, Any] = {}
            for topic_id, index in self.used:
                by_topic.setdefault(topic_id, []).append(index)
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in by_topic.items()
            ]
            self.reported = set(self.used)
        self.tells_all = False
        try:
            return bench.groups.consumer_heartbeat(request, Client(str(self.number), "/h"), 1)
        except KafkaError as error:
            return error.code

    def got(self, answer: ErrorCode | ConsumerGroupHeartbeatResponse, bench: Bench) -> None:
        code = answer if isinstance(answer, ErrorCode) else ErrorCode(answer.error_code)
        if code in BEGIN_ANEW:
            self.reset()
        elif code is ErrorCode.UNRELEASED_INSTANCE_ID:
            self.tells_all = True  # its own earlier life holds the place until its session ends
        elif code:
            self.tells_all = True
        else:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.told = {(each.topic_id, index) for each in answer.assignment.topic_partitions for index in each.partitions}
                self.used |= self.told

    def away(self, bench: Bench) -> None:
        """Leave for a while, as a static member that is restarted does."""
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
