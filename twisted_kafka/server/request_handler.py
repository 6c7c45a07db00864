"""The threads that handle requests (Kafka: KafkaRequestHandler, KafkaRequestHandlerPool)."""

from collections.abc import Callable, Container, Sequence
from typing import Protocol

from twisted.logger import Logger

from twisted_kafka.metrics.idle_ratio import IdleRatio
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.connection.framing import FRAME_BUFFERS
from twisted_kafka.network.request_plane import RequestPlane
from twisted_kafka.network.requests.parker import Parker
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_channel import MAX_PARK_S, CallbackRequest, RequestBundle, RequestChannel
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

_log = Logger()


class IRequestHandling(Protocol):
    """The interface that request handlers call: KafkaApis, or an interceptor before it, provides it."""

    def handle(self, request: Request) -> None:
        """Answer a request exactly once, now or later."""

    @property
    def bundled(self) -> Container[int]:
        """Keys of the APIs whose requests can be handled together."""

    def sort(self, requests: Sequence[Request]) -> list[RequestBundle]:
        """Group the requests into bundles by their keys, in their order of arrival."""

    def handle_bundle(self, bundle: RequestBundle) -> None:
        """Answer each request exactly once, now or later."""


def _log_fatal(why: str) -> None:
    _log.critical("{why}", why=why)


class KafkaRequestHandler:
    """Takes requests from the queue and handles them, one after another (``IRequestHandler``).

    If handling a request raises an ``Exception``, its connection is closed. Any other exception (FatalExitError, SystemExit) ends
    the handler, and ``fatal`` is called with the reason.
    """

    __slots__ = ("_bundles", "_channel", "_ended", "_fatal", "_handle", "has_ended", "name")

    def __init__(
        self,
        channel: RequestChannel,
        handle: Callable[[Request], None],
        name: str,
        fatal: Callable[[str], object] = _log_fatal,
        bundles: IRequestHandling | None = None,
    ) -> None:
        """``handle`` answers one request; ``fatal`` gets the reason why the handler ended.

        ``bundles`` answers several requests of one API together. It is required if the channel returns such bundles, that is, if
        its ``bundled`` has keys of APIs.
        """
        self._channel = channel
        self._bundles = bundles
        self._handle = handle
        self._fatal = fatal
        self._ended = machine.Event()
        self.name = name
        self.has_ended = False
        """Whether it takes no more requests."""

    def redirect(self, handle: Callable[[Request], None], bundles: IRequestHandling | None) -> None:
        """Call these from the next request on."""
        self._handle, self._bundles = handle, bundles

    def run(self, parker: Parker) -> None:
        """Handle requests until shutdown, or until another thread has this role (``IRole.run``)."""
        try:
            while not self.has_ended and parker.next_role is None:
                self.step(parker)
        except BaseException as error:  # noqa: BLE001 the thread ends here, and must not do so silently
            self._end(error)
        if parker.next_role is None:
            self._channel.remove_handler(parker)
            self._ended.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of ``run``; return False after ``timeout_s`` seconds."""
        return self._ended.wait(timeout_s)

    @property
    def is_running(self) -> bool:
        """Whether ``run`` has not ended yet."""
        return not self._ended.is_set()

    def step(self, parker: Parker, timeout_s: float = MAX_PARK_S) -> int:
        """Handle the next request, or several together, as the thread of ``parker`` (``IRequestHandler.step``)."""
        request = self._channel.receive(parker, timeout_s)
        if isinstance(request, Request):
            try:
                self._handle(request)
            except Exception:  # noqa: BLE001 a failed request must not end the thread
                self._failed(request)
            except BaseException as error:  # noqa: BLE001 the thread may be a network thread, which does not end
                self._end(error)
            finally:
                if not request.is_kept:
                    release_frame(request)
            return 1
        if isinstance(request, RequestBundle):
            return self._handle_bundle(request)
        if isinstance(request, CallbackRequest):
            try:
                request.function()
            except Exception:  # noqa: BLE001 as above
                self._failed(request.request)
            except BaseException as error:  # noqa: BLE001 as above
                self._end(error)
            return 1
        if request is not None:  # not an unconditional assignment: the thread that has just lost this role passes here too
            self.has_ended = True
        return 0

    def _handle_bundle(self, bundle: RequestBundle) -> int:
        bundles = self._bundles
        assert bundles is not None, "the channel makes bundles"
        try:
            if bundle.items is None:
                first, *others = bundles.sort(bundle.requests)
                # Not handled here: the disk of one partition must not delay the others, and a thread that takes over finds them.
                if others:
                    self._channel.put_back(others)
                bundle = first
            if bundle.key is None:
                (request,) = bundle.requests
                self._handle(request)
            else:
                bundles.handle_bundle(bundle)
        except Exception:  # noqa: BLE001 failed requests must not end the thread
            for request in bundle.requests:
                self._failed(request)
        except BaseException as error:  # noqa: BLE001 the thread may be a network thread, which does not end
            self._end(error)
        finally:
            for request in bundle.requests:
                if not request.is_kept:
                    release_frame(request)
        return len(bundle.requests)

    def _end(self, error: BaseException) -> None:
        self.has_ended = True
        self._fatal(f"Fatal error in {self.name}: {type(error).__name__}: {error}")

    def _failed(self, request: Request | None) -> None:
        if request is None:
            _log.failure("Error when going on with a request")
            return
        _log.failure("Error when handling a request from connection {id}", id=request.context.connection_id)
        if request.claim():
            self._channel.abandon(request)


def release_frame(request: Request) -> None:
    """Drop the frame of a request that has been handled; it is not kept while the request waits for its answer."""
    if request.context.is_frame_free:
        FRAME_BUFFERS.give_back(request.frame)
    request.frame = b""
    if request.memory_pool is not None:
        request.release_buffer()


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
        bundles: IRequestHandling | None = None,
    ) -> None:
        self._plane = plane
        self._bundles = bundles
        if bundles is not None:
            plane.request_channel.bundled = bundles.bundled
        self._channel = plane.request_channel
        self._handle = handle
        self._clock = clock
        self._fatal = fatal
        self._lock = machine.Lock()
        self._is_started = self._is_stopping = False
        self._size = 0
        self._handlers: list[tuple[KafkaRequestHandler, Parker]] = []
        self.resize(num_threads)
        name = f"{plane.metric_prefix}RequestHandlerAvgIdlePercent"
        metrics.gauge("KafkaRequestHandlerPool", name, IdleRatio(clock, self._channel.idle_ns, lambda: self._size))

    @property
    def size(self) -> int:
        """Number of handlers, without handlers that are about to end."""
        return self._size

    def start(self) -> None:
        """Start the threads. If the system refuses a thread, raises RuntimeError, and ``shutdown`` ends the others."""
        with self._lock:
            self._is_started = True
            for number, (handler, parker) in enumerate(self._handlers):
                try:
                    parker.start(handler)
                except RuntimeError:
                    for _, never_started in self._handlers[number:]:
                        self._channel.remove_handler(never_started)
                    del self._handlers[number:]
                    self._size = number
                    raise

    def resize(self, num_threads: int) -> None:
        """Change the number of handlers without losing a request; excess handlers end after the requests queued now.

        Raises ValueError if ``num_threads`` is less than one, RuntimeError if the system refuses another thread; the threads
        started before remain.
        """
        if num_threads < 1:
            raise ValueError(f"Invalid number of request handlers: {num_threads}")
        with self._lock:
            if self._is_stopping:
                return
            self._handlers = [(handler, parker) for handler, parker in self._handlers if handler.is_running]
            if self._size and self._size != num_threads:
                _log.info("Resizing request handler thread pool from {old} to {new}", old=self._size, new=num_threads)
            for _ in range(num_threads - self._size):
                self._add()
                self._size += 1
            for _ in range(self._size - num_threads):
                self._channel.send_shutdown_request()
            self._size = num_threads

    def redirect(self, handling: IRequestHandling) -> None:
        """Let all handlers call this object, which handles the same APIs together, from their next request on."""
        with self._lock:
            self._handle, self._bundles = handling.handle, handling
            for handler, _ in self._handlers:
                handler.redirect(self._handle, self._bundles)

    def _add(self) -> None:
        names = {handler.name for handler, _ in self._handlers}
        # Handlers that are about to end still have their names, so the first unused number is not always the next one.
        name = next(
            name for number in range(len(names) + 1) if (name := f"{self._plane.name}-kafka-request-handler-{number}") not in names
        )
        handler = KafkaRequestHandler(self._channel, self._handle, name, self._fatal, self._bundles)
        parker = self._channel.add_handler()
        if self._is_started:
            try:
                parker.start(handler)
            except RuntimeError:
                self._channel.remove_handler(parker)  # otherwise it counts as awake, and no handler is woken for requests
                raise
        self._handlers.append((handler, parker))

    def shutdown(self, timeout_s: float = 10.0) -> None:
        """Handle the queued requests, then end the threads; wait up to ``timeout_s`` seconds for them."""
        with self._lock:
            was_stopping, self._is_stopping = self._is_stopping, True
            handlers = [handler for handler, _ in self._handlers] if self._is_started else []
        if not was_stopping:
            for _ in range(self._size):
                self._channel.send_shutdown_request()
        deadline_ns = self._clock.steady_ns() + int(timeout_s * 1e9)
        for handler in handlers:
            if not handler.wait(max(0.0, (deadline_ns - self._clock.steady_ns()) / 1e9)):
                _log.warn("{name} is still running after {seconds} s", name=handler.name, seconds=timeout_s)
