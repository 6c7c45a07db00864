"""The features of the cluster (KIP-584): what this broker supports, and the finalized levels in the node ``/feature``.

A level says which protocol the cluster speaks; an operator raises it with UpdateFeatures. Level 0 is that of a feature which is not
in the node.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.store import (
    IMetadataStore,
    IWatch,
    SessionState,
    Stat,
    StoreClosedError,
    StoreDisconnectedError,
    StoreError,
)
from twisted_kafka.metadata.znode_json import BadNodeError
from twisted_kafka.metadata.znodes_admin import FeatureNode
from twisted_kafka.system import machine

_log = Logger()


class SupportedLevels(NamedTuple):
    """The levels of a feature that a broker supports."""

    low: int
    high: int


TRANSACTION_VERSION: Final = "transaction.version"
"""Level 1: records of ``__transaction_state`` have tagged fields. Level 2: each transaction has an epoch of its own (KIP-890)."""

GROUP_VERSION: Final = "group.version"
"""Level 1: consumer groups (KIP-848), whatever ``group.coordinator.rebalance.protocols`` says."""

SHARE_VERSION: Final = "share.version"
"""Level 1: share groups (KIP-932). Without it, ApiVersions does not list their APIs."""

STREAMS_VERSION: Final = "streams.version"
"""Level 1: streams groups (KIP-1071). Without it, ApiVersions does not list their APIs."""

SUPPORTED: Final[Mapping[str, SupportedLevels]] = {
    GROUP_VERSION: SupportedLevels(0, 1),
    SHARE_VERSION: SupportedLevels(0, 2),
    STREAMS_VERSION: SupportedLevels(0, 1),
    TRANSACTION_VERSION: SupportedLevels(0, 2),
}


class UnsupportedFeatureError(StoreError):
    """A finalized feature has a level that this broker does not support: it cannot serve this cluster."""


class FinalizedFeatures(NamedTuple):
    """The finalized levels, each above 0, and their epoch, which grows with every change (the node's version)."""

    levels: Mapping[str, int]
    epoch: int


NO_FEATURES: Final = FinalizedFeatures({}, 0)


def read_features(store: IMetadataStore) -> FinalizedFeatures:
    """Return the features in the node, NO_FEATURES if it does not exist. Raises BadNodeError."""
    return finalized(store.get(znodes.FEATURE))


def finalized(found: tuple[bytes, Stat] | None) -> FinalizedFeatures:
    """Return the features in the node's data and stat, NO_FEATURES if it does not exist. Raises BadNodeError."""
    if found is None:
        return NO_FEATURES
    data, stat = found
    node = FeatureNode.decode(data)
    return FinalizedFeatures(node.levels() if node.is_enabled else {}, stat.version)


class FeatureCache:
    """The finalized features as this broker knows them (Kafka: FinalizedFeatureCache). For any thread."""

    def __init__(self, store: IMetadataStore) -> None:
        self.current = NO_FEATURES
        """Replaced as a whole at each change."""
        self._store = store
        self._lock = machine.Lock()
        self._watch: IWatch | None = None

    def startup(self) -> None:
        """Read the features, and follow their changes. Raises UnsupportedFeatureError, BadNodeError."""
        self._watch = self._store.watch(znodes.FEATURE, lambda _: self._changed())
        self._store.add_session_listener(self._session_changed)
        self.refresh()

    def shutdown(self) -> None:
        """Stop following changes."""
        if self._watch is not None:
            self._watch.cancel()

    def level(self, feature: str) -> int:
        """Return the feature's finalized level, 0 if it is not finalized."""
        return self.current.levels.get(feature, 0)

    def refresh(self) -> None:
        """Read the features now. Raises UnsupportedFeatureError, and then keeps the old ones; BadNodeError."""
        with self._lock:  # an earlier read must not replace a later one
            found = read_features(self._store)
            for feature, level in found.levels.items():
                supported = SUPPORTED.get(feature)
                if supported is None or not supported.low <= level <= supported.high:
                    raise UnsupportedFeatureError(
                        f"The cluster's feature {feature} has level {level}, which this broker does not support"
                    )
            self.current = found

    def _session_changed(self, state: SessionState) -> None:
        # What could not be read without a connection can be now.
        if state is SessionState.CONNECTED:
            self._changed()

    def _changed(self) -> None:
        try:
            self.refresh()
        except StoreClosedError:
            return
        except StoreDisconnectedError as error:
            _log.warn(
                "Cannot read the finalized features until the metadata store answers; the last ones stay in use: {error}",
                error=error,
            )
        except (UnsupportedFeatureError, BadNodeError) as error:
            # The controller raises no level that a live broker does not support: somebody changed the node by hand.
            _log.error("Ignoring the finalized features in /feature; the last ones stay in use: {error}", error=error)
