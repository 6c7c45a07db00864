"""Checker and harness against three brokers of Apache Kafka: what they promise they keep, and what they do not, is found."""

from collections.abc import Iterator

import pytest

from tests.cluster.brokers import Kind
from tests.cluster.cluster import Cluster, running
from tests.cluster.faults import FAULTS, Do, LoadOn, lose_what_one_replica_alone_has_acknowledged, withstand

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.clients, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(Cluster(tmp_path_factory.mktemp("apache"), [Kind.APACHE] * 3)) as cluster:
        yield cluster


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_nothing_is_lost_with_two_in_sync_replicas(cluster: Cluster, load_on: LoadOn, fault: Do) -> None:
    withstand(cluster, load_on, fault)


def test_what_one_replica_alone_has_acknowledged_is_found_lost(cluster: Cluster, load_on: LoadOn) -> None:
    lose_what_one_replica_alone_has_acknowledged(cluster, load_on)
