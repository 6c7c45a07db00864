"""The cluster's finalized features."""

from twisted_kafka.controller.operations.feature_updates import UpgradeType
from twisted_kafka.metadata.features import TRANSACTION_VERSION
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from twisted_kafka.tools.compare.talk import Talk


def finalize(port: int, level: int) -> None:
    """Give ``transaction.version`` a level, if it has another one."""
    talk = Talk(port, "finalize")
    features = talk.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4).finalized_features
    now = next((each.max_version_level for each in features if each.name == TRANSACTION_VERSION), 0)
    if now != level:
        kind = UpgradeType.UPGRADE if level > now else UpgradeType.SAFE_DOWNGRADE
        update = FeatureUpdateKey(feature=TRANSACTION_VERSION, max_version_level=level, upgrade_type=kind)
        (result,) = talk.ask(UpdateFeaturesRequest(feature_updates=[update]), 1).results
        assert not result.error_code, result.error_message
    talk.close()
