"""The brokers that are compared: started once for all of ``tests/oracle``."""

from collections.abc import Iterator

import pytest

from tests.support.clients.clients import java_class_path
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.oracle.compared import BOTH_PROTOCOLS, running
from twisted_kafka.tools.compare.preparation import SETTINGS, warm


@pytest.fixture(scope="package")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    broker = ApacheKafka(tmp_path_factory.mktemp("kafka"), **SETTINGS)  # type: ignore[arg-type]
    with running(broker):
        yield broker


@pytest.fixture(scope="package")
def kraft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    if java_class_path() is None:
        pytest.skip("Java or Maven is not installed")
    broker = ApacheKafka(tmp_path_factory.mktemp("kraft"), kraft=True, **SETTINGS | BOTH_PROTOCOLS)  # type: ignore[arg-type]
    with running(broker):
        yield broker


@pytest.fixture(scope="package")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    settings = [f"{key}={value}" for key, value in {**SETTINGS, "broker.id": 1}.items()]
    broker = ServedBroker(tmp_path_factory.mktemp("ours") / "data", *settings)
    broker.start()
    try:
        warm(broker.port)
        yield broker
    finally:
        broker.stop()
