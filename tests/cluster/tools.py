"""Apache Kafka's tools against a cluster."""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cluster.cluster import WAIT_S, Cluster
from tests.support.clients.clients import java_command, java_tool
from tests.support.eventually import eventually

_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_VERIFICATION_S = 40
_LAG = re.compile(r"max lag is (\d+) for partition (\S+) at offset")


def reassign(cluster: Cluster, topic: str, replicas: Mapping[int, Sequence[int]], directory: Path) -> None:
    """Have partitions of a topic moved with kafka-reassign-partitions, and wait until it says that they are."""
    _execute(cluster, {topic: replicas}, directory)


def spread(cluster: Cluster, topics: Sequence[str], ids: Sequence[int], directory: Path) -> None:
    """Have topics moved to some brokers, as kafka-reassign-partitions plans it."""
    file = directory / "topics.json"
    file.write_text(json.dumps({"version": 1, "topics": [{"topic": topic} for topic in topics]}))
    words = ["--topics-to-move-json-file", str(file), "--broker-list", ",".join(map(str, ids)), "--generate"]
    told = java_tool(_REASSIGN, "--bootstrap-server", cluster.bootstrap, *words)
    plan = json.loads(told.strip().splitlines()[-1])
    found: dict[str, dict[int, list[int]]] = {}
    for each in plan["partitions"]:
        found.setdefault(each["topic"], {})[each["partition"]] = each["replicas"]
    _execute(cluster, found, directory, "--throttle", "50000000")


def _execute(cluster: Cluster, plans: Mapping[str, Mapping[int, Sequence[int]]], directory: Path, *options: str) -> None:
    plan = [
        {"topic": topic, "partition": partition, "replicas": list(ids)}
        for topic, replicas in plans.items()
        for partition, ids in replicas.items()
    ]
    file = directory / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": plan}))
    words = ["--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(file)]
    told = java_tool(_REASSIGN, *words, "--execute", *options)
    assert "Successfully started" in told, told
    for topic, replicas in plans.items():
        _wait_for(cluster, topic, {partition: list(ids) for partition, ids in replicas.items()})
    said = java_tool(_REASSIGN, *words, "--verify")
    assert said.count("is completed") == len(plan), said


def _wait_for(cluster: Cluster, topic: str, wanted: dict[int, list[int]]) -> None:
    eventually(
        lambda: not cluster.reassigned(topic) and wanted.items() <= cluster.replicas(topic).items(),
        lambda: (cluster.reassigned(topic), cluster.replicas(topic), cluster.states(topic)),
        WAIT_S,
        0.2,
    )


def set_default(cluster: Cluster, setting: str) -> None:
    """Set a dynamic default of all brokers with kafka-configs."""
    words = ["--bootstrap-server", cluster.bootstrap, "--entity-type", "brokers", "--entity-default", "--alter"]
    java_tool("kafka.admin.ConfigCommand", *words, "--add-config", setting)


def under_replicated(cluster: Cluster) -> str:
    """Return what kafka-topics says of partitions that lack in-sync replicas."""
    words = ["--bootstrap-server", cluster.bootstrap, "--describe", "--under-replicated-partitions"]
    return java_tool("org.apache.kafka.tools.TopicCommand", *words).strip()


def elect_preferred(cluster: Cluster) -> None:
    """Have the preferred replica of each partition lead, with kafka-leader-election."""
    words = ["--bootstrap-server", cluster.bootstrap, "--election-type", "preferred", "--all-topic-partitions"]
    java_tool("org.apache.kafka.tools.LeaderElectionCommand", *words)


def zookeeper_shell(cluster: Cluster, *words: str) -> str:
    """Return the last line that zookeeper-shell prints for a command."""
    told = java_tool("org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka", "-server", cluster.zookeeper.address, *words)
    return told.strip().splitlines()[-1]


def describe(bootstrap: str, topic: str) -> str:
    """Return what kafka-topics says of a topic."""
    words = ["--bootstrap-server", bootstrap, "--describe", "--topic", topic]
    return java_tool("org.apache.kafka.tools.TopicCommand", *words)


def log_dirs(bootstrap: str, topic: str) -> dict[int, dict[str, Any]]:
    """Return of each broker what kafka-log-dirs says of a topic's partitions, by their names."""
    words = ["--bootstrap-server", bootstrap, "--describe", "--topic-list", topic]
    told = java_tool("org.apache.kafka.tools.LogDirsCommand", *words)
    found = json.loads(next(line for line in told.splitlines() if line.startswith("{")))
    return {
        broker["broker"]: {part["partition"]: part for directory in broker["logDirs"] for part in directory["partitions"]}
        for broker in found["brokers"]
    }


def verified_lags(bootstrap: str, topic: str) -> list[int]:
    """Return the lags that kafka-replica-verification finds, which compares what all replicas of a topic answer to a fetch."""
    words = ["--broker-list", bootstrap, "--topics-include", topic, "--report-interval-ms", "1000", "--time", "-2"]
    command = java_command("org.apache.kafka.tools.ReplicaVerificationTool", *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            told, _ = process.communicate(timeout=_VERIFICATION_S)
        except subprocess.TimeoutExpired:  # it goes on for ever
            process.kill()
            told, _ = process.communicate()
    assert "checksum" not in told, told
    return [int(lag) for lag, _ in _LAG.findall(told)]
