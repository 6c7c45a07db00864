"""ListConfigResources: the names of what has configs, by type."""

from typing import Any

import pytest

from tests.server.apis.group_handlers import ask
from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.messages.administration.configs import ListConfigResourcesRequest
from twisted_kafka.server.apis.administration.config_resources import ConfigResourceApis

LISTINGS = {2: lambda: ["orders"], 16: lambda: ["latency"], 32: lambda: ["g", "h"]}


def listed(*types: int, version: int = 1) -> list[tuple[int, str]]:
    response: Any = ask(ConfigResourceApis(LISTINGS), ListConfigResourcesRequest(resource_types=list(types)), version)[0]
    return [(each.resource_type, each.resource_name) for each in response.config_resources]


def test_version_0_lists_subscriptions_to_client_metrics() -> None:
    response: Any = ask(ConfigResourceApis(LISTINGS), ListConfigResourcesRequest(), 0)[0]
    assert [each.resource_name for each in response.config_resources] == ["latency"]


def test_types_that_are_named_and_all_if_none_is() -> None:
    assert listed(32, 16, 32) == [(32, "g"), (32, "h"), (16, "latency")]
    assert listed() == [(2, "orders"), (16, "latency"), (32, "g"), (32, "h")]


@pytest.mark.parametrize("types", [(0,), (99,), (16, 99)])
def test_a_type_that_cannot_be_listed(types: tuple[int, ...]) -> None:
    with pytest.raises(KafkaError) as raised:
        listed(*types)
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION
