"""Whatever goes wrong: a committed transaction is there once, whole and in order, nothing of any other is, and nothing hangs."""

from collections import Counter

import pytest

from tests.support.budget import share_of
from tests.support.cases import case
from tests.transaction_coordinator.transaction_simulation import Simulation
from twisted_kafka.network.requests.request_context import TransactionOutcome
from twisted_kafka.protocol.errors import ErrorCode

SEEDS = share_of(300)
ENOUGH_SEEDS = 300
"""Of fewer, some have no coordinator that is fenced late."""
ALL_SEEDS = 10_000
"""About 26 seeds take a second of CPU time: the rest of them is six minutes of it, in parts that run beside each other."""
PARTS = 4
NETWORK_EVENTS = ("refused", "together", "disconnected", "lost", "doubled", "answer lost", "moved", "not leader")


def run(seeds: range) -> None:
    outcomes = {True: 0, False: 0, None: 0}
    crashes = 0
    strays: Counter[ErrorCode] = Counter()
    network: Counter[str] = Counter()
    for seed in seeds:
        with case(seed=seed):
            simulation = Simulation(seed)
            simulation.run()
            simulation.check()
        crashes += simulation.crashes
        strays += simulation.brokers.stray_errors
        network += simulation.network.events
        for transaction in simulation.transactions:
            outcomes[transaction.ended] += 1
    # Every kind of run has to be among them.
    assert min(outcomes.values()) > len(seeds) / 2, outcomes
    assert crashes > len(seeds) / 2
    # A marker that comes when its producer has a later transaction, or under a later coordinator, or in time after all.
    assert strays[ErrorCode.INVALID_PRODUCER_EPOCH] > len(seeds) / 5, strays
    assert strays[ErrorCode.TRANSACTION_COORDINATOR_FENCED] or len(seeds) < ENOUGH_SEEDS, strays
    assert strays[ErrorCode.NONE], strays
    # Whatever may go wrong on the way to other brokers.
    assert all(network[each] > len(seeds) / 10 for each in NETWORK_EVENTS), network


@pytest.mark.long
def test_a_coordinator_that_stays_tells_of_each_end_once() -> None:
    """``check`` compares what it told with its log."""
    told = late = 0
    for seed in range(SEEDS // 5):
        with case(seed=seed):
            simulation = Simulation(seed, keeps_coordinator=True)
            simulation.run()
            simulation.check()
            told += len(simulation.answered_ends)
            late += sum(end.outcome is TransactionOutcome.COMMITTED for end in simulation.bench.ends)
    assert told > SEEDS
    assert late > 0 or SEEDS < ENOUGH_SEEDS / 3  # commits that were answered with an error


@pytest.mark.long
def test_transactions_survive_everything() -> None:
    run(range(SEEDS))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_transactions_survive_everything_often(part: int) -> None:
    run(range(SEEDS + part, ALL_SEEDS, PARTS))
