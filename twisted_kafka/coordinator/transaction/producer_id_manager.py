"""Ids for producers, unique in the cluster: each broker takes them from the metadata store in blocks.

The block that was taken last stands in ``/latest_producer_id_block``, in Kafka's layout, so brokers of both kinds can
take turns. A broker that stops wastes the rest of its block.
"""

import threading
from typing import Final

from twisted.logger import Logger

from twisted_kafka.metadata.store import BadVersionError, IMetadataStore, NodeExistsError, NoNodeError
from twisted_kafka.metadata.znodes import ProducerIdBlockNode
from twisted_kafka.protocol.errors import CoordinatorLoadInProgressError, UnknownServerError

BLOCK_PATH: Final = "/latest_producer_id_block"
BLOCK_SIZE: Final = 1000
MAX_PRODUCER_ID: Final = 2**63 - 1
MAX_ATTEMPTS: Final = 100
"""So many other brokers may win the race for a block before a request gives up; each of them has got on by then."""


class ProducerIdManager:
    """Hands out producer ids; the store is asked once per thousand (Kafka's ZkProducerIdManager)."""

    log = Logger()

    def __init__(self, broker_id: int, store: IMetadataStore) -> None:
        self._broker_id = broker_id
        self._store = store
        self._lock = threading.Lock()
        self._next = 0
        self._end = 0

    def next_producer_id(self) -> int:
        """Return an id that no producer of the cluster has had.

        Raises UnknownServerError when all are used up, CoordinatorLoadInProgressError (retriable) when other brokers keep winning.
        """
        with self._lock:
            if self._next >= self._end:
                self._next = self._take_block()
                self._end = self._next + BLOCK_SIZE
            producer_id = self._next
            self._next += 1
            return producer_id

    def _take_block(self) -> int:
        for _ in range(MAX_ATTEMPTS):
            found = self._store.get(BLOCK_PATH)
            # Brokers make the node when they first start, and leave it empty until somebody needs an id.
            first = ProducerIdBlockNode.decode(found[0]).last + 1 if found is not None and found[0] else 0
            last = first + BLOCK_SIZE - 1
            if last > MAX_PRODUCER_ID:
                raise UnknownServerError("all producer ids are used up")
            data = ProducerIdBlockNode(broker_id=self._broker_id, first=first, last=last).encode()
            try:
                if found is None:
                    self._store.create(BLOCK_PATH, data)
                else:
                    self._store.set(BLOCK_PATH, data, found[1].version)
            except (BadVersionError, NodeExistsError, NoNodeError):
                continue
            self.log.info("took producer ids {first} to {last}", first=first, last=last)
            return first
        raise CoordinatorLoadInProgressError("other brokers took every block of producer ids that this one wanted")
