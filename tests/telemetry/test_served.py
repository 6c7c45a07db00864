"""Clients are asked for metrics only by a broker that shows them."""

import pytest

from twisted_kafka import Broker
from twisted_kafka.protocol.api import ApiKey

TELEMETRY = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}


@pytest.mark.parametrize("persona", [None, "4.1"])
@pytest.mark.parametrize("shows_metrics", [False, True])
def test_telemetry_needs_a_page_that_shows_it(persona: str | None, shows_metrics: bool) -> None:
    with Broker({"metrics.listener": "127.0.0.1:0" if shows_metrics else None}, persona=persona) as broker:
        assert TELEMETRY.intersection(broker.supported_apis) == (TELEMETRY if shows_metrics else set())
        assert (ApiKey.LIST_CONFIG_RESOURCES in broker.supported_apis) or persona
