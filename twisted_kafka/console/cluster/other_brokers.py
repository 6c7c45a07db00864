"""Questions to other brokers of the cluster, for users of this broker's console.

With an authorizer they go in an Envelope, so that the other broker decides by the rights of the user. Without one everybody may do
everything, and they go as they are.
"""

import ipaddress
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from twisted_kafka.client.errors import AuthenticationError, DisconnectedError, NetworkClientError
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.console.cluster.problems import CommandError, TryAgainError, problem
from twisted_kafka.metadata.cache import Node
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.protocol.api import ApiKey, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header
from twisted_kafka.protocol.messages.controller import EnvelopeRequest
from twisted_kafka.protocol.messages.log_data import DefaultPrincipalData
from twisted_kafka.system import machine

Send = Callable[[Node, Message, int | None, int], "Future[Any]"]
"""Sends a request in at most a version, with a timeout in milliseconds; returns the future of the response."""

_PRINCIPAL_VERSION: Final = b"\0\0"


class Asker(NamedTuple):
    """In whose name a request goes."""

    principal: KafkaPrincipal
    client_address: str
    client_id: str


class OtherBrokers:
    """Asks brokers at their inter-broker listeners. It blocks; any thread may call it."""

    def __init__(self, send: Send, node: Callable[[int], Node | None], *, has_authorizer: bool) -> None:
        """``node`` returns the address of a broker's inter-broker listener, None while it is not there."""
        self._send = send
        self._node = node
        self._has_authorizer = has_authorizer

    def ask(self, broker: int, request: Message, version: int, asker: Asker, left_s: float) -> Any:
        """Return a broker's response to a request in at most this version; with an authorizer in exactly this one.

        Raises CommandError, or TryAgainError after ``left_s``.
        """
        node, name = self._node(broker), ApiKey(request.KEY).title
        if node is None:
            raise TryAgainError(f"broker {broker} is not there")
        if not self._has_authorizer:
            return self._sent(node, name, request, version, left_s)
        try:
            answer = self._sent(node, name, _in_envelope(request, version, asker), None, left_s)
        except DisconnectedError as error:
            # It may be a broker that serves no Envelope: a repetition would not help.
            raise CommandError(f"broker {broker} serves no requests of this console: use its own ({error})") from None
        if answer.error_code:
            raise problem(f"broker {broker}", answer.error_code)
        body = answer.response_data
        return response_class(request.KEY).decode(body, version, parse_response_header(request.KEY, version, body)[1])

    def _sent(self, node: Node, name: str, request: Message, latest: int | None, left_s: float) -> Any:
        future = self._send(node, request, latest, int(left_s * 1000))
        try:
            return machine.result_of(future, left_s)
        except TimeoutError:
            future.cancel()
            raise TryAgainError(f"broker {node.id} has not answered {name} within {left_s:g} s") from None
        except UnsupportedVersionError:
            raise CommandError(f"broker {node.id} does not serve {name}") from None
        except (AuthenticationError, ConfigError) as error:
            raise CommandError(f"broker {node.id} cannot be asked: {error}") from None
        except DisconnectedError as error:
            if isinstance(request, EnvelopeRequest):
                raise
            raise TryAgainError(f"broker {node.id} has not answered {name}: {error}") from None
        except NetworkClientError as error:
            raise TryAgainError(f"broker {node.id} has not answered {name}: {error}") from None


def _in_envelope(request: Message, version: int, asker: Asker) -> EnvelopeRequest:
    principal = DefaultPrincipalData(type=asker.principal.principal_type, name=asker.principal.name)
    return EnvelopeRequest(
        request_data=encode_request_header(request.KEY, version, 0, asker.client_id) + request.encode(version),
        request_principal=_PRINCIPAL_VERSION + principal.encode(0),
        client_host_address=ipaddress.ip_address(asker.client_address).packed,
    )
