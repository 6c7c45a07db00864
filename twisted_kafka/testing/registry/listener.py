"""The registry's place on the network: requests become calls of the registry, rules change their outcome, the record has them all.

Handlers run on a pool of threads. No thread waits for a rule: a timer holds delayed answers, and a fault the held ones.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from twisted.logger import Logger

from twisted_kafka.schema_registry.api import CONTENT_TYPE, PlainText, find, form_of, read_body
from twisted_kafka.schema_registry.api import Request as Asked
from twisted_kafka.schema_registry.errors import RegistryError, status_of
from twisted_kafka.schema_registry.registry import Registry
from twisted_kafka.system import machine
from twisted_kafka.system.numbers import INT32_MAX, decimal
from twisted_kafka.testing.clock import Clock
from twisted_kafka.testing.fault_rules.injection import Fault, Firing
from twisted_kafka.testing.http_server import MAX_BODY_BYTES, MAX_UNDER_WAY, HttpRequest, HttpServer
from twisted_kafka.testing.registry.requests import RegistryRequest, RegistryRequests
from twisted_kafka.testing.registry.rules import RegistryAnswer, RegistryArrival, RegistryFaults, RegistryRule
from twisted_kafka.timing.timer import Timer

_WHY: Final = "A test says so."
_CORRUPT: Final = b"\xff"
_TEXT: Final = "text/plain"

_log = Logger()


@dataclass(slots=True)
class _Exchange:
    """A request that is being handled, and the rule that fires for it."""

    request: HttpRequest
    arrival: RegistryArrival
    asked: Asked | None
    refused: RegistryError | None
    """Why it names no operation."""
    arrived_ns: int
    size_bytes: int
    firing: Firing[RegistryRule] | None = None
    rule: RegistryRule | None = None


class Listener:
    """Serves a registry until it is stopped."""

    def __init__(
        self, registry: Registry, faults: RegistryFaults, requests: RegistryRequests, clock: Clock, host: str, port: int
    ) -> None:
        self._registry = registry
        self._faults = faults
        self._requests = requests
        self._clock = clock
        self._made_ns = clock.monotonic_ns()
        self._server = HttpServer("schema-registry", host, port, self._render)
        self._timer: Timer | None = None
        self._under_way = 0
        self._lock = machine.Lock()

    @property
    def url(self) -> str:
        """Its address."""
        return self._server.url

    @property
    def port(self) -> int:
        """Its port."""
        return self._server.port

    def start(self) -> None:
        """Listen. Raises OSError, one line."""
        self._server.start()

    def stop(self) -> None:
        """Close all connections, and drop what rules delay or hold."""
        self._faults.drop_held(self)
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.shutdown()
        self._server.stop()

    def _later(self, delay_ms: float, call: Callable[[], object]) -> None:
        with self._lock:
            if self._timer is None:
                self._timer = Timer(self._clock, "registry-faults")
                self._timer.start()
            self._timer.add(delay_ms, call)

    # On the listener's thread

    def _render(self, request: HttpRequest) -> None:
        if self._under_way >= MAX_UNDER_WAY:
            form = {"error_code": 503, "message": f"{MAX_UNDER_WAY} requests are under way: wait until one is answered"}
            request.answer(503, _encoded(form), CONTENT_TYPE)
            return
        self._under_way += 1
        read, client = request.read(), request.peer
        self._server.pool.callInThread(self._begin, request, read, client)

    def _done(self, send: Callable[[], object]) -> None:
        self._under_way -= 1
        send()

    # On the pool

    def _begin(self, request: HttpRequest, read: tuple[str, str, bytes], client: str) -> None:
        try:
            exchange = self._exchange(request, *read, client)
            self._choose(exchange)
        except Exception:  # noqa: BLE001 the client gets an error, and the log the traceback
            _log.failure("A request to the schema registry failed: {what}", what=read[:2])
            self._server.reactor.callFromThread(self._done, lambda: request.answer(500, _encoded(_error(500, "")), CONTENT_TYPE))

    def _exchange(self, request: HttpRequest, method: str, uri: str, body: bytes, client: str) -> _Exchange:
        asked: Asked | None = None
        refused: RegistryError | None = None
        fields: Any = None
        try:
            asked = find(method, uri)
            if request.is_too_long:
                raise RegistryError(413, f"the body is longer than {MAX_BODY_BYTES} bytes")
            fields = read_body(body, request.header("content-type"))
            asked = asked._replace(call=type(asked.call)(asked.call.names, asked.call.query, fields))
        except RegistryError as error:
            refused = error
        arrival = _arrival(asked, method, uri, fields, client, request.header("user-agent"))
        return _Exchange(request, arrival, asked, refused, self._clock.monotonic_ns(), len(body))

    def _choose(self, exchange: _Exchange) -> None:
        exchange.firing = firing = self._faults.choose(exchange.arrival)
        exchange.rule = rule = None if firing is None else firing.fault.rule
        answer: RegistryAnswer | None = None
        if firing is not None and rule is not None and rule.call is not None:
            answer, exchange.rule = _called(firing.fault, exchange.arrival)
            rule = exchange.rule
        if rule is None:
            self._answer(exchange, answer or self._handled(exchange))
        elif firing is not None and rule.hold_request:
            firing.hold(self, lambda: self._server.pool.callInThread(lambda: self._answer(exchange, self._handled(exchange))))
        elif rule.lose_request:
            self._finish(exchange, None, "dropped", lambda: None)
        elif rule.close == "before":
            self._finish(exchange, None, "closed", exchange.request.close)
        elif rule.error is not None:
            self._answer(exchange, RegistryAnswer(status_of(rule.error), _error(rule.error, _WHY)))
        else:
            self._answer(exchange, self._handled(exchange))

    def _handled(self, exchange: _Exchange) -> RegistryAnswer:
        try:
            if exchange.refused is not None:
                raise exchange.refused
            assert exchange.asked is not None
            return RegistryAnswer(200, form_of(self._registry, exchange.asked))
        except RegistryError as error:
            return RegistryAnswer(error.status, _error(error.code, str(error)))
        except Exception as error:  # noqa: BLE001 the client gets the error, and the log the traceback
            _log.failure("A request to the schema registry failed: {arrival}", arrival=exchange.arrival)
            return RegistryAnswer(500, _error(500, f"{type(error).__name__}: {' '.join(str(error).split())}"))

    def _answer(self, exchange: _Exchange, answer: RegistryAnswer) -> None:
        """Send an answer, in the way and at the time that the rule says."""
        request, rule = exchange.request, exchange.rule
        is_text = isinstance(answer.body, PlainText)
        body, content_type = (answer.body.encode(), _TEXT) if is_text else (_encoded(answer.body), CONTENT_TYPE)
        status = answer.status
        send: Callable[[], object] = lambda: request.answer(status, body, content_type)  # noqa: E731 one of several
        outcome = "answered"
        if rule is not None and rule.close == "after":
            send, outcome = request.close, "closed"
        elif rule is not None and rule.lose_response:
            send, outcome = (lambda: None), "lost"
        elif rule is not None and rule.half_response:
            send, outcome = (lambda: request.answer_half(status, body, content_type)), "half"
        elif rule is not None and rule.corrupt_response:
            send, outcome = (lambda: request.answer(status, _CORRUPT * len(body), content_type)), "corrupt"

        def finish() -> None:
            self._finish(exchange, answer, outcome, send, len(body))

        firing = exchange.firing
        if firing is not None and rule is not None and rule.delay_ms:
            passed_ms = (self._clock.monotonic_ns() - exchange.arrived_ns) / 1e6
            firing.delay(self._later, max(0.0, rule.delay_ms - passed_ms), finish)
        elif firing is not None and rule is not None and rule.hold:
            firing.hold(self, finish)
        else:
            finish()

    def _finish(
        self, exchange: _Exchange, answer: RegistryAnswer | None, outcome: str, send: Callable[[], object], size_bytes: int = 0
    ) -> None:
        # Counted and recorded first: a client that has its answer finds its request, and that the rule has fired.
        if exchange.firing is not None:
            exchange.firing.count()
        arrival, body = exchange.arrival, None if answer is None else answer.body
        self._requests.add(
            RegistryRequest(
                arrival.api,
                arrival.method,
                arrival.path,
                arrival.query,
                arrival.subject,
                arrival.version,
                arrival.schema_id,
                arrival.schema_type,
                arrival.fields,
                None if answer is None else answer.status,
                body,
                body.get("error_code") if isinstance(body, Mapping) else None,
                outcome,
                None if exchange.firing is None else str(exchange.firing.fault.rule),
                arrival.client,
                arrival.user_agent,
                (exchange.arrived_ns - self._made_ns) / 1e6,
                (self._clock.monotonic_ns() - self._made_ns) / 1e6,
                exchange.size_bytes + size_bytes,
            )
        )
        self._server.reactor.callFromThread(self._done, send)


def _arrival(asked: Asked | None, method: str, uri: str, fields: Any, client: str, user_agent: str) -> RegistryArrival:
    subject: str | None = None
    version: str | None = None
    schema_id: int | None = None
    query: dict[str, str] = {}
    if asked is not None:
        names = asked.call.names
        query = {name: values[0] for name, values in asked.call.query.items()}
        if asked.route.names_subject:
            subject, version = asked.call.subject, names[1] if len(names) > 1 else None
        elif asked.route.path[:2] == ("schemas", "ids"):
            subject = query.get("subject")
            schema_id = decimal(names[0], INT32_MAX)
    api = "" if asked is None else asked.route.api
    return RegistryArrival(api, method, uri.partition("?")[0], query, subject, version, schema_id, fields, client, user_agent)


def _called(fault: Fault[RegistryRule], arrival: RegistryArrival) -> tuple[RegistryAnswer | None, RegistryRule | None]:
    """Call the function of a rule; return the answer and the rule that it chose. Its error is answered with status 500."""
    function = fault.rule.call
    assert function is not None
    try:
        chosen = function(arrival)
        if isinstance(chosen, Mapping):
            rule = RegistryRule.from_mapping(chosen)
            if rule.call is not None:
                raise TypeError("a function chose another function")
            return None, rule
        if chosen is not None and not isinstance(chosen, RegistryAnswer):
            raise TypeError(f"the function returned {chosen!r:.80}: expected a RegistryAnswer, the fields of a rule, or None")
    except Exception as error:  # noqa: BLE001 the test's own, which ``inject`` raises in its block
        fault.errors.append(error)
        return RegistryAnswer(500, _error(500, "A function of the test failed.")), None
    return chosen, None


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error_code": code, "message": message}


def _encoded(form: Any) -> bytes:
    return json.dumps(form, separators=(",", ":"), ensure_ascii=False).encode()
