import pytest

from tests.support.quotas import request_of
from twisted_kafka.quota.client_quota_callback import DEFAULT, ClientQuotaType, DefaultQuotaCallback, QuotaEntity

FETCH = ClientQuotaType.FETCH

ORDER = [
    QuotaEntity("alice", "app"),
    QuotaEntity("alice", DEFAULT),
    QuotaEntity("alice", None),
    QuotaEntity(DEFAULT, "app"),
    QuotaEntity(DEFAULT, DEFAULT),
    QuotaEntity(DEFAULT, None),
    QuotaEntity(None, "app"),
    QuotaEntity(None, DEFAULT),
]
"""The order of precedence (KIP-55)."""


def limit_of(callback: DefaultQuotaCallback, user: str, client_id: str) -> float | None:
    tags = callback.quota_metric_tags(FETCH, request_of(user).principal, client_id)
    return callback.quota_limit(FETCH, tags)


def test_the_most_specific_quota_applies() -> None:
    callback = DefaultQuotaCallback()
    for limit, entity in enumerate(ORDER):
        callback.update_quota(FETCH, entity, limit)
    for limit, entity in enumerate(ORDER):
        assert limit_of(callback, "alice", "app") == limit
        callback.remove_quota(FETCH, entity)
    assert limit_of(callback, "alice", "app") is None


@pytest.mark.parametrize(
    ("entity", "tags", "limited", "unlimited"),
    [
        (ORDER[0], {"user": "alice", "client-id": "app"}, [("alice", "app")], [("bob", "app"), ("alice", "x")]),
        (ORDER[1], {"user": "alice", "client-id": "app"}, [("alice", "x")], [("bob", "app")]),
        (ORDER[2], {"user": "alice", "client-id": ""}, [("alice", "x"), ("alice", "")], [("bob", "app")]),
        (ORDER[3], {"user": "alice", "client-id": "app"}, [("bob", "app")], [("alice", "x")]),
        (ORDER[4], {"user": "alice", "client-id": "app"}, [("bob", "x")], [("bob", "")]),
        (ORDER[5], {"user": "alice", "client-id": ""}, [("bob", "x"), ("bob", "")], []),
        (ORDER[6], {"user": "", "client-id": "app"}, [("bob", "app")], [("alice", "x")]),
        (ORDER[7], {"user": "", "client-id": "app"}, [("bob", "x")], [("bob", "")]),
    ],
)
def test_each_quota_has_its_clients(
    entity: QuotaEntity, tags: dict[str, str], limited: list[tuple[str, str]], unlimited: list[tuple[str, str]]
) -> None:
    callback = DefaultQuotaCallback()
    callback.update_quota(FETCH, entity, 7)
    assert callback.quota_metric_tags(FETCH, request_of("alice").principal, "app") == tags
    assert [limit_of(callback, *client) for client in limited] == [7] * len(limited)
    assert [limit_of(callback, *client) for client in unlimited] == [None] * len(unlimited)


def test_quotas_of_several_levels_each_keep_their_tags() -> None:
    callback = DefaultQuotaCallback()
    callback.update_quota(FETCH, QuotaEntity("al@ice"), 1)
    callback.update_quota(FETCH, QuotaEntity(None, "app"), 2)
    alice, bob = request_of("al@ice").principal, request_of("bob").principal
    assert callback.quota_metric_tags(FETCH, alice, "app") == {"user": "al%40ice", "client-id": ""}
    assert callback.quota_metric_tags(FETCH, bob, "app") == {"user": "", "client-id": "app"}
    assert (limit_of(callback, "al@ice", "app"), limit_of(callback, "bob", "app")) == (1, 2)
    assert not callback.quota_reset_required(FETCH)
    assert not callback.update_cluster_metadata(None)


@pytest.mark.medium
def test_quotas_of_very_many_entities_take_no_longer_each() -> None:
    """With a copy for each, this took minutes."""
    callback = DefaultQuotaCallback()
    for number in range(20_000):
        callback.update_quota(ClientQuotaType.PRODUCE, QuotaEntity(f"user-{number}"), float(number))
    for number in range(19_999):
        callback.remove_quota(ClientQuotaType.PRODUCE, QuotaEntity(f"user-{number}"))
    assert limit_of(callback, "user-19999", "") == 19_999.0
    assert limit_of(callback, "user-5", "") is None
