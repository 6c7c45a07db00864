"""What was acknowledged is there after a restart and after kill -9, and groups go on where they were."""

from collections.abc import Callable

import pytest

from tests.support.budget import first_of
from tests.support.clients.clients import new_group, read_confluent, read_kafka_python, send_confluent
from tests.support.clients.served import ServedBroker

VALUES = [b"value %d " % number + b"x" * (number % 200) for number in range(10_000)]


@pytest.mark.parametrize("how", first_of(["kill", "stop"]))
def test_acknowledged_values_and_offsets_survive(start_broker: Callable[..., ServedBroker], how: str) -> None:
    broker = start_broker("group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=4", "log.segment.bytes=1000000")
    group = new_group()
    send_confluent(broker.bootstrap, "kept", VALUES, acks="all")
    assert read_confluent(broker.bootstrap, "kept", len(VALUES), group) == VALUES
    if how == "stop":
        assert broker.stop() == 0
    else:
        broker.kill()
    broker.start()
    assert read_kafka_python(broker.bootstrap, "kept", len(VALUES)) == VALUES
    more = [b"more %d" % number for number in range(100)]
    send_confluent(broker.bootstrap, "kept", more, acks="all")
    assert read_confluent(broker.bootstrap, "kept", len(more), group) == more
    assert broker.stop() == 0
