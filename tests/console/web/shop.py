"""A shop's broker with something to show on every page."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from twisted_kafka.testing import Broker

LETTER = {"__dlq.errors.topic": b"payments", "__dlq.errors.message": b"amount is no number", "trace": b"00ff"}
NAMES = ("Ada", "Grace", "Edsger", "Barbara")


@contextmanager
def shop() -> Iterator[Broker]:
    with Broker(console_listener="127.0.0.1:0", console_write_enable=True) as broker:
        broker.create_topic("payments", 3)
        broker.create_topic("orders", 2)
        broker.create_topic("clicks", 6)
        broker.create_topic("payments.dead-letters", 1)
        for number in range(60):
            value = json.dumps({"id": number, "customer": {"id": number % 7, "name": NAMES[number % 4]}, "amount": number * 1.25})
            broker.produce("payments", value.encode(), key=b"customer-%d" % (number % 7), partition=number % 3)
        broker.produce("orders", b"<script>alert(1)</script>", key="\u202egnp.exe".encode(), partition=0)
        broker.produce("orders", bytes(range(64)), key=b"\xff\x00", partition=0)
        broker.produce("payments.dead-letters", b'{"amount": "broken"}', key=b"customer-3", headers=LETTER)
        broker.commit("billing", {("payments", 0): 12, ("payments", 1): 20, ("payments", 2): 3})
        broker.commit("nightly-report", {("orders", 0): 0})
        yield broker
