"""Sees the requests of clients and the brokers' answers, and lets the testing kit's fault rules change them.

KafkaApis answers to the watch, which notes what the broker says, before a rule can lose or change it. Without a rule in force, a
request goes around the kit, so that produces are handled together as always.
"""

from collections.abc import Callable, Container, Sequence
from typing import Any, Final, cast

from twisted_kafka.network.requests.request import SEND, Request
from twisted_kafka.network.requests.request_channel import RequestBundle, RequestChannel
from twisted_kafka.protocol.api import ApiKey, request_class, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.wire import join
from twisted_kafka.protocol.headers import parse_response_header
from twisted_kafka.protocol.regions import Part
from twisted_kafka.server.interception import MakeApis
from twisted_kafka.server.request_handler import IRequestHandling
from twisted_kafka.testing.fault_rules.interception import Interceptor
from twisted_kafka.world.checking.history import History

_SIZE_BYTES: Final = 4


class Watch:
    """The interceptor of one life of a broker (``IRequestInterceptor``)."""

    def __init__(self, kit: Interceptor, history: History, has_rules: Callable[[], bool]) -> None:
        """``kit`` applies the rules, while ``has_rules``."""
        self.own_client_id = kit.own_client_id
        self._kit = kit
        self._history = history
        self._has_rules = has_rules

    def intercept(
        self, make_apis: MakeApis, channel: RequestChannel, topic_name: Callable[[bytes], str | None]
    ) -> IRequestHandling:
        """Return what handlers call (``IRequestInterceptor.intercept``)."""
        made: list[_Noting] = []

        def make_noted(ruled: RequestChannel) -> Any:
            answers = _Answers(ruled, self._history)
            made.append(_Noting(make_apis(cast(RequestChannel, answers)), answers, self._history))
            return made[0]

        ruled = self._kit.intercept(make_noted, channel, topic_name)
        return _Chosen(made[0], ruled, self._has_rules)


class _Answers:
    """The channel to which KafkaApis answers. It has the methods that KafkaApis and quotas call."""

    def __init__(self, channel: RequestChannel, history: History) -> None:
        self._channel = channel
        self._history = history
        self.expected: dict[Request, Any] = {}
        self.start_throttling = channel.start_throttling
        self.end_throttling = channel.end_throttling
        self.send_callback = channel.send_callback

    def send_no_op(self, request: Request) -> None:
        """Forget a request without response."""
        self.expected.pop(request, None)
        self._channel.send_no_op(request)

    def close_connection(self, request: Request) -> None:
        """Forget a request whose connection is closed."""
        self.expected.pop(request, None)
        self._channel.close_connection(request)

    def send_response(
        self, request: Request, parts: Sequence[Part], size_bytes: int, kind: int = SEND, is_claimed: bool = False
    ) -> None:
        """Note the answer, and send it."""
        noted = self.expected.pop(request, None)
        if noted is not None and size_bytes:
            whole = join(list(parts))
            parts = [whole]
            self._history.answered(noted, _decoded(request, whole))
        self._channel.send_response(request, parts, size_bytes, kind, is_claimed)


def _decoded(request: Request, answer: bytes) -> Message:
    context = request.context
    frame = answer[_SIZE_BYTES:]
    _, at = parse_response_header(context.api_key, context.api_version, frame)
    return response_class(context.api_key).decode(frame, context.api_version, at)


class _Noting:
    """Notes requests before KafkaApis handles them (``IRequestHandling``)."""

    def __init__(self, apis: IRequestHandling, answers: _Answers, history: History) -> None:
        self._apis = apis
        self._answers = answers
        self._history = history
        self.bundled = apis.bundled
        self.handle_bundle = apis.handle_bundle

    def _note(self, request: Request) -> None:
        context = request.context
        if context.api_key not in self._history.apis or request in self._answers.expected:
            return
        try:
            # A copy: the frame's bytes are used again.
            message = request_class(context.api_key).decode(bytes(request.frame), context.api_version, request.body_offset)
        except Exception:  # noqa: BLE001 KafkaApis reports it
            return
        self._answers.expected[request] = self._history.asked(context.client_id or "-", ApiKey(context.api_key), message)

    def handle(self, request: Request) -> None:
        """Note and handle a request."""
        self._note(request)
        self._apis.handle(request)

    def sort(self, requests: Sequence[Request]) -> list[RequestBundle]:
        """Note and sort requests."""
        for request in requests:
            self._note(request)
        return self._apis.sort(requests)


class _Chosen:
    """Gives requests to the kit while a rule is in force (``IRequestHandling``)."""

    def __init__(self, plain: _Noting, ruled: IRequestHandling, has_rules: Callable[[], bool]) -> None:
        self._plain = plain
        self._ruled = ruled
        self._has_rules = has_rules
        self._bundled = plain.bundled
        self.handle_bundle = plain.handle_bundle

    @property
    def bundled(self) -> Container[int]:
        """The keys of the APIs whose requests are handled together."""
        return self

    def __contains__(self, key: object) -> bool:
        return not self._has_rules() and key in self._bundled

    def handle(self, request: Request) -> None:
        """Handle a request, unless a rule says otherwise."""
        (self._ruled if self._has_rules() else self._plain).handle(request)

    def sort(self, requests: Sequence[Request]) -> list[RequestBundle]:
        """Sort requests; each is alone while a rule is in force."""
        if self._has_rules():
            return [RequestBundle([request], None, [None]) for request in requests]
        return self._plain.sort(requests)
