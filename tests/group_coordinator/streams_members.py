"""A Bench with a streams group: what its members send, and what is known of them."""

from concurrent.futures import Future
from typing import Any

from tests.support.coordinator_fakes import Bench
from twisted_kafka.group_coordinator.requests import Client
from twisted_kafka.group_coordinator.streams.streams_group_protocol import Heartbeat
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.streams.streams_groups import (
    CopartitionGroup,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTopology,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TopicInfo,
)

G = "g"
CLIENT = Client("app", "/127.0.0.1")

Subtopology = StreamsGroupHeartbeatRequestSubtopology


def internal(name: str, partitions: int = 0, **configs: str) -> TopicInfo:
    listed = [KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()]
    return TopicInfo(name=name, partitions=partitions, topic_configs=listed)


def subtopology(name: str, *sources: str, **fields: Any) -> Subtopology:
    return Subtopology(subtopology_id=name, source_topics=list(sources), **fields)


def topology(*subtopologies: Subtopology, epoch: int = 0) -> StreamsGroupHeartbeatRequestTopology:
    return StreamsGroupHeartbeatRequestTopology(epoch=epoch, subtopologies=list(subtopologies))


def copartitioned(sources: list[int], repartition: list[int] | None = None) -> CopartitionGroup:
    return CopartitionGroup(source_topics=sources, repartition_source_topics=repartition or [])


WORDS = topology(subtopology("0", "t", state_changelog_topics=[internal("counts", cleanup_policy="compact")]))
"""Reads topic t, and keeps its state in the topic counts."""

PLAIN = topology(subtopology("0", "t"))
"""Reads topic t, without a state."""


def ids(tasks: set[tuple[str, int]]) -> list[TaskIds]:
    by_subtopology: dict[str, list[int]] = {}
    for name, partition in sorted(tasks):
        by_subtopology.setdefault(name, []).append(partition)
    return [TaskIds(subtopology_id=name, partitions=partitions) for name, partitions in by_subtopology.items()]


def tasks(listed: Any) -> set[tuple[str, int]] | None:
    return None if listed is None else {(each.subtopology_id, partition) for each in listed for partition in each.partitions}


class Streams:
    """Topic t has 3 partitions, counts as many; members answer at once what they are told."""

    def __init__(self, delay_ms: int = 0, **settings: Any) -> None:
        self.bench = Bench(streams_initial_rebalance_delay_ms=delay_ms, **settings)
        self.bench.topics.change({"t": 3, "counts": 3})
        self.epochs: dict[str, int] = {}
        self.held: dict[str, dict[str, set[tuple[str, int]]]] = {}
        self.missing: tuple[Any, ...] = ()

    def ask(self, member_id: str, epoch: int, group_id: str = G, version: int = 1, **fields: Any) -> StreamsGroupHeartbeatResponse:
        request = StreamsGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch, **fields)
        answer: Any = self.bench.groups.streams.heartbeat(request, CLIENT, version)
        found: Heartbeat = answer.result(0) if isinstance(answer, Future) else answer
        self.missing = found.missing
        return found.response

    def join(
        self, member_id: str, described: Any = WORDS, process: str | None = None, **fields: Any
    ) -> StreamsGroupHeartbeatResponse:
        known: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        answer = self.ask(member_id, 0, topology=described, process_id=process or member_id, **{**known, **fields})
        self.held[member_id] = {"active": set(), "standby": set(), "warmup": set()}
        return self._took(member_id, answer)

    def beat(self, member_id: str, **fields: Any) -> StreamsGroupHeartbeatResponse:
        """Send a heartbeat that reports all tasks."""
        held = self.held[member_id]
        owned = {f"{role}_tasks": ids(found) for role, found in held.items()}
        return self._took(member_id, self.ask(member_id, self.epochs[member_id], **{**owned, **fields}))

    def _took(self, member_id: str, answer: StreamsGroupHeartbeatResponse) -> StreamsGroupHeartbeatResponse:
        assert answer.error_code == ErrorCode.NONE, answer
        self.epochs[member_id] = answer.member_epoch
        for role in ("active", "standby", "warmup"):
            told = tasks(getattr(answer, f"{role}_tasks"))
            if told is not None:
                self.held[member_id][role] = told
        return answer

    def leave(self, member_id: str, **fields: Any) -> None:
        assert self.ask(member_id, -1, **fields).error_code == ErrorCode.NONE
        del self.epochs[member_id]

    def settle(self) -> None:
        """Let all members reach the newest assignment."""
        for _ in range(4):
            self.bench.advance(1_000)
            for member_id in list(self.epochs):
                self.beat(member_id)

    def described(self, group_id: str = G) -> Any:
        return self.bench.groups.streams.describe(group_id)

    def state(self) -> tuple[str, int, int]:
        group = self.described()
        return group.group_state, group.group_epoch, group.assignment_epoch

    def written(self) -> list[tuple[str, Any]]:
        return [
            (type(each.key).__name__.removeprefix("StreamsGroup").removesuffix("Key"), each.value) for each in self.bench.written()
        ]
