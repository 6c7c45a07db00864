"""With the oldest ``inter.broker.protocol.version`` that a cluster may have, brokers of both kinds work together."""

from pathlib import Path

import pytest

from tests.cluster.brokers import Kind
from tests.cluster.cluster import Cluster, running
from tests.cluster.faults import ensure_nothing_is_wrong, kill_a_leader
from tests.cluster.load import Load, Target

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.clients, pytest.mark.timeout(600)]

OLD = "2.8"


def test_nothing_is_lost(tmp_path: Path) -> None:
    kinds = [Kind.OURS, Kind.APACHE, Kind.OURS]
    with running(Cluster(tmp_path, kinds, inter_broker_protocol_version=OLD)) as cluster:
        cluster.create_topic("old", 3, 3)
        load = Load(Target(cluster.bootstrap, "old", 3))
        load.start()
        try:
            for _ in range(3):
                kill_a_leader(cluster, load)
            ensure_nothing_is_wrong(cluster, load)
        finally:
            load.stop()
