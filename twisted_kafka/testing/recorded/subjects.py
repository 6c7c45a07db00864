"""The subjects of a request, read from its fields: topics with partitions, and groups."""

import copy
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from twisted_kafka.protocol.api import ApiKey, request_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.system import machine

Partition = tuple[str, int | None]
"""A topic and one of its partitions; None if the request names only the topic."""

IsAbout = Callable[[Partition], bool]
MAX_SESSIONS: Final = 1000
"""Only this many of the latest fetch sessions are kept."""
MAX_TOPICS: Final = 10_000
"""Only the ids of this many latest topics are kept."""


class _Path(NamedTuple):
    """Where a request names topics: the field of the list, and in its items the fields of name, partitions and their number.

    An empty ``name`` means that the item is the name.
    """

    topics: str
    name: str = "name"
    partitions: str = ""
    number: str = ""


_PATHS: Final[dict[int, tuple[_Path, ...]]] = {
    ApiKey.PRODUCE: (_Path("topic_data", "name", "partition_data", "index"),),
    ApiKey.FETCH: (_Path("topics", "topic", "partitions", "partition"),),
    ApiKey.LIST_OFFSETS: (_Path("topics", "name", "partitions", "partition_index"),),
    ApiKey.METADATA: (_Path("topics"),),
    ApiKey.OFFSET_COMMIT: (_Path("topics", "name", "partitions", "partition_index"),),
    ApiKey.OFFSET_FETCH: (_Path("topics", "name", "partition_indexes"),),
    ApiKey.OFFSET_DELETE: (_Path("topics", "name", "partitions", "partition_index"),),
    ApiKey.CREATE_TOPICS: (_Path("topics"),),
    ApiKey.DELETE_TOPICS: (_Path("topics"), _Path("topic_names", "")),
    ApiKey.DELETE_RECORDS: (_Path("topics", "name", "partitions", "partition_index"),),
    ApiKey.CREATE_PARTITIONS: (_Path("topics"),),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (_Path("topics", "topic", "partitions", "partition"),),
    ApiKey.ADD_PARTITIONS_TO_TXN: (_Path("v3_and_below_topics", "name", "partitions"),),  # later ones: ``partitions_of``
    ApiKey.TXN_OFFSET_COMMIT: (_Path("topics", "name", "partitions", "partition_index"),),
}

_GROUP_FIELDS: Final = ("group_id", "groups", "group_ids", "groups_names")


def names_topics(key: int) -> bool:
    """Whether requests of this API name topics."""
    return key in _PATHS


def names_partitions(key: int) -> bool:
    """Whether requests of this API name partitions."""
    return any(path.partitions for path in _PATHS.get(key, ()))


def names_groups(key: int) -> bool:
    """Whether requests of this API name groups."""
    return any(field.name in _GROUP_FIELDS for field in request_class(key).FIELDS)


def apis_that_name(what: str) -> list[str]:
    """Return the titles of the APIs whose requests name a ``topic``, ``partition`` or ``group``, in order."""
    tests = {"topic": names_topics, "partition": names_partitions, "group": names_groups}
    return [key.title for key in ApiKey if tests[what](key)]


def partitions_of(message: Message, names_by_id: Any) -> Iterator[Partition]:
    """Yield the partitions in a request; ``names_by_id`` returns the name of a topic by its id."""
    for path in _PATHS.get(message.KEY, ()):
        yield from _read(message, path, names_by_id)
    if message.KEY == ApiKey.OFFSET_FETCH:
        for group in message.groups:  # type: ignore[attr-defined]
            for topic in group.topics or ():
                name = topic.name or names_by_id(topic.topic_id)
                yield from ((name, index) for index in topic.partition_indexes)
    if message.KEY == ApiKey.ADD_PARTITIONS_TO_TXN:
        for transaction in message.transactions:  # type: ignore[attr-defined]
            for topic in transaction.topics:
                yield from ((topic.name, index) for index in topic.partitions)


def _read(message: Message, path: _Path, names_by_id: Any) -> Iterator[Partition]:
    for item in getattr(message, path.topics) or ():
        name = (getattr(item, path.name) if path.name else item) or names_by_id(getattr(item, "topic_id", b""))
        if not name:
            continue
        if not path.partitions:
            yield name, None
            continue
        for partition in getattr(item, path.partitions):
            yield name, getattr(partition, path.number) if path.number else partition


def topic_ids_of(message: Message) -> tuple[bytes, ...]:
    """Return the ids by which a request names topics."""
    items = [item for path in _PATHS.get(message.KEY, ()) for item in getattr(message, path.topics) or ()]
    if message.KEY == ApiKey.OFFSET_FETCH:
        items += [topic for group in message.groups for topic in group.topics or ()]  # type: ignore[attr-defined]
    return tuple(topic_id for item in items if any(topic_id := bytes(getattr(item, "topic_id", b""))))


def groups_of(message: Message) -> tuple[str, ...]:
    """Return the groups that a request names."""
    found: list[str] = []
    for field in _GROUP_FIELDS:
        value = getattr(message, field, None)
        if isinstance(value, str):
            found += [value] if value else []
        elif value:
            found += [each if isinstance(each, str) else each.group_id for each in value]
    return tuple(found)


def split(message: Message, is_about: IsAbout, names_by_id: Any) -> tuple[Message, Message]:
    """Split a request in two: one with the partitions or topics for which ``is_about`` is true, one with the others."""
    chosen, rest = copy.copy(message), copy.copy(message)
    for path in _PATHS[ApiKey(message.KEY)]:
        pair: tuple[list[Any], list[Any]] = [], []
        for item in getattr(message, path.topics) or ():
            name = (getattr(item, path.name) if path.name else item) or names_by_id(getattr(item, "topic_id", b""))
            if not path.partitions:
                pair[not is_about((name, None))].append(item)
                continue
            numbers = getattr(item, path.partitions)
            for half, wanted in zip(pair, (True, False), strict=True):
                kept = [each for each in numbers if is_about((name, getattr(each, path.number) if path.number else each)) == wanted]
                if kept:
                    part = copy.copy(item)
                    setattr(part, path.partitions, kept)
                    half.append(part)
        setattr(chosen, path.topics, pair[0])
        setattr(rest, path.topics, pair[1])
    return chosen, rest


class FetchSessions:
    """Knows all partitions of each fetch session: a Fetch names only those about which something changes (KIP-227)."""

    def __init__(self) -> None:
        self._partitions: dict[int, tuple[Partition, ...]] = {}
        self._lock = machine.Lock()
        self.topic_ids: dict[str, bytes] = {}

    def partitions_of(self, fetch: Any, names_by_id: Any) -> tuple[Partition, ...]:
        """Return all partitions that a Fetch concerns."""
        named = tuple(partitions_of(fetch, names_by_id))
        with self._lock:
            for topic in fetch.topics:
                if any(topic.topic_id):
                    self.topic_ids[names_by_id(topic.topic_id) or ""] = topic.topic_id
            while len(self.topic_ids) > MAX_TOPICS:
                del self.topic_ids[next(iter(self.topic_ids))]
            if fetch.session_epoch <= 0 or fetch.session_id not in self._partitions:
                return named
            forgotten = {
                (topic.topic or names_by_id(topic.topic_id), index)
                for topic in fetch.forgotten_topics_data
                for index in topic.partitions
            }
            kept = (each for each in self._partitions[fetch.session_id] if each not in forgotten)
            return tuple(dict.fromkeys((*kept, *named)))

    def answered(self, session_id: int, partitions: tuple[Partition, ...]) -> None:
        """Remember a session's partitions once the broker has answered its id; 0 means no session."""
        if not session_id:
            return
        with self._lock:
            self._partitions.pop(session_id, None)
            self._partitions[session_id] = partitions
            if len(self._partitions) > MAX_SESSIONS:
                del self._partitions[next(iter(self._partitions))]
