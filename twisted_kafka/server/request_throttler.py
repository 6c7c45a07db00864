"""Records the cost of each request in its client's quotas, and computes how long the client has to wait.

(Kafka: RequestHandlerHelper, and the callbacks of KafkaApis' handlers for Produce and Fetch.)

The response is sent at once. It contains the throttle time, and the broker reads nothing from the connection until that time is
over (KIP-219). If two quotas are exceeded, the longer time counts.
"""

from typing import Any, Final

from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.quota.client_quota_manager import PERCENT_PER_NS, ClientQuotaManager
from twisted_kafka.quota.client_sensors import ClientSensors
from twisted_kafka.quota.quota_managers import QuotaManagers
from twisted_kafka.quota.sensors import RateSensor
from twisted_kafka.server.dispatch import (
    CLOSE_CONNECTION,
    Limited,
    Measured,
    Outcome,
    ReadyResponse,
    Response,
    with_throttle_time,
)
from twisted_kafka.timing.clock import IClock


class NoQuotas:
    """Replaces the quotas of a broker without quotas."""

    is_enabled: Final = False


NO_QUOTAS: Final = NoQuotas()

EXEMPT: Final = frozenset(
    (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN, ApiKey.WRITE_TXN_MARKERS)
)
"""Requests among brokers, whose time counts but is not limited. So are followers' fetches."""

_COUNTED: Final = (Measured, Limited)
_AUTHENTICATION: Final = frozenset((ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
_PRODUCE: Final = int(ApiKey.PRODUCE)
_FETCH: Final = int(ApiKey.FETCH)


class RequestThrottler:
    """Records what requests use, and throttles their channels. Thread-safe."""

    def __init__(self, quotas: QuotaManagers, clock: IClock) -> None:
        self.quotas = quotas
        self._now_ns = clock.monotonic_ns

    def throttle(
        self, channel: RequestChannel, request: Request, result: Response | Measured | Limited | Outcome, shared_by: int
    ) -> Response | Outcome:
        """Record the use of a request; return its result with the throttle time. Its channel is muted for that time from now on.

        ``shared_by`` is the number of requests that were handled together: each has used its part of the time.
        """
        quotas, context = self.quotas, request.context
        key, connection = context.api_key, context.connection
        if not quotas.request.is_enabled and key != _PRODUCE and not isinstance(result, _COUNTED):
            return result
        if connection.authenticator is not None and is_authentication(context):
            return result  # type: ignore[return-value]  # it is neither Measured nor Limited
        sensors: ClientSensors | None = connection.quota_sensors
        if sensors is None or sensors.generation is not quotas.generation or sensors.client_id != context.client_id:
            sensors = quotas.sensors_of(context)
        now_ns = self._now_ns()
        request_ms = other_ms = 0
        if quotas.request.is_enabled:
            if key in EXEMPT or isinstance(result, Outcome) or (key == _FETCH and context.is_special):
                time = sensors.exempt
            else:
                time = sensors.time or sensors.look_up_time(quotas.request, context)
            request_ms = _record_time(request, time, now_ns, shared_by)
        manager: ClientQuotaManager[Any] = quotas.request
        if key == _PRODUCE:
            if quotas.produce.is_enabled:
                manager = quotas.produce
                produced = sensors.produce or sensors.look_up_produce(quotas.produce, context)
                other_ms = produced.record(request.request_bytes, now_ns // 1_000_000)
        elif isinstance(result, Measured):
            return self._throttle_fetch(channel, request, result, request_ms, sensors, now_ns)
        elif isinstance(result, Limited):
            manager, other_ms, result = quotas.controller_mutation, result.quota.throttle_ms(), result.response
        if not (other_ms or request_ms) or result is CLOSE_CONNECTION:
            return result  # type: ignore[return-value]  # produces are neither Measured nor Limited
        throttle_ms = max(other_ms, request_ms)
        quotas.throttle(manager if other_ms > request_ms else quotas.request, channel, request, throttle_ms)
        return result if isinstance(result, Outcome) else _throttled(result, throttle_ms)  # type: ignore[arg-type]  # as above

    def throttle_error(self, channel: RequestChannel, request: Request, response: Message) -> Message:
        """Do the same for a request that failed as a whole: its bytes do not count."""
        quotas = self.quotas
        if request.throttle_ns:  # the response could not be encoded
            return with_throttle_time(response, request.throttle_ns // 1_000_000)
        if is_authentication(request.context):
            return response
        context = request.context
        is_exempt = context.api_key in EXEMPT or (context.api_key == _FETCH and context.is_special)
        if not quotas.request.is_enabled:
            return response
        sensors = quotas.sensors_of(context)
        time = sensors.exempt if is_exempt else sensors.time or sensors.look_up_time(quotas.request, context)
        throttle_ms = _record_time(request, time, self._now_ns(), 1)
        if not throttle_ms:
            return response
        quotas.throttle(quotas.request, channel, request, throttle_ms)
        return with_throttle_time(response, throttle_ms)

    def _throttle_fetch(
        self,
        channel: RequestChannel,
        request: Request,
        result: Measured,
        request_ms: int,
        sensors: ClientSensors,
        now_ns: int,
    ) -> Response:
        """Send no fetched data if the client has to wait: the next fetch reads it again."""
        quotas = self.quotas
        fetched, fetch_ms, size_bytes = None, 0, 0
        if quotas.fetch.is_enabled:
            fetched = sensors.fetch or sensors.look_up_fetch(quotas.fetch, request.context)
            size_bytes = result.size_bytes()
            fetch_ms = fetched.record(size_bytes, now_ns // 1_000_000)
        if not fetch_ms and not request_ms:
            return result.answer()
        if fetched is not None and not result.keeps_data:
            fetched.take_back(size_bytes, now_ns // 1_000_000)
        throttle_ms = max(fetch_ms, request_ms)
        quotas.throttle(quotas.fetch if fetch_ms > request_ms else quotas.request, channel, request, throttle_ms)
        return result.throttled(throttle_ms)

    def request_completed(self, request: Request) -> None:
        """Record how long the network thread took to send the response, if the client took it at once.

        It counts when the client's next request is answered. (Kafka: RequestChannel.Request's networkThreadTimeNanos.)
        """
        sensor = request.time_sensor
        if sensor is not None and request.response_bytes:
            sent_ns = request.sent_ns
            sensor.record((sent_ns - request.response_dequeued_ns) * PERCENT_PER_NS, sent_ns // 1_000_000)


def _record_time(request: Request, sensor: RateSensor, now_ns: int, shared_by: int) -> int:
    """Record how long a handler's thread has worked on a request; return how many milliseconds its client has to wait."""
    local_complete_ns = request.local_complete_ns
    if not local_complete_ns:
        local_complete_ns = request.local_complete_ns = now_ns
    request.time_sensor = sensor
    return sensor.record((local_complete_ns - request.dequeued_ns) * PERCENT_PER_NS / shared_by, now_ns // 1_000_000)


def is_authentication(context: RequestContext) -> bool:
    """Whether a request is a step of an authentication. The quotas of the authenticated principal apply, as in Kafka."""
    authenticator = context.connection.authenticator
    return authenticator is not None and (context.api_key in _AUTHENTICATION or not authenticator.is_authenticated)


def _throttled(response: Response, throttle_ms: int) -> Response:
    if isinstance(response, ReadyResponse):
        return response.throttled(throttle_ms)
    return with_throttle_time(response, throttle_ms)
