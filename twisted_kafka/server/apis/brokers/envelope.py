"""Envelope: a request that another broker passes on in the name of a user of its console (KIP-590).

Kafka passes requests on to the controller in this form, with ZooKeeper only during a migration. Here brokers pass on what their
consoles ask of partitions, groups and transactions that another broker leads, and changes that the controller makes.
"""

import ipaddress
import itertools
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.wire import MalformedMessageError
from twisted_kafka.protocol.errors import ErrorCode, InvalidRequestError, KafkaError, UnsupportedVersionError
from twisted_kafka.protocol.headers import RequestHeader, parse_request_header
from twisted_kafka.protocol.messages.controller import EnvelopeRequest, EnvelopeResponse
from twisted_kafka.protocol.messages.log_data import DefaultPrincipalData
from twisted_kafka.security.authorizer.acl_types import AclOperation
from twisted_kafka.server.authorization import IAuthorization
from twisted_kafka.server.dispatch import CLOSE_CONNECTION, Outcome, api
from twisted_kafka.server.inner_requests import InnerRequests, QueueFullError

_K: Final = ApiKey
PASSED_ON: Final = frozenset(
    {
        _K.PRODUCE, _K.FETCH, _K.LIST_OFFSETS, _K.DESCRIBE_PRODUCERS, _K.DESCRIBE_LOG_DIRS,
        _K.LIST_GROUPS, _K.DESCRIBE_GROUPS, _K.CONSUMER_GROUP_DESCRIBE, _K.SHARE_GROUP_DESCRIBE, _K.STREAMS_GROUP_DESCRIBE,
        _K.OFFSET_FETCH, _K.OFFSET_COMMIT, _K.DELETE_GROUPS, _K.DESCRIBE_SHARE_GROUP_OFFSETS, _K.ALTER_SHARE_GROUP_OFFSETS,
        _K.LIST_TRANSACTIONS, _K.DESCRIBE_TRANSACTIONS, _K.WRITE_TXN_MARKERS,
        _K.DESCRIBE_CONFIGS, _K.INCREMENTAL_ALTER_CONFIGS, _K.LIST_PARTITION_REASSIGNMENTS,
        _K.CREATE_TOPICS, _K.CREATE_PARTITIONS, _K.DELETE_TOPICS,
        _K.CREATE_ACLS, _K.DELETE_ACLS, _K.ALTER_USER_SCRAM_CREDENTIALS, _K.ALTER_CLIENT_QUOTAS,
    }
)  # fmt: skip
"""What a console asks of a leader, a coordinator, the controller, or each broker."""

_VERSION_BYTES: Final = 2

_numbers = itertools.count(1)


class EnvelopeApis:
    """Serves requests of other brokers' consoles, with the rights of the consoles' users."""

    def __init__(
        self,
        make_inner: Callable[[ConnectionInfo], InnerRequests],
        inter_broker_listener: Callable[[], str],
        authorization: IAuthorization,
    ) -> None:
        """``make_inner`` returns a way into this broker for a client without a connection."""
        self._make_inner = make_inner
        self._inter_broker_listener = inter_broker_listener
        self._authorization = authorization

    @api(EnvelopeRequest, EnvelopeResponse, versions=(0, 0))
    def envelope(self, context: RequestContext, request: EnvelopeRequest) -> "Future[EnvelopeResponse] | Outcome":
        """Handle the request inside as the user that the other broker names; return its response.

        Without an authorizer nobody is kept from passing for somebody else. So the connection is closed, as Kafka does without a
        migration; brokers need no Envelope then, since everybody may do everything.
        """
        is_of_broker = context.is_privileged_listener or context.listener_name == self._inter_broker_listener()
        if not self._authorization.enforces or not is_of_broker:
            return CLOSE_CONNECTION
        self._authorization.require_cluster(context, AclOperation.CLUSTER_ACTION)
        header = _header(request.request_data)
        inside = ConnectionInfo(
            f"{context.connection_id}-envelope-{next(_numbers)}",
            context.listener_name,
            context.security_protocol,
            _address(request.client_host_address),
        )
        inside.principal = _principal(request.request_principal)
        inside.software_name, inside.software_version = context.software_name, context.software_version
        inner = self._make_inner(inside)
        passed = RequestContext(header.api_key, header.api_version, header.correlation_id, header.client_id, inside)
        try:
            waiting, answer = inner.queue(passed, request.request_data, header.body_offset)
        except QueueFullError:
            raise KafkaError.by_code[ErrorCode.REQUEST_TIMED_OUT]("The request queue is full.") from None
        context.give_up = lambda: inner.hurry(waiting)
        response: Future[EnvelopeResponse] = Future()

        def respond(data: bytes | None) -> None:
            inner.close()
            response.set_result(_response(data))

        def answered(done: "Future[bytes | None]") -> None:
            inner.when_unmuted(lambda: respond(done.result()))

        answer.add_done_callback(answered)
        return response


def _response(data: bytes | None) -> EnvelopeResponse:
    if data is None:  # its own connection would have been closed
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    return EnvelopeResponse(response_data=data, error_code=ErrorCode.NONE)


def _header(data: bytes) -> RequestHeader:
    try:
        header = parse_request_header(data)
    except (MalformedMessageError, UnsupportedVersionError) as error:
        raise InvalidRequestError(f"The request in the envelope has no header: {error}") from None
    if header.api_key not in PASSED_ON:
        raise InvalidRequestError(f"API key {header.api_key} may not be in an envelope")
    return header


def _principal(data: bytes | None) -> KafkaPrincipal:
    try:
        version = int.from_bytes((data or b"")[:_VERSION_BYTES], "big")
        found = DefaultPrincipalData.decode(data or b"", version, _VERSION_BYTES)
    except (MalformedMessageError, UnsupportedVersionError, ValueError) as error:
        raise KafkaError.by_code[ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE](str(error)) from None
    return KafkaPrincipal(found.type, found.name)


def _address(data: bytes) -> str:
    try:
        return str(ipaddress.ip_address(bytes(data)))
    except ValueError:
        raise InvalidRequestError(f"{len(data)} bytes are no address of a client") from None
