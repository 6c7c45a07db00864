"""The channels that are muted because of a quota, until their time is over. (KIP-219; Kafka: ThrottledChannelReaper.)"""

from collections.abc import Callable

from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import RequestChannel
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.timer import Timer, TimerEntry


class _ThrottledChannel:
    """One throttled channel. It is unmuted once."""

    __slots__ = ("channel", "entry", "request", "until_ms")

    def __init__(self, channel: RequestChannel, request: Request, until_ms: int) -> None:
        self.channel = channel
        self.request = request
        self.until_ms = until_ms
        self.entry: TimerEntry | None = None


class ThrottledChannels:
    """The channels that one type of quota throttles. Thread-safe."""

    def __init__(self, clock: IClock, timer: Timer) -> None:
        self._clock = clock
        self._timer = timer
        self._lock = machine.Lock()
        self._throttled: dict[_ThrottledChannel, None] = {}

    def __len__(self) -> int:
        return len(self._throttled)

    def throttle(self, channel: RequestChannel, request: Request, throttle_ms: int) -> None:
        """Mute the channel of a request, before it is answered, and unmute it after the time."""
        throttled = _ThrottledChannel(channel, request, self._now_ms() + throttle_ms)
        channel.start_throttling(request)
        with self._lock:
            self._throttled[throttled] = None
            self._set_timer(throttled, throttle_ms)

    def shorten(self, throttle_ms: Callable[[Request], int]) -> None:
        """Compute the wait of each client again after a change of quotas. A client with a shorter wait is unmuted earlier."""
        for throttled in list(self._throttled):
            wait_ms = throttle_ms(throttled.request)
            with self._lock:
                if throttled not in self._throttled or self._now_ms() + wait_ms >= throttled.until_ms:
                    continue
                if throttled.entry is not None:
                    throttled.entry.cancel()
                throttled.until_ms = self._now_ms() + wait_ms
                self._set_timer(throttled, wait_ms)

    def forget_closed(self) -> None:
        """Drop the channels whose connection is closed. To be called from time to time."""
        with self._lock:
            for throttled in [
                each for each in self._throttled if not each.request.processor.has_channel(each.request.context.connection)
            ]:
                self._throttled.pop(throttled)
                if throttled.entry is not None:
                    throttled.entry.cancel()

    def _set_timer(self, throttled: _ThrottledChannel, delay_ms: int) -> None:
        throttled.entry = self._timer.add(delay_ms, lambda: self._end(throttled))

    def _end(self, throttled: _ThrottledChannel) -> None:
        with self._lock:
            is_throttled = throttled in self._throttled
            self._throttled.pop(throttled, None)
        if is_throttled:
            throttled.channel.end_throttling(throttled.request)

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // 1_000_000
