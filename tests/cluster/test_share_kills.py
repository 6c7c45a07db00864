"""kill -9 of one of three brokers under members of a share group: see tests/clients/test_share_kills.py for a single one."""

import random
import time
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.brokers import Kind
from tests.cluster.cluster import Cluster, running
from tests.support.budget import share_of
from tests.support.clients.clients import java_library
from tests.support.clients.sharing import (
    GROUP,
    PARTITIONS,
    SETTLED_S,
    TOPIC,
    VERSION,
    JavaMember,
    LibrdkafkaMember,
    Sender,
    faults,
    holds_of,
    lag,
    let_begin_early,
)
from tests.support.eventually import eventually

KILLS = share_of(100)
LOCK_S = 30
PER_KILL = 200
"""Records that are sent between two kills."""
PAUSE_S = 1.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]


def test_each_record_is_completed_once_while_one_of_three_brokers_is_killed(tmp_path: Path) -> None:
    if java_library("kafka-clients", VERSION) is None:
        pytest.skip("Java or Maven is not installed")
    settings: dict[str, object] = {
        "group.coordinator.rebalance.protocols": "classic,consumer,share",
        "share.coordinator.state.topic.num.partitions": 3,
        "share.coordinator.state.topic.min.isr": 2,
        "group.share.record.lock.duration.ms": LOCK_S * 1000,
        "group.share.max.delivery.count.limit": 10,
        "auto.leader.rebalance.enable": "false",
    }
    with running(Cluster(tmp_path / "cluster", [Kind.OURS] * 3, is_direct=True, **settings)) as cluster:  # type: ignore[arg-type]
        cluster.create_topic(TOPIC, PARTITIONS, 3)
        let_begin_early(cluster.brokers[1].bootstrap)
        _kill_and_check(cluster, tmp_path)


def _kill_and_check(cluster: Cluster, folder: Path) -> None:
    bootstrap = cluster.bootstrap
    sender = Sender(bootstrap)
    members: list[LibrdkafkaMember | JavaMember] = [
        *(LibrdkafkaMember(bootstrap, GROUP, TOPIC, f"rd{number}") for number in range(2)),
        *(JavaMember(bootstrap, GROUP, TOPIC, f"java{number}", folder) for number in range(2)),
    ]
    kills_ns: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    chance = random.Random(KILLS)
    for _ in range(KILLS):
        seen, stored = sum(len(each.lines) for each in members), len(sender.places)
        sender.send(PER_KILL)
        eventually(partial(sender.has_stored_more, stored), wait_s=SETTLED_S)
        eventually(lambda seen=seen: sum(len(each.lines) for each in members) > seen, wait_s=SETTLED_S)  # type: ignore[misc]
        time.sleep(chance.random() * PAUSE_S)
        killed = chance.choice(list(cluster.brokers))
        led = [partition for partition, state in cluster.states(TOPIC).items() if state.leader == killed]
        for partition in led:
            kills_ns[partition].append(time.monotonic_ns())
        cluster.brokers[killed].kill()
        for partition in led:
            kills_ns[partition].append(time.monotonic_ns())
        cluster.start_brokers(killed)
        cluster.wait_until_whole()
    sender.flush()
    eventually(lambda: _lag(cluster) == 0, wait_s=SETTLED_S, pause_s=0.5)
    holds = holds_of({each.name: each.stop() for each in members})
    print(f"{KILLS} kills, {len(sender.places)} records, {sum(map(len, holds.values()))} deliveries")
    assert len(sender.places) == sender.sent
    found = faults(holds, sender.places, kills_ns, LOCK_S * 1_000_000_000)
    assert not found, "\n".join(found[:10])
    assert all(any(hold.member == each.name for history in holds.values() for hold in history) for each in members)


def _lag(cluster: Cluster) -> int | None:
    """Return the group's lag; None while its coordinator, one of the brokers, does not know it."""
    lags = [lag(broker.bootstrap) for broker in cluster.brokers.values()]
    return next((each for each in lags if each is not None), None)
