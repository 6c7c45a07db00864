"""Checks names of topics, and finds names that collide in metrics, where '.' is written as '_' (Kafka: ``Topic``)."""

import re
from collections.abc import Collection, Iterator
from typing import Final

from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.protocol.errors import InvalidTopicError
from twisted_kafka.protocol.topic_partition import MAX_TOPIC_LENGTH, is_legal_topic
from twisted_kafka.system import machine

CLUSTER_TOPIC: Final = "__cluster_metadata"

_may_collide: Final = re.compile("[._]").search
"""Whether another name could have the same collision key."""


def ensure_valid_name(name: str) -> None:
    """Raise InvalidTopicError, with the reason, for a topic name that is not legal (``is_legal_topic``)."""
    if is_legal_topic(name):
        return
    if not name:
        reason = "it is empty, and the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"{name!r} is not allowed"
    elif len(name) > MAX_TOPIC_LENGTH:
        reason = f"its length {len(name)} is longer than {MAX_TOPIC_LENGTH}, which is the max allowed"
    else:
        reason = f"{name!r} has characters other than ASCII alphanumerics, '.', '_' and '-'"
    raise InvalidTopicError(f"The topic name is invalid: {reason}")


def collision_key(name: str) -> str:
    """Return the collision key of a name, which must differ between topics."""
    return name.replace(".", "_")


class CollidingNames:
    """The topics of the metadata cache by collision key, so that a new topic is not compared with all of them.

    All methods may be called on any thread.
    """

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._lock = machine.Lock()
        self._names: dict[str, tuple[str, ...]] = {}
        metadata.add_listener(self._topics_changed)
        self._topics_changed(list(metadata.topic_names()))

    def add(self, name: str) -> None:
        """Add a topic that was just created, before the cache has it."""
        if _may_collide(name):
            key = collision_key(name)
            with self._lock:
                names = self._names.get(key, ())
                if name not in names:
                    self._names[key] = (*names, name)

    def like(self, name: str) -> Iterator[str]:
        """Yield the other topics with the name's collision key, perhaps one that has just been deleted."""
        if _may_collide(name):
            yield from (other for other in self._names.get(collision_key(name), ()) if other != name)

    def _topics_changed(self, topics: Collection[str]) -> None:
        for name in topics:
            if self._metadata.contains(name):
                self.add(name)
            else:
                self._discard(name)

    def _discard(self, name: str) -> None:
        key = collision_key(name)
        with self._lock:
            names = tuple(other for other in self._names.get(key, ()) if other != name)
            if names:
                self._names[key] = names
            else:
                self._names.pop(key, None)
