"""A NetworkClient for threads that block: it runs on a reactor and thread of its own and returns futures."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from twisted.python.failure import Failure

from twisted_kafka.client.client_settings import Node
from twisted_kafka.client.errors import ClientClosedError
from twisted_kafka.client.network_client import NetworkClient
from twisted_kafka.client.outgoing_request import IOutgoingRequest
from twisted_kafka.network.loop.reactors import close_reactor, make_reactor
from twisted_kafka.system import machine
from twisted_kafka.system.threads import make_thread
from twisted_kafka.timing.clock import IClock

STOP_S: Final = 5.0
"""How long ``stop`` waits for the thread."""

_log = Logger()


class BlockingNetworkClient:
    """Any thread may send. Responses are decoded on the client's thread."""

    def __init__(self, name: str, make_client: Callable[[Any], NetworkClient], clock: IClock) -> None:
        """``make_client`` makes the client on a reactor, and may raise; ``name`` is the thread's name."""
        self._reactor: ReactorBase = make_reactor(clock)
        try:
            self._client = make_client(self._reactor)
        except Exception:
            close_reactor(self._reactor)
            raise
        self._lock = machine.Lock()
        self._is_running = False
        self._thread = make_thread(self._run, name)

    @property
    def is_running(self) -> bool:
        """Whether the client was started, was not stopped, and its thread has not ended with an error."""
        return self._is_running

    def start(self) -> None:
        """Start the thread. Raises RuntimeError if the system has no thread to give."""
        with self._lock:  # the thread needs it to end
            try:
                self._thread.start()
            except RuntimeError:
                close_reactor(self._reactor)
                raise
            self._is_running = True

    def send(
        self, node: Node, request: IOutgoingRequest, *, latest_version: int | None = None, timeout_ms: int | None = None
    ) -> "Future[Any]":
        """Send like ``NetworkClient.send``; return a future, which is done within the timeout and can be cancelled.

        Cancelling does not stop a request that was sent already.
        """
        future: Future[Any] = Future()

        def send() -> None:
            try:
                deferred = self._client.send(node, request, latest_version=latest_version, timeout_ms=timeout_ms)
            except Exception as error:  # noqa: BLE001 whatever it is: nobody else completes the future
                deferred = fail(error)
            self._connect(deferred, future)

        self._call(send, future)
        return future

    def run(self, action: Callable[[], object]) -> None:
        """Call ``action`` on the client's thread, which does nothing else until it returns.

        Does nothing if that thread has ended.
        """
        self._call(action, None)

    def disconnect(self, node_id: int) -> None:
        """Close the connection to a node and fail its requests."""
        self._call(lambda: self._client.disconnect(node_id), None)

    def stop(self) -> None:
        """Fail all requests, close all connections and end the thread."""
        with self._lock:
            was_running, self._is_running = self._is_running, False
        if not was_running:
            return
        self._reactor.callFromThread(self._client.close)
        self._reactor.callFromThread(self._reactor.stop)
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            _log.warn("The thread {name} did not end within {seconds} s", name=self._thread.name, seconds=STOP_S)
        else:
            close_reactor(self._reactor)

    def _run(self) -> None:
        try:
            self._reactor.run(installSignalHandlers=False)
        finally:
            with self._lock:
                was_stopped, self._is_running = not self._is_running, False
            self._client.close()
            self._reactor.runUntilCurrent()  # fails actions handed over meanwhile, so that no future waits for ever
            if not was_stopped:
                close_reactor(self._reactor)

    def _call(self, action: Callable[[], object], future: "Future[Any] | None") -> None:
        with self._lock:  # nothing may be handed to a reactor that has ended
            if self._is_running:
                self._reactor.callFromThread(action)
                return
        if future is not None:
            future.set_exception(ClientClosedError("the client is not running"))

    def _connect(self, deferred: "Deferred[Any]", future: "Future[Any]") -> None:
        def answered(response: Any) -> None:
            if future.set_running_or_notify_cancel():
                future.set_result(response)

        def failed(failure: Failure) -> None:
            if future.set_running_or_notify_cancel():
                future.set_exception(failure.value)

        deferred.addCallbacks(answered, failed)
        deferred.addErrback(lambda failure: _log.failure("A response could not be passed on", failure))
        future.add_done_callback(lambda _: self._cancel(deferred, future))

    def _cancel(self, deferred: "Deferred[Any]", future: "Future[Any]") -> None:
        if future.cancelled():
            self._call(deferred.cancel, None)
