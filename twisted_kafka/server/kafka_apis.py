"""Handles a request from the queue: version check, decoding, handler, response (Kafka: KafkaApis)."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from struct import Struct
from typing import Any, Final

from twisted.logger import Logger
from twisted.python.failure import Failure

from twisted_kafka.network.log_rate_limit import LogRateLimit
from twisted_kafka.network.requests.authenticator import AuthenticationInterruptedError, IAuthenticator
from twisted_kafka.network.requests.request import AUTHENTICATED, AUTHENTICATION_FAILED, SEND, SESSION_EXPIRED, Request
from twisted_kafka.network.requests.request_channel import RequestBundle, RequestChannel
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message, TooManyElementsError
from twisted_kafka.protocol.errors import ErrorCode, KafkaError, SaslAuthenticationError, error_of
from twisted_kafka.protocol.headers import response_header_version
from twisted_kafka.protocol.regions import Part
from twisted_kafka.quota.quota_managers import QuotaManagers
from twisted_kafka.server.apis.brokers.api_versions import unsupported_version_response
from twisted_kafka.server.dispatch import (
    CLOSE_CONNECTION,
    NO_RESPONSE,
    Api,
    ApiRegistry,
    AuthenticationStep,
    Later,
    Outcome,
    ReadyResponse,
    Response,
    Result,
)
from twisted_kafka.server.error_counts import first_error, note_errors
from twisted_kafka.server.error_responses import error_response, error_text
from twisted_kafka.server.kept_frames import KeptFrames
from twisted_kafka.server.large_requests import MOST_ELEMENTS, SMALL_ELEMENTS, LargeRequests
from twisted_kafka.server.request_throttler import NO_QUOTAS, NoQuotas, RequestThrottler
from twisted_kafka.system.client_text import bounded_text
from twisted_kafka.timing.clock import IClock

JOIN_BYTES = 64 * 1024
"""A first part up to this size is joined with the size prefix: copying it costs less than sending another part."""

_SIZE: Final = Struct(">I").pack
_HEADER: Final = Struct(">i").pack
_TAGGED_HEADER: Final = Struct(">ix").pack

_Decoded = Message | Callable[[], Message] | None
"""A request's message, a function that decodes it, or None while the request has its frame to decode it from."""

_ASK_VERSIONS: Final = (
    "Let the client ask which versions the broker has (librdkafka: api.version.request=true, kafka-python: no api_version), or "
    "update it"
)
_BROKER_APIS: Final = frozenset({ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA})
"""Requests of a controller, which have an element for each partition of the cluster."""
_NO_ERROR_COUNTS: Final[Mapping[int, int]] = {}
"""The error counts of a request without response."""

_WAITING: Final = (Later, Future)

_log = Logger(__name__)


class KafkaApis:
    """Handles requests with the handlers of a registry. ``handle`` runs on a request handler's thread."""

    def __init__(
        self,
        registry: ApiRegistry,
        request_channel: RequestChannel,
        clock: IClock,
        throttler: RequestThrottler | None = None,
        most_broker_elements: int = MOST_ELEMENTS,
    ) -> None:
        """Without ``throttler`` there are no quotas.

        ``most_broker_elements`` is the limit of elements in requests that a controller sends to brokers.
        """
        self._apis = registry.apis
        self._tells_supported = registry.tells_supported
        self._throttler = throttler
        self._quotas: QuotaManagers | NoQuotas = NO_QUOTAS if throttler is None else throttler.quotas
        self._channel = request_channel
        self._clock = clock
        self.bundled = frozenset(key for key, api in registry.apis.items() if api.together is not None)
        """Keys of the APIs whose requests are handled together (``IRequestHandling.bundled``)."""
        self._refusals = LogRateLimit(clock.monotonic_ns)
        self._large = LargeRequests(request_channel, clock.monotonic_ns)
        # A controller's requests do not wait for those of clients, one of which may be stuck at a disk.
        self._controllers = LargeRequests(request_channel, clock.monotonic_ns)
        self._most_broker_elements = most_broker_elements
        self._frames = KeptFrames()
        # Encoders of response headers by API key and version, added on first use.
        self._header_packers: dict[tuple[int, int], Callable[[int], bytes]] = {}

    def handle(self, request: Request) -> None:
        """Answer ``request`` exactly once, now or when the handler's future is done."""
        context = request.context
        authenticator = context.connection.authenticator
        if authenticator is not None and not self._is_served(request, authenticator):
            return
        api = self._apis.get(context.api_key)
        version = context.api_version
        if api is None or not api.min_version <= version <= api.max_version:
            self._refuse_version(request, api)
            return
        if api.direct is not None:
            try:
                result = api.direct(context, request.frame, request.body_offset)
            except Exception as error:  # noqa: BLE001 an error response is sent
                self._fail(request, api, None, error)
                return
            if result is not None:
                self._finish(request, api, None, result)
                return
        try:
            message = api.request_class.decode(request.frame, version, request.body_offset, SMALL_ELEMENTS)
        except TooManyElementsError:
            large = self._controllers if context.api_key in _BROKER_APIS else self._large
            large.handle(request, partial(self._handle_large, request, api, large))
            return
        except Exception as error:  # noqa: BLE001 a malformed body must only affect its own connection
            self._refuse_body(request, api, error)
            return
        try:
            result = api.handler(context, message)
        except Exception as error:  # noqa: BLE001 an error response is sent
            self._fail(request, api, message, error)
            return
        self._finish(request, api, message, result)

    def _handle_large(self, request: Request, api: Api, large: LargeRequests) -> "Future[Any] | None":
        """Handle a large request; return a future that it waits for, unless it waits for something to happen, as fetches do."""
        context = request.context
        most = self._most_broker_elements if context.api_key in _BROKER_APIS else MOST_ELEMENTS
        try:
            message = api.request_class.decode(request.frame, context.api_version, request.body_offset, most)
        except Exception as error:  # noqa: BLE001 as in `handle`
            self._refuse_body(request, api, error)
            return None
        try:
            result = api.handler(context, message)
        except Exception as error:  # noqa: BLE001 an error response is sent
            self._fail(request, api, message, error)
            return None
        if not isinstance(result, Future):
            self._finish(request, api, message, result)
            return None
        request.local_complete_ns = self._clock.monotonic_ns()
        kept = self._frames.keep(request, api.request_class, result)
        is_short = context.give_up is None
        result.add_done_callback(lambda future: large.answer(request, partial(self._complete, request, api, kept, future, 1)))
        self._note_waiting(request)
        return result if is_short else None

    def sort(self, requests: Sequence[Request]) -> list[RequestBundle]:
        """Group requests that can be handled together into bundles; every other request is alone in its bundle.

        No request overtakes a lone one that arrived earlier. (``IRequestHandling.sort``.)
        """
        sorted_bundles: list[RequestBundle] = []
        bundles: dict[Hashable, RequestBundle] = {}
        for request in requests:
            context = request.context
            api = self._apis[context.api_key]
            found = None
            authenticator = context.connection.authenticator
            # `handle` handles the requests that are not admitted one by one.
            is_admitted = authenticator is None or authenticator.admits(context.api_key, request.received_ns)
            if is_admitted and api.together is not None and api.serves(context.api_version):
                try:
                    found = api.together.read(context, request.frame, request.body_offset)
                except Exception:  # noqa: BLE001 it is handled alone, and fails for the same reason
                    found = None
            if found is None:
                sorted_bundles.append(RequestBundle([request], None, [None]))
                bundles.clear()
                continue
            key, item = found
            bundle = bundles.get(key)
            if bundle is None:
                bundle = bundles[key] = RequestBundle([request], key, [item])
                sorted_bundles.append(bundle)
            else:
                bundle.requests.append(request)
                assert bundle.items is not None
                bundle.items.append(item)
        return sorted_bundles

    def _is_served(self, request: Request, authenticator: IAuthenticator) -> bool:
        """Return whether a request is for a handler: the client is authenticated, or it is a step of its authentication.

        A token without a header is answered here. A client that sends anything else, or too late, is disconnected.
        """
        context = request.context
        if authenticator.admits(context.api_key, request.received_ns):
            return True
        if authenticator.expects_token:
            self._take_token(request, authenticator)
        elif authenticator.serves(context.api_key, request.received_ns):
            return True
        elif authenticator.has_expired(request.received_ns):
            self._channel.send_response(request, (), 0, SESSION_EXPIRED)
        else:
            self._refuse_unauthenticated(request, authenticator)
        return False

    def _take_token(self, request: Request, authenticator: IAuthenticator) -> None:
        """Take a token without a header. If it is refused, the client gets no error (SaslHandshake v0)."""
        try:
            answer = authenticator.evaluate(bytes(request.frame), request.context.api_version)
        except SaslAuthenticationError:
            request.context.note_error(ErrorCode.SASL_AUTHENTICATION_FAILED)
            self._channel.send_response(request, (), 0, AUTHENTICATION_FAILED)
            return
        except AuthenticationInterruptedError:
            request.context.note_error(ErrorCode.SASL_AUTHENTICATION_FAILED)
            self._channel.close_connection(request)
            return
        kind = AUTHENTICATED if answer.is_complete else SEND
        if answer.token is None:
            self._channel.send_response(request, (), 0, kind)
            return
        size = len(answer.token)
        self._channel.send_response(request, [_SIZE(size) + answer.token], size + 4, kind)

    def _refuse_unauthenticated(self, request: Request, authenticator: IAuthenticator) -> None:
        """Return ILLEGAL_SASL_STATE to a client that has chosen a mechanism, as Kafka does; other clients get no answer."""
        context = request.context
        api = self._apis.get(context.api_key)
        name = f"API key {context.api_key}" if api is None else api.name
        why = f"Unexpected Kafka request of type {name} during SASL authentication."
        is_answered = authenticator.is_token_due and api is not None and api.serves(context.api_version)
        authenticator.refuse(why)
        context.refusal = why
        context.note_error(ErrorCode.ILLEGAL_SASL_STATE)
        parts: list[Part] = []
        size_bytes = 0
        if is_answered:
            assert api is not None
            try:
                message = api.request_class.decode(request.frame, context.api_version, request.body_offset, SMALL_ELEMENTS)
                code = ErrorCode.ILLEGAL_SASL_STATE
                response = error_response(message, api.response_class, context.api_version, code, why)
                if response is not None:
                    parts, size_bytes = self._encode(request, response)
            except Exception as error:  # noqa: BLE001 what cannot be read is not answered
                _log.debug("No answer to {id}: {error}", id=context.connection_id, error=error)
        self._channel.send_response(request, parts, size_bytes, AUTHENTICATION_FAILED)

    def handle_bundle(self, bundle: RequestBundle) -> None:
        """Answer each request exactly once, now or later (``IRequestHandling.handle_bundle``)."""
        requests = bundle.requests
        api = self._apis[requests[0].context.api_key]
        together, items = api.together, bundle.items
        assert together is not None
        assert items is not None
        try:
            results = together.handle(bundle.key, items)
        except Exception as error:  # noqa: BLE001 error responses are sent
            for request in requests:
                self._fail(request, api, None, error)
            return
        for request, item, result in zip(requests, items, results, strict=True):
            try:
                answer = together.answer(request.context, item, result)
            except Exception as error:  # noqa: BLE001 an error response is sent
                self._fail(request, api, None, error)
                continue
            self._finish(request, api, None, answer, len(requests))

    def _note_waiting(self, request: Request) -> None:
        """End the wait of a request whose client has gone before it could be seen that the request waits."""
        context = request.context
        if context.give_up is not None and not request.processor.has_channel(context.connection):
            self._channel.send_callback(context.give_up)

    def _complete(self, request: Request, api: Api, message: _Decoded, future: "Future[Any]", shared_by: int) -> None:
        request.context.give_up = None
        try:
            result = future.result()
        except BaseException as error:  # noqa: BLE001 a cancelled future needs a response, too
            self._fail(request, api, message, error)
            return
        self._finish(request, api, message, result, shared_by)

    def _finish(self, request: Request, api: Api, message: _Decoded, result: Result | Later, shared_by: int = 1) -> None:
        """Send a handler's result, now or when its future is done. ``shared_by`` requests were handled together."""
        context = request.context
        if context.denials is not None:
            context.denials.end()
        if isinstance(result, _WAITING):
            self._wait_for(request, api, result, shared_by)
            return
        if self._quotas.is_enabled and self._throttler is not None:
            try:
                result = self._throttler.throttle(self._channel, request, result, shared_by)
            except Exception as error:  # noqa: BLE001 an error response is sent
                self._fail(request, api, message, error)
                return
        if isinstance(result, Outcome):
            if result is NO_RESPONSE:
                request.context.error_counts = _NO_ERROR_COUNTS
                self._channel.send_no_op(request)
            elif isinstance(result, AuthenticationStep):
                self._send_step(request, api, result)
            else:
                assert result is CLOSE_CONNECTION, result
                self._channel.close_connection(request)
            return
        # Measured and Limited are returned only while quotas are enabled.
        response: Response = result  # type: ignore[assignment]
        try:
            if not isinstance(response, ReadyResponse):  # the handler of a ReadyResponse has noted its errors
                if api.error_places.lists:
                    note_errors(context, response)
                elif not context.error:
                    context.error = first_error(response, api.error_places)
            parts, size_bytes = self._encode(request, response)
        except Exception as error:  # noqa: BLE001 an error response is sent
            self._fail(request, api, message, error)
            return
        self._channel.send_response(request, parts, size_bytes)

    def _wait_for(self, request: Request, api: Api, result: "Later | Future[Any]", shared_by: int) -> None:
        """Send the result of a future when it is done."""
        request.local_complete_ns = self._clock.monotonic_ns()
        if isinstance(result, Later):
            kept: _Decoded = result.request
            future = result.answer
        else:
            future = result
            kept = self._frames.keep(request, api.request_class, future)
        future.add_done_callback(lambda future: self._complete(request, api, kept, future, shared_by))
        self._note_waiting(request)

    def _send_step(self, request: Request, api: Api, step: AuthenticationStep) -> None:
        context = request.context
        context.error = first_error(step.response, api.error_places)
        parts, size_bytes = self._encode(request, step.response)
        self._channel.send_response(request, parts, size_bytes, step.kind)

    def _encode(self, request: Request, response: Response) -> tuple[list[Part], int]:
        context = request.context
        version = context.api_version
        key = context.api_key
        pack_header = self._header_packers.get((key, version))
        if pack_header is None:
            pack_header = _TAGGED_HEADER if response_header_version(key, version) else _HEADER
            self._header_packers[key, version] = pack_header
        parts = response.encode_parts(version, pack_header(context.correlation_id))
        first = parts[0]
        if len(parts) == 1 and type(first) is bytes:
            size = len(first)
            if size <= JOIN_BYTES:
                return [_SIZE(size) + first], size + 4
        size = sum(map(len, parts))
        if type(first) is bytes and len(first) <= JOIN_BYTES:
            parts[0] = _SIZE(size) + first
        else:
            parts.insert(0, _SIZE(size))
        return parts, size + 4

    def _fail(self, request: Request, api: Api, message: _Decoded, error: BaseException) -> None:
        """Send an error response; close the connection if that fails."""
        context = request.context
        if context.denials is not None:
            context.denials.end()
        code = error_of(error)
        if not isinstance(error, KafkaError):
            _log.failure(
                "Error when handling {api} v{version}, correlation id {correlation_id}, client {client} at {connection}",
                Failure(error),  # type: ignore[no-untyped-call]
                api=api.name,
                version=context.api_version,
                correlation_id=context.correlation_id,
                client=bounded_text(context.client_id or ""),
                connection=context.connection_id,
            )
        context.note_error(code)
        try:
            if message is None:
                message = api.request_class.decode(request.frame, context.api_version, request.body_offset)
            elif not isinstance(message, Message):
                message = message()
            response = error_response(message, api.response_class, context.api_version, code, error_text(error, code))
            if response is None:
                self._channel.close_connection(request)
                return
            note_errors(context, response)
            if self._quotas.is_enabled and self._throttler is not None:
                response = self._throttler.throttle_error(self._channel, request, response)
            parts, size_bytes = self._encode(request, response)
        except Exception:  # noqa: BLE001 nothing is left but closing the connection
            _log.failure("Cannot build an error response of {api} for {code}", api=api.name, code=code.name)
            self._channel.close_connection(request)
            return
        self._channel.send_response(request, parts, size_bytes)

    def _refuse_version(self, request: Request, api: Api | None) -> None:
        context = request.context
        if api is not None and api.key == ApiKey.API_VERSIONS:
            context.note_error(ErrorCode.UNSUPPORTED_VERSION)
            response = unsupported_version_response((api.min_version, api.max_version) if self._tells_supported else None)
            self._channel.send_response(request, *self._encode_plain(context.correlation_id, response))
        elif api is None:
            self._refuse(request, f"API key {context.api_key} is not supported")
        else:
            supported = f"v{api.min_version} to v{api.max_version}"
            self._refuse(request, f"{api.name} v{context.api_version} is not supported, only {supported}. {_ASK_VERSIONS}")

    def _encode_plain(self, correlation_id: int, response: Message) -> tuple[list[Part], int]:
        body = response.encode(0)
        size = len(body) + 4
        return [size.to_bytes(4, "big") + correlation_id.to_bytes(4, "big", signed=True) + body], size + 4

    def _refuse_body(self, request: Request, api: Api, error: Exception) -> None:
        self._refuse(request, f"cannot read {api.name} v{request.context.api_version}: {type(error).__name__}: {error}")

    def _refuse(self, request: Request, why: str) -> None:
        context = request.context
        context.note_error(ErrorCode.INVALID_REQUEST)
        context.refusal = why
        if self._refusals.allow():
            _log.warn(
                "Closing connection {id} of {listener}: {why}{more}",
                id=context.connection_id,
                listener=context.listener_name,
                why=why,
                more=self._refusals.take_suppressed(),
            )
        self._channel.close_connection(request)
