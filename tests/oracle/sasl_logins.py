"""Logins whose answers are compared."""

from typing import Any

from tests.support.security.sasl_wire import Wire
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest


def handshake(wire: Wire, mechanism: str = "PLAIN", version: int = 1) -> Any:
    answer = wire.send(SaslHandshakeRequest(mechanism=mechanism), version)
    return None if answer is None else (answer.error_code, sorted(answer.mechanisms))


def token(wire: Wire, data: bytes, version: int = 2) -> Any:
    answer = wire.send(SaslAuthenticateRequest(auth_bytes=data), version)
    if answer is None:
        return None
    return answer.error_code, answer.error_message, bytes(answer.auth_bytes), answer.session_lifetime_ms


def served(wire: Wire) -> Any:
    answer = wire.send(MetadataRequest(topics=[]), 1)
    return None if answer is None else len(answer.brokers)
