"""UpdateFeatures and the features in ApiVersions on one broker, through the codec."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.apis.topic_harness import OneBroker
from twisted_kafka.metadata import znodes
from twisted_kafka.metadata.features import SUPPORTED, TRANSACTION_VERSION, FeatureCache, UnsupportedFeatureError
from twisted_kafka.metadata.store import StoreError
from twisted_kafka.metadata.znode_json import BadNodeError
from twisted_kafka.metadata.znodes import BrokerNode
from twisted_kafka.metadata.znodes_admin import FeatureNode
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest
from twisted_kafka.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
HIGHEST = SUPPORTED[TRANSACTION_VERSION].high
Level = tuple[str, int, int]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OneBroker]:
    broker = OneBroker(tmp_path)
    yield broker
    broker.store.close()


def update(broker: OneBroker, *levels: Level, validate_only: bool = False) -> list[tuple[int, str | None]]:
    updates = [FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind) for feature, level, kind in levels]
    answer = broker.ask(UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only), 1)
    assert answer.error_code == 0
    assert [each.feature for each in answer.results] == [feature for feature, _, _ in levels]
    return [(each.error_code, each.error_message) for each in answer.results]


def finalized(broker: OneBroker) -> tuple[dict[str, int], int]:
    answer = broker.ask(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 4)
    assert {each.name: (each.min_version, each.max_version) for each in answer.supported_features} == SUPPORTED
    assert all(each.min_version_level == each.max_version_level for each in answer.finalized_features)
    return {each.name: each.max_version_level for each in answer.finalized_features}, answer.finalized_features_epoch


def stored(broker: OneBroker) -> bytes:
    found = broker.store.get(znodes.FEATURE)
    assert found is not None
    return found[0]


def test_no_feature_is_finalized_until_it_is_upgraded(broker: OneBroker) -> None:
    assert finalized(broker) == ({}, 0)
    assert stored(broker) == b'{"features":{},"version":2,"status":1}'
    assert update(broker, (TRANSACTION_VERSION, 1, UPGRADE)) == [(0, None)]
    assert finalized(broker) == ({TRANSACTION_VERSION: 1}, 1)
    assert broker.features.level(TRANSACTION_VERSION) == 1
    # As Apache Kafka's FeatureZNode writes it.
    assert stored(broker) == b'{"features":{"transaction.version":{"max_version_level":1}},"version":2,"status":1}'


@pytest.mark.parametrize("kind", [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
def test_a_downgrade_below_1_ends_the_feature(broker: OneBroker, kind: int) -> None:
    update(broker, (TRANSACTION_VERSION, 1, UPGRADE))
    assert update(broker, (TRANSACTION_VERSION, 0, kind)) == [(0, None)]
    assert finalized(broker) == ({}, 2)
    assert stored(broker) == b'{"features":{},"version":2,"status":1}'


@pytest.mark.parametrize("allow_downgrade", [False, True])
def test_version_0_says_whether_a_downgrade_is_allowed(broker: OneBroker, allow_downgrade: bool) -> None:
    update(broker, (TRANSACTION_VERSION, 1, UPGRADE))
    deletion = FeatureUpdateKey(feature=TRANSACTION_VERSION, max_version_level=0, allow_downgrade=allow_downgrade)
    (result,) = broker.ask(UpdateFeaturesRequest(feature_updates=[deletion]), 0).results
    assert result.error_code == (ErrorCode.NONE if allow_downgrade else ErrorCode.INVALID_REQUEST)
    assert finalized(broker)[0] == ({} if allow_downgrade else {TRANSACTION_VERSION: 1})


@pytest.mark.parametrize(
    ("now", "level", "said"),
    [
        (0, ("", 1, UPGRADE), "name is empty"),
        (0, ("unheard.of", 1, UPGRADE), "not supported"),
        (0, ("unheard.of", 0, SAFE_DOWNGRADE), "not finalized"),
        (0, (TRANSACTION_VERSION, 1, 0), "Unknown upgrade type"),
        (0, (TRANSACTION_VERSION, 1, 4), "Unknown upgrade type"),
        (0, (TRANSACTION_VERSION, 0, UPGRADE), "at least 1"),
        (0, (TRANSACTION_VERSION, 0, SAFE_DOWNGRADE), "not finalized"),
        (0, (TRANSACTION_VERSION, HIGHEST + 1, UPGRADE), f"up to level {HIGHEST}"),
        (1, (TRANSACTION_VERSION, 1, UPGRADE), "already"),
        (1, (TRANSACTION_VERSION, -1, UPGRADE), "at least 1"),
    ],
)
def test_what_may_not_be_done_is_refused(broker: OneBroker, now: int, level: Level, said: str) -> None:
    if now:
        update(broker, (TRANSACTION_VERSION, now, UPGRADE))
    before = stored(broker)
    for validate_only in (True, False):
        ((error, message),) = update(broker, level, validate_only=validate_only)
        assert error == ErrorCode.INVALID_REQUEST
        assert said in (message or "")
    assert stored(broker) == before


def test_the_valid_updates_of_a_request_are_made(broker: OneBroker) -> None:
    errors = update(broker, ("unheard.of", 1, UPGRADE), (TRANSACTION_VERSION, 1, UPGRADE))
    assert [error for error, _ in errors] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert finalized(broker)[0] == {TRANSACTION_VERSION: 1}


def together(broker: OneBroker, *levels: Level, validate_only: bool = False) -> tuple[int, str | None]:
    updates = [FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind) for feature, level, kind in levels]
    answer = broker.ask(UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only), 2)
    assert answer.results == []
    return answer.error_code, answer.error_message


def test_since_version_2_all_updates_are_made_or_none(broker: OneBroker) -> None:
    upgrade = TRANSACTION_VERSION, 1, UPGRADE
    error, message = together(broker, upgrade, ("unheard.of", 1, UPGRADE))
    assert error == ErrorCode.INVALID_UPDATE_VERSION
    assert "'unheard.of' is not supported" in (message or "")
    assert finalized(broker) == ({}, 0)
    assert together(broker, upgrade, validate_only=True) == (0, None)
    assert finalized(broker) == ({}, 0)
    assert together(broker, upgrade) == (0, None)
    assert together(broker, upgrade) == (0, None)  # the present level
    assert finalized(broker) == ({TRANSACTION_VERSION: 1}, 1)
    assert together(broker, (TRANSACTION_VERSION, 0, SAFE_DOWNGRADE), ("unheard.of", 0, SAFE_DOWNGRADE)) == (0, None)
    assert finalized(broker) == ({}, 2)


def test_validating_changes_nothing(broker: OneBroker) -> None:
    assert update(broker, (TRANSACTION_VERSION, 1, UPGRADE), validate_only=True) == [(0, None)]
    assert finalized(broker) == ({}, 0)


def test_what_cannot_be_stored_has_failed(broker: OneBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise StoreError("no")

    for write in ("set", "multi"):
        monkeypatch.setattr(type(broker.store), write, fail)
    errors = update(broker, (TRANSACTION_VERSION, 1, UPGRADE), ("unheard.of", 1, UPGRADE))
    assert [error for error, _ in errors] == [ErrorCode.FEATURE_UPDATE_FAILED, ErrorCode.INVALID_REQUEST]
    assert finalized(broker) == ({}, 0)


def test_every_broker_has_to_support_the_level(broker: OneBroker) -> None:
    older = BrokerNode(endpoints=["OUT://h:1"], listener_security_protocol_map={"OUT": "PLAINTEXT"}, timestamp_ms=0)
    broker.store.create(znodes.broker_path(2), older.encode())
    broker.pump()
    ((error, message),) = update(broker, (TRANSACTION_VERSION, 1, UPGRADE))
    assert error == ErrorCode.INVALID_REQUEST
    assert "broker 2" in (message or "")


def test_older_clients_are_told_of_no_feature_that_may_have_level_0(broker: OneBroker) -> None:
    update(broker, (TRANSACTION_VERSION, 1, UPGRADE))
    answer = broker.ask(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 3)
    assert answer.supported_features == []
    assert [(each.name, each.max_version_level) for each in answer.finalized_features] == [(TRANSACTION_VERSION, 1)]


def test_a_broker_follows_what_another_controller_finalizes(broker: OneBroker) -> None:
    broker.store.set(znodes.FEATURE, FeatureNode.of({TRANSACTION_VERSION: 1}).encode())
    broker.pump()
    assert finalized(broker) == ({TRANSACTION_VERSION: 1}, 1)
    for data in (FeatureNode.of({"metadata.version": 9}).encode(), b"{"):
        broker.store.set(znodes.FEATURE, data)
        broker.pump()
        assert finalized(broker) == ({TRANSACTION_VERSION: 1}, 1)
    broker.store.set(znodes.FEATURE, FeatureNode({"metadata.version": 9}, status=0).encode())
    broker.pump()
    assert finalized(broker) == ({}, 4)


def test_a_broker_does_not_start_in_a_cluster_that_it_cannot_serve(broker: OneBroker) -> None:
    for levels in ({TRANSACTION_VERSION: HIGHEST + 1}, {"metadata.version": 9}):
        broker.store.set(znodes.FEATURE, FeatureNode.of(levels).encode())
        with pytest.raises(UnsupportedFeatureError, match="does not support"):
            FeatureCache(broker.store).startup()
    broker.store.set(znodes.FEATURE, b'{"features":{"transaction.version":1},"version":2,"status":1}')
    with pytest.raises(BadNodeError):
        FeatureCache(broker.store).startup()


def test_a_cluster_without_the_node_has_no_features(broker: OneBroker) -> None:
    broker.store.delete(znodes.FEATURE)
    broker.pump()
    assert finalized(broker) == ({}, 0)
    ((error, _),) = update(broker, (TRANSACTION_VERSION, 1, UPGRADE))
    assert error == ErrorCode.FEATURE_UPDATE_FAILED
