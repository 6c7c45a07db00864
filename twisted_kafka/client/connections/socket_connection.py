"""A connection that blocks: for tools that send one request after the other, over plain TCP, TLS, and after a SASL login."""

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self

from twisted_kafka.client.connections.sasl_exchange import IPreparedClient, ISaslClient, SaslRefusedError, SaslSteps
from twisted_kafka.client.errors import NotAResponseError, PeerRefusedError
from twisted_kafka.client.node_api_versions import FIRST_VERSION, NodeApiVersions, parse_response
from twisted_kafka.protocol.api import response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.wire import MalformedMessageError
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.headers import encode_request_header, parse_response_header
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.timing.clock import SystemClock

if TYPE_CHECKING:
    from twisted_kafka.client.connections.tls_stream import TlsStream

SOFTWARE_NAME: Final = "twisted-kafka"
SOFTWARE_VERSION: Final = "unknown"
"""To find it out takes longer than most requests."""
MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
LEAST_BYTES_PER_S: Final = 16 * 1024
"""A peer that sends a response more slowly, after the first ``timeout_s``, has not answered in time."""

_SIZE_BYTES: Final = 4
_CORRELATION_ID_BYTES: Final = 4
_READ_BYTES: Final = 256 * 1024
_MOST_CORRELATION_IDS: Final = 0x7FFFFFFF


MakeStream = Callable[[socket.socket, str, float], "socket.socket | TlsStream"]
"""Makes a stream from a connected socket, the host's name and the timeout in seconds; it owns the socket from then on."""


class SocketConnection:
    """One connection, one request at a time. It belongs to one thread."""

    def __init__(
        self,
        address: tuple[str, int],
        client_id: str,
        timeout_s: float,
        *,
        secure: MakeStream | None = None,
        sasl: ISaslClient | None = None,
        now_ns: Callable[[], int] = SystemClock.steady_ns,
    ) -> None:
        """Connect to host and port, and log in; ``timeout_s`` is for each step.

        Raises OSError, PeerRefusedError, or NotAResponseError.
        """
        self._now_ns = now_ns
        self._timeout_s = timeout_s
        self._client_id = client_id
        self._correlation_id = 0
        connected = socket.create_connection(address, timeout_s)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream: socket.socket | TlsStream = connected if secure is None else secure(connected, address[0], timeout_s)
        try:
            if sasl is not None:
                self._log_in(sasl)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def ask(self, request: Message, version: int, timeout_s: float) -> Any:
        """Send a request in this version, and return the response; ``timeout_s`` is for each step.

        A large response may take longer, but must come with LEAST_BYTES_PER_S.
        Raises OSError, PeerRefusedError, NotAResponseError, or MalformedMessageError for a response that cannot be decoded. The
        connection is of no use after an error.
        """
        self.send(request, version, timeout_s)
        body = self._receive(self._correlation_id)
        return response_class(request.KEY).decode(body, version, parse_response_header(request.KEY, version, body)[1])

    def versions(self, timeout_s: float) -> NodeApiVersions:
        """Ask for the API versions that the broker supports; raises like ``ask``."""
        version = FIRST_VERSION
        while True:
            request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
            self.send(request, version, timeout_s)
            body = self._receive(self._correlation_id)
            found = parse_response(body, parse_response_header(request.KEY, version, body)[1], version)
            if not isinstance(found, int):
                return NodeApiVersions(found.api_keys)
            version = found

    def send(self, request: Message, version: int, timeout_s: float) -> None:
        """Send a request that has no response, as a Produce without acknowledgement."""
        self._correlation_id = self._correlation_id % _MOST_CORRELATION_IDS + 1
        frame = encode_request_header(request.KEY, version, self._correlation_id, self._client_id) + request.encode(version)
        self._timeout_s = timeout_s
        self._send(frame)

    def _send(self, frame: bytes) -> None:
        self._stream.settimeout(self._timeout_s)
        self._stream.sendall(len(frame).to_bytes(_SIZE_BYTES, "big") + frame)

    def _receive(self, correlation_id: int) -> bytes:
        head = self._read(_SIZE_BYTES + _CORRELATION_ID_BYTES)
        size_bytes = int.from_bytes(head[:_SIZE_BYTES], "big")
        # The correlation id distinguishes a response from the first bytes of other protocols.
        expected = correlation_id.to_bytes(_CORRELATION_ID_BYTES, "big")
        if head[_SIZE_BYTES:] != expected or not _CORRELATION_ID_BYTES <= size_bytes <= MAX_RESPONSE_BYTES:
            raise NotAResponseError(head[:_SIZE_BYTES])
        body = head[_SIZE_BYTES:] + self._read(size_bytes - _CORRELATION_ID_BYTES)
        if len(body) != size_bytes:
            raise NotAResponseError(head[:_SIZE_BYTES])
        return body

    def _read(self, size_bytes: int) -> bytes:
        """Return this many bytes, or fewer if the peer closes the connection. Raises TimeoutError if they come too slowly."""
        due_ns = self._now_ns() + int((self._timeout_s + size_bytes / LEAST_BYTES_PER_S) * 1e9)
        read = bytearray()
        while left := size_bytes - len(read):
            left_ns = due_ns - self._now_ns()
            if left_ns <= 0:
                raise TimeoutError("timed out")
            self._stream.settimeout(min(self._timeout_s, left_ns / 1e9))
            part = self._stream.recv(min(left, _READ_BYTES))
            if not part:
                break
            read += part
        return bytes(read)

    def _log_in(self, client: ISaslClient) -> None:
        if isinstance(client, IPreparedClient):
            client.prepare()
        steps = SaslSteps(client)
        try:
            following: bytes | None = steps.begin()
            step = 0
            while following is not None:
                step += 1
                self._send(following)
                following = steps.take(self._receive(step))
        except SaslRefusedError as error:
            raise PeerRefusedError(str(error), error.refusal) from None
        except (MalformedMessageError, UnsupportedVersionError) as error:
            raise PeerRefusedError(str(error)) from None
