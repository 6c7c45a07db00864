"""What a watch hears of several changes."""

import pytest

from twisted_kafka.metadata.store import EventKind, WatchEvent
from twisted_kafka.metadata.watches import Watches
from twisted_kafka.metadata.worker import SerialWorker

UNKNOWN: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("first", "second", "heard"),
    [
        ({"a"}, {"b"}, {"a", "b"}),
        ({"a"}, UNKNOWN, UNKNOWN),
        (UNKNOWN, {"a"}, UNKNOWN),
    ],
)
def test_changes_of_children_that_are_heard_of_together(first: set[str], second: set[str], heard: set[str]) -> None:
    worker = SerialWorker("watches", threaded=False)
    watches = Watches(worker)
    events: list[WatchEvent] = []
    watches.add("/topics", events.append, data_only=False)
    watches.notify([WatchEvent(EventKind.CHILDREN, "/topics", frozenset(names)) for names in (first, second)])
    worker.pump()
    assert events == [WatchEvent(EventKind.CHILDREN, "/topics", frozenset(heard))]
