"""Certificates that expire soon are told in the log once a day, and how soon is a metric; an expired one is not used."""

from typing import Any

import pytest

from tests.support.certificates import Authority
from tests.support.network_fakes import lines_of
from tests.support.tls_harness import BROKER, CA, Listener, broker_settings
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.tls.certificate_expiry import DAY_MS, DAYS_LEFT, METRICS_TYPE, expires_ms

HOUR_MS = 3_600_000
END_MS = expires_ms(BROKER.certificate)
"""Long before the authority's."""


def set_time(listener: Listener, now_ms: int) -> None:
    listener.layer.clock.advance_ms(now_ms - listener.layer.clock.wall_ms())


def refresh(listener: Listener) -> list[str]:
    return lines_of(lambda: listener.builder.refresh(listener.config()))


def days(listener: Listener, store: str = "ssl.keystore") -> Any:
    return listener.metrics.value(METRICS_TYPE, DAYS_LEFT, listener="SSL", store=store)


def test_what_expires_is_told_once_a_day_from_30_days_before() -> None:
    listener = Listener()
    set_time(listener, END_MS - 30 * DAY_MS)
    assert days(listener) == 30
    assert refresh(listener) == []
    listener.layer.clock.advance_ms(HOUR_MS)
    (line,) = refresh(listener)
    expected = "Listener SSL: the certificate CN=broker,O=Tests of ssl.keystore.* expires in 29 days: it is valid until "
    assert line == expected + BROKER.certificate.not_valid_after_utc.isoformat()
    assert refresh(listener) == []
    listener.layer.clock.advance_ms(DAY_MS)
    (line,) = refresh(listener)
    assert "expires in 28 days" in line
    set_time(listener, END_MS + HOUR_MS)
    (line,) = refresh(listener)
    assert "has expired" in line
    assert days(listener) == pytest.approx(-1 / 24)
    assert days(listener, "ssl.truststore") > 3000


def test_an_authority_that_expires_is_told_of_too() -> None:
    old = Authority("CN=Old CA")
    listener = Listener(broker_settings(BROKER, CA) | {"ssl.truststore.certificates": CA.pem + old.pem})
    set_time(listener, expires_ms(old.certificate) - DAY_MS)
    lines = refresh(listener)
    assert any("the certificate CN=Old CA of ssl.truststore.* expires in 1 days" in line for line in lines)


def test_a_renewed_certificate_is_not_told_of() -> None:
    listener = Listener()
    set_time(listener, END_MS - DAY_MS)
    assert refresh(listener)
    renewed = CA.issue("CN=broker,O=Tests", ["localhost"], days=(-1, 400))
    listener.builder.reconfigure(listener.config(**broker_settings(renewed)))
    assert days(listener) > 300
    listener.settings |= broker_settings(renewed)
    assert refresh(listener) == []


def test_a_listener_that_is_gone_has_no_metric() -> None:
    listener = Listener()
    listener.builder.close()
    assert days(listener) is None
    assert days(listener, "ssl.truststore") is None


def test_an_expired_certificate_is_not_used() -> None:
    listener = Listener()
    set_time(listener, END_MS)
    late = CA.issue("CN=broker,O=Tests", ["localhost"], days=(-3, -1))
    expected = (
        r"The certificate CN=broker,O=Tests of ssl.keystore.certificate.chain has expired: it was valid until 2.*listener SSL"
    )
    with pytest.raises(ConfigError, match=expected):
        listener.builder.reconfigure(listener.config(**broker_settings(late)))
