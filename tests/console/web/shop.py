"""A shop's broker with something to show on every page."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.console import session_in
from twisted_kafka.protocol.messages.administration.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from twisted_kafka.testing import Broker

LETTER = {"__dlq.errors.topic": b"payments", "__dlq.errors.message": b"amount is no number", "trace": b"00ff"}
NAMES = ("Ada", "Grace", "Edsger", "Barbara")


@contextmanager
def shop() -> Iterator[Broker]:
    with (
        TemporaryDirectory() as log,
        Broker(
            console_listener="127.0.0.1:0", console_write_enable=True, access_log_dir=log, auto_create_topics_enable=False
        ) as broker,
    ):
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
        broker.create_topic("returns", 1)
        broker.delete_topic("returns")
        broker.commit("billing", {("payments", 0): 12, ("payments", 1): 20, ("payments", 2): 3})
        broker.commit("nightly-report", {("orders", 0): 0})
        yield broker


MANAGER, PASSWORD = "maria", "a password"
QUOTAS = (
    ("consumer_byte_rate", 10_000_000.0, {"user": "alice"}),
    ("producer_byte_rate", 5_000_000.0, {"user": "alice", "client-id": "nightly-import"}),
    ("request_percentage", 50.0, {"client-id": None}),
    ("connection_creation_rate", 20.0, {"ip": "192.0.2.7"}),
)


@contextmanager
def guarded_shop() -> Iterator[Broker]:
    """One with users, entries and quotas; its manager logs in and may do everything."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"User:{MANAGER}",
        "console.listener": "127.0.0.1:0",
        "console.write.enable": True,
    }
    with Broker(settings) as broker:
        for name in ("payments", "orders"):
            broker.create_topic(name, 3)
        for user in (MANAGER, "alice", "billing", "web-shop"):
            broker.add_user(user, PASSWORD)
        broker.allow("alice", "Describe", topic="payments")
        broker.allow("billing", "Read", topic="payments")
        broker.allow("billing", "Read", group="billing")
        broker.allow("web-shop", "Write", topic="payments")
        broker.allow("web-shop", "Write", topic="orders")
        broker.deny("alice", "Read", topic="orders")
        entries = [
            AlterClientQuotasRequestEntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in who.items()],
                ops=[OpData(key=key, value=value, remove=False)],
            )
            for key, value, who in QUOTAS
        ]
        assert not any(each.error_code for each in _ask(broker, AlterClientQuotasRequest(entries=entries)).entries)
        yield broker


def _ask(broker: Broker, request: Any) -> Any:
    return session_in(broker.embedded, MANAGER).ask(request)


def log_in(page: Any) -> None:
    """Log the manager in."""
    page.goto("/login")
    page.get_by_label("User").fill(MANAGER)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Overview").wait_for()
