"""Prints the digest of one run, for comparison with another process: python -m tests.world.a_run SEED BROKERS [faults]."""

import sys

from tests.world.shop import Shop
from twisted_kafka.world import World
from twisted_kafka.world.trace import Trace

ORDERS = 40


def visit(shop: Shop, seed: int, brokers: int, *, has_faults: bool) -> Trace:
    """Let a shop have some orders, and its cluster some faults; return what has happened."""

    async def test(world: World) -> None:
        servers = world.bootstrap_servers
        programs = [world.process(shop.order, servers, ORDERS), world.process(shop.book, servers, ORDERS)]
        if has_faults and brokers > 1:
            world.faults(kills=1, pauses=1, partitions=1, clock_errors=1, lost_answers=0.02)
        elif has_faults:
            world.faults(kills=1, pauses=1, clock_errors=1, slow_disks=1)
        await world.run(minutes=1)
        assert await world.finished(*programs), world.trace.text()

    with World(seed, brokers) as world:
        world.drive(test(world))
    return world.trace


def run(seed: int, brokers: int, *, has_faults: bool) -> str:
    """Return the digest and the events; raise AssertionError if an order is lost or booked twice."""
    shop = Shop()
    trace = visit(shop, seed, brokers, has_faults=has_faults)
    assert shop.booked == sorted(set(shop.acknowledged)) == list(range(ORDERS)), shop.booked
    return f"{trace.digest}\n{trace.text()}"


if __name__ == "__main__":
    print(run(int(sys.argv[1]), int(sys.argv[2]), has_faults="faults" in sys.argv))
