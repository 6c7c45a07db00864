"""Prints the digest of one run, for comparison with another process: python -m tests.world.a_run SEED BROKERS [faults]."""

import sys

from tests.world.shop import Shop
from twisted_kafka.world import World


def run(seed: int, brokers: int, *, has_faults: bool) -> str:
    shop = Shop()

    async def test(world: World) -> None:
        programs = [world.process(shop.order, world.bootstrap_servers, 40), world.process(shop.book, world.bootstrap_servers, 40)]
        if has_faults:
            world.faults(kills=1, pauses=1, partitions=1, clock_errors=1, lost_answers=0.02)
        await world.run(minutes=1)
        assert await world.finished(*programs), world.trace.text()

    with World(seed, brokers) as world:
        world.drive(test(world))
    assert shop.booked == sorted(set(shop.acknowledged)) == list(range(40)), shop.booked
    return f"{world.trace.digest}\n{world.trace.text()}"


if __name__ == "__main__":
    print(run(int(sys.argv[1]), int(sys.argv[2]), has_faults="faults" in sys.argv))
