"""Following the notifications that brokers write below a node for each other (Kafka: ZkNodeChangeNotificationListener)."""

from collections.abc import Callable, Sequence
from typing import Final

from twisted.logger import Logger

from twisted_kafka.metadata.store import (
    Delete,
    IMetadataStore,
    InvalidPathError,
    IWatch,
    NoNodeError,
    SessionState,
    StoreClosedError,
    StoreDisconnectedError,
    StoreError,
    children_of,
)
from twisted_kafka.timing.clock import IClock

_log = Logger()

CHANGE_EXPIRATION_MS: Final = 15 * 60 * 1000
"""How long notifications are kept for brokers that were disconnected meanwhile."""

PURGED_AT_ONCE: Final = 500
"""How many expired notifications are deleted when others have come."""


class ChangeNotifications:
    """The notifications below one node: each new one is passed on, in order, and expired ones are deleted.

    One whose receiver fails with StoreDisconnectedError is passed on again once there is a connection.
    """

    def __init__(
        self,
        store: IMetadataStore,
        clock: IClock,
        path: str,
        received: Callable[[bytes], None],
        submit: Callable[[Callable[[], None]], object],
    ) -> None:
        """``received`` gets a notification's data. ``submit`` is called on the watch thread and runs its argument, now or later."""
        self._store = store
        self._clock = clock
        self._path = path
        self._received = received
        self._submit = submit
        self._last: str | None = None
        self._watch: IWatch | None = None
        self._is_queued = False

    def startup(self) -> None:
        """Follow the notifications from now on. Read the data that they are about after this."""
        names = children_of(self._store, self._path)
        self._last = names[-1] if names else None
        while self._purge(names):
            names = names[PURGED_AT_ONCE:]
        self._watch = self._store.watch(self._path, lambda _: self._changed())
        self._store.add_session_listener(self._session_changed)
        self._changed()  # for what came before the watch

    def shutdown(self) -> None:
        """Stop following; queued notifications are still passed on."""
        if self._watch is not None:
            self._watch.cancel()

    def _session_changed(self, state: SessionState) -> None:
        # What could not be read without a connection can be now.
        if state is SessionState.CONNECTED:
            self._changed()

    def _changed(self) -> None:
        # An action that is queued will see this change too, so one is enough.
        if not self._is_queued:
            self._is_queued = True
            self._submit(self.pass_on)

    def pass_on(self) -> None:
        """Pass on the notifications that have come."""
        self._is_queued = False
        # The names end in an increasing number of ten digits: all names after the last one seen are new.
        last = self._last
        try:
            names = self._store.children(self._path)
            new = [name for name in names if last is None or name > last]
            if not new:
                return
            for name, node in zip(new, self._store.get_many([f"{self._path}/{name}" for name in new]), strict=True):
                if node is not None:
                    self._pass_on_one(name, node[0])
                self._last = name
            self._purge(names)
        except StoreClosedError:
            return
        except StoreDisconnectedError as error:
            _log.warn(
                "Cannot read the changes below {path} until the metadata store answers: {error}", path=self._path, error=error
            )

    def _pass_on_one(self, name: str, data: bytes) -> None:
        """Pass on a notification. One that cannot be handled is skipped: it would keep all later ones from being passed on."""
        try:
            self._received(data)
        except Exception as error:
            if isinstance(error, StoreError) and not isinstance(error, InvalidPathError):
                raise  # the store may answer another time
            _log.failure("Skipping the notification {path}/{name}", path=self._path, name=name)

    def _purge(self, names: Sequence[str]) -> bool:
        """Delete the first notifications if they are expired; return whether there may be more.

        ``names`` are in chronological order. There may be very many, and the watch thread has other work.
        """
        now_ms = self._clock.wall_ms()
        paths = [f"{self._path}/{name}" for name in names[:PURGED_AT_ONCE]]
        found = self._store.get_many(paths) if paths else []
        expired = [
            path
            for path, node in zip(paths, found, strict=True)
            if node is not None and now_ms - node[1].ctime_ms > CHANGE_EXPIRATION_MS
        ]
        for path, outcome in zip(expired, self._store.batch([[Delete(path)] for path in expired]) if expired else (), strict=True):
            if isinstance(outcome, StoreError) and not isinstance(outcome, NoNodeError):  # another broker has deleted it
                _log.warn("The notification {path} cannot be deleted: {error}", path=path, error=outcome)
        return len(names) > len(paths) and len(expired) == len(paths)
