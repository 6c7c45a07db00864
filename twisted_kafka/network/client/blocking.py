"""A NetworkClient for threads that block: on a reactor and a thread of its own, with futures for answers."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from twisted_kafka.network.client.client_settings import Node
from twisted_kafka.network.client.errors import ClientClosedError
from twisted_kafka.network.client.network_client import NetworkClient
from twisted_kafka.network.loop.reactors import close_reactor, make_reactor
from twisted_kafka.protocol.codec import Message
from twisted_kafka.timing.clock import IClock

STOP_S: Final = 5.0
"""The thread has so long to end."""

_log = Logger()


class BlockingNetworkClient:
    """Any thread may send; the answers are decoded on the client's thread."""

    def __init__(self, name: str, make_client: Callable[[Any], NetworkClient], clock: IClock) -> None:
        """``make_client`` makes the client for a reactor, ``name`` is the thread's."""
        self._reactor: ReactorBase = make_reactor(clock)
        self._client = make_client(self._reactor)
        self._lock = threading.Lock()
        self._is_running = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        with self._lock:
            self._is_running = True
        self._thread.start()

    def send(
        self, node: Node, request: Message, *, latest_version: int | None = None, timeout_ms: int | None = None
    ) -> "Future[Any]":
        """Send as ``NetworkClient.send`` does; return a future, which ends in that time, and may be cancelled.

        A future that was cancelled is not answered; a request that was sent already is carried out all the same.
        """
        future: Future[Any] = Future()

        def send() -> None:
            deferred = self._client.send(node, request, latest_version=latest_version, timeout_ms=timeout_ms)
            self._connect(deferred, future)

        self._call(send, future)
        return future

    def disconnect(self, node_id: int) -> None:
        """Close the connection to a node, failing what waits for it."""
        self._call(lambda: self._client.disconnect(node_id), None)

    def stop(self) -> None:
        """Fail what is under way, close all connections and end the thread."""
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
        except Exception:  # noqa: BLE001 it is the thread's end: say so
            _log.failure("The thread {name} ended with an error", name=self._thread.name)
        finally:
            with self._lock:
                self._is_running = False
            self._client.close()
            self._reactor.runUntilCurrent()  # what was handed over meanwhile fails too: nobody waits for ever

    def _call(self, action: Callable[[], object], future: "Future[Any] | None") -> None:
        with self._lock:  # so that nothing is handed to a reactor that runs no more
            if self._is_running:
                self._reactor.callFromThread(action)
                return
        if future is not None:
            future.set_exception(ClientClosedError("the client does not run"))

    def _connect(self, deferred: "Deferred[Any]", future: "Future[Any]") -> None:
        def answered(response: Any) -> None:
            if future.set_running_or_notify_cancel():
                future.set_result(response)

        def failed(failure: Failure) -> None:
            if future.set_running_or_notify_cancel():
                future.set_exception(failure.value)

        deferred.addCallbacks(answered, failed)
        deferred.addErrback(lambda failure: _log.failure("An answer could not be handed over", failure))
        future.add_done_callback(lambda _: self._cancel(deferred, future))

    def _cancel(self, deferred: "Deferred[Any]", future: "Future[Any]") -> None:
        if future.cancelled():
            self._call(deferred.cancel, None)
