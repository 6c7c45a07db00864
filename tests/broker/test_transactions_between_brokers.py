"""Transactions of two brokers over real sockets: the first one coordinates, the second one leads a partition and a group."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificates import Authority
from tests.support.eventually import eventually
from tests.support.two_brokers import (
    OFFSETS,
    PRIVILEGED,
    TOPIC,
    TRANSACTIONS,
    Member,
    TransactionalProducer,
    markers,
    order,
    port_of,
    read_committed,
    stable_offset,
)
from twisted_kafka.protocol.errors import ErrorCode

pytestmark = pytest.mark.long

LEADERS = {(TOPIC, 0): 1, (TOPIC, 1): 2, (OFFSETS, 0): 2, **{(TRANSACTIONS, index): 1 for index in range(3)}}
METRICS = "AddPartitionsToTxnManager"
CA = Authority()


def tls_settings() -> dict[str, object]:
    mine = CA.issue("CN=broker", ["localhost"])
    return {
        "inter_broker_listener_name": "INSIDE",
        "control_plane_listener_name": PRIVILEGED,
        "ssl_client_auth": "required",
        "ssl_keystore_type": "PEM",
        "ssl_keystore_key": mine.key_pem(),
        "ssl_keystore_certificate_chain": mine.chain_pem,
        "ssl_truststore_type": "PEM",
        "ssl_truststore_certificates": CA.pem,
    }


class Pair:
    """Broker 1 coordinates all transactions, broker 2 all groups; each leads a partition of the topic."""

    def __init__(self, directory: Path, version: int = 0, *, has_tls: bool = False, **more: object) -> None:
        self.directory = directory
        self.listener = "INSIDE" if has_tls else PRIVILEGED
        listeners = {PRIVILEGED: "PLAINTEXT", **({"INSIDE": "SSL"} if has_tls else {})}
        settings = (tls_settings() if has_tls else {}) | more
        self.first, self.second = (Member(each, directory / str(each), listeners, **settings) for each in (1, 2))
        self._running: list[Member] = []
        for member, coordinates in ((self.first, 1), (self.second, 0)):
            self.start(member)
            member.prepare(coordinates, transaction_version=version)
        self.tell(self.first)
        self.tell(self.second)

    def start(self, member: Member) -> None:
        member.start()
        self._running.append(member)

    def stop(self, member: Member) -> None:
        self._running.remove(member)
        member.stop()

    def close(self) -> None:
        while self._running:
            self.stop(self._running[-1])

    def tell(self, member: Member, leaders: Any = None) -> None:
        """Tell a broker of the cluster as it is now."""
        ports = {each.id: port_of(each.broker, self.listener) for each in self._running}
        order(member, LEADERS if leaders is None else leaders, ports, self.listener)

    def markers_there(self) -> list[tuple[int, bool]]:
        return markers(self.directory / "2" / "log" / f"{TOPIC}-1")

    def time_count(self, member: Member) -> int:
        snapshot = member.broker.metrics.histogram_snapshot(METRICS, "VerificationTimeMs")
        return 0 if snapshot is None else snapshot.count


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Pair]]:
    made: list[Pair] = []

    def make_pair(*args: Any, **options: Any) -> Pair:
        made.append(Pair(tmp_path, *args, **options))
        return made[-1]

    yield make_pair
    for pair in made:
        pair.close()


@pytest.mark.parametrize(("version", "has_tls"), [(0, False), (2, False), (0, True)])
def test_a_transaction_with_partitions_and_a_group_of_another_broker(
    make: Callable[..., Pair], version: int, has_tls: bool
) -> None:
    pair = make(version, has_tls=has_tls)
    here, there = pair.first.talk, pair.second.talk
    producer = TransactionalProducer(here, "tx", version)
    expected: list[bytes] = []
    for number, committed in enumerate((True, False, True)):
        value = b"value %d" % number
        producer.add(0, 1)
        sequence = 0 if version == 2 else number
        ended = producer.now
        assert producer.produce(here, 0, value, sequence) == 0
        assert producer.produce(there, 1, value, sequence) == 0
        assert producer.commit_offsets(there, 10 + number) == 0
        assert read_committed(there, 1) == expected  # nobody sees it yet
        assert stable_offset(there) == -2
        producer.end(committed)
        outcome = "CompleteCommit" if committed else "CompleteAbort"
        producer.await_state(outcome)
        expected += [value] if committed else []
        assert pair.markers_there()[number:] == [(ended.producer_id, committed)]
        assert read_committed(here, 0) == read_committed(there, 1) == expected
        assert stable_offset(there) == (10 + number if committed else 10)
    assert pair.time_count(pair.second) == 6  # three times the partition, three times the group
    names = {thread.name for thread in threading.enumerate()}
    assert {"TxnMarkerSenderThread-1", "AddPartitionsToTxnSenderThread-2"} <= names
    assert not {"TxnMarkerSenderThread-2", "AddPartitionsToTxnSenderThread-1"} & names  # nobody has one without need


def test_what_the_coordinator_does_not_know_is_not_appended_elsewhere(make: Callable[..., Pair]) -> None:
    pair = make()
    here, there = pair.first.talk, pair.second.talk
    producer = TransactionalProducer(here, "tx", 0)
    producer.add(0)
    assert producer.produce(there, 1, b"never added", version=11) == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.produce(there, 1, b"never added", version=10) == ErrorCode.INVALID_TXN_STATE
    producer.add(1)
    newer = TransactionalProducer(here, "tx", 0)
    assert producer.produce(there, 1, b"fenced") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert newer.now.epoch > producer.now.epoch
    assert pair.second.broker.metrics.value(METRICS, "VerificationFailureRate") == 3


@pytest.mark.parametrize("version", [0, 2])
def test_a_broker_that_is_away_gets_its_markers_when_it_is_back(make: Callable[..., Pair], version: int) -> None:
    pair = make(version)
    producers = [TransactionalProducer(pair.first.talk, f"tx-{number}", version) for number in range(20)]
    for producer in producers:
        producer.add(0, 1)
        assert producer.produce(pair.first.talk, 0, b"here") == 0
        assert producer.produce(pair.second.talk, 1, b"there") == 0
    ids = [producer.now.producer_id for producer in producers]
    pair.stop(pair.second)
    for producer in producers:
        producer.end(True)
    assert {producer.state() for producer in producers} == {"PrepareCommit"}
    pair.tell(pair.first)  # it is dead
    unknown = "TransactionMarkerChannelManager", "UnknownDestinationQueueSize"
    eventually(lambda: pair.first.broker.metrics.value(*unknown) == 20)
    pair.start(pair.second)  # elsewhere, and it still leads
    pair.tell(pair.first)
    eventually(lambda: {producer.state() for producer in producers} == {"CompleteCommit"})
    assert sorted(pair.markers_there()) == sorted((each, True) for each in ids)
    assert read_committed(pair.second.talk, 1) == [b"there"] * 20


@pytest.mark.parametrize("is_trusted", [True, False])
def test_brokers_need_the_right_to_act_for_the_cluster(make: Callable[..., Pair], is_trusted: bool) -> None:
    """The test itself is nobody, and has it."""
    users = ["User:ANONYMOUS", *(["User:CN=broker"] if is_trusted else [])]
    pair = make(has_tls=True, authorizer_class_name="kafka.security.authorizer.AclAuthorizer", super_users=";".join(users))
    producer = TransactionalProducer(pair.first.talk, "tx", 0)
    producer.add(1)
    error = producer.produce(pair.second.talk, 1, b"value")
    if is_trusted:
        assert error == 0
        producer.end(True)
        producer.await_state("CompleteCommit")
        assert pair.markers_there() == [(producer.now.producer_id, True)]
    else:
        assert error == ErrorCode.INVALID_TXN_STATE  # the producer is not told that the broker may not ask
