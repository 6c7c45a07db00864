"""Runs a ReplicaFetcher on the thread of a client of its own (Kafka: ``ReplicaFetcherThread``, named after it)."""

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from twisted.logger import Logger

from twisted_kafka.metadata.cache import Node
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.replication.fetching.leader_requests import Outgoing
from twisted_kafka.replication.fetching.replica_fetcher import Answer, Overtaken, Pause, ReplicaFetcher
from twisted_kafka.system import machine
from twisted_kafka.timing.scheduler import IScheduler, ScheduledTask
from twisted_kafka.timing.timer import Timer, TimerEntry

_log = Logger()


class UnknownLeaderError(Exception):
    """The leader is not among the brokers that are alive, as far as this one knows."""


class IFetcherClient(Protocol):
    """A client with a thread of its own (implemented by ``InterBrokerClient``)."""

    def send(
        self, node: Node, request: Message, latest_version: int | None = None, timeout_ms: int | None = None, line: int = 0
    ) -> "Future[Any]":
        """Return a future of the response, which is set on the client's thread. Each line is a connection of its own."""

    def run(self, action: Callable[[], object]) -> None:
        """Call ``action`` on the client's thread. Raises an exception if wrong settings of the listener prevent a client."""

    def refresh(self) -> None:
        """Use certificates that have changed."""

    def stop(self) -> None:
        """Fail all requests, and end the thread."""


class Leader(NamedTuple):
    """A leader to fetch from: its id, and a function that returns its address, None while it is unknown."""

    id: int
    node: Callable[[], Node | None]


_LINES: Final = 2
"""How many connections there are, so that a fetch can overtake one that waits."""


class ReplicaFetcherThread:
    """Sends what the fetcher asks for, and gives it the answers: all on the client's thread, so that nobody else has to wake up.

    A fetch that waits at the leader does not know of partitions that were added since. The next one is sent over another connection
    then: the leader answers the first one when its time is over, with no more than an error.
    """

    def __init__(
        self, leader: Leader, client: IFetcherClient, retries: Timer, scheduler: IScheduler, *, timeout_ms: int, retry_ms: int
    ) -> None:
        """``timeout_ms`` is ``replica.socket.timeout.ms``, ``retry_ms`` the pause after a failure of this thread.

        ``retries`` ends pauses. The scheduler is for a client that cannot be made, as that may read certificates.
        """
        self._retries = retries
        self._leader = leader
        self._client = client
        self._scheduler = scheduler
        self._timeout_ms = timeout_ms
        self._retry_ms: Final = retry_ms
        self._lock = machine.Lock()
        self._is_paused = True
        self._is_awaited = False
        """Whether the thread must continue without a pause, because there is new work."""
        self._task: ScheduledTask | TimerEntry | None = None
        self._is_stopped = False
        self._line = 0
        self._in_flight: Future[Any] | None = None
        self._overtaken: Future[Any] | None = None
        self.fetcher: ReplicaFetcher

    def run(self, fetcher: ReplicaFetcher) -> None:
        """Work for a fetcher as soon as it is woken."""
        self.fetcher = fetcher
        self._work = fetcher.work()
        self._is_begun = False

    def wake(self) -> None:
        """End a pause, or overtake a fetch that waits: there is something to do."""
        with self._lock:
            is_paused, self._is_paused = self._is_paused, False
            self._is_awaited = not is_paused
            task, self._task = self._task, None
        if task is not None:
            task.cancel()
        if is_paused:
            self._run(partial(self._advance, None))
        elif self._in_flight is not None:
            self._run(self._overtake)

    def refresh(self) -> None:
        """Use certificates that have changed."""
        self._client.refresh()

    def stop(self) -> None:
        """End the thread. Nothing is appended after the fetcher's partitions were removed."""
        with self._lock:
            self._is_stopped = True
            task, self._task = self._task, None
        if task is not None:
            task.cancel()
        self._client.stop()

    def _run(self, action: Callable[[], object]) -> None:
        """Do something on the client's thread."""
        if self._is_stopped:
            return
        try:
            self._client.run(action)
        except Exception as error:  # noqa: BLE001 whatever it is, it may be another time
            _log.error("Nothing is fetched from broker {id} for now: {error}", id=self._leader.id, error=error)
            with self._lock:
                self._is_paused = True
                self._task = self._scheduler.schedule_once("replica-fetcher-backoff", self.wake, self._retry_ms)

    def _advance(self, answer: Answer) -> None:
        """Work until there is something to wait for."""
        while not self._is_stopped:
            try:
                step = self._work.send(answer) if self._is_begun else next(self._work)
                self._is_begun = True
            except Exception:  # noqa: BLE001 the thread has to live on
                _log.failure("Fetching from broker {id} failed and starts again", id=self._leader.id)
                self.run(self.fetcher)
                step = Pause(self._retry_ms)
            if isinstance(step, Pause):
                if self._pause(step.ms):
                    return
                answer = None
                continue
            done = self._send(step)
            if not done.done():
                self._in_flight = done
                done.add_done_callback(self._answered)
                if self._is_awaited:  # something was added while the request was made
                    self._overtake()
                return
            answer = _outcome(done)

    def _answered(self, done: "Future[Any]") -> None:
        if done is self._overtaken:
            self._overtaken = None
            self.fetcher.answered_late(_outcome(done))
            self._overtake()  # for partitions added while this one waited
        elif done is self._in_flight:
            self._in_flight = None
            self._advance(_outcome(done))

    def _overtake(self) -> None:
        """Send a fetch beside the one that waits, if there are partitions that the waiting fetch does not have."""
        fetcher = self.fetcher
        if self._in_flight is None or self._overtaken is not None or not (fetcher.may_be_overtaken and fetcher.has_changes):
            return
        self._overtaken, self._in_flight = self._in_flight, None
        self._line = (self._line + 1) % _LINES
        self._advance(Overtaken.OVERTAKEN)

    def _send(self, request: Outgoing) -> "Future[Any]":
        error: Exception = UnknownLeaderError(f"broker {self._leader.id} is not known to be alive")
        try:
            node = self._leader.node()
            if node is not None:
                return self._client.send(node, request.message, request.latest_version, self._timeout_ms, self._line)
        except Exception as raised:  # noqa: BLE001 as if the request had failed: it is tried again
            error = raised
        failed: Future[Any] = Future()
        failed.set_exception(error)
        return failed

    def _pause(self, ms: int | None) -> bool:
        """Wait; return False if there is work already."""
        with self._lock:
            if self._is_awaited:
                self._is_awaited = False
                return False
            self._is_paused = True
            if ms is not None and not self._is_stopped:
                self._task = self._retries.add(ms, self.wake)
            return True


def _outcome(done: "Future[Any]") -> Answer:
    failure = done.exception()
    if failure is None:
        response: Message = done.result()
        return response
    return failure if isinstance(failure, Exception) else RuntimeError(str(failure))
