"""What the access log of a broker says about requests besides the amounts: groups, acks, partition ids, resources."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from twisted_kafka import Broker
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.headers import encode_request_header
from twisted_kafka.protocol.messages.administration.acls import AclCreation, CreateAclsRequest, DescribeAclsRequest
from twisted_kafka.protocol.messages.administration.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from twisted_kafka.protocol.messages.administration.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
)
from twisted_kafka.protocol.messages.administration.scram import DescribeUserScramCredentialsRequest, UserName
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreateTopicsRequest
from twisted_kafka.protocol.messages.coordinators.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from twisted_kafka.protocol.messages.coordinators.transaction_admin import DescribeTransactionsRequest
from twisted_kafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.medium

COMMITTED = [OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=2, committed_offset=0)])]
PRODUCED = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=each, records=b"") for each in (1, 2)])]
FETCHED = [FetchTopic(topic="t", partitions=[FetchPartition(partition=each, partition_max_bytes=9) for each in (2, 0)])]
QUOTAS = [
    AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type="user", entity_name="me"), EntityData(entity_type="client-id", entity_name=None)]
    )
]
ACL = AclCreation(resource_type=3, resource_name="g", principal="User:me", host="*", operation=3, permission_type=3)
CASES: tuple[tuple[Message, int, dict[str, Any]], ...] = (
    (CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=3, replication_factor=1)], timeout_ms=9_000), 5, {}),
    (FindCoordinatorRequest(key="g"), 2, {"resources": [{"type": "group", "name": "g"}]}),
    (
        FindCoordinatorRequest(key_type=1, coordinator_keys=["a", "b"]),
        4,
        {"resources": [{"type": "transactional-id", "name": name} for name in ("a", "b")]},
    ),
    (HeartbeatRequest(group_id="g", generation_id=3, member_id="m"), 4, {"group_id": "g", "member_id": "m", "generation": 3}),
    (SyncGroupRequest(group_id="g", generation_id=3, member_id="m"), 3, {"group_id": "g", "member_id": "m", "generation": 3}),
    (LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")]), 4, {"group_id": "g", "member_id": "m"}),
    (LeaveGroupRequest(group_id="g", members=[MemberIdentity(), MemberIdentity()]), 4, {"group_id": "g"}),
    (OffsetCommitRequest(group_id="g", topics=COMMITTED), 8, {"group_id": "g", "partition_ids": [2]}),
    (
        OffsetCommitRequest(group_id="g", member_id="m", generation_id_or_member_epoch=4, topics=COMMITTED),
        5,
        {"group_id": "g", "member_id": "m", "generation": 4, "partition_ids": [2]},
    ),
    (OffsetFetchRequest(group_id="g", topics=[]), 5, {"group_id": "g"}),
    (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g")]), 8, {"group_id": "g"}),
    (
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=each) for each in ("g", "h")]),
        8,
        {"resources": [{"type": "group", "name": "g"}, {"type": "group", "name": "h"}]},
    ),
    (DescribeGroupsRequest(groups=["g"]), 5, {"resources": [{"type": "group", "name": "g"}]}),
    (DeleteGroupsRequest(groups_names=["g"]), 2, {"resources": [{"type": "group", "name": "g"}]}),
    (
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=kind, resource_name=name)
                for kind, name in ((4, "0"), (4, ""), (2, "t"), (32, "g"), (99, "?"))
            ]
        ),
        4,
        {
            "resources": [
                {"type": kind, "name": name} for kind, name in (("broker", "0"), ("broker", None), ("topic", "t"), ("group", "g"))
            ]
        },
    ),
    (
        IncrementalAlterConfigsRequest(
            resources=[IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=8, resource_name="0")]
        ),
        1,
        {"resources": [{"type": "broker-logger", "name": "0"}]},
    ),
    (
        AlterClientQuotasRequest(entries=QUOTAS),
        1,
        {"resources": [{"type": "user", "name": "User:me"}, {"type": "client-id", "name": None}]},
    ),
    (
        DescribeClientQuotasRequest(components=[ComponentData(entity_type="ip", match_type=0, match="10.0.0.1")]),
        1,
        {"resources": [{"type": "ip", "name": "10.0.0.1"}]},
    ),
    (
        DescribeUserScramCredentialsRequest(users=[UserName(name="me")]),
        0,
        {"resources": [{"type": "user", "name": "User:me"}]},
    ),
    (
        DescribeAclsRequest(resource_type_filter=1, resource_name_filter=None, operation=1, permission_type=1),
        1,
        {"resources": [{"type": "any", "name": None}]},
    ),
    (CreateAclsRequest(creations=[ACL, ACL]), 2, {"resources": [{"type": "group", "name": "g"}]}),
    (
        DescribeTransactionsRequest(transactional_ids=["tx"]),
        0,
        {"resources": [{"type": "transactional-id", "name": "tx"}]},
    ),
    (ProduceRequest(acks=1, timeout_ms=9_000, topic_data=PRODUCED), 9, {"acks": 1, "partition_ids": [1, 2]}),
    (
        ProduceRequest(acks=-1, timeout_ms=9_000, transactional_id="tx", topic_data=PRODUCED),
        8,
        {"acks": -1, "transaction": {"id": "tx"}, "partition_ids": [1, 2]},
    ),
    (FetchRequest(max_bytes=99, topics=FETCHED), 11, {"partition_ids": [2, 0]}),
)
SAID = ("acks", "group_id", "member_id", "generation", "resources", "resources_left_out", "transaction")


def test_every_request_says_what_it_is_about(tmp_path: Path) -> None:
    """Requests that fail say it too."""
    with Broker({"access.log.dir": tmp_path / "access"}) as broker:
        host, _, port = broker.bootstrap_servers.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=30) as client, client.makefile("rb") as answers:
            for number, (request, version, _) in enumerate(CASES):
                data = encode_request_header(request.KEY, version, number, "app") + request.encode(version)
                client.sendall(len(data).to_bytes(4, "big") + data)
                answers.read(int.from_bytes(answers.read(4), "big"))
    lines = [json.loads(line) for path in (tmp_path / "access").rglob("node-*.jsonl") for line in path.open()]
    assert len(lines) == len(CASES)
    for line in lines:
        request, _, expected = CASES[line["correlation_id"]]
        said = {name: line[name] for name in SAID if name in line}
        if "partition_ids" in expected:
            said["partition_ids"] = line["topics"][0]["partition_ids"]
        assert said == expected, type(request).__name__
