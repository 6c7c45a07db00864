from typing import Any

import pytest

from tests.server.apis.group_handlers import FakeMetadata, ask
from tests.support.quotas import no_quotas
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest
from twisted_kafka.quota.controller_mutation_quota_manager import UNBOUNDED
from twisted_kafka.server.apis.groups.find_coordinator import GROUP, SHARE, TRANSACTION, CoordinatorTopic, FindCoordinatorApis


class FakeTopics:
    def __init__(self) -> None:
        self.created: list[Any] = []

    def create_internal_topic(self, topic: Any, mutations: Any) -> None:
        assert mutations is UNBOUNDED
        self.created.append(topic)


def make(**topics: Any) -> Any:
    creator = FakeTopics()
    kinds = {
        GROUP: CoordinatorTopic("__consumer_offsets", lambda key: len(key)),
        TRANSACTION: CoordinatorTopic("__transaction_state", lambda key: len(key)),
        SHARE: CoordinatorTopic("__share_group_state", lambda key: key.count("!")),
    }
    return FindCoordinatorApis(kinds, FakeMetadata(**topics), creator, no_quotas().controller_mutation), creator  # type: ignore[arg-type]


def find(family: Any, version: Any, keys: tuple[str, ...] = ("g",), key_type: int = GROUP, **options: Any) -> Any:
    if version < 4:
        request = FindCoordinatorRequest(key=keys[0], key_type=key_type)
        found, _ = ask(family, request, version, **options)
        return [(found.error_code, found.node_id, found.host, found.port, found.error_message)]
    request = FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type)
    response, _ = ask(family, request, version, **options)
    assert [one.key for one in response.coordinators] == list(keys)
    return [(one.error_code, one.node_id, one.host, one.port, one.error_message) for one in response.coordinators]


@pytest.mark.parametrize("version", range(7))
def test_the_leader_of_the_key_s_partition(version: Any) -> None:
    family, creator = make(__consumer_offsets=3)
    message = "NONE" if 1 <= version < 4 else ""
    assert find(family, version) == [(0, 1, "broker.example", 9092, message)]
    assert not creator.created


@pytest.mark.parametrize("version", range(7))
def test_the_topic_is_created_when_it_is_first_asked_for(version: Any) -> None:
    family, creator = make()
    message = "The coordinator is not available." if 1 <= version < 4 else ""
    assert find(family, version) == [(15, -1, "", -1, message)]
    assert creator.created == ["__consumer_offsets"]


def test_the_topic_is_created_once_for_all_keys_of_a_request() -> None:
    family, creator = make()
    assert find(family, 4, ("a", "b", "c")) == [(15, -1, "", -1, "")] * 3
    assert creator.created == ["__consumer_offsets"]


@pytest.mark.parametrize("version", range(1, 7))
def test_a_transactional_id_has_its_own_topic(version: Any) -> None:
    family, creator = make(__consumer_offsets=3)
    assert find(family, version, key_type=TRANSACTION)[0][0] == 15
    assert creator.created == ["__transaction_state"]
    family, _ = make(__transaction_state=3)
    assert find(family, version, key_type=TRANSACTION)[0][:4] == (0, 1, "broker.example", 9092)


def test_a_partition_without_leader_or_without_this_listener() -> None:
    family, _ = make(__consumer_offsets=3)
    assert [one[0] for one in find(family, 4, keys=["a", "abc"])] == [0, 15]  # type: ignore[arg-type]
    assert find(family, 4, listener="OTHER")[0][0] == 15


def test_the_coordinator_of_a_share_partition() -> None:
    key = "a:group!:AAAAAAAAAAAAAAAAAAAAAg:0"
    family, _ = make(__share_group_state=3)
    assert find(family, 6, (key,), key_type=SHARE) == [(0, 1, "broker.example", 9092, "")]
    assert find(family, 5, (key,), key_type=SHARE) == [(42, -1, "", -1, "")]
    topic_id = "AAAAAAAAAAAAAAAAAAAAAg"
    for malformed in ("g", "g:0", f":{topic_id}:0", "g:AAAA:0", f"g:{topic_id}:x"):
        assert find(family, 6, (malformed,), key_type=SHARE)[0][0] == 42
    family, creator = make()
    assert find(family, 6, (key,), key_type=SHARE)[0][0] == 15
    assert creator.created == ["__share_group_state"]


def test_other_kinds() -> None:
    family, _ = make(__consumer_offsets=3)
    assert find(family, 3, key_type=9)[0][0] == 42
