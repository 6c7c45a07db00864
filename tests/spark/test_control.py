"""Findings about brokers that change leaders and replicas again and again, and about what clients suffer from one cause."""

from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from tests.spark.access_lines import PHASES, line
from tests.spark.moments import at
from tests.spark.searched import HOURS, findings, named, steady

DAY = range(HOURS * 60)
CALM = [text for name in ("calm", "quiet", "still") for text in steady(DAY, each=1, client_id=name)]


def asked(api: str, minutes: range, client_id: str) -> list[str]:
    return [line(api, 0, time=at(minute), client_id=client_id, principal="User:kafka", node=2) for minute in minutes]


def test_a_broker_that_changes_its_replicas_in_sync_again_and_again_is_named() -> None:
    found = named(CALM + asked("AlterPartition", range(100, 160, 2), "broker-3"), "restless-cluster")
    assert (found.evidence["client_id"], found.evidence["requests"]) == ("broker-3", 30)
    assert (found.first, found.last) == ("2026-11-21T01:40Z", "2026-11-21T02:39Z")


def test_new_leaders_again_and_again_are_one_finding() -> None:
    lines = [text for api in ("LeaderAndIsr", "UpdateMetadata") for text in asked(api, range(100, 170, 11), "1")]
    found = named(CALM + lines, "restless-cluster")
    assert found.evidence["apis"] == "LeaderAndIsr, UpdateMetadata"
    assert "named new leaders to the brokers 7 times" in found.title


def test_a_restart_and_a_cluster_that_always_changes_are_no_finding() -> None:
    for minutes in (range(100, 112), range(0, 360, 9)):
        assert "restless-cluster" not in {each.name for each in findings(CALM + asked("AlterPartition", minutes, "broker-3"))}


def test_clients_that_a_quota_of_all_throttles_are_one_finding() -> None:
    slow: dict[str, Any] = PHASES | {"throttle_us": 900_000, "total_us": 900_080}
    lines = [text for name in "abcdef" for text in [*steady(DAY, each=1, client_id=name)]]
    lines += [text for name in "abcdef" for text in steady(range(100, 130), each=2, client_id=name, **slow)]
    found = named(lines, "throttled-client")
    assert found.evidence["clients"] == "6: a, b, c"
    assert (found.first, found.last) == ("2026-11-21T01:40Z", "2026-11-21T02:09Z")


def test_another_account_with_the_client_id_of_a_program_is_named() -> None:
    lines = CALM + steady(DAY, client_id="cart-0", principal="User:cart", connection="10.0.0.1:9092-10.1.2.3:40000-0")
    copy = {"client_id": "cart-0", "principal": "User:staging", "connection": "10.0.0.1:9092-10.240.7.9:40000-1"}
    found = named(lines + steady(range(120, 300), each=1, **copy), "strange-program")
    assert (found.evidence["principal"], found.evidence["address"]) == ("User:staging", "10.240.7.9")
    near = copy | {"connection": "10.0.0.1:9092-10.1.7.9:40000-1"}
    assert "strange-program" not in {each.name for each in findings(lines + steady(range(120, 300), each=1, **near))}


def test_a_fleet_of_which_some_are_seldom_there_does_not_sprawl() -> None:
    often = [text for n in range(60) for text in steady([10 + n, 200 + n], each=1, client_id=f"meter-{n}")]
    seldom = [text for n in range(60, 100) for text in steady([3 * n], each=1, client_id=f"meter-{n}")]
    assert "many-names" in {each.name for each in findings(CALM + seldom)}
    assert "many-names" not in {each.name for each in findings(CALM + often + seldom)}
