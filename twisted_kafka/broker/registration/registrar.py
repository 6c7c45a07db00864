"""The broker's registration in the metadata store. It ends with its session, so each new session repeats it."""

from collections.abc import Callable
from typing import Final

from twisted.logger import Logger

from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.registration import BrokerIdTakenError, OtherBrokersError, refuse_others, register_broker
from twisted_kafka.metadata.store import IMetadataStore, SessionState
from twisted_kafka.metadata.znodes import BrokerNode
from twisted_kafka.system import machine

_log = Logger()

MARGIN_MS: Final = 2_000
"""How much later than its timeout ZooKeeper may expire a session."""


class BrokerRegistrar:
    """Registers one broker in each session of its store (Kafka: ``KafkaController.RegisterBrokerAndReelect``)."""

    def __init__(
        self,
        store: IMetadataStore,
        broker_id: int,
        make_node: Callable[[], BrokerNode],
        session_timeout_ms: int,
        *,
        is_alone: bool,
    ) -> None:
        """``make_node`` returns the current contents of the registration.

        With ``is_alone``, registering fails if there are other brokers.
        """
        self._is_alone = is_alone
        self.epoch = -1
        """The broker epoch: the id of the transaction that made the registration."""
        self._store = store
        self._broker_id = broker_id
        self._make_node = make_node
        self._session_timeout_ms = session_timeout_ms
        self._lock = machine.Lock()
        self._session_id = 0
        self._former_sessions: set[int] = set()
        self._renewed: Callable[[int], object] | None = None

    def set_renewal_listener(self, listener: Callable[[int], object]) -> None:
        """Call ``listener`` with the new broker epoch after each registration in a new session but the first."""
        self._renewed = listener

    def start(self) -> None:
        """Register the broker. Raises BrokerIdTakenError if another broker has its id, OtherBrokersError if there are others.

        If this broker was killed, its former session may still be registered: then it waits for the session's timeout.
        """
        try:
            self.register()
        except BrokerIdTakenError:
            gone = machine.Event()
            watch = self._store.watch(znodes.broker_path(self._broker_id), lambda _: gone.set())
            try:
                if self._store.exists(znodes.broker_path(self._broker_id)) is not None:
                    timeout_ms = self._session_timeout_ms + MARGIN_MS
                    _log.warn(
                        "Broker {id} is registered by another session; waiting up to {ms} ms for it to expire",
                        id=self._broker_id,
                        ms=timeout_ms,
                    )
                    gone.wait(timeout_ms / 1000)
            finally:
                watch.cancel()
            self.register()

    def register(self) -> None:
        """Make the registration, or replace its contents."""
        with self._lock:
            session_id = self._store.session_id
            if self._is_alone:
                refuse_others(self._store, self._broker_id)
            self.epoch = register_broker(self._store, self._broker_id, self._make_node(), self._former_sessions)
            if self._is_alone:
                self._give_way()
            self._session_id = session_id
            self._former_sessions.add(session_id)

    def _give_way(self) -> None:
        """Of two that start at the same time, the second one gives up."""
        try:
            refuse_others(self._store, self._broker_id, self.epoch)
        except OtherBrokersError:
            self._store.delete(znodes.broker_path(self._broker_id))
            raise

    def follow(self, controller: KafkaController, on_fatal: Callable[[str], object]) -> None:
        """Register in each new session, then have the controller take part in the election.

        ``on_fatal`` hears, with one line, when the broker cannot be registered any more.
        """

        def register_again() -> None:
            if self._store.session_id == self._session_id:
                return
            try:
                self.register()
            except (BrokerIdTakenError, OtherBrokersError) as error:
                on_fatal(f"Shutdown broker because it could not be registered in a new ZooKeeper session: {error}")
                raise
            _log.info("Broker {id} is registered again, with epoch {epoch}", id=self._broker_id, epoch=self.epoch)
            if self._renewed is not None:
                self._renewed(self.epoch)

        def changed(state: SessionState) -> None:
            if state is SessionState.EXPIRED:
                controller.session_expired()
            elif state is SessionState.CONNECTED:
                controller.reconnected(register_again)

        self._store.add_session_listener(changed)
        if self._store.session_id != self._session_id:
            controller.reconnected(register_again)
