"""UpdateFeatures v0-2: v1 upgrade types and validate only (KIP-584, KIP-778), v2 all updates or none (KIP-1022)."""

from concurrent.futures import Future
from typing import Final

from twisted_kafka.controller.controller_metrics import ControllerState
from twisted_kafka.controller.kafka_controller import KafkaController
from twisted_kafka.controller.operations.feature_updates import FeatureUpdate, UpgradeType
from twisted_kafka.metadata.features import FeatureCache
from twisted_kafka.network.requests.request_context import RequestContext, ResourceKind
from twisted_kafka.protocol.errors import ErrorCode, KafkaError, error_of
from twisted_kafka.protocol.messages.cluster import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from twisted_kafka.security.authorizer.acl_types import AclOperation
from twisted_kafka.server.authorization import ALLOW_ALL, IAuthorization
from twisted_kafka.server.dispatch import api
from twisted_kafka.waiting.futures import then

TOGETHER_SINCE: Final = 2
"""From this version on, the response has one error for all updates, and an update to the present level is no error."""


class FeatureApis:
    """Changes the levels of the cluster's features."""

    def __init__(self, controller: KafkaController, features: FeatureCache, authorization: IAuthorization = ALLOW_ALL) -> None:
        self._authorization = authorization
        self._controller = controller
        self._features = features

    @api(UpdateFeaturesRequest, UpdateFeaturesResponse, versions=(0, 2))
    def update_features(self, context: RequestContext, request: UpdateFeaturesRequest) -> "Future[UpdateFeaturesResponse]":
        """Make the valid changes of levels; respond when they are stored, and this broker announces them to clients.

        This takes one write to the metadata store and ignores ``timeout_ms``.
        """
        for each in request.feature_updates:
            context.note_resource(ResourceKind.FEATURE, each.feature)
        self._authorization.require_cluster(context, AclOperation.ALTER)
        updates = [_update(each, context.api_version) for each in request.feature_updates]

        if context.api_version >= TOGETHER_SINCE:
            return self._update_together(context, updates, request.validate_only)

        def respond(errors: list[KafkaError | None]) -> UpdateFeaturesResponse:
            self._features.refresh()
            results = [_result(update, error) for update, error in zip(updates, errors, strict=True)]
            context.note_error(next((each.error_code for each in results if each.error_code), 0))
            return UpdateFeaturesResponse(error_message=None, results=results)

        updated = self._controller.run(
            lambda: self._controller.features.update(updates, request.validate_only), ControllerState.UPDATE_FEATURES
        )
        return then(updated, respond)

    def _update_together(
        self, context: RequestContext, updates: list[FeatureUpdate], validate_only: bool
    ) -> "Future[UpdateFeaturesResponse]":
        def respond(error: KafkaError | None) -> UpdateFeaturesResponse:
            self._features.refresh()
            if error is None:
                return UpdateFeaturesResponse(error_message=None)
            context.note_error(error_of(error))
            return UpdateFeaturesResponse(error_code=error_of(error), error_message=str(error))

        updated = self._controller.run(
            lambda: self._controller.features.update_together(updates, validate_only), ControllerState.UPDATE_FEATURES
        )
        return then(updated, respond)


def _update(update: FeatureUpdateKey, version: int) -> FeatureUpdate:
    upgrade_type: UpgradeType | None
    if version == 0:
        upgrade_type = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    else:
        upgrade_type = next((each for each in UpgradeType if each == update.upgrade_type), None)
    return FeatureUpdate(update.feature, update.max_version_level, upgrade_type)


def _result(update: FeatureUpdate, error: KafkaError | None) -> UpdatableFeatureResult:
    if error is None:
        return UpdatableFeatureResult(feature=update.feature, error_code=ErrorCode.NONE, error_message=None)
    return UpdatableFeatureResult(feature=update.feature, error_code=error_of(error), error_message=str(error))
