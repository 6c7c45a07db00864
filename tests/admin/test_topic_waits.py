from twisted_kafka.admin.partitions import PartitionOutcome
from twisted_kafka.admin.topic_waits import TopicWaits
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.timer import Timer

TOPICS = [f"t{number}" for number in range(30)]


def make() -> tuple[TopicWaits, Timer, ManualClock]:
    clock = ManualClock()
    timer = Timer(clock)
    return TopicWaits(MetadataCache(1), clock, timer), timer, clock


def test_topics_that_change_one_by_one_are_checked_one_by_one() -> None:
    waits, _, _ = make()
    done: set[str] = set()
    checked: list[str] = []

    def is_done(topic: str) -> bool:
        checked.append(topic)
        return topic in done

    results = [PartitionOutcome(topic, partition) for topic in TOPICS for partition in range(3)]
    future = waits.until(is_done, results, results, 1000)
    checked.clear()
    for topic in TOPICS:
        assert not future.done()
        done.add(topic)
        waits.topics_changed([topic, "other"])
        waits.topics_changed([topic])
    assert future.result(0) is results
    assert checked == TOPICS


def test_what_was_done_once_counts() -> None:
    waits, timer, clock = make()
    done = {"a"}
    results = [PartitionOutcome("a", 0), PartitionOutcome("b", 0), PartitionOutcome("b", 1)]
    future = waits.until(done.__contains__, results, results, 1000)
    done.clear()
    waits.topics_changed(["a"])
    clock.advance_ms(2000)
    timer.expire_due()
    assert [each.error for each in future.result(0)] == [0, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT]
