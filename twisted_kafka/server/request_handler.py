"""The threads that handle requests (Kafka: KafkaRequestHandler, KafkaRequestHandlerPool)."""

import threading
from collections.abc import Callable
from contextlib import nullcontext

from twisted.logger import Logger

from twisted_kafka.metrics.idle_ratio import IdleRatio
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.loop.placement import ThreadPlacement
from twisted_kafka.network.request_plane import RequestPlane
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import MAX_PARK_S, CallbackRequest, Parker, RequestChannel
from twisted_kafka.timing.clock import IClock

_log = Logger()


def _log_fatal(why: str) -> None:
    _log.critical("{why}", why=why)


class KafkaRequestHandler:
    """Takes requests from the queue and handles them, one after another. A thread calls ``run``; tests call ``step``.

    If handling a request raises an ``Exception``, its connection is closed. Any other exception (FatalExitError, SystemExit) ends
    the handler, and ``fatal`` is called with the reason.
    """

    __slots__ = ("_channel", "_fatal", "_handle", "_placement", "has_ended", "parker")

    def __init__(
        self,
        channel: RequestChannel,
        handle: Callable[[Request], None],
        parker: Parker,
        fatal: Callable[[str], object] = _log_fatal,
        placement: ThreadPlacement | None = None,
    ) -> None:
        self._channel = channel
        self._handle = handle
        self._fatal = fatal
        self._placement = placement
        self.parker = parker
        self.has_ended = False

    def run(self) -> None:
        """Handle requests until shutdown."""
        try:
            with nullcontext() if self._placement is None else self._placement.joined():
                while not self.has_ended:
                    self.step()
        except BaseException as error:  # noqa: BLE001 the thread ends here, and must not do so silently
            self._fatal(f"Fatal error in {threading.current_thread().name}: {type(error).__name__}: {error}")
        finally:
            self.has_ended = True
            self._channel.remove_handler(self.parker)

    def step(self, timeout_s: float = MAX_PARK_S) -> bool:
        """Wait up to ``timeout_s`` seconds for a request and handle it; return whether there was one."""
        request = self._channel.receive(self.parker, timeout_s)
        if isinstance(request, Request):
            try:
                self._handle(request)
            except Exception:  # noqa: BLE001 a failed request must not end the thread
                self._failed(request)
            finally:
                request.frame = b""  # not to be kept while the request waits
                if request.memory_pool is not None:
                    request.release_buffer()
            return True
        if isinstance(request, CallbackRequest):
            try:
                request.function()
            except Exception:  # noqa: BLE001 as above
                self._failed(request.request)
            return True
        self.has_ended = request is not None
        return False

    def _failed(self, request: Request) -> None:
        _log.failure("Error when handling a request from connection {id}", id=request.context.connection_id)
        if request.claim():
            self._channel.abandon(request)


class KafkaRequestHandlerPool:
    """``num_threads`` handlers (``num.io.threads``), parked while idle; ``fatal`` is called if one ends with an error."""

    def __init__(
        self,
        plane: RequestPlane,
        handle: Callable[[Request], None],
        num_threads: int,
        clock: IClock,
        metrics: MetricsRegistry,
        fatal: Callable[[str], object] = _log_fatal,
    ) -> None:
        self._plane = plane
        self._channel = plane.request_channel
        self._handle = handle
        self._clock = clock
        self._fatal = fatal
        self._lock = threading.Lock()
        self._is_started = self._is_stopping = False
        self._size = 0
        self._threads: list[tuple[KafkaRequestHandler, threading.Thread]] = []
        self.resize(num_threads)
        name = f"{plane.metric_prefix}RequestHandlerAvgIdlePercent"
        metrics.gauge("KafkaRequestHandlerPool", name, IdleRatio(clock, self._channel.idle_ns, lambda: self._size))

    @property
    def size(self) -> int:
        """Number of handlers, without those that are about to end."""
        return self._size

    def start(self) -> None:
        """Start the threads."""
        with self._lock:
            self._is_started = True
            for _, thread in self._threads:
                thread.start()

    def resize(self, num_threads: int) -> None:
        """Change the number of handlers without losing a request; excess ones end after handling what is queued now.

        Raises ValueError if ``num_threads`` is less than one, RuntimeError if the system refuses another thread; those started
        before stay.
        """
        if num_threads < 1:
            raise ValueError(f"Invalid number of request handlers: {num_threads}")
        with self._lock:
            if self._is_stopping:
                return
            self._threads = [(handler, thread) for handler, thread in self._threads if not handler.has_ended]
            if self._size and self._size != num_threads:
                _log.info("Resizing request handler thread pool from {old} to {new}", old=self._size, new=num_threads)
            for _ in range(num_threads - self._size):
                self._add()
                self._size += 1
            for _ in range(self._size - num_threads):
                self._channel.send_shutdown_request()
            self._size = num_threads

    def _add(self) -> None:
        names = {thread.name for _, thread in self._threads}
        # Handlers that are about to end still have their names, so the first unused number is not always the next one.
        name = next(
            name for number in range(len(names) + 1) if (name := f"{self._plane.name}-kafka-request-handler-{number}") not in names
        )
        handler = KafkaRequestHandler(self._channel, self._handle, self._channel.add_handler(), self._fatal, self._plane.placement)
        thread = threading.Thread(target=handler.run, name=name, daemon=True)
        if self._is_started:
            try:
                thread.start()
            except RuntimeError:
                self._channel.remove_handler(handler.parker)  # otherwise it counts as awake, and no handler is woken for requests
                raise
        self._threads.append((handler, thread))

    def shutdown(self, timeout_s: float = 10.0) -> None:
        """Handle the queued requests, then end the threads; wait up to ``timeout_s`` seconds for them."""
        with self._lock:
            was_stopping, self._is_stopping = self._is_stopping, True
            threads = [thread for _, thread in self._threads]
        if not was_stopping:
            for _ in range(self._size):
                self._channel.send_shutdown_request()
        deadline_ns = self._clock.monotonic_ns() + int(timeout_s * 1e9)
        for thread in threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(max(0.0, (deadline_ns - self._clock.monotonic_ns()) / 1e9))
                if thread.is_alive():
                    _log.warn("{name} is still running after {seconds} s", name=thread.name, seconds=timeout_s)
