"""The testing kit's fault rules work in a world, and a world's checks see through its brokers."""

import os

from tests.world.shop import TOPIC, Shop
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.world import World
from twisted_kafka.world.checking.checks import BrokenPromiseError
from twisted_kafka.world.seeds import run_test

COUNT = 5


def test_rules_hold_lose_and_refuse_requests() -> None:
    shop = Shop()

    async def test(world: World) -> None:
        with (
            world.rules.inject(api="Produce", nth=2, hold=True) as held,
            world.rules.inject(api="Produce", nth=1, close="after") as lost,
        ):
            world.process(shop.order, world.bootstrap_servers, COUNT)
            assert await world.until(lambda: held.fired)
            assert (lost.fired, held.held) == (1, 1)
            before = list(shop.acknowledged)
            await world.run(5)
            assert shop.acknowledged == before
            held.release()
            await world.run(10)
        assert shop.acknowledged == list(range(COUNT))
        with world.rules.inject(api="Metadata", error="LEADER_NOT_AVAILABLE", probability=0.5, seed=world.seed):
            program = world.process(shop.order, world.bootstrap_servers, COUNT)
            assert await world.finished(program)

    outcome = run_test(World(3), test)
    if outcome.error is not None:
        raise outcome.error


def test_a_broker_that_loses_a_record_is_found_out() -> None:
    shop = Shop()

    async def test(world: World) -> None:
        await world.finished(world.process(shop.order, world.bootstrap_servers, COUNT))
        world.kafka.all()
        log = world.brokers[0].log_directory / str(TopicPartition(TOPIC, 0)) / f"{0:020d}.log"
        os.truncate(log, log.stat().st_size - 1)

    outcome = run_test(World(5), test)
    assert isinstance(outcome.error, BrokenPromiseError)
    assert f"in the world of seed 5:\n  lost: orders-0 offset {COUNT - 1}, written by aiokafka" in str(outcome.error)
