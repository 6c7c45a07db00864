"""The threads that handle requests. (Kafka: KafkaRequestHandler, KafkaRequestHandlerPool.)"""

import threading
from collections.abc import Callable

from twisted.logger import Logger

from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.idle import IdleRatio
from twisted_kafka.network.request import Request
from twisted_kafka.network.request_channel import Parker, RequestChannel
from twisted_kafka.timing.clock import IClock

DATA_PLANE = "data-plane"

_log = Logger()


class KafkaRequestHandler:
    """Takes requests and has them handled, one after the other. ``run`` is a thread's; a test may ``step`` it."""

    __slots__ = ("_channel", "_handle", "_parker")

    def __init__(self, channel: RequestChannel, handle: Callable[[Request], None], parker: Parker) -> None:
        self._channel = channel
        self._handle = handle
        self._parker = parker

    def run(self) -> None:
        """Handle requests until the channel is closed and empty."""
        channel = self._channel
        while self.step() or channel.is_open:
            pass

    def step(self, timeout_s: float = 60.0) -> bool:
        """Handle the next request, waiting for it at most ``timeout_s`` seconds; return whether there was one."""
        request = self._channel.receive(self._parker, timeout_s)
        if request is None:
            return False
        try:
            self._handle(request)
        except Exception:  # noqa: BLE001 a request's failure must not end the thread that handles the others
            _log.failure("Error when handling a request of {id}", id=request.context.connection_id)
            if request.claim():
                self._channel.abandon(request)
        return True


class KafkaRequestHandlerPool:
    """``num_threads`` handlers (key ``num.io.threads``), idle ones parked."""

    def __init__(
        self,
        channel: RequestChannel,
        handle: Callable[[Request], None],
        num_threads: int,
        clock: IClock,
        metrics: MetricsRegistry,
        plane: str = DATA_PLANE,
    ) -> None:
        self._channel = channel
        self._clock = clock
        self._threads = [
            threading.Thread(
                target=KafkaRequestHandler(channel, handle, channel.add_handler()).run,
                name=f"{plane}-kafka-request-handler-{number}",
                daemon=True,
            )
            for number in range(num_threads)
        ]
        metrics.gauge(
            "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent", IdleRatio(clock, channel.idle_ns, lambda: num_threads)
        )

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def shutdown(self, timeout_s: float = 10.0) -> None:
        """Handle what is queued, then end, waiting at most ``timeout_s`` seconds for requests under way."""
        self._channel.close()
        deadline_ns = self._clock.monotonic_ns() + int(timeout_s * 1e9)
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(max(0.0, (deadline_ns - self._clock.monotonic_ns()) / 1e9))
                if thread.is_alive():
                    _log.warn("{name} is still busy after {seconds} s", name=thread.name, seconds=timeout_s)
