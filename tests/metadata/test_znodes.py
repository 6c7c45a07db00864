import json
from pathlib import Path
from typing import Any

import pytest

from twisted_kafka.metadata import znodes, znodes_admin
from twisted_kafka.metadata.znode_json import BadNodeError, desanitized, sanitized
from twisted_kafka.protocol.topic_partition import TopicPartition

DATA = Path(__file__).parent.parent / "data" / "zookeeper"
NODES = [json.loads(line) for file in sorted(DATA.glob("*.jsonl")) for line in file.read_text().splitlines()]


def test_every_node_of_a_real_cluster_round_trips() -> None:
    kinds = set()
    for node in NODES:
        kind = znodes_admin.node_type(node["path"])
        assert kind is not None or not node["data"], node["path"]
        if node["data"]:
            assert kind.decode(node["data"].encode()).encode().decode() == node["data"], node["path"]
            kinds.add(kind)
    assert len(kinds) == 17


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"version":{}}', b'{"version":3,"partitions":[1]}', b"\xff"])
def test_invalid_data_raises_bad_node_error(data: Any) -> None:
    for kind in {znodes_admin.node_type(node["path"]) for node in NODES} - {None, znodes.ConfigNode, znodes_admin.AclChangeNode}:
        if kind is not znodes_admin.TextNode:
            with pytest.raises(BadNodeError):
                kind.decode(data)


STATE = '"leader":%s,"leader_epoch":%s,"isr":%s,"controller_epoch":1'


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (znodes.PartitionStateNode, STATE % ('"1"', 0, "[]")),
        (znodes.PartitionStateNode, STATE % (1, 2**31, "[]")),
        (znodes.PartitionStateNode, STATE % (1, 2**31 - 1, "[]")),
        (znodes.PartitionStateNode, STATE % (1, -1, "[]")),
        (znodes.PartitionStateNode, STATE % (1, 0, "null")),
        (znodes.PartitionStateNode, STATE % (1, 0, '["1"]')),
        (znodes.PartitionStateNode, STATE % ("true", 0, "[]")),
        (znodes.TopicNode, '"partitions":{"0":"12"}'),
        (znodes.TopicNode, '"partitions":{"0":[1]},"adding_replicas":{"0":[1.5]}'),
        (znodes.TopicNode, '"partitions":{"4294967296":[1]}'),
        (znodes.ControllerNode, '"brokerid":"1"'),
        (znodes.BrokerNode, '"endpoints":["nonsense"]'),
        (znodes.BrokerNode, '"endpoints":["A://h:99999"]'),
        (znodes.BrokerNode, '"endpoints":["A://h:1"],"listener_security_protocol_map":[]'),
        (znodes.BrokerNode, '"endpoints":["A://h:1"],"rack":7'),
        (znodes_admin.PartitionsNode, '"partitions":[{"topic":7,"partition":0}]'),
        (znodes_admin.ReassignmentNode, '"partitions":[{"topic":"t","partition":0,"replicas":{"1":2}}]'),
        (znodes_admin.AclNode, '"acls":[{"principal":[],"permissionType":"Allow","host":"*","operation":"Read"}]'),
        (znodes_admin.TokenNode, '"tokenId":[]'),
    ],
)
def test_values_of_a_wrong_type_are_a_bad_node(kind: Any, text: str) -> None:
    """Whoever uses them would fail, as the controller does with a registration that it cannot send to the brokers."""
    with pytest.raises(BadNodeError):
        kind.decode(b'{"version":3,%s}' % text.encode())


@pytest.mark.parametrize("data", [b"-1", b"2147483647", b"99999999999", b"x"])
def test_an_epoch_without_a_successor_is_a_bad_node(data: bytes) -> None:
    assert znodes.NumberNode.decode(b"2147483646").value == 2**31 - 2
    with pytest.raises(BadNodeError):
        znodes.NumberNode.decode(data)


def test_a_node_that_is_nested_too_deep_is_a_bad_node() -> None:
    with pytest.raises(BadNodeError):
        znodes.TopicNode.decode(b'{"partitions":' + b"[" * 100_000)


def test_older_versions_are_decoded() -> None:
    old = b'{"version":1,"host":"h","port":9,"jmx_port":-1,"timestamp":"5"}'
    assert znodes.BrokerNode.decode(old).endpoints == ["PLAINTEXT://h:9"]
    assert znodes.TopicNode.decode(b'{"version":1,"partitions":{"0":[1]}}').topic_id is None
    assert znodes.ControllerNode.decode(b'{"version":1,"brokerid":4,"timestamp":"5"}').kraft_controller_epoch == -1
    assert znodes.ConfigChangeNode.decode(b'{"version":1,"entity_type":"topics","entity_name":"a"}').entity_path == "topics/a"


def test_endpoints() -> None:
    for text in ("PLAINTEXT://host:9092", "A_B://[::1]:0", "X://:1"):
        assert str(znodes.EndPointText.parse(text)) == text
    assert znodes.EndPointText.parse("A://[::1]:5") == ("A", "::1", 5)
    for text in ("host:1", "A://host", "A://host:x", "A://host:\N{SUPERSCRIPT TWO}", "A://host:--1"):
        with pytest.raises(BadNodeError):
            znodes.EndPointText.parse(text)


def test_names_are_sanitized_as_in_kafka() -> None:
    assert sanitized("bob smith") == "bob%20smith"
    assert sanitized("app/1") == "app%2F1"
    assert sanitized("a*b~c-d_e.f") == "a%2Ab%7Ec-d_e.f"
    assert desanitized("bob%20smith") == "bob smith"


def test_an_invalid_topic_id_is_a_bad_node() -> None:
    with pytest.raises(BadNodeError):
        znodes.TopicNode.decode(b'{"version":3,"partitions":{},"topic_id":"short"}')


def test_paths() -> None:
    partition = TopicPartition("orders.eu", 2)
    assert znodes.state_path(partition) == "/brokers/topics/orders.eu/partitions/2/state"
    assert znodes.partition_path(partition) == "/brokers/topics/orders.eu/partitions/2"
    assert znodes.config_path("topics/a") == "/config/topics/a"
    assert znodes.broker_path(3) == "/brokers/ids/3"
    assert znodes.delete_topic_path("a") == "/admin/delete_topics/a"
