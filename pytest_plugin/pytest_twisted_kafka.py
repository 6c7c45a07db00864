"""Registers the fixtures of twisted_kafka with pytest.

pytest rewrites the assertions of every module of a distribution that has a plug-in, here of this file alone. In the broker's
distribution the plug-in would cost 5 s for 600 modules, and twice the time to import them ever after.
"""

import importlib

import pytest

_PLUGINS = ("twisted_kafka.testing.plugin", "twisted_kafka.world.plugin")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of tests with the marker kafka_world."""
    group = parser.getgroup("kafka", "worlds of Kafka")
    group.addoption("--kafka-seed", type=int, metavar="N", help="run each test with the marker kafka_world in this world only")
    group.addoption("--kafka-faults", metavar="N,N", help="let only these faults of the seed's plan happen; none: no fault")
    group.addoption(
        "--kafka-at", type=float, metavar="SECONDS", help="with --kafka-seed: open a prompt in the world at this virtual moment"
    )
    group.addoption("--kafka-trace", metavar="FILE", help="write the events of the failed world, or of --kafka-seed, to a file")


def pytest_configure(config: pytest.Config) -> None:
    """Register the fixtures and the marker of worlds, unless ``-p twisted_kafka.testing.plugin`` did, say."""
    for name in _PLUGINS:
        if not config.pluginmanager.has_plugin(name):
            config.pluginmanager.register(importlib.import_module(name), name)
