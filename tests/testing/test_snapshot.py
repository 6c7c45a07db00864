"""Snapshots of a broker, with real clients that stay connected."""

import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from twisted_kafka.client.one_request import ask
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.administration.configs import DescribeConfigsRequest, DescribeConfigsResource
from twisted_kafka.protocol.messages.administration.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)
from twisted_kafka.protocol.messages.administration.scram import DescribeUserScramCredentialsRequest
from twisted_kafka.testing import Broker
from twisted_kafka.testing.snapshot import SnapshotError

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")


@pytest.fixture
def broker() -> Iterator[Broker]:
    settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "allow.everyone.if.no.acl.found": True}
    with Broker(settings) as running:
        running.create_topic("orders", partitions=2)
        yield running


def client(kind: Any, broker: Broker, **settings: object) -> Any:
    fast = {"bootstrap.servers": broker.bootstrap_servers, "reconnect.backoff.max.ms": 100, "log_level": 0}
    return kind({**fast, **{key.replace("_", "."): value for key, value in settings.items()}})


def values(broker: Broker, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in broker.records(topic)]


def test_what_came_after_a_snapshot_is_gone_and_clients_go_on(broker: Broker) -> None:
    producer = client(confluent_kafka.Producer, broker)
    consumer = client(confluent_kafka.Consumer, broker, group_id="g", auto_offset_reset="earliest")
    consumer.subscribe(["orders"])
    producer.produce("orders", b"1", partition=0)
    assert producer.flush(30) == 0
    assert consumer.poll(30).value() == b"1"
    consumer.commit(asynchronous=False)
    address, snapshot = broker.bootstrap_servers, broker.snapshot()
    producer.produce("orders", b"2", partition=0)
    assert producer.flush(30) == 0
    assert consumer.poll(30).value() == b"2"
    consumer.commit(asynchronous=False)
    broker.create_topic("bills")
    assert broker.committed("g") == {("orders", 0): 2}

    broker.restore(snapshot)
    assert broker.bootstrap_servers == address
    assert (broker.topics(), values(broker), broker.committed("g")) == (["orders"], [b"1"], {("orders", 0): 1})
    producer.produce("orders", b"3", partition=0)
    assert producer.flush(30) == 0
    assert values(broker) == [b"1", b"3"]
    consumer.close()


def test_transactions_settings_and_acls_are_in_it(broker: Broker) -> None:
    writer = client(confluent_kafka.Producer, broker, transactional_id="till")
    writer.init_transactions(20)
    writer.begin_transaction()
    writer.produce("orders", b"open", partition=0)
    writer.flush(30)
    tools = client(admin.AdminClient, broker)
    acl = admin.AclBinding(
        admin.ResourceType.TOPIC,
        "bills",
        admin.ResourcePatternType.LITERAL,
        "User:a",
        "*",
        admin.AclOperation.READ,
        admin.AclPermissionType.ALLOW,
    )
    tools.create_acls([acl])[acl].result(30)
    change = admin.ConfigEntry("retention.ms", "1234", incremental_operation=admin.AlterConfigOpType.SET)
    resource = admin.ConfigResource(admin.ResourceType.TOPIC, "orders", incremental_configs=[change])
    tools.incremental_alter_configs([resource])[resource].result(30)
    snapshot = broker.snapshot()
    writer.abort_transaction(20)
    anything = admin.AclBindingFilter(
        admin.ResourceType.ANY, None, admin.ResourcePatternType.ANY, None, None, admin.AclOperation.ANY, admin.AclPermissionType.ANY
    )
    tools.delete_acls([anything])[anything].result(30)

    broker.restore(snapshot)
    assert tools.describe_acls(anything).result(30) == [acl]
    described = admin.ConfigResource(admin.ResourceType.TOPIC, "orders")
    assert tools.describe_configs([described])[described].result(30)["retention.ms"].value == "1234"
    reader = client(confluent_kafka.Consumer, broker, group_id="g", auto_offset_reset="earliest")
    reader.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    assert reader.poll(0.3) is None  # the transaction is open again
    reader.close()


def test_users_quotas_and_settings_of_brokers_are_in_it(broker: Broker) -> None:
    address = ("127.0.0.1", int(broker.bootstrap_servers.split(":")[1]))

    def asked(request: Message, version: int) -> Any:
        return ask(address, request, version, "tools", 30)

    def state() -> tuple[Any, ...]:
        users = asked(DescribeUserScramCredentialsRequest(users=None), 0).results
        quotas = asked(DescribeClientQuotasRequest(components=[], strict=False), 0).entries or []
        node = str(broker.broker_ids()[0])
        wanted = DescribeConfigsResource(resource_type=4, resource_name=node, configuration_keys=["log.cleaner.backoff.ms"])
        (described,) = asked(DescribeConfigsRequest(resources=[wanted]), 1).results
        return (
            [(each.user, [info.iterations for info in each.credential_infos]) for each in users],
            [(part.entity_name, value.key, value.value) for each in quotas for part in each.entity for value in each.values],
            [config.value for config in described.configs],
        )

    tools = client(admin.AdminClient, broker)
    scram = admin.ScramCredentialInfo(admin.ScramMechanism.SCRAM_SHA_256, 5000)
    tools.alter_user_scram_credentials([admin.UserScramCredentialUpsertion("till", scram, b"secret")])["till"].result(30)
    set_quota(asked, "shop", 1000.0)
    node = admin.ConfigResource(admin.ResourceType.BROKER, str(broker.broker_ids()[0]))
    node.add_incremental_config(
        admin.ConfigEntry("log.cleaner.backoff.ms", "1234", incremental_operation=admin.AlterConfigOpType.SET)
    )
    tools.incremental_alter_configs([node])[node].result(30)
    expected = [("till", [5000])], [("shop", "producer_byte_rate", 1000.0)], ["1234"]
    assert state() == expected
    snapshot = broker.snapshot()
    tools.alter_user_scram_credentials([admin.UserScramCredentialDeletion("till", admin.ScramMechanism.SCRAM_SHA_256)])[
        "till"
    ].result(30)
    set_quota(asked, "shop", 5.0)

    broker.restore(snapshot)
    assert state() == expected


def set_quota(asked: Any, client_id: str, value: float) -> None:
    change = OpData(key="producer_byte_rate", value=value)
    entity = EntityData(entity_type="client-id", entity_name=client_id)
    answer = asked(AlterClientQuotasRequest(entries=[AlterClientQuotasRequestEntryData(entity=[entity], ops=[change])]), 0)
    assert [each.error_code for each in answer.entries] == [0]


def test_a_snapshot_is_put_back_as_often_as_wanted_and_into_another_broker(broker: Broker) -> None:
    broker.produce("orders", ["1"])
    snapshot = broker.snapshot()
    for _ in range(2):
        broker.produce("orders", ["2"])
        broker.restore(snapshot)
        assert values(broker) == [b"1"]
    with Broker() as other:
        other.create_topic("bills")
        other.restore(snapshot)
        assert (other.topics(), values(other)) == (["orders"], [b"1"])


def test_rules_requests_and_time_stay(broker: Broker) -> None:
    broker.clock.hold()
    broker.clock.advance(days=1)
    before = broker.clock.now
    with broker.faults.inject(api="Metadata", error="UNKNOWN_SERVER_ERROR", times=1) as fault:
        broker.restore(broker.snapshot())
        assert (broker.clock.is_held, broker.clock.now >= before) == (True, True)
        broker.clock.release()
        client(confluent_kafka.Producer, broker).list_topics(timeout=30)
        assert fault.fired == 1
    assert broker.requests.of("Metadata").where(error="UNKNOWN_SERVER_ERROR").count() == 1


def test_a_restart_answers_a_fetch_that_waits(broker: Broker) -> None:
    reader = client(confluent_kafka.Consumer, broker, group_id="g", fetch_wait_max_ms=60_000)
    reader.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    reader.poll(0.2)
    broker.snapshot()
    last = broker.requests.of("Fetch").last
    assert last is not None
    assert last.outcome == "answered"
    reader.close()


def test_what_cannot_be_is_told(broker: Broker, tmp_path: Path) -> None:
    with Broker({"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}) as other:
        two = other.snapshot()
        with pytest.raises(ValueError, match="the snapshot is of 2 log directories, the broker has 1"):
            broker.restore(two)
    assert broker.is_running
    with pytest.raises(RuntimeError, match="the broker does not run"):
        other.snapshot()


def log_dir(broker: Broker) -> Path:
    return Path(broker.embedded.config.log_dirs[0])


def is_as_before(broker: Broker, address: str) -> bool:
    """Whether the broker of the fixture runs where it did, with record 1, and takes another."""
    assert broker.is_running
    assert (broker.bootstrap_servers, values(broker)) == (address, [b"1"])
    assert not list(log_dir(broker).glob(".restoring*"))
    return broker.produce("orders", ["2"]) == 1


def test_a_file_that_cannot_be_copied_leaves_the_broker_running(broker: Broker) -> None:
    broker.produce("orders", ["1"])
    address = broker.bootstrap_servers
    broker.clock.hold()
    for name in ("lost", "lost-too"):
        (log_dir(broker) / name).symlink_to("nowhere")
    with pytest.raises(
        SnapshotError,
        match=r"^no snapshot was taken, and the broker runs with its previous state: .*No such file .* \(and 1 more\)$",
    ):
        broker.snapshot()
    assert broker.clock.is_held
    broker.clock.release()
    assert is_as_before(broker, address)


def test_no_place_for_a_snapshot_leaves_the_broker_running(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.produce("orders", ["1"])
    address = broker.bootstrap_servers
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(SnapshotError, match=r"runs with its previous state: .*No such file or directory"):
        broker.snapshot()
    assert is_as_before(broker, address)


def test_a_full_disk_leaves_what_was_there_before_a_restore() -> None:
    with Broker({"log.index.size.max.bytes": 4096}) as broker:
        broker.create_topic("orders")
        broker.produce("orders", [b"x" * 500_000] * 2)
        large = broker.snapshot()
        broker.delete_topic("orders")
        broker.create_topic("orders")
        broker.produce("orders", ["1"])
        address = broker.bootstrap_servers
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, limits[1]))  # a larger file cannot be written, as on a full disk
        try:
            with pytest.raises(
                SnapshotError, match=r"was not restored, and the broker runs with its previous state: .*File too large"
            ):
                broker.restore(large)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert is_as_before(broker, address)


def test_what_the_broker_cannot_start_with_is_not_restored() -> None:
    with Broker({"broker.id": 7}) as other:
        strange = other.snapshot()
    with Broker({"broker.id": 1}) as broker:
        broker.create_topic("orders")
        broker.produce("orders", ["1"])
        address = broker.bootstrap_servers
        with pytest.raises(SnapshotError, match=r"was not restored, and the broker runs with its previous state: .*broker.id"):
            broker.restore(strange)
        assert is_as_before(broker, address)


def test_a_broker_that_does_not_start_again_is_told(broker: Broker) -> None:
    meta = log_dir(broker) / "meta.properties"
    meta.write_text(meta.read_text().replace("version=0", "version=9"))
    with pytest.raises(SnapshotError, match=r"^no snapshot was taken, and the broker has stopped: .*version"):
        broker.snapshot()
    assert not broker.is_running


def test_a_wait_ends_with_its_broker(broker: Broker) -> None:
    broker.stop()
    with pytest.raises(
        TimeoutError, match="0 of 1 requests Produce came before the broker stopped, or it does not run; there were no requests"
    ):
        broker.requests.of("Produce").wait_for(timeout_s=60)
