"""A broker and sessions in process, for tests of the console."""

from collections.abc import Iterable

import twisted_kafka
from twisted_kafka.console.cluster.producer import ALL, Producer
from twisted_kafka.console.cluster.record_forms import Written
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.network.requests.kafka_principal import ANONYMOUS, KafkaPrincipal
from twisted_kafka.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from twisted_kafka.protocol.records.compression import Compression

ADDRESS = "127.0.0.1"


def session_in(broker: twisted_kafka.Broker, user: str | None = None, timeout_s: float = 10.0) -> Session:
    """Return a session of a user in this broker."""
    principal = ANONYMOUS if user is None else KafkaPrincipal("User", user)
    return broker._server.local_broker().session(principal, ADDRESS, timeout_s)


def make_topic(session: Session, name: str, partitions: int = 1, **configs: str) -> str:

    settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
    (result,) = session.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics
    assert not result.error_code, result
    return name


def write(session: Session, topic: str, records: Iterable[Written], compression: Compression = Compression.NONE) -> None:
    """Write records, in a batch for each partition."""
    (found,) = session.topics([topic])
    producer = Producer(session, topic, len(found.partitions), ALL, compression)
    for each in records:
        producer.add(each)
    producer.flush()
