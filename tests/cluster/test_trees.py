"""What administration leaves in ZooKeeper, byte for byte: two of our brokers beside two of Apache Kafka's, asked the same."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.cluster.brokers import Kind
from tests.cluster.cluster import WAIT_S, Cluster, running
from tests.support.eventually import eventually
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.administration.acls import AclCreation, CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from twisted_kafka.protocol.messages.administration.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from twisted_kafka.protocol.messages.administration.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from twisted_kafka.protocol.messages.administration.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from twisted_kafka.protocol.messages.administration.scram import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from twisted_kafka.protocol.messages.administration.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from twisted_kafka.tools.compare.talk import Talk

pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.timeout(600)]

SETTINGS: dict[str, Any] = {
    "authorizer_class_name": "kafka.security.authorizer.AclAuthorizer",
    "allow_everyone_if_no_acl_found": "true",
    "auto_leader_rebalance_enable": "false",
    "super_users": "User:ANONYMOUS",
}
TOPIC, BROKER, USER_RESOURCE = 2, 4, 7
SET, DELETE, APPEND = 0, 1, 2
LITERAL, PREFIXED, ANY = 3, 4, 1
ALLOW, READ, WRITE, DESCRIBE = 3, 3, 4, 8

Node = tuple[str, bool]
"""A node's data, and whether it vanishes with a session."""
Tree = dict[str, Node]

OWN_DATA = (
    (re.compile(r'"(?:topic_)?id":"[\w-]{22}"'), '"id":"<id>"'),
    (re.compile(r'"timestamp":"\d+"'), '"timestamp":"<time>"'),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:<port>"),
    (re.compile(r'"port":\d+'), '"port":<port>'),
)
"""What is another one in each cluster."""
FEATURES = re.compile(r'"features":\{"transaction.version":\{"min_version":1,"max_version":2\}\}')
"""Kafka has this feature in KRaft mode alone (docs/adr/0032-features.md)."""


CONFIG = re.compile(r'(?<="config":)\{.*?\}')
"""Kafka has configs in the order of Java's hashes."""


def in_order(found: re.Match[str]) -> str:
    return json.dumps(json.loads(found[0]), sort_keys=True)


@contextmanager
def connected(cluster: Cluster) -> Iterator[KazooClient]:
    client = KazooClient(cluster.zookeeper.address, timeout=20)
    client.start(30)
    yield client
    client.stop()
    client.close()


def tree_of(client: KazooClient) -> Tree:
    found: Tree = {}

    def walk(path: str) -> None:
        for name in client.get_children(path or "/"):
            child = f"{path}/{name}"
            with suppress(NoNodeError):  # it has just been deleted
                data, stat = client.get(child)
                text = "<none>" if data is None else data.decode()
                for pattern, replacement in OWN_DATA:
                    text = pattern.sub(replacement, text)
                text = CONFIG.sub(in_order, FEATURES.sub('"features":{}', text))
                found[child] = (text, bool(stat.ephemeralOwner))
                walk(child)

    walk("")
    return {path: node for path, node in found.items() if not path.startswith("/zookeeper")}


def alter(resource_type: int, name: str, *operations: tuple[str, int, str | None]) -> Message:
    configs = [
        IncrementalAlterConfigsRequestAlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in operations
    ]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource])


def quota(entity: dict[str, str | None], **values: float | None) -> Message:
    entities = [EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()]
    ops = [OpData(key=key, value=value or 0, remove=value is None) for key, value in values.items()]
    return AlterClientQuotasRequest(entries=[AlterClientQuotasRequestEntryData(entity=entities, ops=ops)])


def create(name: str, replicas: list[list[int]], **configs: str) -> Message:
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in enumerate(replicas)]
    settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=settings)
    return CreateTopicsRequest(topics=[topic], timeout_ms=30_000)


def grant(resource: str, pattern: int, principal: str, operation: int, host: str = "*") -> AclCreation:
    return AclCreation(
        resource_type=TOPIC,
        resource_name=resource,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=ALLOW,
    )


def move(topic: str, partition: int, replicas: list[int] | None) -> Message:
    part = ReassignablePartition(partition_index=partition, replicas=replicas)
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[part])])


def upsert(name: str, mechanism: int) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(name=name, mechanism=mechanism, iterations=4096, salt=b"salt", salted_password=b"x" * 32)


STEPS: dict[str, list[tuple[Message, int]]] = {
    "topics are created": [
        (create("plain", [[1, 2], [2, 1]]), 7),
        (create("with-configs", [[1]], retention_ms="1000", cleanup_policy="compact,delete"), 7),
        (create("gone", [[2, 1]]), 7),
        (create("dotted.name_", [[2]]), 7),
        (create("shrunk", [[1, 2]]), 7),
    ],
    "partitions are added": [
        (
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="plain", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[2, 1])])],
                timeout_ms=30_000,
            ),
            3,
        )
    ],
    "configs change": [
        (alter(TOPIC, "plain", ("retention.ms", SET, "5000"), ("min.insync.replicas", SET, "2")), 1),
        (alter(TOPIC, "with-configs", ("retention.ms", DELETE, None), ("cleanup.policy", DELETE, None)), 1),
        (alter(TOPIC, "plain", ("leader.replication.throttled.replicas", APPEND, "0:1,1:2")), 1),
        (alter(BROKER, "", ("log.retention.ms", SET, "86400000")), 1),
        (alter(BROKER, "1", ("log.cleaner.threads", SET, "1"), ("leader.replication.throttled.rate", SET, "1000")), 1),
        (alter(BROKER, "1", ("log.cleaner.threads", DELETE, None)), 1),
        (alter(BROKER, "2", ("log.cleaner.threads", SET, "1")), 1),
        (alter(BROKER, "2", ("log.cleaner.threads", DELETE, None)), 1),
    ],
    "quotas change": [
        (quota({"user": "bob smith"}, producer_byte_rate=1000.0, request_percentage=50.5), 1),
        (quota({"user": "bob smith", "client_id": "app/1"}, consumer_byte_rate=1e7), 1),
        (quota({"user": None}, controller_mutation_rate=0.5), 1),
        (quota({"client_id": None}, producer_byte_rate=123456789012.0), 1),
        (quota({"ip": "10.0.0.1"}, connection_creation_rate=20.0), 1),
        (quota({"user": "gone"}, producer_byte_rate=1.0), 1),
        (quota({"user": "gone"}, producer_byte_rate=None), 1),
        (quota({"client_id": "gone"}, producer_byte_rate=1.0), 1),
        (quota({"client_id": "gone"}, producer_byte_rate=None), 1),
        (quota({"ip": "10.0.0.2"}, connection_creation_rate=20.0), 1),
        (quota({"ip": "10.0.0.2"}, connection_creation_rate=None), 1),
        (quota({"user": "bob smith", "client_id": "gone"}, consumer_byte_rate=1.0), 1),
        (quota({"user": "bob smith", "client_id": "gone"}, consumer_byte_rate=None), 1),
        (quota({"user": "both", "client_id": "gone"}, consumer_byte_rate=1.0), 1),
        (quota({"user": "both", "client_id": "gone"}, consumer_byte_rate=None), 1),
        (quota({"user": "with-client", "client_id": "app"}, consumer_byte_rate=1.0), 1),
        (quota({"user": "with-client"}, consumer_byte_rate=1.0), 1),
        (quota({"user": "with-client"}, consumer_byte_rate=None), 1),
        (quota({"user": "nobody"}, consumer_byte_rate=None), 1),
    ],
    "users change": [
        (AlterUserScramCredentialsRequest(upsertions=[upsert("alice", 1), upsert("carol", 2)]), 0),
        (AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="carol", mechanism=2)]), 0),
    ],
    "ACLs change": [
        (CreateAclsRequest(creations=[grant("plain", LITERAL, "User:alice", READ), grant("plain", LITERAL, "User:bob", WRITE)]), 3),
        (CreateAclsRequest(creations=[grant("pre", PREFIXED, "User:CN=a,O=b", DESCRIBE, "10.0.0.1")]), 3),
        (CreateAclsRequest(creations=[grant("gone", LITERAL, "User:alice", READ)]), 3),
        (
            DeleteAclsRequest(
                filters=[
                    DeleteAclsFilter(
                        resource_type_filter=TOPIC,
                        resource_name_filter="gone",
                        pattern_type_filter=LITERAL,
                        principal_filter=None,
                        host_filter=None,
                        operation=1,
                        permission_type=1,
                    )
                ]
            ),
            3,
        ),
    ],
    "a partition is reassigned, and another leader elected": [
        (move("plain", 0, [2, 1]), 0),
        (ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=30_000), 2),
        (move("with-configs", 0, [2]), 0),
        (move("dotted.name_", 0, [2, 1]), 0),
        (move("dotted.name_", 0, [2]), 0),
        (move("shrunk", 0, [2]), 0),
    ],
    "a topic is deleted": [(DeleteTopicsRequest(topic_names=["gone"], timeout_ms=30_000), 5)],
}


def administer(kind: Kind, directory: Path) -> dict[str, Tree]:
    """Return the tree after each step."""
    trees = {}
    with running(Cluster(directory, [kind] * 2, is_direct=True, **SETTINGS), 1) as cluster, connected(cluster) as client:
        cluster.start_brokers(2)
        assert cluster.controller() == 1
        talk = Talk(cluster.brokers[1].port, "trees", b"admin")
        for step, requests in STEPS.items():
            for request, version in requests:
                assert talk.ask(request, version) is not None, step
                eventually(lambda: is_quiet(tree_of(client)), lambda: tree_of(client), WAIT_S, 0.2)
            trees[step] = tree_of(client)
        talk.close()
    return trees


def is_quiet(tree: Tree) -> bool:
    """Whether topics are whole and nothing is being moved, deleted or told."""
    if any(re.match("/admin/delete_topics/|/isr_change_notification/", path) for path in tree):
        return False
    for path, (data, _) in tree.items():
        if re.fullmatch("/brokers/topics/[^/]+", path):
            topic = json.loads(data)
            if any(ids for key in ("adding_replicas", "removing_replicas") for ids in topic[key].values()):
                return False
            for partition, ids in topic["partitions"].items():
                state = tree.get(f"{path}/partitions/{partition}/state")
                if state is None or set(json.loads(state[0])["isr"]) != set(ids):
                    return False
    return True


def test_the_trees_are_those_of_apache_kafka(tmp_path: Path) -> None:
    ours, kafkas = (administer(kind, tmp_path / kind.name) for kind in (Kind.OURS, Kind.APACHE))
    differing = {
        (step, path): (ours[step].get(path), theirs.get(path))
        for step, theirs in kafkas.items()
        for path in ours[step].keys() | theirs.keys()
        if ours[step].get(path) != theirs.get(path)
    }
    assert not differing, "\n".join(map(str, differing.items()))
