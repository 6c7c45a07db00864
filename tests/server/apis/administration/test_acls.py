"""CreateAcls: hosts that are networks."""

from collections.abc import Sequence
from typing import Any

from tests.server.apis.group_handlers import ask
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import ErrorCode, KafkaError
from twisted_kafka.protocol.messages.administration.acls import AclCreation, CreateAclsRequest
from twisted_kafka.security.authorizer.acl_binding import AclBinding
from twisted_kafka.server.apis.administration.acls import AclApis


class Keeping:
    """Keeps what it is asked to create."""

    def __init__(self) -> None:
        self.hosts: list[str] = []

    def create_acls(self, context: RequestContext, bindings: Sequence[AclBinding]) -> list[KafkaError | None]:
        self.hosts += [each.entry.host for each in bindings]
        return [None] * len(bindings)


def test_invalid_networks_are_refused_and_the_others_kept_as_they_are_written() -> None:
    kept = Keeping()
    hosts = ["10.1.2.3/8", "10.0.0.0/33", "*", "a/b", "host.example", "::1/128"]
    creations = [
        AclCreation(
            resource_type=2,
            resource_name="t",
            resource_pattern_type=3,
            principal="User:a",
            host=host,
            operation=3,
            permission_type=3,
        )
        for host in hosts
    ]
    response: Any = ask(AclApis(kept), CreateAclsRequest(creations=creations), 3)[0]
    refused = ErrorCode.INVALID_REQUEST
    assert [each.error_code for each in response.results] == [0, refused, 0, refused, 0, 0]
    assert "10.0.0.0/33" in response.results[1].error_message
    assert kept.hosts == ["10.1.2.3/8", "*", "host.example", "::1/128"]
