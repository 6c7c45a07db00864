"""The sessions of one store with ZooKeeper: connected, suspended, expired and replaced.

Each session has a kazoo client of its own. Once kazoo reports the end of a session, nothing more is sent through its client: this
is decided under one lock, on kazoo's thread, before kazoo can connect again. So a request is either sent in the session for
which it was meant, or not at all.
"""

import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kazoo import exceptions as kazoo
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionLoss, KazooException, NodeExistsError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import Callback, KazooState, KeeperState
from twisted.logger import Logger

from twisted_kafka.metadata.store import (
    SessionExpiredError,
    SessionState,
    StoreClosedError,
    StoreDisconnectedError,
    StoreError,
    StoreUnavailableError,
)
from twisted_kafka.metadata.worker import SerialWorker
from twisted_kafka.metadata.zookeeper.acls import acls_of
from twisted_kafka.metadata.zookeeper.connection import last_error, make_client
from twisted_kafka.metadata.zookeeper.settings import ZooKeeperSettings
from twisted_kafka.timing.clock import IClock

_log = Logger()

RENEWAL_PAUSE_S: Final = 1.0
"""The pause between two attempts to open a new session (Kafka: ``ZooKeeperClient.scheduleReinitialize``)."""
CLOSE_TIMEOUT_S: Final = 30.0
_SLOT_PAUSE_S: Final = 1.0
_FIRST_PAUSE_S: Final = 0.1
"""The pause until the first session is opened again, if it has expired at once."""

_OVER: Final = (SessionState.EXPIRED, SessionState.CLOSED)

AsyncResult = Any
"""``kazoo_handler.Result``; kazoo has no types."""
Request = Callable[[KazooClient], AsyncResult]


class Slots:
    """Places for unanswered requests (``zookeeper.max.in.flight.requests``): a semaphore that wakes threads when half are free.

    Otherwise a thread that sends many requests would be woken for each answer, to send one request.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._enough = max(1, most // 2)
        self._condition = threading.Condition(threading.Lock())

    def acquire(self, timeout_s: float) -> bool:
        """Take a place; return False if none becomes free within ``timeout_s``."""
        with self._condition:
            if not self._free and not self._condition.wait_for(lambda: self._free >= self._enough, timeout_s) and not self._free:
                return False
            self._free -= 1
            return True

    def release(self) -> None:
        """Give a place back."""
        with self._condition:
            self._free += 1
            if self._free >= self._enough:
                self._condition.notify()


class Sent(NamedTuple):
    """A request that was sent."""

    result: AsyncResult
    session: int
    """The number of the session, from 1."""
    zxid: int
    """The last transaction that was known before."""


class Session:
    """The current session, which is replaced when it expires."""

    def __init__(
        self, settings: ZooKeeperSettings, clock: IClock, changed: Callable[[SessionState], None], expired: Callable[[], None]
    ) -> None:
        """``changed`` hears CONNECTED after each interruption, and SUSPENDED. ``expired`` hears that the session has expired.

        A new session begins when ``expired`` has returned. Both are called on the session thread.
        """
        self._settings = settings
        self._clock = clock
        self._notify = changed
        self._notify_expired = expired
        self._condition = threading.Condition()
        self._state = SessionState.SUSPENDED
        self._number = 1
        self._is_open = False
        self._id = 0
        self._client: KazooClient | None = None
        self._slots = Slots(settings.max_in_flight)
        self._worker = SerialWorker("zookeeper-session-thread")

    @property
    def id(self) -> int:
        """ZooKeeper's id of the session."""
        return self._id

    @property
    def id_text(self) -> str:
        """The id as ZooKeeper writes it."""
        return f"0x{self._id & (1 << 64) - 1:x}"

    def start(self) -> None:
        """Open the first session and create the chroot if it is missing; raises StoreUnavailableError."""
        try:
            if self._settings.chroot:
                self._make_chroot()
            self._open_first()
        except StoreUnavailableError:
            self.close()
            raise

    def _open_first(self) -> None:
        """Open the first session. One that ends before it is open, as ZooKeeper restarts, is replaced while there is time."""
        deadline_ns = self.deadline_ns()
        while True:
            try:
                return self._open()
            except SessionExpiredError:
                if not self.remaining_s(deadline_ns):
                    raise
                with self._condition:
                    self._condition.wait_for(lambda: self._state is SessionState.CLOSED, _FIRST_PAUSE_S)

    def close(self) -> None:
        """End the session. Waiting threads get StoreClosedError."""
        with self._condition:
            self._state = SessionState.CLOSED
            client, self._client = self._client, None
            self._condition.notify_all()
        if client is not None:
            self._retire(client)
        self._worker.close(CLOSE_TIMEOUT_S)

    # Requests

    def deadline_ns(self) -> int:
        """Return until when a call that begins now waits."""
        return self._clock.monotonic_ns() + self._settings.connection_timeout_ms * 1_000_000

    def remaining_s(self, deadline_ns: int) -> float:
        """Return the seconds until the deadline, at least 0."""
        return max(0, deadline_ns - self._clock.monotonic_ns()) / 1e9

    def send(self, request: Request, deadline_ns: int, session: int | None = None) -> Sent:
        """Send a request once there is a connection. Raises StoreClosedError, StoreDisconnectedError and SessionExpiredError.

        With ``session``, a session's number, the request is sent in no other.
        """
        while True:
            number = self._await_connection(deadline_ns, session)
            slots = self._slots
            if not slots.acquire(self.remaining_s(deadline_ns)):
                raise self._timed_out()
            sent = self._send_now(request, number, slots)
            if sent is not None:
                return sent
            session = number

    def send_if_connected(self, request: Request) -> Sent | None:
        """Send a request if there is a connection."""
        number, slots = self._number, self._slots
        while not slots.acquire(_SLOT_PAUSE_S):
            if self._state is not SessionState.CONNECTED or number != self._number:
                return None
        return self._send_now(request, number, slots)

    def _send_now(self, request: Request, number: int, slots: Slots) -> Sent | None:
        with self._condition:
            client = self._client
            if client is None or self._state is not SessionState.CONNECTED or number != self._number:
                slots.release()
                return None
            zxid: int = client.last_zxid
            result = request(client)
        result.when_done(slots.release)
        return Sent(result, number, zxid)

    def _await_connection(self, deadline_ns: int, session: int | None) -> int:
        """Wait until there is a connection; return the session's number."""
        with self._condition:
            wanted = self._number if session is None else session
            while True:
                if self._state is SessionState.CLOSED:
                    raise StoreClosedError("the connection to ZooKeeper is closed")
                if self._state is SessionState.EXPIRED or self._number != wanted:
                    raise SessionExpiredError("the ZooKeeper session has expired")
                if self._state is SessionState.CONNECTED:
                    return wanted
                if not self._condition.wait(self.remaining_s(deadline_ns)) and not self.remaining_s(deadline_ns):
                    raise self._timed_out()

    def _timed_out(self) -> StoreDisconnectedError:
        return StoreDisconnectedError(
            f"no answer from ZooKeeper at {self._settings.hosts} within {self._settings.connection_timeout_ms} ms"
        )

    def flush_events(self, timeout_s: float) -> None:
        """Wait until kazoo has delivered the events that it has received so far."""
        client = self._client
        if client is not None and self._state is SessionState.CONNECTED:
            delivered = threading.Event()
            client.handler.dispatch_callback(Callback("watch", delivered.set, ()))
            delivered.wait(timeout_s)

    # Sessions

    def _open(self) -> None:
        """Open a session; raises StoreUnavailableError and StoreClosedError."""
        client = make_client(self._settings, lambda state: self._client_changed(client, state), self._clock.steady_ns)
        with self._condition:
            if self._state is SessionState.CLOSED:
                raise StoreClosedError("the connection to ZooKeeper is closed")
            self._state = SessionState.SUSPENDED
            self._client = client
            self._slots = Slots(self._settings.max_in_flight)
        try:
            client.start_async()
            self._await_first(client)
        except StoreError:
            with self._condition:
                if self._client is client:
                    self._client = None
                if self._state is not SessionState.CLOSED:
                    self._state = SessionState.SUSPENDED
            self._retire(client)
            raise

    def _await_first(self, client: KazooClient) -> None:
        """Wait for the first answer. Only then has the server accepted the credentials, and the session is open."""
        try:
            self._ask(lambda client: client.exists_async("/"))
            with self._condition:
                if self._state is SessionState.EXPIRED:
                    raise SessionExpiredError("the ZooKeeper session has expired")
                self._is_open = True
        except SessionExpiredError:
            raise
        except kazoo.SessionExpiredError as error:
            raise SessionExpiredError("the ZooKeeper session has expired") from error
        except (KazooException, KazooTimeoutError, StoreDisconnectedError) as error:
            if isinstance(error, AuthFailedError) or client.client_state == KeeperState.AUTH_FAILED:
                why = "it rejects the credentials"
            else:
                why = last_error(client) or type(error).__name__
            raise StoreUnavailableError(
                f"cannot connect to ZooKeeper at {self._settings.hosts} within {self._settings.connection_timeout_ms} ms: {why}; "
                "start it, or remove zookeeper.connect: the broker keeps its metadata itself then"
            ) from error

    def _ask(self, request: Request) -> Any:
        """Return the answer to a request, which is sent again if it is lost with a connection. Raises kazoo's errors."""
        deadline_ns = self.deadline_ns()
        while True:
            sent = self.send(request, deadline_ns)
            try:
                return sent.result.get(timeout=self.remaining_s(deadline_ns))
            except ConnectionLoss:
                if not self.remaining_s(deadline_ns):
                    raise

    def _client_changed(self, client: KazooClient, state: str) -> None:
        """Take note of a change; called on kazoo's thread."""
        with self._condition:
            current = self._client
            if current is None or client is not current or self._state in _OVER:
                return
            if state == KazooState.CONNECTED:
                self._state = SessionState.CONNECTED
                self._id = current.client_id[0]
                self._worker.submit(lambda: self._notify(SessionState.CONNECTED))
            elif state == KazooState.SUSPENDED:
                self._state = SessionState.SUSPENDED
                self._worker.submit(lambda: self._notify(SessionState.SUSPENDED))
            else:
                self._state = SessionState.EXPIRED
                self._number += 1
                if self._is_open:
                    self._is_open = False
                    self._worker.submit(self._renew)
            self._condition.notify_all()

    def _renew(self) -> None:
        """Replace the session; runs on the session thread."""
        _log.warn("The ZooKeeper session {id} has expired; opening a new one", id=self.id_text)
        self._notify_expired()
        with self._condition:
            client, self._client = self._client, None
        if client is not None:
            self._retire(client)
        while True:
            try:
                self._open()
            except StoreClosedError:
                return
            except StoreUnavailableError as error:
                _log.error("No new ZooKeeper session yet, trying again: {error}", error=error)
                with self._condition:
                    self._condition.wait_for(lambda: self._state is SessionState.CLOSED, RENEWAL_PAUSE_S)
            else:
                _log.info("The new ZooKeeper session is {id}", id=self.id_text)
                return

    def _make_chroot(self) -> None:
        """Create the nodes of the chroot (Kafka: ``createZkClient``); raises StoreUnavailableError."""
        root = Session(self._settings.at_root(), self._clock, lambda _: None, lambda: None)
        root.start()
        try:
            path = ""
            for part in self._settings.chroot[1:].split("/"):
                path = f"{path}/{part}"
                root.make_node(path, secure=self._settings.secure_acls)
        finally:
            root.close()

    def make_node(self, path: str, *, secure: bool) -> None:
        """Create a node without data unless it exists; raises StoreUnavailableError."""
        acls = acls_of(path, secure=secure)
        try:
            self._ask(lambda client: client.create_async(path, None, acl=acls))
        except NodeExistsError:
            return
        except (KazooException, KazooTimeoutError) as error:
            raise StoreUnavailableError(f"cannot create {path} in ZooKeeper: {type(error).__name__}") from error

    def _retire(self, client: KazooClient) -> None:
        """End a client's session and threads."""
        try:
            client.stop()
            client.close()
        except Exception:  # noqa: BLE001 - it is not used any more
            _log.failure("A ZooKeeper client did not stop cleanly")
