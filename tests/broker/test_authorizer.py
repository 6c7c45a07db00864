"""A broker with an authorizer: which one it gets, and who asks it."""

# The names that the module has imported are what is replaced in it.
# mypy: disable-error-code="attr-defined"

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from twisted.logger import capturedLogs, formatEvent
from zope.interface import implementer

from twisted_kafka.broker import request_serving
from twisted_kafka.broker.broker import Broker, StartError
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.messages.administration.acls import DescribeAclsRequest
from twisted_kafka.protocol.messages.administration.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest, ListGroupsRequest
from twisted_kafka.security.authorizer.interfaces import Action, IAuthorizer
from twisted_kafka.security.authorizer.loading import ACL_AUTHORIZERS
from twisted_kafka.server.apis.brokers.api_versions import VersionsApis
from twisted_kafka.server.apis.brokers.sasl import SaslApis
from twisted_kafka.server.authorization import ALLOW_ALL
from twisted_kafka.tools.compare.talk import Talk

NEVER_ASK = (VersionsApis, SaslApis)
"""Families that answer everybody."""


@implementer(IAuthorizer)
class Nobody:
    """Denies everything."""

    made: ClassVar["list[Nobody]"] = []

    def __init__(self) -> None:
        self.configs: Mapping[str, str] = {}
        self.asked: list[tuple[str, Action]] = []
        self.is_closed = False
        self.made.append(self)

    def configure(self, configs: Mapping[str, str]) -> None:
        self.configs = configs

    def authorize(self, context: RequestContext, actions: Sequence[Action]) -> list[bool]:
        self.asked += [(str(context.principal), action) for action in actions]
        return [False] * len(actions)

    def authorize_by_resource_type(self, *_: Any) -> bool:
        return False

    def create_acls(self, context: RequestContext, bindings: Sequence[Any]) -> list[KafkaError | None]:
        return [None] * len(bindings)

    def delete_acls(self, context: RequestContext, filters: Sequence[Any]) -> list[Any]:
        return []

    def acls(self, _: Any) -> list[Any]:
        return []

    def close(self) -> None:
        self.is_closed = True


class Refusing(Nobody):
    def configure(self, configs: Mapping[str, str]) -> None:
        raise ValueError("not\nin this town")


def talk_to(broker: Broker) -> Talk:
    return Talk(int(broker.bootstrap_servers.rpartition(":")[2]), "x")


def test_a_class_of_ones_own_decides() -> None:
    Nobody.made.clear()
    settings = {"authorizer.class.name": f"{__name__}.Nobody", "my.setting": "1"}
    with Broker(settings) as broker:
        talk = talk_to(broker)
        assert talk.ask(HeartbeatRequest(group_id="g"), 4).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert talk.ask(ListGroupsRequest(), 4).error_code == ErrorCode.NONE
        talk.close()
        (authorizer,) = Nobody.made
        assert authorizer.configs["my.setting"] == "1"
        principal, action = authorizer.asked[0]
        assert (principal, action.operation.name, action.name) == ("User:ANONYMOUS", "READ", "g")
        assert not authorizer.is_closed
    assert authorizer.is_closed


@pytest.mark.parametrize("name", ACL_AUTHORIZERS)
def test_kafkas_names_mean_the_acl_authorizer(name: str, tmp_path: Path) -> None:
    with Broker({"authorizer.class.name": name}, data_dir=tmp_path) as broker:
        talk = talk_to(broker)
        assert talk.ask(HeartbeatRequest(group_id="g"), 4).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert talk.ask(DescribeAclsRequest(), 3) is None  # without codes it is no request
        talk.close()


def test_the_level_of_its_logger_changes_while_it_runs() -> None:
    settings = {"authorizer.class.name": ACL_AUTHORIZERS[0], "super.users": "User:ANONYMOUS"}
    with Broker(settings) as broker:
        talk = talk_to(broker)

        def lines_of_a_request(level: str) -> list[str]:
            change = IncrementalAlterConfigsRequestAlterableConfig(name="kafka.authorizer.logger", value=level)
            resource = IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=8, resource_name=str(broker.broker_id), configs=[change]
            )
            answer = talk.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            assert answer.responses[0].error_code == 0
            with capturedLogs() as events:
                talk.ask(HeartbeatRequest(group_id="g"), 4)
            return [formatEvent(each) for each in events if each["log_namespace"] == "kafka.authorizer.logger"]

        assert lines_of_a_request("INFO") == []
        line = "Allowed Read on Group:LITERAL:g to User:ANONYMOUS at 127.0.0.1, asked by Heartbeat"
        assert lines_of_a_request("DEBUG") == [line]
        assert lines_of_a_request("DEBUG") == [line], "what is remembered is logged, too"
        assert lines_of_a_request("INFO") == []
        talk.close()


@pytest.mark.medium
@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"authorizer.class.name": "no.such.Class"}, "authorizer.class.name"),
        ({"authorizer.class.name": "pathlib.Path"}, "authorizer.class.name"),
        ({"authorizer.class.name": f"{__name__}.Refusing"}, "authorizer.class.name"),
        ({"authorizer.class.name": ACL_AUTHORIZERS[0], "super.users": "alice"}, "super.users"),
    ],
)
def test_what_cannot_be_loaded_refuses_the_start(settings: dict[str, str], key: str) -> None:
    with pytest.raises(StartError) as refused:
        Broker(settings).start()
    assert key in str(refused.value)
    assert "\n" not in str(refused.value)


def test_every_family_of_apis_has_the_authorizer(monkeypatch: pytest.MonkeyPatch) -> None:
    families: list[Any] = []
    registry = request_serving.ApiRegistry

    def registered(found: list[Any]) -> Any:
        families.extend(found)
        return registry(found)

    monkeypatch.setattr(request_serving, "ApiRegistry", registered)
    with Broker({"authorizer.class.name": f"{__name__}.Nobody"}):
        pass
    asking = [each for each in families if not isinstance(each, NEVER_ASK)]
    without = [type(each).__name__ for each in asking if not getattr(each, "_authorization", ALLOW_ALL).enforces]
    assert without == [], "pass them the authorization in make_families, or name them in NEVER_ASK if they answer everybody"
