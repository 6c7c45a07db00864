"""The changes of a shard's state that replicas have not confirmed yet, by key: a group id or a transactional id."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from twisted_kafka.coordinator.effects import Effects
from twisted_kafka.protocol.errors import KafkaError

R = TypeVar("R")
T = TypeVar("T")


class UncommittedAppend(Generic[T]):
    """An append that replicas have not confirmed, with the reads that have seen it.

    Once it is committed, so are all before it. It is in doubt if no answer will come: replicas did not confirm it in time, or it
    was loaded from the end of the log.
    """

    __slots__ = ("answer", "is_in_doubt", "keys", "last_offset", "readers")

    def __init__(self, last_offset: int, is_in_doubt: bool = False) -> None:
        self.last_offset = last_offset
        self.is_in_doubt = is_in_doubt
        self.keys: list[str] = []
        self.answer: Future[T] = Future()
        self.readers: list[tuple[Future[Any], object]] = []

    def wait(self, result: R) -> "Future[R]":
        """Return a future of a read's result, for when the append is committed."""
        answer: Future[R] = Future()
        self.readers.append((answer, result))
        return answer

    def answer_readers(self, effects: Effects, failure: KafkaError | None) -> None:
        """Answer the reads that wait, with ``failure`` if it is given."""
        readers, self.readers = self.readers, []
        for answer, result in readers:
            if failure is None:
                effects.reply(answer, result)
            else:
                effects.fail(answer, failure)


_Append = UncommittedAppend[Any]
_Change = tuple[_Append, object]
"""An append, and the value that the shard stored under a key before it."""


class UncommittedKeys:
    """The uncommitted appends of a shard; its lock is held for every method but ``committed``."""

    __slots__ = ("_changes", "_in_doubt")

    def __init__(self) -> None:
        self._changes: dict[str, list[_Change]] = {}
        """By key, in the order of the log."""
        self._in_doubt: list[_Append] = []

    def __bool__(self) -> bool:
        """Return whether any key is uncommitted."""
        return bool(self._changes)

    def add(self, append: _Append, before: Iterable[tuple[str, object]]) -> None:
        """Add an append, with the keys that it changes and the values that the shard has stored for them before."""
        changes = self._changes
        for key, stored in before:
            append.keys.append(key)
            earlier = changes.get(key)
            if earlier is None:
                changes[key] = [(append, stored)]
            else:
                earlier.append((append, stored))
        if append.is_in_doubt:
            self._in_doubt.append(append)

    def latest(self, key: str) -> _Append | None:
        """Return the key's last append if it is uncommitted."""
        changes = self._changes.get(key)
        return None if changes is None else changes[-1][0]

    def committed(self, is_committed: Callable[[int], bool]) -> dict[str, object]:
        """Return the last committed value of each uncommitted key. Needs no lock.

        ``is_committed`` returns whether a record is committed: an append in doubt is not marked so before a read of its key.
        """
        found: dict[str, object] = {}
        for key, changes in list(self._changes.items()):
            for append, before in list(changes):
                if not is_committed(append.last_offset):
                    found[key] = before
                    break
        return found

    def doubt(self, append: _Append) -> None:
        """Take an append that replicas did not confirm in time."""
        append.is_in_doubt = True
        self._in_doubt.append(append)

    def confirm(self, append: _Append) -> None:
        """Take an append that is committed: so are those in doubt before it."""
        self._forget(append)
        if self._in_doubt:
            for each in self._in_doubt:
                if each.last_offset <= append.last_offset:
                    self._forget(each)
            self._in_doubt = [each for each in self._in_doubt if each.last_offset > append.last_offset]

    def clear(self) -> None:
        """Take everything for committed."""
        self._changes.clear()
        self._in_doubt.clear()

    def appends(self) -> list[_Append]:
        """Return the appends, each once."""
        return list(dict.fromkeys(append for changes in self._changes.values() for append, _ in changes))

    def _forget(self, append: _Append) -> None:
        for key in append.keys:
            changes = self._changes.get(key)
            if changes is None:
                continue
            if changes[-1][0].last_offset <= append.last_offset:
                del self._changes[key]
            else:
                self._changes[key] = [each for each in changes if each[0].last_offset > append.last_offset]
