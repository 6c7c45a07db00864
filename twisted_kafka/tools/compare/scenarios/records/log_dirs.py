"""DescribeLogDirs and AlterReplicaLogDirs: good input and bad. Paths and free space are each broker's own."""

from twisted_kafka.protocol.messages.administration.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.tools.compare.answers import plain
from twisted_kafka.tools.compare.talk import Talk, scenario

START_MS = 1_700_000_000_000


def send(talk: Talk, topic: str, partition: int, count: int) -> None:
    batch = bytes(build_batch([SimpleRecord(START_MS, b"k", b"v" * 100)] * count))
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])]
    talk.ask(ProduceRequest(acks=1, timeout_ms=5000, topic_data=data), 7, note=False)


def ask(talk: Talk, version: int, topics: list[DescribableLogDirTopic] | None, of: set[str]) -> str:
    """Note the description of these topics; return the directory."""
    answer = talk.ask(DescribeLogDirsRequest(topics=topics), version, note=False)
    (directory,) = answer.results
    found = [
        (topic.name, sorted([tuple(plain(each).items()) for each in topic.partitions]))
        for topic in sorted(directory.topics, key=lambda topic: topic.name)
        if topic.name in of
    ]
    sizes = (directory.total_bytes > directory.usable_bytes > 0, directory.total_bytes == -1)
    talk.answers.append(("directory", (answer.error_code, directory.error_code, sizes, found)))
    return str(directory.log_dir)


@scenario(DescribeLogDirsRequest)
def describe_log_dirs(talk: Talk, version: int) -> None:
    topic, other = talk.create("a", 2), talk.create("b")
    send(talk, topic, 1, 10)
    send(talk, other, 0, 3)
    names = {topic, other, talk.topic("missing")}

    def named(name: str, *partitions: int) -> DescribableLogDirTopic:
        return DescribableLogDirTopic(topic=name, partitions=list(partitions))

    ask(talk, version, None, names)
    for topics in (
        [],
        [named(topic, 1)],
        [named(topic, 0, 1, 1, 9), named(other, 0), named(other, 0)],
        [named(topic), named(talk.topic("missing"), 0)],
    ):
        ask(talk, version, topics, names)


@scenario(AlterReplicaLogDirsRequest)
def alter_replica_log_dirs(talk: Talk, version: int) -> None:
    topic, missing = talk.create("a", 2), talk.topic("missing")
    here = ask(talk, 1, [], set())

    def alter(*orders: tuple[str, str, list[int]]) -> None:
        dirs = [
            AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=partitions)])
            for path, name, partitions in orders
        ]
        answer = talk.ask(AlterReplicaLogDirsRequest(dirs=dirs), version, note=False)
        found = [
            (each.topic_name, sorted([(one.partition_index, one.error_code) for one in each.partitions]))
            for each in sorted(answer.results, key=lambda each: each.topic_name)
        ]
        talk.answers.append(("altered", found))
        codes = [{"error_code": code} for _, partitions in found for _, code in partitions]
        talk.answers.append((f"AlterReplicaLogDirsRequest v{version}", codes))

    alter((here, topic, [0, 1]))
    alter((here, topic, [0, 0, 7]), (here, missing, [0]))
    alter(("/nowhere", topic, [0]), (here, topic, [1]))
    alter((here, topic, [0]), ("/nowhere", topic, [0]))
    for path in ("", "data", here + "/", here + "/.."):
        alter((path, topic, [0]))
    alter((here, "t" * 240, [0]))
    alter((here, topic, []))
    alter()
