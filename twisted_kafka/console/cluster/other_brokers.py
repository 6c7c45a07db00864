"""Questions to other brokers of the cluster, for users of this broker's console.

With an authorizer they go in an Envelope, so that the other broker decides by the rights of the user. Without one everybody may do
everything, and they go as they are.

A broker that has just died is in the metadata for some seconds more. No page waits for it longer than ``PATIENCE_S``, and the pages
of the next ``SILENT_S`` do not wait at all.
"""

import ipaddress
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from twisted_kafka.client.errors import AuthenticationError, DisconnectedError, NetworkClientError
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.console.cluster.problems import CommandError, NotNowError, TryAgainError, problem
from twisted_kafka.metadata.cache import Node
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.protocol.api import ApiKey, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header
from twisted_kafka.protocol.messages.controller import EnvelopeRequest
from twisted_kafka.protocol.messages.log_data import DefaultPrincipalData
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

PATIENCE_S: Final = 2.0
"""The longest wait for another broker's answer, unless the request changes something."""
RETRIES_S: Final = 1.0
"""For so long a lost or refused connection may be tried again: brokers close idle ones, and restart."""
SILENT_S: Final = 5.0
"""A broker that has failed for longer is asked again after this time; until then every question fails at once."""

Send = Callable[[Node, Message, int | None, int], "Future[Any]"]
"""Sends a request in at most a version, with a timeout in milliseconds; returns the future of the response."""

_PRINCIPAL_VERSION: Final = b"\0\0"
CHANGES: Final = frozenset(
    {
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_ACLS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_ACLS,
        ApiKey.DELETE_GROUPS,
        ApiKey.DELETE_TOPICS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.OFFSET_COMMIT,
        ApiKey.PRODUCE,
        ApiKey.WRITE_TXN_MARKERS,
    }
)
"""Requests that wait for disks, replicas or other brokers. Giving one up would leave its user in doubt."""


class Asker(NamedTuple):
    """In whose name a request goes."""

    principal: KafkaPrincipal
    client_address: str
    client_id: str


class _Failure(NamedTuple):
    """The failures of a broker since its last answer."""

    began_ns: int
    """When the first one began."""
    again_ns: int | None
    """When the broker is asked again; None while every question asks it."""
    why: str
    """The latest one."""


class OtherBrokers:
    """Asks brokers at their inter-broker listeners. It blocks; any thread may call it."""

    def __init__(self, send: Send, node: Callable[[int], Node | None], clock: IClock, *, has_authorizer: bool) -> None:
        """``node`` returns the address of a broker's inter-broker listener, None while it is not there."""
        self._send = send
        self._node = node
        self._clock = clock
        self._has_authorizer = has_authorizer
        self._lock = machine.Lock()
        self._failures: dict[int, _Failure] = {}

    def begin(self, broker: int, request: Message, version: int, asker: Asker, left_s: float) -> Callable[[], Any]:
        """Send a broker a request in at most this version, with an authorizer in exactly this one.

        Returns what waits for the response, and returns it.
        Both raise CommandError: TryAgainError if the broker may answer soon, NotNowError if it has been silent for long.
        """
        node, name = self._node(broker), ApiKey(request.KEY).title
        if node is None:
            raise TryAgainError(f"broker {broker} is not there")
        self._refuse_if_silent(broker)
        wait_s = left_s if request.KEY in CHANGES else min(left_s, PATIENCE_S)
        if not self._has_authorizer:
            return self._sent(node, name, request, version, wait_s)
        wait = self._sent(node, name, _in_envelope(request, version, asker), None, wait_s)

        def opened() -> Any:
            try:
                answer = wait()
            except DisconnectedError as error:
                # It may be a broker that serves no Envelope: a repetition would not help.
                raise CommandError(f"broker {broker} serves no requests of this console: use its own ({error})") from None
            if answer.error_code:
                raise problem(f"broker {broker}", answer.error_code)
            body = answer.response_data
            return response_class(request.KEY).decode(body, version, parse_response_header(request.KEY, version, body)[1])

        return opened

    def _sent(self, node: Node, name: str, request: Message, latest: int | None, wait_s: float) -> Callable[[], Any]:
        began_ns = self._clock.monotonic_ns()
        future = self._send(node, request, latest, int(wait_s * 1000))

        def wait() -> Any:
            left_s = max(0.0, wait_s - (self._clock.monotonic_ns() - began_ns) / 1e9)
            try:
                answer = machine.result_of(future, left_s)
            except TimeoutError:
                future.cancel()
                raise self._failed(node.id, began_ns, f"{name} got no response within {wait_s:g} s") from None
            except UnsupportedVersionError:
                raise CommandError(f"broker {node.id} does not serve {name}") from None
            except (AuthenticationError, ConfigError) as error:
                raise CommandError(f"broker {node.id} cannot be asked: {error}") from None
            except DisconnectedError as error:
                if isinstance(request, EnvelopeRequest):
                    raise
                raise self._failed(node.id, began_ns, str(error)) from None
            except NetworkClientError as error:
                raise self._failed(node.id, began_ns, str(error)) from None
            with self._lock:
                self._failures.pop(node.id, None)
            return answer

        return wait

    def _refuse_if_silent(self, broker: int) -> None:
        """Raise NotNowError for a broker that has not answered for long. One question in ``SILENT_S`` passes, and finds out."""
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            failure = self._failures.get(broker)
            if failure is None or failure.again_ns is None:
                return
            if now_ns < failure.again_ns:
                raise NotNowError(f"broker {broker} does not answer: {failure.why}")
            self._failures[broker] = failure._replace(again_ns=now_ns + int(SILENT_S * 1e9))

    def _failed(self, broker: int, began_ns: int, why: str) -> CommandError:
        """Note a failure of a question that began then; return its exception."""
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            earlier = self._failures.get(broker)
            first_ns = began_ns if earlier is None else min(began_ns, earlier.began_ns)
            is_silent = now_ns - first_ns >= RETRIES_S * 1e9
            self._failures[broker] = _Failure(first_ns, now_ns + int(SILENT_S * 1e9) if is_silent else None, why)
        return (NotNowError if is_silent else TryAgainError)(f"broker {broker} does not answer: {why}")


def _in_envelope(request: Message, version: int, asker: Asker) -> EnvelopeRequest:
    principal = DefaultPrincipalData(type=asker.principal.principal_type, name=asker.principal.name)
    return EnvelopeRequest(
        request_data=encode_request_header(request.KEY, version, 0, asker.client_id) + request.encode(version),
        request_principal=_PRINCIPAL_VERSION + principal.encode(0),
        client_host_address=ipaddress.ip_address(asker.client_address).packed,
    )
