"""What scenarios of share groups need: members with sessions, and groups of all kinds."""

from base64 import urlsafe_b64encode
from functools import partial
from typing import Any, Final

from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.consumer_groups import ConsumerGroupHeartbeatRequest
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest
from twisted_kafka.protocol.messages.share.share_fetch import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
)
from twisted_kafka.protocol.messages.share.share_groups import ShareGroupHeartbeatRequest
from twisted_kafka.protocol.messages.share.share_state import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryRequestPartitionData,
    ReadStateSummaryData,
)
from twisted_kafka.tools.compare.data_requests import fill
from twisted_kafka.tools.compare.scenarios.coordinators.groups import joined
from twisted_kafka.tools.compare.talk import SCENARIOS_OF_KAFKA_4, Talk, scenario

newer = partial(scenario, registry=SCENARIOS_OF_KAFKA_4)

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
LEAVE: Final = -1
FINAL: Final = -1
SHARE_COORDINATOR: Final = 2

Acknowledged = tuple[int, int, list[int]]
"""The first and the last offset of a batch, and its acknowledgement types."""


def topic_of(talk: Talk, name: str = "t", partitions: int = 1) -> bytes:
    """Create a topic; return its id."""
    topic = talk.create(name, partitions)
    talk.known(topic)
    return talk.topic_id(topic)


def await_share_coordinator(talk: Talk, group: str, topic_id: bytes, partition: int = 0, *, exists: bool = True) -> None:
    """Wait until the share coordinator of a partition has loaded its state, and knows the partition if it exists.

    The first question creates the coordinator's topic.
    """
    key = f"{group}:{_uuid_text(topic_id)}:{partition}"
    where = FindCoordinatorRequest(key_type=SHARE_COORDINATOR, coordinator_keys=[key])
    talk.until(lambda: not talk.ask(where, 6, note=False).coordinators[0].error_code, "there is no share coordinator")
    data = ReadStateSummaryData(topic_id=topic_id, partitions=[ReadShareGroupStateSummaryRequestPartitionData(partition=partition)])
    read = ReadShareGroupStateSummaryRequest(group_id=group, topics=[data])

    passing = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    passing |= {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} if exists else set()

    def is_loaded() -> bool:
        (result,) = talk.ask(read, 0, note=False).results
        return result.partitions[0].error_code not in passing

    talk.until(is_loaded, "the share coordinator does not load its state")


def _uuid_text(topic_id: bytes) -> str:
    """Return an id as Kafka writes it."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


class ShareMember:
    """A member of a share group with a connection of its own, and its share session for one topic."""

    def __init__(self, talk: Talk, group: str, topic_id: bytes = b"", name: str = "t", member_id: str = "a") -> None:
        self.talk = talk.another()
        self.group = group
        self.topic_id = topic_id
        self.topic = talk.topic(name)
        self.id = member_id * 22
        self.epoch = 0
        self.session_epoch = 0

    def beat(self, epoch: int | None = None, *, version: int = 1, note: bool = False, **fields: Any) -> Any:
        """Send a heartbeat; keep the epoch of the answer."""
        values: dict[str, Any] = {"group_id": self.group, "member_id": self.id} | fields
        request = ShareGroupHeartbeatRequest(member_epoch=self.epoch if epoch is None else epoch, **values)
        answer = self.talk.ask(request, version, note=note)
        if answer is not None and not answer.error_code:
            self.epoch = answer.member_epoch
        return answer

    def join(self) -> "ShareMember":
        """Join, and wait for an assignment: the group's partitions are initialized meanwhile."""
        self.epoch = 0

        def is_assigned() -> bool:
            answer = self.beat(subscribed_topic_names=[self.topic])
            return not answer.error_code and answer.assignment is not None and bool(answer.assignment.topic_partitions)

        self.talk.until(is_assigned, f"{self.group} has no assignment")
        return self

    def leave(self) -> None:
        """Leave the group."""
        self.beat(LEAVE)

    def fetch(
        self,
        *batches: Acknowledged,
        epoch: int | None = None,
        partitions: tuple[int, ...] = (0,),
        topic_id: bytes | None = None,
        forgotten: tuple[int, ...] = (),
        version: int = 1,
        note: bool = True,
        **fields: Any,
    ) -> Any:
        """Send a ShareFetch in the session, which acknowledges the batches in each partition."""
        asked = self.topic_id if topic_id is None else topic_id
        topic = FetchTopic(
            topic_id=asked,
            partitions=[FetchPartition(partition_index=each, acknowledgement_batches=_batches(batches)) for each in partitions],
        )
        values: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "max_wait_ms": 300,
            "min_bytes": 1,
            "max_bytes": 1_000_000,
            "max_records": 500,
            "batch_size": 500,
        }
        request = ShareFetchRequest(
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            topics=[topic] if partitions else [],
            forgotten_topics_data=[ForgottenTopic(topic_id=asked, partitions=list(forgotten))] if forgotten else [],
            **values | fields,
        )
        answer = self.talk.ask(request, version, note=note)
        self._answered(answer, request.share_session_epoch)
        return answer

    def acknowledge(
        self,
        *batches: Acknowledged,
        epoch: int | None = None,
        partitions: tuple[int, ...] = (0,),
        topic_id: bytes | None = None,
        version: int = 1,
        note: bool = True,
        **fields: Any,
    ) -> Any:
        """Send a ShareAcknowledge in the session, with the same batches for each partition."""
        asked = self.topic_id if topic_id is None else topic_id
        parts = [AcknowledgePartition(partition_index=each, acknowledgement_batches=_batches(batches)) for each in partitions]
        values: dict[str, Any] = {"group_id": self.group, "member_id": self.id} | fields
        request = ShareAcknowledgeRequest(
            share_session_epoch=self.session_epoch if epoch is None else epoch,
            topics=[AcknowledgeTopic(topic_id=asked, partitions=parts)] if partitions else [],
            **values,
        )
        answer = self.talk.ask(request, version, note=note)
        self._answered(answer, request.share_session_epoch)
        return answer

    def _answered(self, answer: Any, epoch: int) -> None:
        if answer is not None and not answer.error_code:
            self.session_epoch = 0 if epoch == FINAL else epoch + 1


def _batches(batches: tuple[Acknowledged, ...]) -> list[AcknowledgementBatch]:
    return [AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types) for first, last, types in batches]


def reader(talk: Talk, batches: int = 3, partitions: int = 1, name: str = "t") -> ShareMember:
    """Return a member with a share session, and records that it has not fetched yet: the group began when there were none."""
    topic_id = topic_of(talk, name, partitions)
    member = ShareMember(talk, talk.topic(f"group.{name}"), topic_id, name).join()
    member.fetch(partitions=tuple(range(partitions)), note=False)
    fill(talk, member.topic, batches)
    return member


def groups_of_other_kinds(talk: Talk) -> dict[str, str]:
    """Make a classic group and a consumer group; return their ids, and those of no group."""
    classic, consumer = talk.topic("classic"), talk.topic("consumer")
    joined(talk, classic)
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=consumer,
        member_id="m" * 22,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[talk.topic("t")],
        topic_partitions=[],
    )
    talk.ask(heartbeat, 1, note=False)
    return {"classic": classic, "consumer": consumer, "missing": talk.topic("missing"), "empty": ""}
