"""Load for the clusters of this folder."""

import logging
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.cluster import Cluster, wait_for_progress
from tests.cluster.load import Load, Target

logging.getLogger("kafka").setLevel(logging.CRITICAL)  # a line for each connection that a broker that is down refuses


@pytest.fixture
def load_on(cluster: Cluster) -> Iterator[Callable[..., Load]]:
    """Load topics of the module's cluster, and wait until records are acknowledged; what still runs at the end is stopped."""
    loads: list[Load] = []

    def start(topic: str, partitions: int, **settings: object) -> Load:
        load = Load(Target(cluster.bootstrap, topic, partitions, **settings))  # type: ignore[arg-type]
        loads.append(load)
        load.start()
        wait_for_progress(lambda: load.acknowledged)
        return load

    yield start
    for load in loads:
        load.stop()
