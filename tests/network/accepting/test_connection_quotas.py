from typing import Any

import pytest

from tests.support.fake import Fake
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.accepting import connection_quotas
from twisted_kafka.network.accepting.connection_quotas import (
    ConnectionQuotas,
    ConnectionThrottledError,
    TooManyConnectionsError,
    parse_overrides,
)
from twisted_kafka.timing.clock import ManualClock

TWO = {
    "broker.id": "1",
    "listeners": "INSIDE://:1,OUTSIDE://:2",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
}


class Waiting(Fake):
    def __init__(self) -> None:
        self.told = 0

    def __call__(self) -> None:
        self.told += 1


class Checked(Fake):
    def __init__(self) -> None:
        self.checks = 0

    def check_connections(self) -> None:
        self.checks += 1


class Limited:
    """ConnectionQuotas of a broker with two listeners."""

    def __init__(self, **properties: str) -> None:
        self.clock = ManualClock()
        self.metrics = MetricsRegistry(self.clock)
        self.config = KafkaConfig({**TWO, **{key.replace("_", "."): value for key, value in properties.items()}})
        self.quotas = ConnectionQuotas(self.config, self.clock, self.metrics)
        for name in ("INSIDE", "OUTSIDE"):
            self.quotas.add_listener(self.config, name)
        self.waiting = Waiting()

    def room(self, listener: str) -> bool:
        return self.quotas.slot_available(listener, self.waiting)

    def connect(self, listener: str, address: str = "10.0.0.1", count: int = 1) -> None:
        for _ in range(count):
            self.quotas.inc(listener, address)

    def metric(self, name: str, **tags: Any) -> Any:
        return self.metrics.value("socket-server-metrics", name, **tags)


def test_the_brokers_limit_holds_for_all_but_the_listener_among_brokers() -> None:
    limited = Limited(max_connections="2")
    limited.config = limited.config.updated({"listener.name.inside.max.connections": "5"})
    limited.quotas.configure(limited.config)
    limited.connect("OUTSIDE", count=2)
    assert not limited.room("OUTSIDE")
    assert limited.room("INSIDE")
    processors = {name: Checked() for name in ("INSIDE", "OUTSIDE")}
    for name, processor in processors.items():
        limited.quotas.add_check(name, processor.check_connections)
    limited.connect("INSIDE")
    assert (processors["INSIDE"].checks, processors["OUTSIDE"].checks) == (0, 1)
    assert limited.quotas.claim_excess("OUTSIDE")
    assert not limited.quotas.claim_excess("INSIDE")
    limited.quotas.dec("OUTSIDE", "10.0.0.1")
    assert not limited.quotas.claim_excess("OUTSIDE")
    assert limited.waiting.told == 1


def test_a_full_broker_still_hears_the_controller() -> None:
    keys = {
        "listeners": "INSIDE://:1,OUTSIDE://:2,CONTROL://:3",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROL:PLAINTEXT",
        "advertised.listeners": "INSIDE://h:1,OUTSIDE://h:2,CONTROL://h:3",
        "inter.broker.listener.name": "INSIDE",
        "control.plane.listener.name": "CONTROL",
        "max.connections": "2",
        "broker.id": "1",
    }
    clock = ManualClock()
    config = KafkaConfig.from_properties(keys)
    quotas = ConnectionQuotas(config, clock, MetricsRegistry(clock))
    for name in ("INSIDE", "OUTSIDE", "CONTROL"):
        quotas.add_listener(config, name)
    quotas.inc("OUTSIDE", "10.0.0.1")
    quotas.inc("OUTSIDE", "10.0.0.1")
    waiting = Waiting()
    assert [quotas.slot_available(name, waiting) for name in ("OUTSIDE", "INSIDE", "CONTROL")] == [False, True, True]
    quotas.inc("CONTROL", "10.0.0.2")
    assert [quotas.claim_excess(name) for name in ("CONTROL", "INSIDE", "OUTSIDE")] == [False, False, True]


def test_a_single_listener_is_not_protected() -> None:
    limited = Limited(max_connections="1")
    limited.quotas.remove_listener("OUTSIDE")
    limited.connect("INSIDE")
    assert not limited.room("INSIDE")


def test_a_listener_that_is_protected_from_now_on_takes_what_waits() -> None:
    limited = Limited(max_connections="1", listener_name_inside_max_connections="5")
    limited.quotas.remove_listener("OUTSIDE")
    limited.connect("INSIDE")
    assert not limited.room("INSIDE")
    limited.quotas.add_listener(limited.config, "OUTSIDE")
    assert limited.waiting.told == 1
    assert limited.room("INSIDE")


def test_the_last_listener_left_is_not_protected() -> None:
    limited = Limited(max_connections="2")
    processor = Checked()
    limited.quotas.add_check("INSIDE", processor.check_connections)
    limited.connect("INSIDE", count=3)
    assert (processor.checks, limited.quotas.claim_excess("INSIDE")) == (0, False)
    limited.quotas.remove_listener("OUTSIDE")
    assert (processor.checks, limited.quotas.claim_excess("INSIDE")) == (1, True)


def test_a_listeners_own_limit() -> None:
    limited = Limited(listener_name_outside_max_connections="1")
    limited.connect("OUTSIDE")
    assert not limited.room("OUTSIDE")
    assert limited.room("INSIDE")


def test_who_waits_is_told_once_when_a_limit_is_raised() -> None:
    limited = Limited(max_connections="1")
    limited.connect("OUTSIDE")
    assert not limited.room("OUTSIDE")
    limited.quotas.configure(limited.config.updated({"max.connections": "2"}))
    limited.quotas.configure(limited.config.updated({"max.connections": "3"}))
    assert limited.waiting.told == 1
    assert limited.room("OUTSIDE")


def test_a_lowered_limit_has_connections_closed() -> None:
    limited = Limited()
    processor = Checked()
    limited.quotas.add_check("OUTSIDE", processor.check_connections)
    limited.connect("OUTSIDE", count=3)
    limited.quotas.configure(limited.config.updated({"max.connections": "1"}))
    assert processor.checks == 1
    assert limited.quotas.claim_excess("OUTSIDE")
    limited.quotas.remove_check(processor.check_connections)


def test_addresses_and_their_overrides() -> None:
    limited = Limited(max_connections_per_ip="1", max_connections_per_ip_overrides="10.0.0.2:2,localhost:3")
    limited.connect("OUTSIDE", "10.0.0.1")
    limited.connect("OUTSIDE", "10.0.0.2", 2)
    limited.connect("INSIDE", "127.0.0.1", 3)
    for address, limit in (("10.0.0.1", 1), ("10.0.0.2", 2), ("127.0.0.1", 3)):
        with pytest.raises(TooManyConnectionsError, match=f"{address} already has the configured maximum of {limit}"):
            limited.quotas.inc("OUTSIDE", address)
        limited.quotas.dec("OUTSIDE", address)
    assert limited.quotas.total == 6
    assert limited.quotas.count("127.0.0.1") == 3
    with pytest.raises(ConfigError, match=r"nowhere\.invalid"):
        parse_overrides("nowhere.invalid:5")


def test_rates_of_the_broker_and_of_a_listener() -> None:
    limited = Limited(max_connection_creation_rate="2", listener_name_outside_max_connection_creation_rate="1")
    assert [limited.quotas.record_accept("OUTSIDE") for _ in range(10)] == [0] * 10
    assert limited.quotas.record_accept("OUTSIDE") == 1000
    assert limited.quotas.record_accept("INSIDE") == 0, "the listener among brokers is not counted for the broker"
    assert limited.metric("broker-connection-accept-rate") == pytest.approx(1.1)
    assert limited.metric("connection-accept-rate", listener="OUTSIDE") == pytest.approx(1.1)
    assert limited.metric("connection-accept-throttle-time", listener="OUTSIDE") == 1000
    limited.clock.advance_ms(12_000)
    assert limited.quotas.record_accept("OUTSIDE") == 0


def test_rates_of_addresses() -> None:
    limited = Limited()
    limited.quotas.set_ip_rate("10.0.0.1", 1)
    limited.connect("OUTSIDE", "10.0.0.1", 10)
    limited.connect("OUTSIDE", "10.0.0.2", 50)
    with pytest.raises(ConnectionThrottledError) as throttled:
        limited.connect("OUTSIDE", "10.0.0.1")
    assert throttled.value.throttle_ms == 1000
    assert limited.quotas.count("10.0.0.1") == 10
    assert limited.metric("ip-connection-accept-throttle-time", listener="OUTSIDE") == 1000
    assert limited.metric("connection-accept-rate", ip="10.0.0.1") == pytest.approx(1.0)
    limited.quotas.set_ip_rate("10.0.0.1", None)
    limited.connect("OUTSIDE", "10.0.0.1")
    limited.quotas.set_ip_rate(None, 0)
    with pytest.raises(ConnectionThrottledError):
        limited.connect("OUTSIDE", "10.0.0.3")
    limited.quotas.set_ip_rate("10.0.0.3", 7)
    limited.connect("OUTSIDE", "10.0.0.3")


def test_rates_of_too_many_addresses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_quotas, "MAX_IP_RATES", 2)
    limited = Limited()
    limited.quotas.set_ip_rate(None, 1)
    for last in (1, 2, 1, 3):
        limited.connect("OUTSIDE", f"10.0.0.{last}")
    rates = [limited.metric("connection-accept-rate", ip=f"10.0.0.{last}") is not None for last in (1, 2, 3)]
    assert rates == [True, False, True]


def test_metrics_of_a_removed_listener_go_and_its_connections_still_count() -> None:
    limited = Limited()
    limited.connect("OUTSIDE")
    limited.quotas.remove_listener("OUTSIDE")
    assert limited.metric("connection-accept-rate", listener="OUTSIDE") is None
    assert limited.quotas.total == 1
    limited.quotas.dec("OUTSIDE", "10.0.0.1")
    limited.quotas.dec("OUTSIDE", "10.0.0.1")  # an error in the log, and no more
    assert limited.quotas.total == 0


def test_a_listener_that_moves_still_has_the_connections_of_its_former_address() -> None:
    limited = Limited(**{"listener.name.outside.max.connections": "3"})
    limited.connect("OUTSIDE", count=3)
    limited.quotas.remove_listener("OUTSIDE")
    limited.quotas.dec("OUTSIDE", "10.0.0.1")
    limited.quotas.add_listener(limited.config, "OUTSIDE")
    assert limited.quotas.listener_count("OUTSIDE") == 2
    limited.connect("OUTSIDE")
    assert not limited.room("OUTSIDE")
    for _ in range(2):
        limited.quotas.dec("OUTSIDE", "10.0.0.1")
    assert limited.quotas.listener_count("OUTSIDE") == 1
    limited.connect("OUTSIDE", count=2)
    assert not limited.room("OUTSIDE")


def test_no_more_are_closed_than_there_are_too_many() -> None:
    limited = Limited()
    limited.connect("OUTSIDE", count=5)
    limited.quotas.configure(limited.config.updated({"max.connections": "3"}))
    assert [limited.quotas.claim_excess("OUTSIDE") for _ in range(4)] == [True, True, False, False]
    limited.quotas.dec("OUTSIDE", "10.0.0.1")
    assert not limited.quotas.claim_excess("OUTSIDE")
    limited.quotas.dec("OUTSIDE", "10.0.0.1")
    limited.connect("OUTSIDE")
    assert [limited.quotas.claim_excess("OUTSIDE") for _ in range(2)] == [True, False]


def test_the_broker_s_limit_itself_is_not_too_many() -> None:
    limited = Limited(max_connections="2")
    processor = Checked()
    limited.quotas.add_check("OUTSIDE", processor.check_connections)
    limited.connect("OUTSIDE", count=1)
    assert limited.room("OUTSIDE")
    limited.connect("OUTSIDE", count=1)
    assert not limited.room("OUTSIDE")
    limited.quotas.configure(limited.config)
    assert (processor.checks, limited.quotas.claim_excess("OUTSIDE")) == (0, False)
    limited.connect("INSIDE")
    assert (processor.checks, limited.quotas.claim_excess("OUTSIDE")) == (1, True)
    limited.quotas.remove_check(processor.check_connections)
    limited.connect("INSIDE")
    assert processor.checks == 1


def test_counts_of_a_listener_and_of_its_addresses() -> None:
    limited = Limited()
    limited.connect("OUTSIDE", "10.0.0.1", 2)
    limited.connect("OUTSIDE", "10.0.0.2")
    limited.connect("INSIDE", "10.0.0.1")
    limited.quotas.add_listener(limited.config, "OUTSIDE")
    assert [limited.quotas.listener_count(name) for name in ("OUTSIDE", "INSIDE")] == [3, 1]
    assert [limited.quotas.count(address) for address in ("10.0.0.1", "10.0.0.2", "10.0.0.3")] == [3, 1, 0]
    limited.quotas.dec("OUTSIDE", "10.0.0.2")
    assert limited.quotas.listener_count("OUTSIDE") == 2
    limited.quotas.dec("OUTSIDE", "10.0.0.1")
    assert (limited.quotas.listener_count("OUTSIDE"), limited.quotas.total) == (1, 2)
    assert [limited.quotas.count(address) for address in ("10.0.0.1", "10.0.0.2")] == [2, 0]


def test_the_last_connection_of_a_removed_listener_leaves_nothing() -> None:
    limited = Limited()
    limited.connect("OUTSIDE", count=2)
    limited.quotas.remove_listener("OUTSIDE")
    limited.quotas.remove_listener("OUTSIDE")
    for _ in range(2):
        limited.quotas.dec("OUTSIDE", "10.0.0.1")
    limited.quotas.add_listener(limited.config, "OUTSIDE")
    assert limited.quotas.listener_count("OUTSIDE") == 0
    limited.quotas.remove_listener("OUTSIDE")
    limited.quotas.add_listener(limited.config, "OUTSIDE")
    assert limited.quotas.listener_count("OUTSIDE") == 0


def test_an_address_has_its_rate_else_the_default_one_else_none() -> None:
    limited = Limited()

    def may_connect(address: str) -> bool:
        try:
            limited.connect("OUTSIDE", address)
        except ConnectionThrottledError:
            return False
        return True

    limited.quotas.set_ip_rate(None, 0)
    assert not may_connect("10.0.0.1")
    limited.quotas.set_ip_rate("10.0.0.1", 5)
    assert [may_connect(address) for address in ("10.0.0.1", "10.0.0.2")] == [True, False]
    limited.quotas.set_ip_rate("10.0.0.1", None)
    limited.quotas.set_ip_rate("10.0.0.9", None)
    assert not may_connect("10.0.0.1")
    limited.quotas.set_ip_rate(None, None)
    assert [may_connect(address) for address in ("10.0.0.1", "10.0.0.2")] == [True, True]
    assert limited.quotas.total == 3


def test_a_throttled_connection_does_not_prolong_the_throttle() -> None:
    limited = Limited()
    limited.quotas.set_ip_rate("10.0.0.1", 1)
    limited.connect("OUTSIDE", "10.0.0.1", 10)
    for _ in range(5):
        with pytest.raises(ConnectionThrottledError) as throttled:
            limited.connect("OUTSIDE", "10.0.0.1")
        assert throttled.value.throttle_ms == 1000
    limited.clock.advance_ms(11_000)
    limited.connect("OUTSIDE", "10.0.0.1")
    assert limited.quotas.count("10.0.0.1") == 11


def test_a_listener_among_brokers_has_its_own_rate() -> None:
    limited = Limited(max_connection_creation_rate="1", listener_name_inside_max_connection_creation_rate="2")
    assert [limited.quotas.record_accept("INSIDE") for _ in range(21)][-2:] == [0, 500]
    assert [limited.quotas.record_accept("OUTSIDE") for _ in range(11)][-2:] == [0, 1000]
    limited.clock.advance_ms(30_000)
    limited.quotas.configure(limited.config.updated({"max.connection.creation.rate": "100"}))
    assert {limited.quotas.record_accept("OUTSIDE") for _ in range(100)} == {0}


def test_overrides_are_pairs_of_a_host_and_a_count() -> None:
    assert parse_overrides("") == {}
    assert parse_overrides(" 10.0.0.1:5 ,, [::1]:7,10.0.0.2 : 0") == {"10.0.0.1": 5, "::1": 7, "10.0.0.2": 0}
    assert parse_overrides("::1:7") == {"::1": 7}
