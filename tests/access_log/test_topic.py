"""Which lines the topic ``__access_log`` leaves out."""

import threading

import pytest
from twisted.logger import capturedLogs, formatEvent

from tests.access_log.samples import request
from tests.support.eventually import WAIT_S, eventually
from twisted_kafka.access_log.record import LineMaker
from twisted_kafka.access_log.topic import TOPIC, AccessLogTopic, is_own_fetch
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.metadata.store import StoreDisconnectedError
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.timing.clock import ManualClock

FETCH, PRODUCE = 1, 0


def line(*topics: str, api_key: int = FETCH, error: int = 0, client_id: str = "c", max_topics: int = 10) -> str:
    made = request(client_id)
    made.context.api_key = api_key
    for topic in topics:
        made.context.note_topic(topic, (0,), 0, 0, error)
    return LineMaker(3, ManualClock(), max_topics, 10).line(made)


def test_a_fetch_of_the_topic_alone_is_left_out() -> None:
    assert is_own_fetch(line(TOPIC))


@pytest.mark.parametrize(
    "shown",
    [
        line(TOPIC, "orders"),
        line("orders", TOPIC),
        line(TOPIC, "orders", max_topics=1),
        line(TOPIC, api_key=PRODUCE),
        line(TOPIC, error=29),
        line(TOPIC + "2"),
        line("orders"),
        line("orders", client_id=line(TOPIC)),
        line(),
    ],
)
def test_whatever_else_a_request_is_about_is_shown(shown: str) -> None:
    assert not is_own_fetch(shown)


def test_a_store_that_does_not_answer_delays_no_line() -> None:
    begun, may_go_on = threading.Semaphore(0), threading.Semaphore(0)

    def create(name: str, partitions: int) -> None:
        begun.release()
        assert may_go_on.acquire(timeout=WAIT_S)
        raise StoreDisconnectedError("no connection")

    clock = ManualClock()
    config = KafkaConfig({"broker.id": "3"})
    topic = AccessLogTopic(config, MetadataCache(3, "cluster"), clock, lambda *_: ErrorCode.NONE, create)
    lines = [line("orders")] * 5
    with capturedLogs() as events:
        assert topic.publish(lines) == 5
        assert begun.acquire(timeout=WAIT_S)
        clock.advance_ms(60_000)
        assert topic.publish(lines) == 5
        may_go_on.release()
        eventually(lambda: events)
        clock.advance_ms(60_000)
        assert topic.publish(lines) == 5
        assert begun.acquire(timeout=WAIT_S)
        may_go_on.release()
        eventually(lambda: len(events) == 2)
    assert {formatEvent(event) for event in events} == {"Access log: topic __access_log cannot be created for now: no connection"}
