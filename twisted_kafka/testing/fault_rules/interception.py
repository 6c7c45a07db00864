"""The testing kit's place in a broker: before KafkaApis for requests, and behind it for responses.

Handlers call Handling, which checks the rules and calls KafkaApis. KafkaApis answers through Responses, which applies the rule,
records the request, and passes the response on. No thread waits here: a timer holds delayed responses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from twisted_kafka.network.requests.request import CLOSE_CONNECTION, NO_OP, SEND, Request
from twisted_kafka.network.requests.request_channel import AlreadyAnsweredError, RequestBundle, RequestChannel
from twisted_kafka.protocol.api import ApiKey, request_class, response_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.compiler.wire import join
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import encode_response_header, parse_response_header
from twisted_kafka.protocol.regions import Part
from twisted_kafka.server.error_counts import error_places, first_error
from twisted_kafka.server.error_responses import answers_each, error_response, merge_answers, version_of_each
from twisted_kafka.server.interception import MakeApis
from twisted_kafka.server.request_handler import IRequestHandling
from twisted_kafka.system import machine
from twisted_kafka.testing.fault_rules.answers import DISK_ERRORS, claim_leader, spoil_fetch, spoil_offsets
from twisted_kafka.testing.fault_rules.faults import Arrival, Call, Faults, Rule
from twisted_kafka.testing.fault_rules.injection import Fault, Firing
from twisted_kafka.testing.recorded.requests import RecordedRequest, Requests, api_name
from twisted_kafka.testing.recorded.subjects import FetchSessions, Partition, groups_of, partitions_of, split, topic_ids_of
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.timer import Timer

OWN_CLIENT_ID: Final = f"twisted_kafka.testing-{machine.random_bytes(16).hex()}"
"""The client id of the kit's own requests. They are not recorded, no rule applies to them, and they need no ACL."""

_SIZE_BYTES: Final = 4
_CORRELATION_ID_END: Final = 8
_WHY: Final = "A test says so."
_OUTCOMES: Final = {NO_OP: "no response", CLOSE_CONNECTION: "closed"}


@dataclass(slots=True)
class _Exchange:
    """A request that is being handled, and the rule that fires for it."""

    arrival: Arrival
    arrived_ns: int
    rule: Rule | None
    firing: Firing[Rule] | None = None
    refused: Message | None = None
    """The answer for the part of the request that is not handled."""
    closes: bool = False
    """Whether to close the connection: a failed produce with acks=0 has no answer (as in Kafka)."""


class Interceptor:
    """Records requests, and applies rules to them (``IRequestInterceptor``)."""

    own_client_id = OWN_CLIENT_ID

    def __init__(self, faults: Sequence[Faults], requests: Requests, clock: IClock, node: Callable[[], int], made_ns: int) -> None:
        """``faults`` are the broker's own and its cluster's; the first one with a rule that fires counts.

        ``node`` returns the broker's id. Requests have the time since ``made_ns`` of the clock.
        """
        self._faults = faults
        self.node = node
        self.requests = requests
        self.clock = clock
        self.sessions = FetchSessions()
        self.topic_name: Callable[[bytes], str | None] = lambda _: None
        """The name of a topic by its id."""
        self.frozen: Fault[Rule] | None = None
        """The fault that holds all answers while the broker is frozen."""
        self._made_ns = made_ns
        self._timer: Timer | None = None
        self._is_stopped = False
        self._lock = machine.Lock()

    def intercept(self, make_apis: MakeApis, channel: RequestChannel, topic_name: Callable[[bytes], str | None]) -> "Handling":
        """Return the object that handlers call (``IRequestInterceptor.intercept``)."""
        self.topic_name = topic_name
        responses = Responses(self, channel)
        # KafkaApis and the quotas call only those methods of a channel that Responses has.
        return Handling(self, responses, make_apis(cast(RequestChannel, responses)), topic_name)

    def later(self, delay_ms: float, call: Callable[[], object]) -> None:
        """Call after a delay by the broker's clock; not at all once the broker stops."""
        with self._lock:
            if self._is_stopped:
                return
            if self._timer is None:
                self._timer = Timer(self.clock, "faults")
                self._timer.start()
            self._timer.add(delay_ms, call)

    def choose(self, arrival: Arrival) -> Firing[Rule] | None:
        """Return the firing of the first rule for this request."""
        return next((firing for faults in self._faults if (firing := faults.choose(arrival)) is not None), None)

    def stop(self) -> None:
        """Release the requests that a disk has stalled, and drop delayed responses."""
        for faults in self._faults:
            faults.let_go(self)
        with self._lock:
            self._is_stopped = True
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.shutdown()

    def since_start_ms(self, at_ns: int) -> float:
        """Convert a time of the clock to milliseconds since the broker was made."""
        return (at_ns - self._made_ns) / 1e6


class Handling:
    """Stands before KafkaApis (``IRequestHandling``). Requests are handled one by one, so that rules can distinguish them."""

    bundled: frozenset[int] = frozenset()

    def __init__(
        self,
        interceptor: Interceptor,
        responses: "Responses",
        apis: IRequestHandling,
        topic_name: Callable[[bytes], str | None],
    ) -> None:
        self._interceptor = interceptor
        self._responses = responses
        self._apis = apis
        self._topic_name = topic_name

    def handle(self, request: Request) -> None:
        """Handle a request, unless a rule says otherwise."""
        if request.context.client_id == OWN_CLIENT_ID:
            self._apis.handle(request)
            return
        arrival = self._arrival(request)
        arrived_ns = self._interceptor.clock.monotonic_ns()
        firing = self._interceptor.choose(arrival)
        rule = None if firing is None else firing.fault.rule.known_for(arrival)
        answer: Message | None = None
        if firing is not None and rule is not None and rule.call is not None:
            answer, rule = called(firing.fault, rule.call, arrival)
        exchange = _Exchange(arrival, arrived_ns, rule, firing)
        self._responses.expect(request, exchange)
        if firing is not None and rule is not None and (rule.disk == "stalled" or rule.hold_request):
            self._stall(request, firing)
            return
        try:
            if answer is not None:
                self._responses.answer(request, answer)
            elif rule is None:
                self._apis.handle(request)
            elif rule.close == "before":
                self._responses.close_connection(request)
            elif rule.lose_request:
                self._responses.drop(request)
            else:
                self._handle_part(request, exchange, rule)
        except BaseException:
            self._responses.forget(request)
            raise

    def _stall(self, request: Request, firing: Firing[Rule]) -> None:
        frame = bytes(request.frame)  # a copy: the handler's bytes are used again when this returns

        def go_on() -> None:
            request.frame = frame
            try:
                self._apis.handle(request)
            except BaseException:
                self._responses.forget(request)
                raise
            finally:
                request.frame = b""

        firing.hold(self._interceptor, lambda: self._responses.send_callback(go_on, request))

    def _handle_part(self, request: Request, exchange: _Exchange, rule: Rule) -> None:
        """Handle the partitions that the rule does not refuse; keep the answer for the others."""
        arrival, code = exchange.arrival, error_of(rule, exchange.arrival.key)
        message = arrival.message
        if code is None or message is None or is_spoilt(rule, arrival.key):
            self._apis.handle(request)
            return
        version = version_of_each(arrival.key, arrival.version)
        # Metadata without topics has the brokers, which a client needs.
        is_whole = all(map(rule.is_about, arrival.partitions)) and arrival.key != ApiKey.METADATA
        if not rule.names_partitions or is_whole or not answers_each(arrival.key, version):
            self._responses.answer_error(request, message, code)
            return
        chosen, rest = split(message, rule.is_about, self._topic_name)
        exchange.refused = error_response(chosen, response_class(arrival.key), version, code, _WHY)
        exchange.closes = exchange.refused is None
        frame = request.frame
        request.frame = bytes(frame[: request.body_offset]) + rest.encode(arrival.version)
        try:
            self._apis.handle(request)
        finally:
            request.frame = frame

    def sort(self, requests: Sequence[Request]) -> list[RequestBundle]:
        """Not called: nothing is ``bundled``."""
        return self._apis.sort(requests)

    def handle_bundle(self, bundle: RequestBundle) -> None:
        """Not called: nothing is ``bundled``."""
        self._apis.handle_bundle(bundle)

    def _arrival(self, request: Request) -> Arrival:
        context = request.context
        message: Message | None = None
        partitions: tuple[Partition, ...] = ()
        groups: tuple[str, ...] = ()
        try:
            # A copy: the frame's bytes are used again.
            message = request_class(context.api_key).decode(bytes(request.frame), context.api_version, request.body_offset)
            if context.api_key == ApiKey.FETCH:
                partitions = self._interceptor.sessions.partitions_of(message, self._topic_name)
            else:
                partitions, groups = tuple(partitions_of(message, self._topic_name)), groups_of(message)
        except Exception:  # noqa: BLE001 KafkaApis reports the fault; a token without a header has no message
            message = None
        sender = context.client_id, str(context.principal), context.connection_id
        ids = () if message is None else topic_ids_of(message)
        node, name_of = self._interceptor.node(), self._topic_name
        return Arrival(context.api_key, context.api_version, *sender, partitions, groups, message, node, ids, name_of)


class Responses:
    """Stands between KafkaApis and its channel, and has the methods of RequestChannel that KafkaApis and quotas call."""

    def __init__(self, interceptor: Interceptor, channel: RequestChannel) -> None:
        self._interceptor = interceptor
        self._channel = channel
        self._expected: dict[Request, _Exchange] = {}
        self.start_throttling = channel.start_throttling
        self.end_throttling = channel.end_throttling

    def expect(self, request: Request, exchange: _Exchange) -> None:
        """Expect an answer to this request."""
        self._expected[request] = exchange

    def forget(self, request: Request) -> None:
        """Expect no answer to this request any more."""
        exchange = self._expected.pop(request, None)
        if exchange is not None and exchange.firing is not None:
            exchange.firing.count()

    def answer_error(self, request: Request, message: Message, code: ErrorCode) -> None:
        """Answer an error; close the connection if the request expects no answer."""
        context = request.context
        context.note_error(code)
        response = error_response(message, response_class(context.api_key), context.api_version, code, _WHY)
        if response is None:
            self.close_connection(request)
        else:
            self.answer(request, response)

    def answer(self, request: Request, response: Message) -> None:
        """Send a response."""
        self.send_response(request, *_encoded(request, response))

    def drop(self, request: Request) -> None:
        """Complete a request that was not handled, without response."""
        self.send_response(request, (), 0, NO_OP)

    def send_callback(self, function: Callable[[], object], request: Request | None = None) -> None:
        """Run ``function`` on a handler's thread (``RequestChannel.send_callback``)."""
        self._channel.send_callback(function, request)

    def send_no_op(self, request: Request) -> None:
        """Complete a request without response (``RequestChannel.send_no_op``)."""
        self.send_response(request, (), 0, NO_OP)

    def close_connection(self, request: Request) -> None:
        """Close the connection (``RequestChannel.close_connection``)."""
        self.send_response(request, (), 0, CLOSE_CONNECTION)

    def send_response(
        self, request: Request, parts: Sequence[Part], size_bytes: int, kind: int = SEND, is_claimed: bool = False
    ) -> None:
        """Record the response, and apply the rule before sending it (``RequestChannel.send_response``)."""
        exchange = self._expected.pop(request, None)
        if exchange is None:
            self._channel.send_response(request, parts, size_bytes, kind, is_claimed)
            return
        response: Message | None = None
        if size_bytes:
            parts = [join(list(parts))]  # bytes: their source may be gone when the answer is due
            response = _decoded(request, parts[0])  # type: ignore[arg-type]
        rule = exchange.rule
        if response is not None:
            response, parts, size_bytes = self._shaped(request, exchange, response, parts, size_bytes)
        elif exchange.closes:
            kind = CLOSE_CONNECTION
        outcome = _OUTCOMES.get(kind, "answered" if size_bytes else "no response")
        if rule is not None and rule.lose_request:
            outcome = "dropped"
        elif rule is not None and size_bytes:
            parts, size_bytes, kind, outcome = self._spoil(request, rule, response, parts, (size_bytes, kind))
        if not is_claimed and not request.claim():
            raise AlreadyAnsweredError(f"request {request.context.correlation_id} of {request.context.connection_id}")

        def send() -> None:
            # Recorded first: a client that has its answer finds its request.
            self._record(request, exchange, response, outcome, size_bytes)
            self._channel.send_response(request, parts, size_bytes, kind, is_claimed=True)

        self._when_due(exchange, send)

    def _when_due(self, exchange: _Exchange, send: Callable[[], object]) -> None:
        rule, firing = exchange.rule, exchange.firing
        if firing is not None and rule is not None and self._interceptor.frozen is None:
            if rule.delay_ms:
                firing.delay(self._interceptor.later, rule.delay_ms, send)
                return
            if rule.hold:
                firing.hold(self._interceptor, send)
                return
        if firing is not None:
            firing.count()
        if self._interceptor.frozen is not None:
            self._interceptor.frozen.hold(self._interceptor, send)
        else:
            send()

    def _shaped(
        self, request: Request, exchange: _Exchange, response: Message, parts: Sequence[Part], size_bytes: int
    ) -> tuple[Message, Sequence[Part], int]:
        """Return the response with the rule's changes to some partitions."""
        arrival, rule = exchange.arrival, exchange.rule
        sessions = self._interceptor.sessions
        if arrival.key == ApiKey.FETCH:
            sessions.answered(response.session_id, arrival.partitions)  # type: ignore[attr-defined]
        if rule is None:
            return response, parts, size_bytes
        code = error_of(rule, arrival.key)
        if exchange.refused is not None:
            merge_answers(response, exchange.refused, arrival.version)
        elif code is not None and arrival.key == ApiKey.OFFSET_FETCH and is_spoilt(rule, arrival.key):
            spoil_offsets(response, rule.is_about, self._interceptor.topic_name, code)
        elif code is not None and is_spoilt(rule, arrival.key):
            spoil_fetch(response, [each for each in arrival.partitions if rule.is_about(each)], sessions.topic_ids, code)
        elif arrival.key == ApiKey.METADATA and rule.leader is not None:
            claim_leader(response, rule.is_about, rule.leader)
        else:
            return response, parts, size_bytes
        return response, *_encoded(request, response)

    def _spoil(
        self, request: Request, rule: Rule, response: Message | None, parts: Sequence[Part], size_and_kind: tuple[int, int]
    ) -> tuple[Sequence[Part], int, int, str]:
        size_bytes, kind = size_and_kind
        if rule.close == "after":
            return (), 0, CLOSE_CONNECTION, "closed"
        if rule.lose_response:
            return (), 0, NO_OP, "lost"
        if rule.half_response:
            half = bytes(parts[0])[: size_bytes // 2]  # type: ignore[arg-type]
            return [half], len(half), CLOSE_CONNECTION, "half"
        if rule.corrupt_response:
            whole = bytes(parts[0])  # type: ignore[arg-type]
            return [whole[:_CORRELATION_ID_END] + b"\xff" * (size_bytes - _CORRELATION_ID_END)], size_bytes, kind, "corrupt"
        if rule.throttle_ms and response is not None:
            response.throttle_time_ms = rule.throttle_ms  # type: ignore[attr-defined]
            parts, size_bytes = _encoded(request, response)
            self._channel.start_throttling(request)
            self._interceptor.later(rule.throttle_ms, lambda: self._channel.end_throttling(request))
        return parts, size_bytes, kind, "answered"

    def _record(self, request: Request, exchange: _Exchange, response: Message | None, outcome: str, size_bytes: int) -> None:
        arrival, since = exchange.arrival, self._interceptor.since_start_ms
        code = first_error(response, error_places(type(response))) if response is not None else request.context.error
        self._interceptor.requests.add(
            RecordedRequest(
                api_name(arrival.key),
                arrival.version,
                arrival.client_id,
                arrival.principal,
                request.context.connection_id,
                arrival.node,
                arrival.message,
                arrival.partitions,
                arrival.groups,
                response,
                ErrorCode(code).name if code else None,
                outcome,
                None if exchange.firing is None else str(exchange.firing.fault.rule),
                since(exchange.arrived_ns),
                since(self._interceptor.clock.monotonic_ns()),
                request.request_bytes + size_bytes,
            )
        )


def called(fault: Fault[Rule], function: Call, arrival: Arrival) -> tuple[Message | None, Rule | None]:
    """Call the function of a rule; return the answer and the rule that it chose. Its error is answered as UNKNOWN_SERVER_ERROR."""
    try:
        chosen = function(arrival)
        if chosen is None:
            return None, None
        if isinstance(chosen, Mapping):
            rule = Rule.from_mapping(chosen)
            if rule.call is not None:
                raise TypeError("a function chose another function")
            return None, rule
        if not isinstance(chosen, response_class(arrival.key)):
            expected = response_class(arrival.key).__name__
            raise TypeError(
                f"{_plain_name(function)} returned {chosen!r:.80}: expected a {expected}, the fields of a rule, or None"
            )
    except Exception as error:  # noqa: BLE001 the test's own, which ``inject`` raises in its block
        fault.errors.append(error)
        return None, Rule(error=ErrorCode.UNKNOWN_SERVER_ERROR.name)
    return chosen, None


def _plain_name(function: Call) -> str:
    return str(getattr(function, "__qualname__", function))


def error_of(rule: Rule, key: int) -> ErrorCode | None:
    """Return the rule's error for requests of this API; None if they are handled."""
    if rule.error is not None:
        return ErrorCode[rule.error]
    if rule.leader is not None:
        return None if key == ApiKey.METADATA else ErrorCode.NOT_LEADER_OR_FOLLOWER
    return DISK_ERRORS[ApiKey(key)] if rule.disk == "full" else None


def is_spoilt(rule: Rule, key: int) -> bool:
    """Whether requests of this API are handled, and the error is put into their answer.

    The reason: a Fetch does not name unchanged partitions, and an OffsetFetch may be about several groups.
    """
    return (key == ApiKey.FETCH and (rule.names_partitions or rule.leader is not None)) or (
        key == ApiKey.OFFSET_FETCH and rule.names_partitions
    )


def _encoded(request: Request, response: Message) -> tuple[list[Part], int]:
    context = request.context
    header = encode_response_header(context.api_key, context.api_version, context.correlation_id)
    body = header + response.encode(context.api_version)
    return [len(body).to_bytes(_SIZE_BYTES, "big") + body], len(body) + _SIZE_BYTES


def _decoded(request: Request, answer: bytes) -> Message | None:
    context = request.context
    frame = answer[_SIZE_BYTES:]
    try:
        _, at = parse_response_header(context.api_key, context.api_version, frame)
        return response_class(context.api_key).decode(frame, context.api_version, at)
    except Exception:  # noqa: BLE001 a token without a header, or the answer to a version of ApiVersions that is too new
        return None
