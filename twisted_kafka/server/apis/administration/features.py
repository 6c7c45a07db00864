"""UpdateFeatures v0-1: v1 upgrade types and validate only (KIP-584, KIP-778). Kafka 4's version 2 is not supported."""

from typing import Final

from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.errors import ErrorCode, NotControllerError
from twisted_kafka.protocol.messages.cluster import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from twisted_kafka.server.dispatch import api

_UPGRADE_TYPES: Final = (1, 2, 3)
"""Upgrade, safe and unsafe downgrade."""


class FeatureApis:
    """Feature levels; like every broker in ZooKeeper mode, this one has no features to update."""

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller

    @api(UpdateFeaturesRequest, UpdateFeaturesResponse, versions=(0, 1))
    def update_features(self, context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        """Refuse each update."""
        if not self._controller.is_active:
            raise NotControllerError("This broker is not the active controller")
        results = [
            UpdatableFeatureResult(feature=each.feature, error_code=ErrorCode.INVALID_REQUEST, error_message=_refusal(each))
            for each in request.feature_updates
        ]
        if results:
            context.note_error(ErrorCode.INVALID_REQUEST)
        return UpdateFeaturesResponse(error_message=None, results=results)


def _refusal(update: FeatureUpdateKey) -> str:
    if not update.feature:
        return "Invalid feature: the name is empty"
    if update.upgrade_type not in _UPGRADE_TYPES:
        return f"Unknown upgrade type {update.upgrade_type}"
    if update.max_version_level < 1:
        return f"Feature {update.feature!r} is not finalized and cannot be deleted"
    return f"Feature {update.feature!r} is not supported by this broker"
