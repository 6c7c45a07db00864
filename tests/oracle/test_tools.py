"""Apache Kafka's command-line tools say of this broker what they say of Apache Kafka 3.9, and do what they do."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clients.clients import PROGRAMS, java_class_path, send_confluent
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.processes import start_tied
from twisted_kafka.config.keys import KAFKA_4_TOPIC_KEYS
from twisted_kafka.metadata.features import SUPPORTED, TRANSACTION_VERSION
from twisted_kafka.tools.compare.scenarios.coordinators.transactions import transactional
from twisted_kafka.tools.compare.talk import Talk

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(600)]

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}

BROKER = "@"
"""Stands for the broker's address where a tool does not want it at the end of the line."""

SAID_OTHERWISE = (
    (r"(localhost|127\.0\.0\.1):\d+", "<broker>"),
    (r"(TopicId|Cluster ID): [\w-]{22}", r"\1: <id>"),
    (r'"logDir":"[^"]*"', '"logDir":"<dir>"'),
    (r"consumer-[\w.-]+-[0-9a-f-]{36}", "<member>"),
    (r"\s*synonyms=.*", ""),
    (r"^\s+at .*$", ""),
    (r"\b1[6-9]\d{11}\b", "<time>"),
    # Asked with DescribeTopicPartitions, which Apache Kafka serves in KRaft mode only.
    (r"\tElr:.*$", ""),
    (r"(Could not \w+ [\w.]+( to \d+)?\.) .*$", r"\1 <text>"),
    (r"(Exception|topic command ?): .*$", r"\1: <text>"),
)
"""What differs between any two brokers, or is compared elsewhere (tests/oracle/scenarios_configs.py)."""


class ToolRunner:
    """One JVM that runs the tools against one broker."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.directory = directory
        class_path = java_class_path()
        assert class_path is not None
        logging = f"-Dlog4j.configuration=file:{PROGRAMS / 'java' / 'log4j.properties'}"
        source = Path(__file__).parent / "java" / "Tools.java"
        command = ["java", "-Xmx512M", "-XX:TieredStopAtLevel=1", logging, "-cp", class_path, str(source)]
        self._process = start_tied(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=directory)

    def file(self, name: str, content: object) -> str:
        path = self.directory / name
        path.write_text(json.dumps(content))
        return str(path)

    def __call__(self, line: str, *more: str) -> tuple[int, list[str]]:
        """Run a tool; return its status and the lines that it printed, in order of the alphabet."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        tool, *words = line.split()
        where = [] if BROKER in words else ["--bootstrap-server", self.bootstrap]
        arguments = [TOOLS[tool], *(self.bootstrap if word == BROKER else word for word in words), *more, *where]
        self._process.stdin.write("\t".join(arguments).encode() + b"\n")
        self._process.stdin.flush()
        status, size = map(int, self._process.stdout.readline().split())
        text = self._process.stdout.read(size).decode()
        for pattern, instead in SAID_OTHERWISE:
            text = re.sub(pattern, instead, text, flags=re.MULTILINE)
        return status, sorted(" ".join(each.split()) for each in text.splitlines() if each.strip())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)


Both = tuple[ToolRunner, ToolRunner]


@pytest.fixture(scope="module")
def both(kafka: ApacheKafka, ours: ServedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    runners = [ToolRunner(bootstrap, tmp_path_factory.mktemp("tools")) for bootstrap in (kafka.bootstrap, ours.bootstrap)]
    yield runners[0], runners[1]
    for runner in runners:
        runner.close()


def same(both: Both, line: str, *more: str) -> list[str]:
    """Run the tool on both brokers, compare, and return what it said."""
    expected, said = (runner(line, *more) for runner in both)
    assert said == expected
    return said[1]


def test_topics(both: Both) -> None:
    topic = "tools.topics"
    same(both, f"kafka-topics --create --topic {topic} --partitions 3 --replication-factor 1 --config retention.ms=86400000")
    same(both, f"kafka-topics --create --topic {topic}")
    same(both, f"kafka-topics --create --if-not-exists --topic {topic}")
    same(both, "kafka-topics --create --topic tools.assigned --replica-assignment 1,1")
    same(both, "kafka-topics --create --topic tools.bad --replication-factor 3")
    same(both, "kafka-topics --create --topic a/b")
    described = same(both, f"kafka-topics --describe --topic {topic}")
    assert any("PartitionCount: 3" in line for line in described)
    same(both, f"kafka-topics --alter --topic {topic} --partitions 5")
    same(both, f"kafka-topics --alter --topic {topic} --partitions 2")
    same(both, f"kafka-topics --describe --topic {topic}")
    same(both, "kafka-topics --describe --under-replicated-partitions")
    same(both, "kafka-topics --describe --unavailable-partitions")
    same(both, "kafka-topics --describe --topics-with-overrides --topic tools.*")
    same(both, "kafka-topics --describe --topic tools.nowhere")
    same(both, "kafka-topics --list --topic tools.*")
    same(both, "kafka-topics --delete --topic tools.assigned")
    same(both, "kafka-topics --delete --topic tools.nowhere")


def test_configs_of_topics(both: Both) -> None:
    entity = "--entity-type topics --entity-name tools.configs"
    same(both, "kafka-topics --create --topic tools.configs")
    same(both, f"kafka-configs --alter {entity} --add-config retention.ms=5000,cleanup.policy=[compact,delete]")
    same(both, f"kafka-configs --describe {entity}")
    (status, expected), (our_status, said) = (runner(f"kafka-configs --describe {entity} --all") for runner in both)
    newer = tuple(f"{key}=" for key in KAFKA_4_TOPIC_KEYS)
    assert (our_status, [line for line in said if not line.startswith(newer)]) == (status, expected)
    same(both, f"kafka-configs --alter {entity} --delete-config retention.ms")
    same(both, f"kafka-configs --alter {entity} --delete-config retention.ms")
    same(both, f"kafka-configs --describe {entity}")
    same(both, f"kafka-configs --alter {entity} --add-config retention.ms=soon")
    same(both, f"kafka-configs --alter {entity} --add-config unheard.of=1")
    same(both, "kafka-configs --alter --entity-type topics --entity-name tools.nowhere --add-config retention.ms=1")


def test_configs_of_brokers(both: Both) -> None:
    for entity in ("--entity-type brokers --entity-name 1", "--entity-type brokers --entity-default"):
        same(both, f"kafka-configs --alter {entity} --add-config log.cleaner.backoff.ms=14000")
        same(both, f"kafka-configs --alter {entity} --add-config broker.id=2")
        same(both, f"kafka-configs --alter {entity} --add-config log.cleaner.backoff.ms=soon")
        same(both, f"kafka-configs --alter {entity} --delete-config log.cleaner.backoff.ms")


def test_levels_of_loggers(both: Both) -> None:
    entity = "--entity-type broker-loggers --entity-name 1"
    same(both, f"kafka-configs --alter {entity} --add-config root=INFO")
    same(both, f"kafka-configs --alter {entity} --add-config root=LOUD")
    same(both, f"kafka-configs --alter {entity} --add-config nobody=INFO")


def test_offsets_records_and_groups(both: Both) -> None:
    topic, group = "tools.records", "tools.group"
    sent_ms = int(time.time() * 1000)
    for runner in both:
        runner(f"kafka-topics --create --topic {topic}")
        # One batch and one time, so that the offset of the largest timestamp is the same.
        send_confluent(runner.bootstrap, topic, [b"line %d" % at for at in range(50)], sent_ms, **{"linger.ms": 1000})
    same(both, f"kafka-get-offsets --topic {topic}")
    for moment in ("-1", "-2", "-3", "latest", "earliest", "max-timestamp"):
        same(both, f"kafka-get-offsets --topic {topic} --time {moment}")
    same(both, "kafka-get-offsets --topic-partitions tools.records:0")
    same(both, f"kafka-console-consumer --topic {topic} --from-beginning --max-messages 50 --group {group} --timeout-ms 20000")
    same(both, f"kafka-consumer-groups --describe --group {group}")
    same(both, f"kafka-consumer-groups --describe --group {group} --state")
    same(both, f"kafka-consumer-groups --describe --group {group} --members --verbose")
    same(both, "kafka-consumer-groups --describe --group tools.nobody")
    for how in ("--to-earliest", "--shift-by 10", "--to-offset 20", "--to-offset 200", "--to-latest", "--to-current"):
        same(both, f"kafka-consumer-groups --reset-offsets --group {group} --topic {topic} {how} --dry-run")
        same(both, f"kafka-consumer-groups --reset-offsets --group {group} --topic {topic} {how} --execute")
        same(both, f"kafka-consumer-groups --describe --group {group}")
    same(both, f"kafka-consumer-groups --reset-offsets --group {group} --topic {topic}:0 --to-offset 5 --export --dry-run")
    same(both, f"kafka-consumer-groups --delete-offsets --group {group} --topic {topic}:0")
    offsets = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 10}]}
    wrong = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 1000}]}
    for what in (offsets, wrong):
        results = [runner("kafka-delete-records --offset-json-file", runner.file("offsets.json", what)) for runner in both]
        assert results[0] == results[1]
    same(both, f"kafka-get-offsets --topic {topic} --time earliest")
    same(both, f"kafka-consumer-groups --delete --group {group}")
    same(both, "kafka-consumer-groups --delete --group tools.nobody")


def test_a_hanging_transaction(both: Both) -> None:
    """Found and aborted by an administrator; a consumer of committed records can go on."""
    topic = "tools.hanging"
    same(both, f"kafka-topics --create --topic {topic}")
    for runner in both:
        talk = Talk(int(runner.bootstrap.rpartition(":")[2]), "hanging")
        transactional(talk, topic, "hanging")
        assert talk.answers[0][1]["responses"][0]["partition_responses"][0]["error_code"] == 0
        talk.close()
        send_confluent(runner.bootstrap, topic, [b"after it"])
    read = f"kafka-console-consumer --topic {topic} --from-beginning --max-messages 1 --isolation-level read_committed --timeout-ms"
    same(both, f"{read} 2000")
    transactions = f"kafka-transactions --bootstrap-server {BROKER}"
    of = f"--topic {topic} --partition 0"
    assert "None" not in same(both, f"{transactions} describe-producers {of}")[0]
    for where in (f"--topic {topic}", of, "--broker-id 1"):
        found = [runner(f"{transactions} find-hanging {where}") for runner in both]
        # The last column is the time since then, in minutes.
        theirs, ours = ([line.rpartition(" ")[0] for line in said if line.startswith(topic)] for _, said in found)
        assert theirs == ours
        assert len(ours) == 1
    same(both, f"{transactions} find-hanging {of} --max-transaction-timeout 1000000000")
    same(both, f"{transactions} abort {of} --start-offset 0")
    same(both, f"{transactions} find-hanging {of}")
    same(both, f"{transactions} abort {of} --start-offset 0")
    same(both, f"{transactions} describe-producers {of}")
    assert "after it" in same(both, f"{read} 20000")


def test_elections_and_reassignments(both: Both) -> None:
    topic = "tools.moved"
    same(both, f"kafka-topics --create --topic {topic} --partitions 2")
    for election in ("preferred", "unclean"):
        same(both, f"kafka-leader-election --election-type {election} --topic {topic} --partition 0")
        same(both, f"kafka-leader-election --election-type {election} --all-topic-partitions")
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1]}]}
    bad = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1, 2]}]}
    for what in (plan, bad):
        for how in ("--execute", "--verify", "--cancel"):
            results = [
                runner(f"kafka-reassign-partitions {how} --reassignment-json-file", runner.file("plan.json", what))
                for runner in both
            ]
            assert results[0] == results[1]
    same(both, "kafka-reassign-partitions --list")


def test_the_cluster(both: Both) -> None:
    same(both, "kafka-cluster cluster-id")
    same(both, "kafka-cluster unregister --id 9")
    statuses = [runner("kafka-broker-api-versions")[0] for runner in both]
    assert statuses == [0, 0]


def test_features(both: Both) -> None:
    tool = f"kafka-features --bootstrap-server {BROKER}"
    feature = "--feature transaction.version"
    for command in ("upgrade --feature unheard.of=1", "downgrade --feature unheard.of=1", "disable --feature unheard.of"):
        same(both, f"{tool} {command}")
    kafka, ours = both
    assert kafka(f"{tool} describe") == (0, [])

    def described(level: str, epoch: int) -> None:
        levels = dict.fromkeys(SUPPORTED, "0") | {TRANSACTION_VERSION: level}
        assert sorted(ours(f"{tool} describe")[1]) == [
            f"Feature: {name} SupportedMinVersion: {supported.low} SupportedMaxVersion: {supported.high} "
            f"FinalizedVersionLevel: {levels[name]} Epoch: {epoch}"
            for name, supported in sorted(SUPPORTED.items())
        ]

    described("0", 0)
    assert ours(f"{tool} upgrade --dry-run {feature}=1")[0] == 0
    described("0", 0)
    assert ours(f"{tool} upgrade {feature}=1")[0] == 0
    described("1", 1)
    assert ours(f"{tool} upgrade {feature}=1")[0] != 0
    assert ours(f"{tool} upgrade {feature}=9")[0] != 0
    assert ours(f"{tool} disable {feature}")[0] == 0
    described("0", 2)


def test_resetting_a_streams_application(both: Both) -> None:
    topic = "tools.streams.input"
    for runner in both:
        runner(f"kafka-topics --create --topic {topic} --partitions 2")
        runner("kafka-topics --create --topic tools.streams-store-changelog")
        send_confluent(runner.bootstrap, topic, [b"line %d" % at for at in range(20)])
        read = f"kafka-console-consumer --topic {topic} --from-beginning --max-messages 20 --group tools.streams"
        runner(f"{read} --timeout-ms 20000")
    reset = f"kafka-streams-application-reset --application-id tools.streams --input-topics {topic}"
    same(both, f"{reset} --dry-run")
    same(both, reset)
    same(both, "kafka-topics --list --topic tools.streams.*")
