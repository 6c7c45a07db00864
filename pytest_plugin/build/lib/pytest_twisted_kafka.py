"""Registers the fixtures of twisted_kafka with pytest.

pytest rewrites the assertions of every module of a distribution that has a plug-in, here of this file alone. In the broker's
distribution the plug-in would cost 5 s for 600 modules, and twice the time to import them ever after.
"""

import pytest

_FIXTURES = "twisted_kafka.testing.plugin"


def pytest_configure(config: pytest.Config) -> None:
    """Register the fixtures, unless ``-p twisted_kafka.testing.plugin`` did."""
    if not config.pluginmanager.has_plugin(_FIXTURES):
        from twisted_kafka.testing import plugin

        config.pluginmanager.register(plugin, _FIXTURES)
