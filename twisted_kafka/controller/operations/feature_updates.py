"""Changes of the cluster's finalized features (KIP-584, KIP-778; Kafka: ``KafkaController.processFeatureUpdates``)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.controller.context.context import ControllerContext
from twisted_kafka.controller.context.fenced_store import FencedStore
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.features import SUPPORTED, finalized
from twisted_kafka.metadata.store import Create, NodeExistsError, StoreError
from twisted_kafka.metadata.znode_json import BadNodeError
from twisted_kafka.metadata.znodes_admin import FeatureNode
from twisted_kafka.protocol.errors import (
    FeatureUpdateFailedError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    KafkaError,
)

_log = Logger()


class UpgradeType(IntEnum):
    """What an update may do to a finalized level; the value is its number in UpdateFeatures."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


DOWNGRADES: Final = (UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE)
"""No level of a feature here is lost by a downgrade, so both do the same."""

_NOT_READABLE: Final = "The finalized features cannot be read"


class FeatureUpdate(NamedTuple):
    """The requested level of a feature; ``upgrade_type`` is None if it is unknown."""

    feature: str
    level: int
    upgrade_type: UpgradeType | None

    @property
    def is_deletion(self) -> bool:
        """Whether the update removes the finalized level."""
        return self.level < 1 and self.upgrade_type in DOWNGRADES


class FeatureUpdates:
    """Finalizes features. Used on the controller's event thread only."""

    def __init__(self, context: ControllerContext, store: FencedStore, initial: Mapping[str, int]) -> None:
        """``initial`` are the levels of a new cluster's features."""
        self._context = context
        self._store = store
        self._initial = initial

    def startup(self) -> None:
        """Create the node if it does not exist yet: the cluster is new."""
        if self._store.exists(znodes.FEATURE) is None:
            with suppress(NodeExistsError):  # created by the controller before, whose term ended
                self._store.multi([Create(znodes.FEATURE, FeatureNode.of(self._initial).encode())])

    def update(self, updates: Sequence[FeatureUpdate], validate_only: bool) -> list[KafkaError | None]:
        """Change the levels; return each update's error, or None. The valid ones are made, in one write to the store.

        Errors are InvalidRequestError, and FeatureUpdateFailedError for valid updates that could not be stored.
        """
        try:
            levels = dict(finalized(self._store.get(znodes.FEATURE)).levels)
        except BadNodeError as error:
            _log.error("{what}: {error}", what=_NOT_READABLE, error=error)
            return [FeatureUpdateFailedError(_NOT_READABLE)] * len(updates)
        results: list[KafkaError | None] = []
        wanted = dict(levels)
        for update in updates:
            refusal = self._refusal(update, levels)
            results.append(refusal)
            if refusal is not None:
                continue
            if update.is_deletion:
                wanted.pop(update.feature, None)
            else:
                wanted[update.feature] = update.level
        if wanted == levels or validate_only:
            return results
        try:
            self._store.set(znodes.FEATURE, FeatureNode.of(wanted).encode())
        except StoreError as error:
            _log.error("The features {levels} could not be stored: {error}", levels=wanted, error=error)
            return [each or FeatureUpdateFailedError("The update could not be stored") for each in results]
        _log.info("The finalized features are {levels}, after {before}", levels=wanted, before=levels)
        return results

    def update_together(self, updates: Sequence[FeatureUpdate], validate_only: bool) -> KafkaError | None:
        """Make all changes of levels, or none; return the first error. An update to the present level changes nothing.

        Errors are InvalidUpdateVersionError, and FeatureUpdateFailedError for valid updates that could not be stored.
        """
        try:
            levels = finalized(self._store.get(znodes.FEATURE)).levels
        except BadNodeError as error:
            _log.error("{what}: {error}", what=_NOT_READABLE, error=error)
            return FeatureUpdateFailedError(_NOT_READABLE)
        changes = [each for each in updates if each.upgrade_type is None or each.level != levels.get(each.feature, 0)]
        reasons = (self._reason(each, levels) for each in changes)
        reason = next((each for each in reasons if each is not None), None)
        if reason is not None:
            return InvalidUpdateVersionError(f"No feature was updated, as one of the updates is invalid: {reason}")
        if validate_only or not changes:
            return None
        return next((each for each in self.update(changes, validate_only=False) if each is not None), None)

    def _refusal(self, update: FeatureUpdate, levels: Mapping[str, int]) -> KafkaError | None:
        text = self._reason(update, levels)
        return None if text is None else InvalidRequestError(text)

    def _reason(self, update: FeatureUpdate, levels: Mapping[str, int]) -> str | None:
        feature, level, upgrade_type = update
        now = levels.get(feature)
        if not feature:
            return "Invalid feature: the name is empty"
        if upgrade_type is None:
            return "Unknown upgrade type"
        if update.is_deletion:
            return f"Feature {feature!r} is not finalized and cannot be deleted" if now is None else None
        if level < 1:
            return f"The level of feature {feature!r} must be at least 1; to delete it, downgrade it"
        if level == now:
            return f"Feature {feature!r} has level {now} already"
        if now is not None and level < now and upgrade_type not in DOWNGRADES:
            return f"Feature {feature!r} has level {now}: the level {level} is a downgrade, which the request does not allow"
        if now is not None and level > now and upgrade_type in DOWNGRADES:
            return f"Feature {feature!r} has level {now}: the level {level} is no downgrade"
        return self._unsupported(feature, level)

    def _unsupported(self, feature: str, level: int) -> str | None:
        supported = SUPPORTED.get(feature)
        if supported is None:
            return f"Feature {feature!r} is not supported by this broker"
        if level > supported.high:
            return f"Feature {feature!r} is supported up to level {supported.high} by this broker"
        for broker_id, broker in sorted(self._context.brokers.items()):
            levels = broker.node.features.get(feature)
            if levels is None or not levels["min_version"] <= level <= levels["max_version"]:
                return f"Feature {feature!r} of level {level} is not supported by broker {broker_id}"
        return None
