"""kill -9 under members of a share group: each record is completed once, none is lost, and no two members have one at once."""

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.budget import share_of
from tests.support.clients.clients import java_library
from tests.support.clients.served import ServedBroker
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
    prepare,
)
from tests.support.eventually import eventually

KILLS = share_of(100)
LOCK_S = 30
PER_KILL = 200
"""Records that are sent between two kills."""
PAUSE_S = 0.5

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(5400)]


@pytest.mark.parametrize("kind", ["librdkafka", "java", "both"])
def test_each_record_is_completed_once_through_kills(start_broker: Callable[..., ServedBroker], tmp_path: Path, kind: str) -> None:
    if kind != "librdkafka" and java_library("kafka-clients", VERSION) is None:
        pytest.skip("Java or Maven is not installed")
    broker = start_broker(
        "group.coordinator.rebalance.protocols=classic,consumer,share",
        "share.coordinator.state.topic.num.partitions=3",
        f"group.share.record.lock.duration.ms={LOCK_S * 1000}",
        "group.share.max.delivery.count.limit=10",
    )
    prepare(broker.bootstrap)
    sender = Sender(broker.bootstrap)
    members: list[LibrdkafkaMember | JavaMember] = []
    if kind != "java":
        members += [LibrdkafkaMember(broker.bootstrap, GROUP, TOPIC, f"rd{number}") for number in range(2)]
    if kind != "librdkafka":
        members += [JavaMember(broker.bootstrap, GROUP, TOPIC, f"java{number}", tmp_path) for number in range(2)]
    kills_ns = []
    pause = random.Random(kind)
    for _ in range(KILLS):
        seen, stored = sum(len(each.lines) for each in members), len(sender.places)
        sender.send(PER_KILL)
        # The members may have enough to do without the producer, which would never get to send on a busy machine.
        eventually(partial(sender.has_stored_more, stored), wait_s=SETTLED_S)
        eventually(lambda seen=seen: sum(len(each.lines) for each in members) > seen, wait_s=SETTLED_S)  # type: ignore[misc]
        time.sleep(pause.random() * PAUSE_S)
        kills_ns.append(time.monotonic_ns())
        broker.kill()
        kills_ns.append(time.monotonic_ns())
        broker.start()
    sender.flush()
    eventually(lambda: lag(broker.bootstrap) == 0, wait_s=SETTLED_S, pause_s=0.5)
    holds = holds_of({each.name: each.stop() for each in members})
    print(f"{kind}: {KILLS} kills, {len(sender.places)} records, {sum(map(len, holds.values()))} deliveries")
    assert len(sender.places) == sender.sent
    found = faults(holds, sender.places, dict.fromkeys(range(PARTITIONS), kills_ns), LOCK_S * 1_000_000_000)
    assert not found, "\n".join(found[:10])
    assert all(any(hold.member == each.name for history in holds.values() for hold in history) for each in members)
    assert broker.stop() == 0
