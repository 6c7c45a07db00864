from collections.abc import Callable

import pytest

from tests.support.console import make_topic, write
from tests.support.eventually import eventually
from twisted_kafka.console.actions.transactions import AbortTransaction
from twisted_kafka.console.cluster.coordinators import TRANSACTION, coordinator_of
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.record_forms import Written
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.queries.cluster import cluster
from twisted_kafka.console.queries.directories import directories
from twisted_kafka.console.queries.paging import Asked
from twisted_kafka.console.queries.transactions import hanging, producers, transaction, transactions
from twisted_kafka.protocol.messages.coordinators.transactions import InitProducerIdRequest
from twisted_kafka.protocol.topic_partition import TopicPartition


def test_the_brokers(session: Session, name: Callable[[str], str]) -> None:
    make_topic(session, name("a"), 3)
    found = cluster(session)
    (load,) = found.brokers
    assert load.leaders == load.replicas >= 3
    assert (load.out_of_sync, found.missing, found.unwell, found.reassignments) == (0, (), (), ())


def test_the_directories(session: Session, name: Callable[[str], str]) -> None:
    make_topic(session, name("a"))
    found = directories(session)
    (directory,) = found.items
    assert directory.replicas >= 1
    assert 0 < directory.used_share < 1
    assert not directory.error


def test_transactions(session: Session, name: Callable[[str], str]) -> None:
    topic = make_topic(session, name("t"))
    begin = InitProducerIdRequest(transactional_id=name("tx"), transaction_timeout_ms=60_000)
    session.retrying(lambda: coordinator_of(session, name("tx"), TRANSACTION))
    eventually(lambda: not session.ask(begin).error_code)
    (row,) = transactions(session, Asked(name("tx"))).items
    assert row.state == "Empty"
    found = transaction(session, name("tx"))
    assert (found.state, found.timeout_ms, found.started_ms, found.partitions) == ("Empty", 60_000, -1, ())
    write(session, topic, [Written(b"k", b"v")])
    (producer,) = producers(session, [TopicPartition(topic, 0)])
    assert producer.start_offset is None
    assert hanging(session, [topic], session.wall_ms()).items == ()
    with pytest.raises(CommandError, match=r"no transaction of .* begins at 0"):
        AbortTransaction(topic, 0, 0).preview(session)
    with pytest.raises(CommandError, match="did you mean"):
        transaction(session, name("txx"))
