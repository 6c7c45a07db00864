"""Names and signatures that users rely on stay, and are documented under their public names."""

import subprocess
import sys
from importlib import import_module

import pytest
from zope.interface.interface import InterfaceClass

from tests.public_api import MODULES, exported, public_api, shown, stored_api
from tests.support.budget import patient
from twisted_kafka import plugins


@pytest.mark.medium
def test_the_public_api_is_the_stored_one() -> None:
    assert public_api() == stored_api(), "a change for users: note it in a news fragment, then: python -m tests.public_api"


@pytest.mark.parametrize("name", MODULES)
def test_a_public_module_exports_what_the_api_pages_show(name: str) -> None:
    module = import_module(name)
    assert list(module.__all__) == sorted(module.__all__, key=lambda each: (not each.isupper(), not each[0].isupper(), each))
    assert exported(name) == sorted(shown()[name])
    for each in exported(name):
        assert getattr(module, each) is not None
        assert getattr(getattr(module, each), "__doc__", None), f"{name}.{each} has no docstring"


def test_each_method_of_a_plug_in_says_what_the_broker_expects() -> None:
    for each in exported("twisted_kafka.plugins"):
        found = getattr(plugins, each)
        if isinstance(found, InterfaceClass):
            for name, method in found.namesAndDescriptions():
                assert method.__doc__, f"{each}.{name}"


def test_the_api_pages_show_public_names_only() -> None:
    assert sum(len(names) for names in shown().values()) == sum(len(exported(name)) for name in MODULES)


@pytest.mark.medium
def test_importing_the_package_or_its_kit_does_not_import_a_broker() -> None:
    program = "import sys, twisted_kafka, twisted_kafka.testing; print('twisted_kafka.broker.kafka_server' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=patient(60), check=True)
    assert done.stdout == "False\n"
