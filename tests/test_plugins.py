"""The examples of docs/plugins.md, each loaded as a user would and run in a broker."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import twisted_kafka
from tests.support.budget import patient
from tests.support.eventually import eventually
from tests.support.security.sasl_wire import Wire
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.plugins import (
    ClientMetadata,
    Node,
    ReplicaView,
    TopicPartition,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.administration.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from twisted_kafka.protocol.messages.administration.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreateTopicsRequest
from twisted_kafka.protocol.messages.coordinators.consumer_groups import ConsumerGroupHeartbeatRequest
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from twisted_kafka.protocol.messages.streams.streams_groups import (
    StreamsGroupDescribeRequest,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTopology,
)
from twisted_kafka.protocol.messages.streams.streams_topology import StreamsGroupTopologyDescriptionUpdateRequest
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.replication.replica_selector import make_preferred_replicas

pytestmark = pytest.mark.medium

PAGE = Path(__file__).parents[1] / "docs" / "plugins.md"
NO_COORDINATOR = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
"""What a broker answers that is about to coordinate a group."""
MODULES = ("addresses", "described", "first", "logins", "nearest", "rules", "standby", "teams", "writers")


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The examples as modules on the path."""
    written = re.findall(r"```python\n# (\w+)\.py: (.*?)```", PAGE.read_text(), re.DOTALL)
    assert sorted(name for name, _ in written) == list(MODULES)
    for name, text in written:
        (tmp_path / f"{name}.py").write_text(f"# {text}")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


def wire_to(broker: twisted_kafka.Broker) -> Wire:
    return Wire(int(broker.bootstrap_servers.rpartition(":")[2]))


def create(wire: Wire, topic: str, partitions: int = 1) -> Any:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)], timeout_ms=10_000
    )
    return wire.send(request, 5).topics[0]


AUTHORIZED = {"authorizer.class.name": "writers.OnlyWriters", "principal.builder.class": "addresses.NamedByAddress"}


@pytest.mark.medium
def test_an_authorizer_and_a_principal_builder() -> None:
    with twisted_kafka.Broker({**AUTHORIZED, "shop.writers": "User:127.0.0.1"}) as broker:
        assert create(wire_to(broker), "orders").error_code == 0
    with twisted_kafka.Broker({**AUTHORIZED, "shop.writers": "User:billing"}) as broker:
        assert create(wire_to(broker), "orders").error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_an_authorizer_without_acls() -> None:
    with twisted_kafka.Broker({**AUTHORIZED, "shop.writers": "User:127.0.0.1"}) as broker:
        wire = wire_to(broker)
        creation = AclCreation(resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3)
        (created,) = wire.send(CreateAclsRequest(creations=[creation]), 1).results
        assert created.error_code == ErrorCode.SECURITY_DISABLED
        anything = DeleteAclsFilter(resource_type_filter=2, pattern_type_filter=1, operation=1, permission_type=1)
        (deleted,) = wire.send(DeleteAclsRequest(filters=[anything]), 1).filter_results
        assert deleted.error_code == ErrorCode.SECURITY_DISABLED


def sasl_settings(mechanism: str, handler: str) -> dict[str, str]:
    prefix = f"listener.name.sasl_plaintext.{mechanism.lower()}."
    module = {"PLAIN": "plain.PlainLoginModule", "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule"}[mechanism]
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": mechanism,
        f"{prefix}sasl.jaas.config": f"org.apache.kafka.common.security.{module} required;",
        f"{prefix}sasl.server.callback.handler.class": handler,
    }


def answer_to_login(broker: twisted_kafka.Broker, mechanism: str, token: bytes) -> Any:
    port = next(each.port for each in broker.listeners if each.listener_name == "SASL_PLAINTEXT")
    wire = Wire(port)
    assert wire.send(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
    return wire.send(SaslAuthenticateRequest(auth_bytes=token), 2)


@pytest.mark.medium
def test_a_callback_handler_for_passwords(tmp_path: Path) -> None:
    users = {"alice": {"salt": "00ff", "hash": hashlib.pbkdf2_hmac("sha256", b"secret", b"\x00\xff", 100_000).hex()}}
    (tmp_path / "users.json").write_text(json.dumps(users))
    settings = {**sasl_settings("PLAIN", "logins.HashedPasswords"), "shop.passwords": str(tmp_path / "users.json")}
    with twisted_kafka.Broker(settings) as broker:
        assert answer_to_login(broker, "PLAIN", b"\0alice\0secret").error_code == 0
        for wrong in (b"\0alice\0other", b"\0bob\0secret"):
            assert answer_to_login(broker, "PLAIN", wrong).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_callback_handler_for_tokens() -> None:
    settings = {**sasl_settings("OAUTHBEARER", "logins.KnownTokens"), "shop.tokens": "abc123:alice;xyz:bob"}
    with twisted_kafka.Broker(settings) as broker:
        known = answer_to_login(broker, "OAUTHBEARER", b"n,,\x01auth=Bearer abc123\x01\x01")
        assert (known.error_code, known.auth_bytes) == (0, b"")
        assert 3_590_000 < known.session_lifetime_ms <= 3_600_000
        unknown = answer_to_login(broker, "OAUTHBEARER", b"n,,\x01auth=Bearer nope\x01\x01")
        assert b"invalid_token" in unknown.auth_bytes


def test_a_quota_callback() -> None:
    with twisted_kafka.Broker({"client.quota.callback.class": "teams.ByTeam"}) as broker:
        wire = wire_to(broker)
        assert create(wire, "orders").error_code == 0
        records = build_batch([SimpleRecord(0, None, bytes(20_000))])
        data = [TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=records)])]
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=data)
        assert wire.send(request, 7).throttle_time_ms > 0


def test_a_policy_for_topics_and_one_for_settings() -> None:
    policies = {"create.topic.policy.class.name": "rules.NamedByTeam", "alter.config.policy.class.name": "rules.AtMostAWeek"}
    with twisted_kafka.Broker(policies) as broker:
        wire = wire_to(broker)
        refused = create(wire, "orders")
        assert (refused.error_code, refused.error_message) == (ErrorCode.POLICY_VIOLATION, "name topics team.purpose")
        assert create(wire, "shop.orders").error_code == 0
        for value, code in (("1000", 0), ("-1", ErrorCode.POLICY_VIOLATION)):
            change = IncrementalAlterConfigsRequestAlterableConfig(name="retention.ms", config_operation=0, value=value)
            resource = IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=2, resource_name="shop.orders", configs=[change]
            )
            (answer,) = wire.send(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
            assert answer.error_code == code


def test_a_replica_selector() -> None:
    config = KafkaConfig.embedded({"replica.selector.class": "nearest.NearIfCurrent"})
    assert make_preferred_replicas(config, MetadataCache(1)) is not None
    from nearest import NearIfCurrent  # type: ignore[import-not-found]

    leader = ReplicaView(Node(1, "a", 9092, "north"), 10, 0)
    client = ClientMetadata("south", "c", "127.0.0.1", "User:a", "PLAINTEXT")
    for behind_ms, expected in ((1_000, 2), (1_001, 1)):
        near = ReplicaView(Node(2, "b", 9092, "south"), 9, behind_ms)
        assert NearIfCurrent().select(TopicPartition("t", 0), client, [leader, near], leader).node.id == expected


def test_an_assignor() -> None:
    with twisted_kafka.Broker({"group.consumer.assignors": "uniform,standby.OneActive"}) as broker:
        wire = wire_to(broker)
        assert create(wire, "orders", partitions=3).error_code == 0
        eventually(lambda: wire.send(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0].error_code == 0)
        joining: dict[str, Any] = {"group_id": "g", "rebalance_timeout_ms": 10_000, "subscribed_topic_names": ["orders"]}
        joining |= {"server_assignor": "one-active", "topic_partitions": []}

        def join(member_id: str) -> list[list[int]]:
            def answered() -> Any:
                answer = wire.send(ConsumerGroupHeartbeatRequest(**joining, member_id=member_id), 1)
                return None if answer.error_code in NO_COORDINATOR else answer

            answer = eventually(answered)
            assert answer.error_code == 0, answer.error_message
            return [each.partitions for each in answer.assignment.topic_partitions]

        assert join("first") == [[0, 1, 2]]
        assert join("second") == []


def join_streams_group(wire: Wire, member_id: str) -> Any:
    """Join the streams group g, which reads the topic orders; return the answer."""
    topology = StreamsGroupHeartbeatRequestTopology(
        subtopologies=[StreamsGroupHeartbeatRequestSubtopology(subtopology_id="0", source_topics=["orders"])]
    )
    joining: dict[str, Any] = {"group_id": "g", "rebalance_timeout_ms": 10_000, "topology": topology}
    joining |= {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    eventually(lambda: wire.send(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0].error_code == 0)

    def answered() -> Any:
        answer = wire.send(StreamsGroupHeartbeatRequest(**joining, member_id=member_id, process_id=member_id), 1)
        return None if answer.error_code in NO_COORDINATOR else answer

    answer = eventually(answered)
    assert answer.error_code == 0, answer.error_message
    return answer


@pytest.mark.medium
def test_a_task_assignor() -> None:
    with twisted_kafka.Broker(
        {"group.streams.assignors": "first.FirstProcess", "group.streams.assignment.interval.ms": "0"}
    ) as broker:
        wire = wire_to(broker)
        assert create(wire, "orders", partitions=3).error_code == 0
        assert [each.partitions for each in join_streams_group(wire, "one").active_tasks] == [[0, 1, 2]]
        assert join_streams_group(wire, "two").active_tasks == []


@pytest.mark.medium
def test_a_plugin_for_topology_descriptions() -> None:
    with twisted_kafka.Broker({"group.streams.topology.description.plugin.class": "described.InMemory"}) as broker:
        wire = wire_to(broker)
        assert create(wire, "orders").error_code == 0
        assert join_streams_group(wire, "one").topology_description_required
        node = TopologyDescriptionNode(name="source", node_type=1, source_topics=["orders"])
        told = TopologyDescription(subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=[node])])
        update = StreamsGroupTopologyDescriptionUpdateRequest(group_id="g", member_id="one", topology_description=told)
        assert wire.send(update, 0).error_code == 0
        (group,) = wire.send(StreamsGroupDescribeRequest(group_ids=["g"], include_topology_description=True), 1).groups
        assert (group.topology_description_status, group.topology_description) == (3, told)


@pytest.mark.slow
def test_the_examples_are_typed(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--follow-imports", "silent"]
    environment = {**os.environ, "MYPYPATH": str(PAGE.parents[1])}
    files = [f"{name}.py" for name in MODULES]
    done = subprocess.run(
        [*command, *files], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=patient(110), check=False
    )
    assert done.stdout.endswith(f"no issues found in {len(MODULES)} source files\n"), done.stdout + done.stderr
