"""The seeded world: brokers, disks, network and users' code in one process, from one number."""

from twisted_kafka.world.world import World

__all__ = ["World"]
