"""The decisions of an authorizer, which the access log has."""

from collections.abc import Sequence

import pytest

from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext, ResourceKind
from twisted_kafka.protocol.errors import KafkaError
from twisted_kafka.security.authorizer.acl_types import AclOperation, ResourceType
from twisted_kafka.security.authorizer.interfaces import Action
from twisted_kafka.server.authorization import ALLOW_ALL, KINDS, REFUSALS, Authorization


class OnlyOrders:
    """Allows everything about the topic ``orders``, and remembers it for the operation Write."""

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        return [action.name == "orders" for action in actions]

    def remembers(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        return operation is AclOperation.WRITE and name == "orders"

    def authorize_by_resource_type(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        return True


@pytest.fixture
def context() -> RequestContext:
    return RequestContext(3, 12, 1, "app", ConnectionInfo("c", "L", "SSL", "10.0.0.1"))


def test_answers_are_noted_once_and_remembered_ones_and_filters_are_not(context: RequestContext) -> None:
    asked = Authorization(OnlyOrders())
    assert asked.is_allowed(context, AclOperation.WRITE, ResourceType.TOPIC, "orders")
    assert not asked.is_allowed(context, AclOperation.DESCRIBE, ResourceType.TOPIC, "hidden", logs_denied=False)
    assert asked.allowed_of(context, AclOperation.READ, ResourceType.TOPIC, ["orders", "hidden"], logs_denied=False) == {"orders"}
    assert context.decisions is None
    assert asked.allowed_of(context, AclOperation.READ, ResourceType.TOPIC, ["orders", "secret"]) == {"orders"}
    with pytest.raises(KafkaError):
        asked.require_cluster(context, AclOperation.ALTER_CONFIGS)
    with pytest.raises(KafkaError):
        asked.require(context, AclOperation.READ, ResourceType.TOPIC, "secret")
    assert context.decisions == {
        (ResourceKind.TOPIC, "orders", "Read"): True,
        (ResourceKind.TOPIC, "secret", "Read"): False,
        (ResourceKind.CLUSTER, "kafka-cluster", "AlterConfigs"): False,
    }


def test_without_an_authorizer_nothing_is_noted(context: RequestContext) -> None:
    assert ALLOW_ALL.is_allowed(context, AclOperation.READ, ResourceType.TOPIC, "orders")
    assert context.decisions is None


def test_every_type_that_can_be_refused_has_a_name() -> None:
    assert set(KINDS) == set(REFUSALS)
