"""One run: a world of three brokers, its faults and its load from a seed, and what has to hold in the end."""

from collections.abc import Awaitable, Callable, Collection, Iterable
from random import Random
from typing import Any, Final

from tests.world.hours.ending import Place, check_ending, failures
from tests.world.hours.load import PROGRAMS, audit, keep, make_topics
from twisted_kafka.world import World
from twisted_kafka.world.faults import Numbers
from twisted_kafka.world.moments.copies import Moments
from twisted_kafka.world.seeds import Outcome, run_test, shrink

BROKERS: Final = 3
QUIET_S: Final = 30.0
"""How long the cluster has to recover, after the last fault and without load."""
SETTINGS: Final = {
    "replica.lag.time.max.ms": 10_000,
    "log.cleaner.backoff.ms": 5_000,
    "auto.leader.rebalance.enable": "false",
    "group.coordinator.rebalance.protocols": "classic,consumer,share,streams",
    "transaction.max.timeout.ms": 60_000,
    "group.initial.rebalance.delay.ms": 500,
}
SMALL_SEGMENTS: Final = {
    "log.segment.bytes": 16_384,
    "log.flush.offset.checkpoint.interval.ms": 2_000,
    "log.flush.start.offset.checkpoint.interval.ms": 2_000,
    "replica.high.watermark.checkpoint.interval.ms": 1_000,
}
"""The settings of every other pair of seeds: segments are rolled, flushed and truncated often, and checkpoints follow closely."""
_WITH_SMALL_SEGMENTS: Final = (1, 2)
"""Of each four seeds."""
_DISKS: Final = ("full_disks", "slow_disks", "stalled_disks", "failing_disks", "short_transfers", "bad_blocks")


def has_small_segments(seed: int) -> bool:
    """Return whether a seed has small segments, which a loss of power may leave in pieces."""
    return seed % 4 in _WITH_SMALL_SEGMENTS


def faults_of(seed: int) -> Numbers:
    """Return the faults that a seed has: some of a few kinds."""
    random = Random(f"budget {seed}")
    numbers: Numbers = {
        "kills": random.randrange(3),
        "pauses": random.randrange(3),
        "partitions": random.randrange(3),
        "clock_errors": random.randrange(2),
        "crashes_with_power_loss": random.randrange(2) + has_small_segments(seed),
    }
    numbers[random.choice(_DISKS)] = random.randrange(3)
    return numbers


def make_world(seed: int, kept: Collection[int] | None = None) -> World:
    """Return the world of a seed, with these faults of its plan only."""
    settings = SETTINGS | SMALL_SEGMENTS if has_small_segments(seed) else SETTINGS
    return World(seed, BROKERS, settings, only_faults=kept, pause_share=0.02 if seed % 2 else 0.0)


def make_test(virtual_s: float) -> Any:
    """Return the test: ``virtual_s`` seconds with faults and load, and the rest."""

    async def test(world: World) -> None:
        seen: set[Place] = set()
        with failures() as unexpected:
            await live(world, [*PROGRAMS, audit(seen)])
            await check_ending(world, seen)
        assert not unexpected, f"unexpected in a log: {unexpected[0]}"

    async def live(world: World, load: Iterable[Callable[[str], Awaitable[None]]]) -> None:
        await world.finished(world.process(make_topics, world.bootstrap_servers))
        programs = [world.process(keep(each), world.bootstrap_servers) for each in load]
        world.always(world.kafka.all, every_s=30)
        lost_answers = Random(f"answers {world.seed}").choice((0.0, 0.01))
        world.faults(longest_s=20, lost_answers=lost_answers, **faults_of(world.seed))
        await world.run(virtual_s)
        for each in programs:
            each.kill()
        world.faults(lost_answers=0)
        await world.run(QUIET_S)
        await world.eventually(lambda: all(each.is_serving for each in world.brokers))
        await world.eventually(world.is_replicated)

    return test


def run(seed: int, virtual_s: float, kept: Collection[int] | None = None, moments: Moments | None = None) -> Outcome:
    """Run the world of a seed."""
    return run_test(make_world(seed, kept), make_test(virtual_s), moments)


def smallest(failed: Outcome, virtual_s: float) -> Outcome:
    """Return a failed run with fewer faults."""
    return shrink(lambda kept: make_world(failed.world.seed, kept), make_test(virtual_s), failed)
