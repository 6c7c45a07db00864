"""Java's clients and librdkafka with what ``twisted-kafka certificates`` makes, as it is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.budget import patient
from tests.support.clients.clients import java_class_path, java_tool
from tests.support.development_certificates import make, properties, stores
from tests.support.two_brokers import port_of
from twisted_kafka import Broker

TIMEOUT_S = patient(60)
VALUES = [b"one", b"two", b"three"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    make(directory)
    return directory


@pytest.fixture(scope="module")
def bootstrap(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = properties(made / "broker.properties") | {"listeners": "SSL://localhost:0"}
    with Broker(settings, data_dir=tmp_path_factory.mktemp("data")) as broker:
        yield f"localhost:{port_of(broker, 'SSL')}"


def test_librdkafka(made: Path, bootstrap: str) -> None:
    from confluent_kafka import Consumer, Producer

    settings = properties(made / "librdkafka.properties") | {"bootstrap.servers": bootstrap}
    producer = Producer(settings)
    for value in VALUES:
        producer.produce("librdkafka", value)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["librdkafka"])
    found = [message.value() for message in consumer.consume(len(VALUES), TIMEOUT_S)]
    consumer.close()
    assert found == VALUES


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["PKCS12", "JKS", "PEM"])
def test_javas_clients(made: Path, bootstrap: str, kind: str, tmp_path: Path) -> None:
    if java_class_path() is None:
        pytest.skip("needs Java and Maven")
    settings = properties(made / "client.properties")
    if kind == "PEM":
        settings = {"security.protocol": settings["security.protocol"]}
    settings |= stores(made, "client", kind)
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    words = ["--bootstrap-server", bootstrap, "--topic", f"java.{kind}"]
    java_tool("kafka.tools.ConsoleProducer", *words, "--producer.config", str(config), stdin=b"\n".join(VALUES))
    limits = ["--from-beginning", "--max-messages", str(len(VALUES)), "--timeout-ms", "60000"]
    told = java_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *words, *limits, "--consumer.config", str(config))
    assert told.encode().split() == VALUES
