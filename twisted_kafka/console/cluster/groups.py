"""Groups of all kinds: lists, descriptions and offsets, asked of their coordinators in batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, Final, NamedTuple, cast

from twisted_kafka.console.cluster.coordinators import GROUP, Answer, ask_coordinator, ask_coordinators
from twisted_kafka.console.cluster.offsets import LATEST, offsets_at
from twisted_kafka.console.cluster.problems import CommandError, problem, unknown
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.wire import MalformedMessageError
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.consumer_groups import ConsumerGroupDescribeRequest
from twisted_kafka.protocol.messages.coordinators.consumer_protocol import ConsumerProtocolAssignment
from twisted_kafka.protocol.messages.coordinators.groups import DescribeGroupsRequest, ListedGroup, ListGroupsRequest
from twisted_kafka.protocol.messages.coordinators.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from twisted_kafka.protocol.messages.share.share_groups import ShareGroupDescribeRequest
from twisted_kafka.protocol.messages.share.share_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from twisted_kafka.protocol.messages.streams.streams_groups import StreamsGroupDescribeRequest
from twisted_kafka.protocol.topic_partition import TopicPartition

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"
KINDS: Final = (CLASSIC, CONSUMER, SHARE, STREAMS)

BY_NAME: Final = 9
"""The last version of OffsetFetch and OffsetCommit with topics' names; later ones have ids."""

_BATCHED: Final = 8
"""The first version of OffsetFetch that asks for several groups."""
_WITH_STATE: Final = 4
_WITH_TYPE: Final = 5
_VERSION_BYTES: Final = 2
_DEAD: Final = "Dead"
_NOT_FOUND: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
_UNKNOWN_LAG: Final = -1


class Member(NamedTuple):
    """A member of a group, and its partitions."""

    member_id: str
    client_id: str
    host: str
    partitions: list[TopicPartition]
    instance_id: str | None = None
    tasks: Sequence[str] = ()
    """Of a member of a streams group: ``subtopology_partition``."""
    target: Sequence[TopicPartition] | None = None
    """The partitions that it will have after a rebalance; None if its protocol has no such list."""


class Group(NamedTuple):
    """A group."""

    group_id: str
    state: str
    type: str
    assignor: str
    members: list[Member]


class ShareOffset(NamedTuple):
    """The state of a share group's partition: the first offset that is not done, and the records that are not."""

    start: int
    lag: int | None


def listed(
    session: Session, states: Sequence[str] = (), types: Sequence[str] = (), silent: list[CommandError] | None = None
) -> list[ListedGroup]:
    """Return the groups of all brokers, by id. With ``silent`` it gets the errors of brokers whose groups are missing.

    Raises CommandError; with ``silent`` only if no broker answers.
    """
    version = session.version(ListGroupsRequest)
    if (states and version < _WITH_STATE) or (types and version < _WITH_TYPE):
        raise CommandError("the broker is too old to select groups by state or type: leave out --state and --type")
    session.metadata([])
    answers = session.ask_brokers(ListGroupsRequest(states_filter=list(states), types_filter=list(types)), silent)
    found: list[ListedGroup] = [each for answer in answers.values() for each in answer.groups]
    found.sort(key=attrgetter("group_id"))
    return found


def in_states(session: Session, states: Sequence[str]) -> list[str]:
    """Return the ids of the groups in these states, by id. A broker that can selects them itself. Raises CommandError."""
    can_select = session.version(ListGroupsRequest) >= _WITH_STATE
    return [each.group_id for each in listed(session, states if can_select else ()) if each.group_state in states]


def described(session: Session, group_id: str) -> Group:
    """Return a group. Raises CommandError if it does not exist."""
    found = all_described(session, [group_id])[group_id]
    if isinstance(found, Group):
        return found
    if found is not None:
        raise found
    known = [each.group_id for each in listed(session)]
    raise unknown("group", group_id, known, "list the groups with twisted-kafka groups list")


def all_described(
    session: Session, group_ids: Sequence[str], kinds: Mapping[str, str] | None = None
) -> dict[str, Group | CommandError | None]:
    """Return the groups, None for one that does not exist, or its error. ``kinds`` has the types that are known."""
    found: dict[str, Group | CommandError | None] = dict.fromkeys(group_ids)
    for kind, (request, read) in _DESCRIPTIONS.items():
        mine = [each for each in group_ids if found[each] is None and (kinds or {}).get(each) in (None, "", kind)]
        if not mine or session.version(request) < 0:
            continue
        for group_id, each in _ask_all(session, mine, request).items():
            if isinstance(each, CommandError):
                if each.code not in _NOT_FOUND:
                    found[group_id] = each
            elif not (kind == CLASSIC and each.group_state == _DEAD):
                found[group_id] = read(each)
    return found


def _ask_all(session: Session, group_ids: Sequence[str], request: type[Message]) -> dict[str, Any]:
    """Ask the coordinators of groups, until these have them loaded."""

    def make(mine: list[str]) -> Message:
        asked: Any = request()
        setattr(asked, "groups" if request is DescribeGroupsRequest else "group_ids", mine)
        return cast(Message, asked)

    def read(response: Any) -> Iterator[Answer]:
        for each in response.groups:
            yield each.group_id, each.error_code, getattr(each, "error_message", None), each

    return ask_coordinators(session, group_ids, GROUP, make, read)


def _read_classic(found: Any) -> Group:
    members = [
        Member(each.member_id, each.client_id, each.client_host, _assigned(each.member_assignment), each.group_instance_id)
        for each in found.members
    ]
    return Group(found.group_id, found.group_state, CLASSIC, found.protocol_data, members)


def _read_consumer(found: Any) -> Group:
    members = [
        Member(
            each.member_id,
            each.client_id,
            each.client_host,
            _partitions(each.assignment),
            each.instance_id,
            target=_partitions(each.target_assignment),
        )
        for each in found.members
    ]
    return Group(found.group_id, found.group_state, CONSUMER, found.assignor_name, members)


def _read_share(found: Any) -> Group:
    members = [Member(each.member_id, each.client_id, each.client_host, _partitions(each.assignment)) for each in found.members]
    return Group(found.group_id, found.group_state, SHARE, found.assignor_name, members)


def _read_streams(found: Any) -> Group:
    members = [
        Member(
            each.member_id,
            each.client_id,
            each.client_host,
            [],
            each.instance_id,
            [f"{task.subtopology_id}_{index}" for task in each.assignment.active_tasks for index in task.partitions],
        )
        for each in found.members
    ]
    return Group(found.group_id, found.group_state, STREAMS, found.assignor_name or "", members)


_DESCRIPTIONS: Final[Mapping[str, tuple[type[Message], Callable[[Any], Group]]]] = {
    CLASSIC: (DescribeGroupsRequest, _read_classic),
    CONSUMER: (ConsumerGroupDescribeRequest, _read_consumer),
    SHARE: (ShareGroupDescribeRequest, _read_share),
    STREAMS: (StreamsGroupDescribeRequest, _read_streams),
}
"""In the order in which they are asked for a group of unknown kind: most groups are classic ones."""


def _partitions(assignment: Any) -> list[TopicPartition]:
    return [TopicPartition(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions]


def _assigned(data: bytes) -> list[TopicPartition]:
    """Return the partitions in a classic consumer's assignment, none if it has another form."""
    with suppress(MalformedMessageError, ValueError):
        if len(data) > _VERSION_BYTES:
            version = min(int.from_bytes(data[:_VERSION_BYTES], "big"), ConsumerProtocolAssignment.VERSIONS[1])
            assignment = ConsumerProtocolAssignment.decode(data, version, _VERSION_BYTES)
            return [TopicPartition(each.topic, index) for each in assignment.assigned_partitions for index in each.partitions]
    return []


def committed(session: Session, group_id: str) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group. Raises CommandError."""
    found = all_committed(session, [group_id]).get(group_id)
    if found is None:
        raise problem(f"group {group_id}", ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if isinstance(found, CommandError):
        raise found
    return found


def all_committed(session: Session, group_ids: Sequence[str]) -> dict[str, dict[TopicPartition, int] | CommandError]:
    """Return the committed offsets of groups, or their errors; nothing for groups that the user may not describe."""
    if session.version(OffsetFetchRequest) < _BATCHED:
        return {each: _asked_alone(session, each) for each in group_ids}

    def make(mine: list[str]) -> Message:
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=each, topics=None) for each in mine])

    def read(response: Any) -> Iterator[Answer]:
        for each in response.groups:
            yield each.group_id, each.error_code, None, each

    found = ask_coordinators(session, group_ids, GROUP, make, read, latest=BY_NAME)
    return {
        group_id: answer if isinstance(answer, CommandError) else _offsets(answer)
        for group_id, answer in found.items()
        if not (isinstance(answer, CommandError) and answer.code == ErrorCode.GROUP_AUTHORIZATION_FAILED)
    }


def _asked_alone(session: Session, group_id: str) -> dict[TopicPartition, int] | CommandError:
    """Ask for one group, in a version that has no more."""

    def step() -> dict[TopicPartition, int]:
        answer = ask_coordinator(session, group_id, GROUP, OffsetFetchRequest(group_id=group_id, topics=None))
        if answer.error_code:
            raise problem(f"group {group_id}", answer.error_code)
        return _offsets(answer)

    try:
        return session.retrying(step)
    except CommandError as error:
        return error


def _offsets(answer: Any) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code and each.committed_offset >= 0
    }


def share_offsets(session: Session, group_ids: Sequence[str]) -> dict[str, dict[TopicPartition, ShareOffset] | CommandError]:
    """Return the states of share groups' partitions, or their errors."""

    def make(mine: list[str]) -> Message:
        groups = [DescribeShareGroupOffsetsRequestGroup(group_id=each, topics=None) for each in mine]
        return DescribeShareGroupOffsetsRequest(groups=groups)

    def read(response: Any) -> Iterator[Answer]:
        for each in response.groups:
            yield each.group_id, each.error_code, each.error_message, each

    if not group_ids or session.version(DescribeShareGroupOffsetsRequest) < 0:
        return {}
    found = ask_coordinators(session, group_ids, GROUP, make, read)
    return {group_id: answer if isinstance(answer, CommandError) else _share_offsets(answer) for group_id, answer in found.items()}


def _share_offsets(answer: Any) -> dict[TopicPartition, ShareOffset]:
    return {
        TopicPartition(topic.topic_name, each.partition_index): ShareOffset(
            each.start_offset, None if each.lag == _UNKNOWN_LAG else each.lag
        )
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code and each.start_offset >= 0
    }


def ends(
    session: Session, partitions: Iterable[TopicPartition], silent: list[CommandError] | None = None
) -> dict[TopicPartition, int]:
    """Return the end offsets of the partitions that exist, have a leader, and that the user may describe.

    ``silent`` is as in ``Session.ask_leaders``.
    """
    wanted = set(partitions)
    if not wanted:
        return {}
    names = {each.topic for each in wanted}
    led = [
        TopicPartition(str(topic.name), each.partition_index)
        for topic in session.retrying(lambda: session.metadata(sorted(names))).topics
        if not topic.error_code
        for each in topic.partitions
        if each.leader_id >= 0
    ]
    return offsets_at(session, wanted & set(led), LATEST, silent=silent)
