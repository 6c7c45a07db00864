"""The election of the controller: the broker that creates the ephemeral node ``/controller`` wins. The epoch counts elections."""

from twisted.logger import Logger

from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.store import BadVersionError, Create, IMetadataStore, NodeExistsError, Set
from twisted_kafka.metadata.znode_json import BadNodeError
from twisted_kafka.metadata.znodes import ControllerNode, NumberNode
from twisted_kafka.timing.clock import IClock

_log = Logger()


class ControllerElection:
    """Takes part in the election for one broker."""

    def __init__(self, store: IMetadataStore, broker_id: int, clock: IClock) -> None:
        self._store = store
        self._broker_id = broker_id
        self._clock = clock

    def active(self) -> int:
        """Return the controller's broker id; -1 without a controller."""
        found = self._store.get(znodes.CONTROLLER)
        if found is None:
            return -1
        try:
            return ControllerNode.decode(found[0]).broker_id
        except BadNodeError as error:
            _log.error("The /controller node cannot be read: {error}", error=error)
            return -1

    def run(self) -> tuple[int, int] | None:
        """Try to become the controller; return the new epoch and its node's version, or None if another broker is."""
        if self._store.exists(znodes.CONTROLLER) is not None:
            return None
        node = ControllerNode(broker_id=self._broker_id, timestamp_ms=self._clock.wall_ms())
        epoch, version = self._next_epoch()
        try:
            self._store.multi(
                [
                    Set(znodes.CONTROLLER_EPOCH, NumberNode(epoch).encode(), version),
                    Create(znodes.CONTROLLER, node.encode(), ephemeral=True),
                ]
            )
        except (NodeExistsError, BadVersionError):
            # Another broker was faster. The watch on its node triggers the next attempt.
            return None
        return epoch, version + 1

    def _next_epoch(self) -> tuple[int, int]:
        found = self._store.get(znodes.CONTROLLER_EPOCH)
        if found is None:
            try:
                self._store.create(znodes.CONTROLLER_EPOCH, NumberNode(0).encode())
            except NodeExistsError:
                return self._next_epoch()
            return 1, 0
        try:
            return NumberNode.decode(found[0]).value + 1, found[1].version
        except BadNodeError as error:
            raise BadNodeError(f"The {znodes.CONTROLLER_EPOCH} node cannot be read: {error}") from error
