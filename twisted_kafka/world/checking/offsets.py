"""The committed offsets of groups: what a later OffsetFetch may return."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from twisted_kafka.protocol.messages.coordinators.transactions import TxnOffsetCommitRequest
from twisted_kafka.world.checking.broken import Broken

MOST_POSSIBLE: Final = 100
"""Most values of one committed offset that are held possible; with more, it is not checked until the next acknowledged commit."""
MOST_OFFSETS: Final = 100_000
_REFUSED: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
    }
)
"""A commit with one of these errors is not written, and never will be."""

Key = tuple[str, str, int]
"""A group, a topic and a partition."""


class _Write:
    """One commit."""

    __slots__ = ("answered", "arrived", "offset")

    def __init__(self, offset: int, arrived: int) -> None:
        self.offset = offset
        self.arrived = arrived
        self.answered: int | None = None
        """When it was acknowledged; None if nobody knows whether it was or will be done."""


class _Offset:
    """One group's offset of a partition."""

    __slots__ = ("is_known", "last", "writes")

    def __init__(self) -> None:
        self.writes: deque[_Write] = deque(maxlen=MOST_POSSIBLE)
        self.is_known = False
        """Whether one of the writes must be there: a commit was acknowledged."""
        self.last: int | None = None
        """The last acknowledged one."""


class _Asked(NamedTuple):
    request: Any
    arrived: int
    writes: list[tuple[Key, _Write]]
    possible: dict[Key, set[int]]
    client_id: str


class Offsets:
    """The commits of a world, and the offsets that were fetched."""

    def __init__(self, report: Callable[[Broken], object]) -> None:
        """``report`` gets each fetched offset that is not as committed."""
        self.went_back: deque[Broken] = deque(maxlen=100)
        """Acknowledged commits of an offset below the one before. A program may want that; most do not."""
        self._report = report
        self._offsets: dict[Key, _Offset] = {}
        self._number = 0

    def forget(self, group: str | None = None, topic: str | None = None) -> None:
        """Forget a group, or a topic, whose offsets may be deleted."""
        for key in [key for key in self._offsets if key[0] == group or key[1] == topic]:
            del self._offsets[key]

    def asked(self, client_id: str, request: Any) -> _Asked:
        """Note a request that may write or read offsets."""
        self._number += 1
        noted = _Asked(request, self._number, [], {}, client_id)
        if isinstance(request, OffsetFetchRequest):
            for key in _fetched_keys(request):
                known = self._offsets.get(key)
                if known is not None and known.is_known:
                    noted.possible[key] = {each.offset for each in known.writes}
        else:
            for topic, index, offset in _written(request):
                write = _Write(offset, self._number)
                self._of((request.group_id, topic, index)).writes.append(write)
                noted.writes.append(((request.group_id, topic, index), write))
        return noted

    def _of(self, key: Key) -> _Offset:
        known = self._offsets.get(key)
        if known is None:
            if len(self._offsets) >= MOST_OFFSETS:
                del self._offsets[next(iter(self._offsets))]
            known = self._offsets[key] = _Offset()
        return known

    def answered(self, noted: _Asked, response: Any) -> None:
        """Note the answer."""
        self._number += 1
        if isinstance(response, OffsetCommitResponse):
            self._committed(noted, response)
        elif isinstance(response, OffsetFetchResponse):
            self._fetched(noted, response)

    def _committed(self, noted: _Asked, response: OffsetCommitResponse) -> None:
        codes = {(topic.name, each.partition_index): each.error_code for topic in response.topics for each in topic.partitions}
        for key, write in noted.writes:
            known, code = self._offsets.get(key), codes.get(key[1:])
            if known is None or write not in known.writes:
                continue
            if code in _REFUSED:
                known.writes.remove(write)
            if code != ErrorCode.NONE:
                continue
            write.answered = self._number
            # What was acknowledged before this commit arrived is overwritten. What is not answered may come yet.
            kept = [each for each in known.writes if each.answered is None or each.answered > write.arrived]
            known.writes = deque(kept, maxlen=MOST_POSSIBLE)
            known.is_known = True
            if known.last is not None and write.offset < known.last:
                text = f"{_text(key)} was {known.last}, and {noted.client_id} has committed {write.offset}"
                self.went_back.append(Broken("backwards", text))
            known.last = write.offset

    def _fetched(self, noted: _Asked, response: OffsetFetchResponse) -> None:
        for key, offset in _answers(noted.request, response):
            known, possible = self._offsets.get(key), noted.possible.get(key)
            if known is None or possible is None or len(known.writes) == MOST_POSSIBLE:
                continue
            possible |= {each.offset for each in known.writes}
            if offset not in possible:
                text = f"{_text(key)} was committed as {' or '.join(map(str, sorted(possible)))}, and is {offset}"
                self._report(Broken("forgotten", f"{text} for {noted.client_id}"))


def _text(key: Key) -> str:
    return f"the offset of group {key[0]} in {key[1]}-{key[2]}"


def _written(request: OffsetCommitRequest | TxnOffsetCommitRequest) -> Iterator[tuple[str, int, int]]:
    for topic in request.topics:
        for each in topic.partitions:
            if topic.name:
                yield topic.name, each.partition_index, each.committed_offset


def _fetched_keys(request: OffsetFetchRequest) -> Iterator[Key]:
    asked: list[Any] = [request, *request.groups]
    for group in asked:
        for topic in group.topics or ():
            for index in topic.partition_indexes:
                yield group.group_id, topic.name, index


def _answers(request: OffsetFetchRequest, response: OffsetFetchResponse) -> Iterator[tuple[Key, int]]:
    """Return each fetched offset; -1 if the group has committed none."""
    whole: list[tuple[str, Any]] = [(request.group_id, response)] if not response.groups else []
    for name, group in whole + [(each.group_id, each) for each in response.groups]:
        if group.error_code != ErrorCode.NONE:
            continue
        for topic in group.topics:
            for each in topic.partitions:
                if each.error_code == ErrorCode.NONE:
                    yield (name, topic.name, each.partition_index), each.committed_offset
