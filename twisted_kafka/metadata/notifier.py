"""Notifies other brokers of lasting conditions, such as a failed log directory, through the metadata store.

A notification is repeated, after increasing pauses, until it is delivered. The timer
only wakes the thread that waits for the store.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from twisted.logger import Logger

from twisted_kafka.metadata.store import StoreClosedError
from twisted_kafka.metadata.worker import SerialWorker
from twisted_kafka.system import machine
from twisted_kafka.timing.timer import Timer

_log = Logger()

FIRST_BACKOFF_MS: Final = 100
MAX_BACKOFF_MS: Final = 5_000
"""The pauses between attempts: each is twice as long as the one before, up to this."""

_CLOSE_TIMEOUT_S: Final = 1.0
"""How long a stop waits for a notification that is under way; the store, which is closed next, ends it."""


class _Notification:
    """A notification that is not delivered yet."""

    __slots__ = ("deliver", "failures", "what")

    def __init__(self, what: str, deliver: Callable[[], object]) -> None:
        self.what = what
        self.deliver = deliver
        self.failures = 0


class Notifier:
    """Delivers notifications on a thread of its own, which there is from the first one on."""

    def __init__(self, timer: Timer, *, threaded: bool = True) -> None:
        """With ``threaded=False``, for tests, they are delivered in ``pump()``."""
        self._timer = timer
        self._threaded = threaded
        self._lock = machine.Lock()
        self._worker: SerialWorker | None = None
        self._waiting: dict[str, _Notification] = {}
        self._is_closed = False

    def notify(self, what: str, deliver: Callable[[], object]) -> None:
        """Call ``deliver`` until it raises nothing. It takes the place of a notification of the same that is not delivered yet."""
        notification = _Notification(what, deliver)
        with self._lock:
            if self._is_closed:
                return
            self._waiting[what] = notification
            if self._worker is None:
                self._worker = SerialWorker("notification-thread", threaded=self._threaded)
        self._submit(notification)

    def pump(self) -> int:
        """Try to deliver due notifications; return the number of attempts. Only with ``threaded=False``."""
        return 0 if self._worker is None else self._worker.pump()

    def close(self) -> None:
        """Deliver nothing any more: the broker stops, and its notifications are no longer of use."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()
            worker = self._worker
        if worker is not None:
            worker.close(_CLOSE_TIMEOUT_S)

    def _submit(self, notification: _Notification) -> None:
        assert self._worker is not None, "made for the first notification"
        self._worker.submit(partial(self._try, notification))

    def _try(self, notification: _Notification) -> None:
        if self._waiting.get(notification.what) is not notification:
            return
        try:
            notification.deliver()
        except StoreClosedError:  # this broker stops
            return
        except Exception as error:  # noqa: BLE001 whatever it is, it may be over the next time
            backoff_ms = min(FIRST_BACKOFF_MS << min(notification.failures, 16), MAX_BACKOFF_MS)
            notification.failures += 1
            _log.warn(
                "{what}: the controller could not be notified, trying again in {ms} ms: {error}",
                what=notification.what,
                ms=backoff_ms,
                error=error,
            )
            self._timer.add(backoff_ms, partial(self._submit, notification))
            return
        with self._lock:
            if self._waiting.get(notification.what) is notification:
                del self._waiting[notification.what]
