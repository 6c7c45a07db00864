"""Producer ids, unique in the cluster: each broker allocates them in blocks from the metadata store.

``/latest_producer_id_block`` holds the block allocated last, in Kafka's format, so Apache Kafka's brokers and this one can share
it: these ask the controller for a block since 3.0 (KIP-730). The unused rest of a broker's block is lost when it stops.
"""

from typing import Final

from twisted.logger import Logger

from twisted_kafka.metadata.store import BadVersionError, IMetadataStore, NodeExistsError, NoNodeError, StoreDisconnectedError
from twisted_kafka.metadata.znodes import ProducerIdBlockNode
from twisted_kafka.protocol.errors import CoordinatorLoadInProgressError, UnknownServerError
from twisted_kafka.system import machine

_log = Logger()

BLOCK_PATH: Final = "/latest_producer_id_block"
BLOCK_SIZE: Final = 1000
MAX_PRODUCER_ID: Final = 2**63 - 1
MAX_ATTEMPTS: Final = 100
"""Lost races for a block before a request fails; every lost race means that another broker made progress."""
WAIT_S: Final = 1.0
"""How long a request waits while another one takes a block. The store may be silent for a session's time, and handlers are few."""


class ProducerIdBlocks:
    """Takes blocks of ids from the metadata store, one write each (Kafka: ZkProducerIdManager.getNewProducerIdBlock)."""

    def __init__(self, store: IMetadataStore) -> None:
        self._store = store

    def take(self, broker_id: int) -> int:
        """Return the first of ``BLOCK_SIZE`` ids, which are the broker's.

        Raises UnknownServerError if all ids are used up, CoordinatorLoadInProgressError (retriable) after ``MAX_ATTEMPTS`` lost
        races.
        """
        for _ in range(MAX_ATTEMPTS):
            found = self._store.get(BLOCK_PATH)
            # Brokers create the node when they first start; it is empty until the first id is needed.
            first = ProducerIdBlockNode.decode(found[0]).last + 1 if found is not None and found[0] else 0
            last = first + BLOCK_SIZE - 1
            if last > MAX_PRODUCER_ID:
                raise UnknownServerError("Exhausted all producer ids: the next block would end above the largest int64.")
            data = ProducerIdBlockNode(broker_id=broker_id, first=first, last=last).encode()
            try:
                if found is None:
                    self._store.create(BLOCK_PATH, data)
                else:
                    self._store.set(BLOCK_PATH, data, found[1].version)
            except (BadVersionError, NodeExistsError, NoNodeError):
                continue
            _log.info("Broker {id} has the producer ids {first} to {last}", id=broker_id, first=first, last=last)
            return first
        raise CoordinatorLoadInProgressError(f"Lost {MAX_ATTEMPTS} races for a block of producer ids to other brokers.")


class ProducerIdManager:
    """Allocates producer ids, with one write to the store per block."""

    def __init__(self, broker_id: int, store: IMetadataStore) -> None:
        self._broker_id = broker_id
        self._blocks = ProducerIdBlocks(store)
        self._lock = machine.Lock()
        self._next = 0
        self._end = 0

    def next_producer_id(self) -> int:
        """Return an id that was never given to any producer of the cluster; raises the errors of ``ProducerIdBlocks.take``.

        While the store does not answer, only one caller waits for it. It and the others get CoordinatorLoadInProgressError, after
        which all clients try again, as from Kafka's RPCProducerIdManager: many give up after REQUEST_TIMED_OUT.
        """
        if not self._lock.acquire(timeout=WAIT_S):
            raise CoordinatorLoadInProgressError("Another request still waits for a block of producer ids.")
        try:
            if self._next >= self._end:
                self._next = self._taken()
                self._end = self._next + BLOCK_SIZE
            producer_id = self._next
            self._next += 1
            return producer_id
        finally:
            self._lock.release()

    def _taken(self) -> int:
        try:
            return self._blocks.take(self._broker_id)
        except StoreDisconnectedError as error:
            raise CoordinatorLoadInProgressError(f"There is no block of producer ids yet: {error}") from error
