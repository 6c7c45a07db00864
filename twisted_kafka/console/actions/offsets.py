"""Setting the committed offsets of a group, and deleting a group."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from twisted_kafka.console.actions.preview import MOST_ROWS, Preview
from twisted_kafka.console.cluster.coordinators import GROUP, ask_coordinator
from twisted_kafka.console.cluster.groups import BY_NAME, SHARE, committed, described, share_offsets
from twisted_kafka.console.cluster.offsets import EARLIEST, LATEST, by_topic, offsets_at, parse_position, resolved
from twisted_kafka.console.cluster.problems import CommandError, problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.cluster.texts import counted
from twisted_kafka.protocol.messages.coordinators.groups import DeleteGroupsRequest
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from twisted_kafka.protocol.messages.share.share_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from twisted_kafka.protocol.topic_partition import MAX_PARTITION, TopicPartition
from twisted_kafka.system.numbers import decimal


@dataclass(frozen=True, slots=True)
class Change:
    """The old and new offset of a partition. The old one is None if the group has none."""

    partition: TopicPartition
    offset: int | None
    new_offset: int


@dataclass(frozen=True, slots=True)
class ResetOffsets:
    """Sets the offsets of a group without members, of any kind but streams."""

    group: str
    topics: tuple[str, ...] = ()
    """``topic`` or ``topic:0,2``; empty: all partitions that the group has offsets of."""
    to: str = ""
    """A position; or else ``shift``."""
    shift: int | None = None
    """Is added to each offset."""

    def __post_init__(self) -> None:
        """Raise ValueError unless there is one of ``to`` and ``shift``."""
        if bool(self.to) == (self.shift is not None):
            raise ValueError("either a position or a number to add is needed")

    def changes(self, session: Session) -> list[Change]:
        """Return what would change. Raises CommandError; ValueError for a position or partition that cannot be read."""
        kind = self._kind(session)
        offsets = self._offsets(session, kind)
        chosen = _chosen(session, self.topics) if self.topics else sorted(offsets)
        if not chosen:
            raise CommandError(f"group {self.group} has no offsets: name the topics to set offsets for")
        target = self._target(session, chosen, offsets)
        return [Change(each, offsets.get(each), target[each]) for each in chosen]

    def preview(self, session: Session) -> Preview:
        """Return the old and new offsets. Raises as ``changes`` does."""
        changes = self.changes(session)
        again = sum(max(0, each.offset - each.new_offset) for each in changes if each.offset is not None)
        skipped = sum(max(0, each.new_offset - each.offset) for each in changes if each.offset is not None)
        warnings = [f"{counted(again, 'record')} will be read again"] if again else []
        warnings += [f"{counted(skipped, 'record')} will not be read"] if skipped else []
        rows = tuple(
            (
                each.partition.topic,
                str(each.partition.partition),
                "" if each.offset is None else str(each.offset),
                str(each.new_offset),
            )
            for each in changes[:MOST_ROWS]
        )
        summary = f"set {counted(len(changes), 'offset')} of group {self.group}"
        return Preview(summary, ("topic", "partition", "offset", "new offset"), rows, tuple(warnings))

    def do(self, session: Session) -> str:
        """Set them; return a sentence. Raises as ``changes`` does."""
        changes = self.changes(session)
        self.set(session, changes)
        return f"set {counted(len(changes), 'offset')} of group {self.group}"

    def set(self, session: Session, changes: Sequence[Change]) -> None:
        """Set the offsets of ``changes``. Raises CommandError, and ValueError if the group has members by now."""
        new = {each.partition: each.new_offset for each in changes}
        if self._kind(session) == SHARE:
            _alter_shared(session, self.group, new)
        else:
            commit(session, self.group, new)

    def _kind(self, session: Session) -> str:
        """Return the group's kind, empty for a group that does not exist: it is made. Raises ValueError if it has members."""
        found = None
        with suppress(CommandError):
            found = described(session, self.group)
        if found is None:
            return ""
        if found.members:
            many = counted(len(found.members), "member")
            raise ValueError(f"group {self.group} is {found.state} with {many}: stop them first")
        return found.type

    def _offsets(self, session: Session, kind: str) -> dict[TopicPartition, int]:
        if kind != SHARE:
            return committed(session, self.group)
        found = share_offsets(session, [self.group]).get(self.group, {})
        if isinstance(found, CommandError):
            raise found
        return {each: state.start for each, state in found.items()}

    def _target(
        self, session: Session, chosen: Sequence[TopicPartition], offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        if self.shift is None:
            return resolved(session, chosen, parse_position(self.to, session.wall_ms()))
        missing = [each for each in chosen if each not in offsets]
        if missing:
            where = f"{missing[0].topic} partition {missing[0].partition}"
            raise CommandError(f"the group has no offset of {where} to count from: use --to")
        starts, ends = (offsets_at(session, chosen, each) for each in (EARLIEST, LATEST))
        return {each: min(max(offsets[each] + self.shift, starts[each]), ends[each]) for each in chosen}


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Deletes a group without members, with its offsets."""

    group: str

    def preview(self, session: Session) -> Preview:
        """Return the group's size. Raises CommandError."""
        found = described(session, self.group)
        count = 0
        with suppress(CommandError):
            count = len(committed(session, self.group))
        warnings = [f"it has {counted(len(found.members), 'member')}: stop them first"] if found.members else []
        return Preview(f"delete group {self.group} with {counted(count, 'offset')}", warnings=tuple(warnings))

    def do(self, session: Session) -> str:
        """Delete it; return a sentence. Raises CommandError."""
        delete_group(session, self.group)
        return f"group {self.group} was deleted"


def delete_group(session: Session, group_id: str) -> None:
    """Delete a group. Raises CommandError."""

    def step() -> None:
        (result,) = ask_coordinator(session, group_id, GROUP, DeleteGroupsRequest(groups_names=[group_id])).results
        if result.error_code:
            raise problem(f"group {group_id}", result.error_code, result.error_message)

    session.retrying(step)


def commit(session: Session, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets of a group without members. Raises CommandError for the first partition with an error."""
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(partition_index=index, committed_offset=offsets[TopicPartition(name, index)])
                for index in indexes
            ],
        )
        for name, indexes in by_topic(offsets).items()
    ]
    each_partition(session, group_id, OffsetCommitRequest(group_id=group_id, topics=topics))


def each_partition(session: Session, group_id: str, request: Any) -> None:
    """Ask the coordinator; raise CommandError for the first partition with an error."""

    def step() -> None:
        response = ask_coordinator(session, group_id, GROUP, request, latest=BY_NAME)
        if getattr(response, "error_code", 0):
            raise problem(f"group {group_id}", response.error_code)
        for topic in response.topics:
            for each in topic.partitions:
                if each.error_code:
                    raise problem(f"group {group_id}, {topic.name} partition {each.partition_index}", each.error_code)

    session.retrying(step)


def _alter_shared(session: Session, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offsets[TopicPartition(name, index)])
                for index in indexes
            ],
        )
        for name, indexes in by_topic(offsets).items()
    ]

    def step() -> None:
        request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)
        response = ask_coordinator(session, group_id, GROUP, request)
        if response.error_code:
            raise problem(f"group {group_id}", response.error_code, response.error_message)
        for topic in response.responses:
            for each in topic.partitions:
                if each.error_code:
                    where = f"group {group_id}, {topic.topic_name} partition {each.partition_index}"
                    raise problem(where, each.error_code, each.error_message)

    session.retrying(step)


def _chosen(session: Session, texts: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions of ``topic`` or ``topic:0,2``."""
    chosen = []
    for text in texts:
        name, colon, numbers = text.partition(":")
        (topic,) = session.topics([name])
        given = [decimal(each, MAX_PARTITION) for each in numbers.split(",")] if colon else []
        if None in given:
            raise ValueError(f"{text}: expected TOPIC or TOPIC:PARTITION,..., as in orders:0,2")
        indexes = given or [each.partition_index for each in topic.partitions]
        chosen += [TopicPartition(name, index) for index in indexes if index is not None]
    return sorted(set(chosen))
