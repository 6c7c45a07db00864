"""kill -9 under members of a share group: each record is completed once, none is lost, and no two members have one at once."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.sharing import VERSION, JavaMember, LibrdkafkaMember, faults, holds_of
from tests.support.budget import share_of
from tests.support.clients.clients import java_library
from tests.support.clients.served import ServedBroker
from tests.support.eventually import eventually
from tests.support.share_client import RawClient, set_group_configs
from twisted_kafka.protocol.messages.share.share_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)

KILLS = share_of(100)
PARTITIONS = 4
TOPIC, GROUP = "shared", "sharers"
LOCK_S = 30
PER_KILL = 200
"""Records that are sent between two kills."""
PAUSE_S = 0.5
SETTLED_S = 300

pytestmark = [pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(5400)]


class Sender:
    """Sends numbered values; knows where each acknowledged one is."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 900_000, "log_level": 0}
        self._producer = Producer(settings | {"reconnect.backoff.max.ms": 200, "linger.ms": 5})
        self.places: list[tuple[int, int]] = []
        self.sent = 0

    def send(self, count: int) -> None:
        for _ in range(count):
            self._producer.produce(TOPIC, b"%d" % self.sent, partition=self.sent % PARTITIONS, on_delivery=self._delivered)
            self.sent += 1
        self._producer.poll(0)

    def _delivered(self, error: object, message: object) -> None:
        assert error is None, error
        self.places.append((message.partition(), message.offset()))  # type: ignore[attr-defined]

    def flush(self) -> None:
        assert self._producer.flush(SETTLED_S) == 0


def prepare(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).values():
        future.result(30)
    with RawClient(bootstrap) as client:
        set_group_configs(client, GROUP, share_auto_offset_reset="earliest", share_delivery_count_limit="10")


def lag(broker: ServedBroker) -> int | None:
    """Return the group's lag, or None while it is not known."""
    request = DescribeShareGroupOffsetsRequest(groups=[DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)])
    with RawClient(broker.bootstrap) as client:
        (group,) = client.call(request, DescribeShareGroupOffsetsResponse, 1).groups
    lags = [each.lag for topic in group.topics for each in topic.partitions]
    return sum(lags) if len(lags) == PARTITIONS and min(lags) >= 0 else None


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
        seen = sum(len(each.lines) for each in members)
        sender.send(PER_KILL)
        eventually(lambda seen=seen: sum(len(each.lines) for each in members) > seen, wait_s=SETTLED_S)  # type: ignore[misc]
        time.sleep(pause.random() * PAUSE_S)
        kills_ns.append(time.monotonic_ns())
        broker.kill()
        kills_ns.append(time.monotonic_ns())
        broker.start()
    sender.flush()
    eventually(lambda: lag(broker) == 0, wait_s=SETTLED_S, pause_s=0.5)
    holds = holds_of({each.name: each.stop() for each in members})
    print(f"{kind}: {KILLS} kills, {len(sender.places)} records, {sum(map(len, holds.values()))} deliveries")
    assert len(sender.places) == sender.sent
    found = faults(holds, sender.places, kills_ns, LOCK_S * 1_000_000_000)
    assert not found, "\n".join(found[:10])
    assert all(any(hold.member == each.name for history in holds.values() for hold in history) for each in members)
    assert broker.stop() == 0
