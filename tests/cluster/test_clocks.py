"""Brokers whose wall clocks are set forward and back while clients write and read."""

from collections.abc import Iterator

import pytest

from tests.cluster.brokers import Kind
from tests.cluster.clocks import WallClock, build_wall_clock
from tests.cluster.cluster import Cluster, prepared, rest, wait_for_progress
from tests.cluster.faults import LONG_S, LoadOn, withstand
from tests.cluster.load import Load

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.clients, pytest.mark.timeout(600)]

JUMP_S = 1800
KINDS = [Kind.OURS, pytest.param(Kind.APACHE, marks=pytest.mark.oracle)]
Clocks = dict[int, WallClock]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.name)
def clocks_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Clocks]]:
    folder = tmp_path_factory.mktemp("clocks")
    library = build_wall_clock(folder)
    cluster = Cluster(folder / "cluster", [request.param] * 3)
    clocks = {each: WallClock(library, folder / f"clock-{each}") for each in cluster.brokers}
    with prepared(cluster):
        for each, clock in clocks.items():
            cluster.brokers[each].environment = clock.environment
        cluster.start_brokers(*cluster.brokers)
        yield cluster, clocks


@pytest.fixture
def cluster(clocks_of: tuple[Cluster, Clocks]) -> Iterator[Cluster]:
    cluster, clocks = clocks_of
    yield cluster
    for clock in clocks.values():
        clock.shift(0)


@pytest.fixture
def clocks(clocks_of: tuple[Cluster, Clocks]) -> Clocks:
    return clocks_of[1]


@pytest.mark.parametrize("seconds", [JUMP_S, -JUMP_S])
def test_a_leaders_clock_jumps(cluster: Cluster, clocks: Clocks, load_on: LoadOn, seconds: int) -> None:
    def jump(cluster: Cluster, load: Load) -> None:
        clocks[cluster.leader(load.target.topic)].shift(seconds)
        rest(LONG_S)
        wait_for_progress(lambda: load.acknowledged)

    jump.__name__ = f"jump{seconds}"
    withstand(cluster, load_on, jump)


def test_a_broker_that_was_set_back_finds_others_that_start_again(cluster: Cluster, clocks: Clocks, load_on: LoadOn) -> None:
    def set_back(cluster: Cluster, load: Load) -> None:
        # What it waits for before it connects again must not be as much longer.
        leader = cluster.leader(load.target.topic)
        for each, clock in clocks.items():
            if each != leader:
                clock.shift(-JUMP_S)
        cluster.brokers[leader].kill()
        cluster.wait_until_gone(leader)
        cluster.start_brokers(leader)

    withstand(cluster, load_on, set_back)


def test_clocks_that_jump_to_and_fro(cluster: Cluster, clocks: Clocks, load_on: LoadOn) -> None:
    if cluster.brokers[1].kind is Kind.APACHE:
        pytest.skip("with Apache Kafka's brokers, kafka-python's producer once did not end: not looked into")

    def jump_about(cluster: Cluster, load: Load) -> None:
        for seconds in (JUMP_S, 0, -JUMP_S, JUMP_S, 0):
            for each, clock in clocks.items():
                clock.shift(seconds if each % 2 else -seconds)
            rest(1)

    withstand(cluster, load_on, jump_about)
