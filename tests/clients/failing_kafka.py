"""Apache Kafka that fails as a rule of the kit says: for a cause of its own where it has one, else by a proxy before it."""

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.clients.faulting_proxy import FaultingProxy
from tests.support.clients.clients import read_confluent, send_confluent
from tests.support.eventually import eventually
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.ports import free_port
from twisted_kafka.client.one_request import ask
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.administration.partitions import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from twisted_kafka.protocol.messages.administration.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

SEEN_S = 1.0
"""Until a broker has what was changed in ZooKeeper."""
QUOTA_BYTES_PER_S = 100.0
"""A record is more in a second, and less in two: it has some 140 bytes in a request or response."""
QUOTA_WINDOW_S = 2.0
_TIMEOUT_S = 20.0
_QUOTAS = {"Produce": "producer_byte_rate", "Fetch": "consumer_byte_rate"}


class FailingKafka:
    """Brokers 1 and 2 of Apache Kafka, each behind a proxy, and one between them (``under_faults.FaultyBroker``).

    Broker 1 is the controller, and leads the topic until it is moved.
    """

    def __init__(self, brokers: list[ApacheKafka], proxies: list[FaultingProxy], between: FaultingProxy) -> None:
        from confluent_kafka.admin import AdminClient

        self.servers = ",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies)
        self._brokers, self._proxies, self._between = brokers, proxies, between
        self._old_leader: FaultingProxy | None = None
        self._admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    @contextmanager
    def fault(self, rule: Mapping[str, Any], api: str, topic: str) -> Iterator[None]:
        """Have the fault (``FaultyBroker``)."""
        by_proxy = {"error": "KAFKA_STORAGE_ERROR"} if rule.get("disk") == "full" else rule
        cause = self._cause(rule, api, topic)
        for proxy in self._proxies:  # before the cause, which a consumer meets at once
            proxy.spoil(api, {} if cause else by_proxy)
        try:
            with cause or nullcontext():
                yield
            assert any(proxy.faults for proxy in self._proxies), "nothing failed"
        finally:
            for proxy in self._proxies:
                proxy.spoil(api, {})

    def _cause(self, rule: Mapping[str, Any], api: str, topic: str) -> AbstractContextManager[None] | None:
        """Return the cause that Kafka itself has for it."""
        match rule:
            case {"error": "TOPIC_AUTHORIZATION_FAILED"}:
                return self._forbidden(api, topic)
            case {"error": "MESSAGE_TOO_LARGE"}:
                return self._changed(topic, {"max.message.bytes": "1"})
            case {"error": "NOT_ENOUGH_REPLICAS"}:
                return self._without_follower(topic)
            case {"throttle_ms": _}:
                return self._with_quota(_QUOTAS[api])
            case {"leader": _}:
                return self._moved(topic)
        return None

    @contextmanager
    def _forbidden(self, api: str, topic: str) -> Iterator[None]:
        """Allow everyone something else: what no ACL allows is forbidden then."""
        from confluent_kafka.admin import (
            AclBinding,
            AclBindingFilter,
            AclOperation,
            AclPermissionType,
            ResourcePatternType,
            ResourceType,
        )

        kind, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
        other = AclOperation.DESCRIBE if api == "Produce" else AclOperation.WRITE
        acl = AclBinding(ResourceType.TOPIC, topic, kind, "User:ANONYMOUS", "*", other, allow)
        self._admin.create_acls([acl])[acl].result(_TIMEOUT_S)
        time.sleep(SEEN_S)
        yield
        acls = AclBindingFilter(ResourceType.TOPIC, topic, kind, None, None, AclOperation.ANY, AclPermissionType.ANY)
        self._admin.delete_acls([acls])[acls].result(_TIMEOUT_S)
        time.sleep(SEEN_S)

    @contextmanager
    def _changed(self, topic: str, settings: Mapping[str, str]) -> Iterator[None]:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        self._admin.incremental_alter_configs([resource])[resource].result(_TIMEOUT_S)
        time.sleep(SEEN_S)
        yield

    @contextmanager
    def _without_follower(self, topic: str) -> Iterator[None]:
        """Have broker 2 not fetch a record until it is out of sync, and require two replicas."""
        self._between.hold_fetches()
        send_confluent(self.servers, topic, [b"not replicated"], acks=1)
        try:
            with self._changed(topic, {"min.insync.replicas": "2"}):
                self._wait(topic, leader=1, isr=[1])
                yield
        finally:
            self._between.release_fetches()

    @contextmanager
    def _with_quota(self, key: str) -> Iterator[None]:
        """Have a quota of each client id."""
        self._set_quota(OpData(key=key, value=QUOTA_BYTES_PER_S))
        yield
        self._set_quota(OpData(key=key, value=0.0, remove=True))

    def _set_quota(self, change: OpData) -> None:
        each = AlterClientQuotasRequestEntryData(entity=[EntityData(entity_type="client-id", entity_name=None)], ops=[change])
        answer = self._ask(AlterClientQuotasRequest(entries=[each]), 0)
        assert [entry.error_code for entry in answer.entries] == [0]
        time.sleep(QUOTA_WINDOW_S)  # so that what was before does not count

    @contextmanager
    def _moved(self, topic: str) -> Iterator[None]:
        """Have broker 2 lead, as clients do not know yet, and broker 1 have no replica, of which consumers could read on."""
        only_two = ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=0, replicas=[2])])
        answer = self._ask(AlterPartitionReassignmentsRequest(topics=[only_two]), 0)
        assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)
        eventually(lambda: not self._ask(ListPartitionReassignmentsRequest(topics=None), 0).topics, pause_s=0.1)
        self._wait(topic, leader=2, isr=[2])
        self._old_leader = self._proxies[0]
        yield
        self._old_leader = None

    def _wait(self, topic: str, leader: int, isr: list[int]) -> None:
        """Wait until both brokers tell of this leader and these replicas in sync."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])

        def told() -> list[Any]:
            found = [self._ask(request, 5, at).topics[0].partitions for at in range(len(self._brokers))]
            return [(each[0].leader_id, sorted(each[0].isr_nodes)) if each else None for each in found]

        eventually(lambda: told() == [(leader, isr)] * len(self._brokers), told, pause_s=0.1)

    def _ask(self, request: Message, version: int, broker: int = 0) -> Any:
        return ask(("127.0.0.1", self._brokers[broker].port), request, version, "tests", _TIMEOUT_S)

    def create_topic(self, topic: str) -> str:
        from confluent_kafka.admin import NewTopic

        self._admin.create_topics([NewTopic(topic, 1, replica_assignment=[[1, 2]])])[topic].result(_TIMEOUT_S)
        self._wait(topic, leader=1, isr=[1, 2])
        return topic

    def append(self, topic: str, value: str) -> None:
        send_confluent(self.servers, topic, [value.encode()])

    def values(self, topic: str) -> list[str]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "-", "log_level": 0})
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), _TIMEOUT_S)
        consumer.close()
        return [value.decode() for value in read_confluent(self.servers, topic, end)]

    def asked(self, api: str, topic: str) -> int:
        """Return how many requests there were, those that an old leader refused as one.

        Whether a client asks the old leader again before it has new metadata is chance (kafka-python).
        """
        return sum(min(proxy.asked, 1) if proxy is self._old_leader else proxy.asked for proxy in self._proxies)


@contextmanager
def failing_kafka() -> Iterator[FailingKafka]:
    """Have two brokers of Apache Kafka, and their proxies."""
    with TemporaryDirectory() as directory:
        brokers: list[ApacheKafka] = []
        proxies: list[FaultingProxy] = []
        between: list[FaultingProxy] = []
        try:
            for broker_id in (1, 2):
                kafka, for_brokers = ApacheKafka(Path(directory) / str(broker_id)), free_port()
                brokers.append(kafka)
                proxies.append(FaultingProxy(free_port(), kafka.port))
                between.append(FaultingProxy(free_port(), for_brokers))
                kafka.change(**_settings(broker_id, proxies[-1].port, between[-1].port))
                kafka.change(listeners=f"PLAINTEXT://{kafka.bootstrap},REPLICATION://127.0.0.1:{for_brokers}")
            brokers[1].change(**{"zookeeper.connect": brokers[0].zookeeper})
            brokers[0].start()
            brokers[1].start_broker()
            yield FailingKafka(brokers, proxies, between[0])
        finally:
            for proxy in (*proxies, *between):
                proxy.close()
            for kafka in reversed(brokers):
                kafka.kill()


def _settings(broker_id: int, for_clients: int, for_brokers: int) -> dict[str, Any]:
    return {
        "broker.id": broker_id,
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{for_clients},REPLICATION://127.0.0.1:{for_brokers}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT",
        "inter.broker.listener.name": "REPLICATION",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "replica.lag.time.max.ms": 2000,
        "quota.window.num": 2,
    }
