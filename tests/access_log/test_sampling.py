import json
from typing import Any

import pytest

from tests.access_log.samples import NOW_MS, request
from twisted_kafka.access_log.record import LineMaker
from twisted_kafka.access_log.sampling import Sampler
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_context import TransactionNote, TransactionOutcome
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.timing.clock import ManualClock

SLOW_MS = 50


def made(*, error: int = 0, local_ms: int = 1, remote_ms: int = 0, api: ApiKey = ApiKey.PRODUCE) -> Request:
    one = request()
    one.context.api_key = api
    one.context.note_error(error)
    one.received_ns = one.dequeued_ns = 1_000_000
    one.local_complete_ns = one.dequeued_ns + local_ms * 1_000_000
    one.response_ready_ns = one.response_dequeued_ns = one.sent_ns = one.local_complete_ns + remote_ms * 1_000_000
    return one


@pytest.mark.parametrize(
    ("how", "weight"),
    [
        ({"error": 3}, 1),
        ({"local_ms": SLOW_MS}, 1),
        ({"remote_ms": SLOW_MS}, 1),
        ({"remote_ms": 500, "api": ApiKey.FETCH}, 0),
        ({"remote_ms": 500, "local_ms": SLOW_MS, "api": ApiKey.FETCH}, 1),
        ({}, 0),
    ],
)
def test_the_failed_and_the_slow_are_kept_in_any_case(how: dict[str, Any], weight: int) -> None:
    assert Sampler(10, SLOW_MS, lambda: 0.99).weight(made(**how)) == weight


def test_the_end_of_a_transaction_is_kept_and_its_other_requests_are_not() -> None:
    end = TransactionNote("tx", TransactionOutcome.COMMITTED, 5)
    for note, weight in ((end, 1), (TransactionNote("tx", timeout_ms=5), 0)):
        one = made()
        one.context.transaction = note
        assert Sampler(10, SLOW_MS, lambda: 0.99).weight(one) == weight


def test_of_the_others_one_in_n_stands_for_n() -> None:
    draws = iter([step / 100 for step in range(100)] * 10)
    sampler = Sampler(10, SLOW_MS, lambda: next(draws))
    assert sum(sampler.weight(made()) for _ in range(1000)) == 1000


def test_a_line_tells_for_how_many_it_stands_and_is_numbered() -> None:
    lines = LineMaker(3, ManualClock(NOW_MS), max_topics=2, max_partitions=3)
    first, second = json.loads(lines.line(made(), 10)), json.loads(lines.line(made()))
    assert first["weight"] == 10
    assert "weight" not in second
    assert second["sequence"] - first["sequence"] == 1
    assert json.loads(LineMaker(3, ManualClock(NOW_MS + 1000), 2, 3).line(made()))["sequence"] > second["sequence"]
