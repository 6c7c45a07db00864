"""Which topics' names cannot be told apart in metrics, where '.' is written as '_' (Kafka: ``Topic.hasCollision``)."""

import threading
from collections.abc import Collection, Iterator

from twisted_kafka.metadata.cache import MetadataCache


def collision_key(name: str) -> str:
    """Return what must differ between topics."""
    return name.replace(".", "_")


def may_collide(name: str) -> bool:
    """Tell whether another name could have the same collision key."""
    return "." in name or "_" in name


class CollidingNames:
    """The topics of the metadata cache by collision key, so that no new topic is compared with all of them.

    Methods are for any thread.
    """

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._lock = threading.Lock()
        self._names: dict[str, tuple[str, ...]] = {}
        metadata.add_listener(self._topics_changed)
        self._topics_changed(list(metadata.topic_names()))

    def add(self, name: str) -> None:
        """Take a topic in before the cache has it: it was just made."""
        if may_collide(name):
            key = collision_key(name)
            with self._lock:
                names = self._names.get(key, ())
                if name not in names:
                    self._names[key] = (*names, name)

    def like(self, name: str) -> Iterator[str]:
        """Yield the other topics that have the name's collision key; one that has just been deleted may be among them."""
        if may_collide(name):
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
