"""What the comparison with Apache Kafka 3.9 cannot show of authorization: rules of Kafka 4, and how an authorizer is asked."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.server.apis.group_handlers import ask
from tests.server.apis.rights import Rights
from tests.support.coordinator_fakes import Bench
from tests.support.expressions import requires_expressions
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.messages.coordinators.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from twisted_kafka.security.authorizer.acl_types import CLUSTER_NAME, AclOperation, ResourceType
from twisted_kafka.security.authorizer.interfaces import Action
from twisted_kafka.server.apis.administration.config_access import require_config_access
from twisted_kafka.server.apis.groups.consumer_groups import ConsumerGroupApis
from twisted_kafka.server.authorization import ALLOW_ALL, Authorization, authorization_of

GROUP = (AclOperation.READ, ResourceType.GROUP, "g")


def context() -> RequestContext:
    return RequestContext(0, 0, 1, "client", ConnectionInfo("c", "PLAINTEXT", "PLAINTEXT", "10.0.0.1"))


def test_without_an_authorizer_everything_is_allowed() -> None:
    assert authorization_of(None) is ALLOW_ALL
    assert not ALLOW_ALL.enforces
    some = context(), AclOperation.READ, ResourceType.TOPIC
    assert ALLOW_ALL.is_allowed(*some, "t")
    assert ALLOW_ALL.remembers(*some, "t")
    assert ALLOW_ALL.allowed_of(*some, ["a", "b"]) == {"a", "b"}
    assert ALLOW_ALL.is_allowed_on_some(*some)
    assert ALLOW_ALL.is_allowed_on_cluster(context(), AclOperation.ALTER)
    ALLOW_ALL.require(*some, "t")
    ALLOW_ALL.require_cluster(context(), AclOperation.ALTER)
    masks = [ALLOW_ALL.authorized_operations(context(), kind, "x") for kind in (ResourceType.TOPIC, ResourceType.GROUP)]
    assert masks == [0b1101_1111_1000, 0b1_0100_1000]
    assert ALLOW_ALL.authorized_operations(context(), ResourceType.CLUSTER, CLUSTER_NAME) == 0b1_1111_1010_0000


@pytest.mark.parametrize(
    ("resource_type", "code"),
    [
        (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_the_error_says_what_is_denied(resource_type: ResourceType, code: ErrorCode) -> None:
    authorization = authorization_of(Rights((AclOperation.READ, resource_type, "mine")))
    authorization.require(context(), AclOperation.READ, resource_type, "mine")
    with pytest.raises(KafkaError) as refused:
        authorization.require(context(), AclOperation.READ, resource_type, "other")
    assert refused.value.code == code


def test_each_name_is_asked_for_once_and_nothing_for_none() -> None:
    asked: list[Sequence[Action]] = []

    class Counting(Rights):
        def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
            asked.append(actions)
            return super().authorize(context, actions)

    authorization = Authorization(Counting((AclOperation.READ, ResourceType.TOPIC, "a")))
    some = context(), AclOperation.READ, ResourceType.TOPIC
    assert authorization.allowed_of(*some, ["a", "b", "a"]) == {"a"}
    assert [action.name for action in asked[0]] == ["a", "b"]
    assert authorization.allowed_of(*some, []) == set()
    assert len(asked) == 1


def test_the_mask_has_the_operations_that_are_allowed() -> None:
    rights = Rights((AclOperation.READ, ResourceType.GROUP, "g"), (AclOperation.DESCRIBE, ResourceType.GROUP, "g"))
    assert Authorization(rights).authorized_operations(context(), ResourceType.GROUP, "g") == 0b1_0000_1000
    assert not rights.denials, "it is no denial that is worth a line"


@pytest.mark.parametrize(
    ("config_type", "name", "need"),
    [
        (2, "t", (ResourceType.TOPIC, "t")),
        (4, "1", (ResourceType.CLUSTER, CLUSTER_NAME)),
        (4, "", (ResourceType.CLUSTER, CLUSTER_NAME)),
        (8, "1", (ResourceType.CLUSTER, CLUSTER_NAME)),
        (16, "metrics", (ResourceType.CLUSTER, CLUSTER_NAME)),
        (32, "g", (ResourceType.GROUP, "g")),
    ],
)
def test_configs_are_protected_as_what_they_are_about(config_type: int, name: str, need: tuple[ResourceType, str]) -> None:
    operation = AclOperation.ALTER_CONFIGS
    require_config_access(Authorization(Rights((operation, *need))), context(), operation, config_type, name)
    with pytest.raises(KafkaError):
        require_config_access(Authorization(Rights()), context(), operation, config_type, name)


def heartbeat(rights: Rights, **fields: Any) -> ErrorCode:
    family = ConsumerGroupApis(Bench().groups, lambda: True, Authorization(rights))
    request = ConsumerGroupHeartbeatRequest(group_id="g", rebalance_timeout_ms=1000, topic_partitions=[], **fields)
    try:
        answer, _ = ask(family, request, 0)
    except KafkaError as error:
        return error.code
    if hasattr(answer, "result"):
        answer = answer.result(0)
    return ErrorCode(answer.error_code)


def test_a_member_may_describe_the_topics_that_it_subscribes_to() -> None:
    names = ["t", "u"]
    described = [(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in names]
    assert heartbeat(Rights(*described), subscribed_topic_names=names) == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert heartbeat(Rights(GROUP, described[0]), subscribed_topic_names=names) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert heartbeat(Rights(GROUP, *described), subscribed_topic_names=names) == ErrorCode.NONE


@requires_expressions
def test_an_expression_matches_only_topics_that_the_member_may_describe() -> None:
    bench = Bench()
    bench.topics.change({"orders": 1, "others": 1})
    rights = Rights(GROUP, (AclOperation.DESCRIBE, ResourceType.TOPIC, "orders"))
    family = ConsumerGroupApis(bench.groups, lambda: True, Authorization(rights))
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1000, topic_partitions=[], subscribed_topic_regex="o.*"
    )
    answer, _ = ask(family, request, 1)
    assert [each.topic_id for each in answer.assignment.topic_partitions] == [bench.topics.snapshot.topic_ids["orders"]]
    assert not rights.denials, "what is left out is no denial"


def test_consumer_groups_that_may_not_be_described_have_an_error() -> None:
    family = ConsumerGroupApis(Bench().groups, lambda: True, Authorization(Rights()))
    answer, noted = ask(family, ConsumerGroupDescribeRequest(group_ids=["g", "h", "g"]), 0)
    assert [group.error_code for group in answer.groups] == [ErrorCode.GROUP_AUTHORIZATION_FAILED] * 2
    assert noted.error == ErrorCode.GROUP_AUTHORIZATION_FAILED
