"""Which lines the topic ``__access_log`` leaves out."""

import pytest

from tests.access_log.test_record import request
from twisted_kafka.access_log.record import LineMaker
from twisted_kafka.access_log.topic import TOPIC, is_own_fetch
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
