"""The metrics page of a broker that has handled requests."""

import urllib.request

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

import twisted_kafka
from tests.support.certificates import Authority
from tests.support.ports import free_port


@pytest.fixture(scope="package")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The metrics of a broker that has handled a Produce and an OffsetCommit, and has a TLS listener."""
    address = f"127.0.0.1:{free_port()}"
    directory = tmp_path_factory.mktemp("access")
    settings = {
        "metrics.listener": address,
        "access.log.dir": directory,
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": Authority().issue("CN=broker", ["localhost"]).write_pem(directory / "key.pem"),
    }
    with twisted_kafka.Broker(settings) as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        producer.send("topic", b"value").get(timeout=30)
        producer.close()
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="billing", enable_auto_commit=False)
        consumer.assign([TopicPartition("topic", 0)])
        consumer.commit({TopicPartition("topic", 0): OffsetAndMetadata(0, "", -1)})
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
        consumer.close()
    return text
