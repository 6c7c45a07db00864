"""Each real client as two functions: one that sends values, one that reads all values of a topic back."""

import asyncio
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tests.support.budget import patient
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient, PartitionMetadata

READ_TIMEOUT_S = patient(180)
_numbers = itertools.count()


def _lock(file: IO[Any]) -> None:
    """Wait until no other worker has locked the file, and lock it until it is closed."""
    import fcntl  # not on Windows

    fcntl.flock(file, fcntl.LOCK_EX)


def new_group() -> str:
    return f"group-{next(_numbers)}-{time.monotonic_ns()}"


def send_confluent(bootstrap: str, topic: str, values: Iterable[bytes], timestamp_ms: int = 0, /, **settings: object) -> None:
    """Send ``values`` and wait until they are acknowledged; their time is now if ``timestamp_ms`` is 0."""
    from confluent_kafka import Producer

    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 1_000_000, "linger.ms": 5} | settings)

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    for value in values:
        while True:
            try:
                producer.produce(topic, value, timestamp=timestamp_ms, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.5)
    assert producer.flush(READ_TIMEOUT_S) == 0
    assert not failures, failures[:3]


def described(client: "AdminClient | Consumer", topic: str) -> "dict[int, PartitionMetadata]":
    """A topic's partitions, once the broker that is asked knows them: a new topic reaches one broker of a cluster after another."""
    return eventually(lambda: client.list_topics(topic, 30).topics[topic].partitions)


def read_confluent(bootstrap: str, topic: str, count: int, group: str | None = None, **settings: object) -> list[bytes]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group or "unused",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": group is not None,
        }
        | settings
    )
    try:
        if group is None:
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in described(consumer, topic)])
        else:
            consumer.subscribe([topic])
        values: list[bytes] = []
        deadline = time.monotonic() + READ_TIMEOUT_S
        while len(values) < count:
            assert time.monotonic() < deadline, f"{len(values)} of {count} values read"
            for message in consumer.consume(10_000, 1.0):
                assert message.error() is None, message.error()
                values.append(message.value())
        assert not consumer.consume(1, 0.2)
        return values
    finally:
        consumer.close()


def send_kafka_python(bootstrap: str, topic: str, values: Iterable[bytes], **settings: object) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, **settings)
    sent = [producer.send(topic, value) for value in values]
    producer.flush(READ_TIMEOUT_S)
    for future in sent:
        future.get(READ_TIMEOUT_S)
    producer.close()


def read_kafka_python(bootstrap: str, topic: str, count: int, group: str | None = None, **settings: object) -> list[bytes]:
    from kafka import KafkaConsumer
    from kafka import TopicPartition as Partition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", **settings)
    try:
        if group is None:
            consumer.assign([Partition(topic, partition) for partition in consumer.partitions_for_topic(topic)])
        else:
            consumer.subscribe([topic])
        values: list[bytes] = []
        deadline = time.monotonic() + READ_TIMEOUT_S
        while len(values) < count:
            assert time.monotonic() < deadline, f"{len(values)} of {count} values read"
            for records in consumer.poll(1000, max_records=50_000).values():
                values += [record.value for record in records]
        assert not consumer.poll(200)
        if group is not None:
            consumer.commit()
        return values
    finally:
        consumer.close()


def send_aiokafka(bootstrap: str, topic: str, values: Iterable[bytes], **settings: object) -> None:
    from aiokafka import AIOKafkaProducer

    async def send() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, **settings)
        await producer.start()
        try:
            sent = [await producer.send(topic, value) for value in values]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(send(), READ_TIMEOUT_S))


def read_aiokafka(bootstrap: str, topic: str, count: int, group: str | None = None, **settings: object) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer
    from aiokafka import TopicPartition as Partition

    async def read() -> list[bytes]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", **settings)
        await consumer.start()
        try:
            if group is None:
                await consumer._client.force_metadata_update()
                consumer.assign([Partition(topic, partition) for partition in consumer.partitions_for_topic(topic) or {0}])
                await consumer.seek_to_beginning()
            else:
                consumer.subscribe([topic])
            values: list[bytes] = []
            while len(values) < count:
                for records in (await consumer.getmany(timeout_ms=1000, max_records=50_000)).values():
                    values += [record.value for record in records]
            if group is not None:
                await consumer.commit()
            return values
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(read(), READ_TIMEOUT_S))


def run(command: Sequence[str], *, stdin: bytes | None = None, cwd: Path | None = None, timeout_s: float = READ_TIMEOUT_S) -> bytes:
    """Run a client's program and return what it printed; a failure tells the end of what it complained of."""
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=timeout_s, cwd=cwd, check=False)
    told = (done.stdout[-500:] + done.stderr[-3000:]).decode(errors="replace")
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{told}"
    return done.stdout


def kcat() -> str | None:
    return shutil.which("kcat") or shutil.which("kafkacat")


def send_kcat(bootstrap: str, topic: str, path: Path, codec: str = "none", *settings: str) -> None:
    options = [word for setting in (f"compression.codec={codec}", *settings) for word in ("-X", setting)]
    run([kcat() or "kcat", "-P", "-b", bootstrap, "-t", topic, "-l", *options, str(path)])


def read_kcat(bootstrap: str, topic: str, group: str | None = None) -> bytes:
    source = ["-C", "-t", topic, "-o", "beginning"] if group is None else ["-X", "auto.offset.reset=earliest", "-G", group, topic]
    return run([kcat() or "kcat", "-b", bootstrap, "-e", "-q", *source])


PROGRAMS = Path(__file__).resolve().parents[2] / "clients"
"""The folders of the clients in Java, Go and JavaScript."""


def kafkajs_ready() -> bool:
    """Install kafkajs and its codecs beside the script when npm is there; say whether they can be used."""
    folder = PROGRAMS / "kafkajs"
    wanted = json.loads((folder / "package.json").read_text())["dependencies"]
    if not (shutil.which("node") and shutil.which("npm")):
        return False
    with (folder / "package.json").open() as file:
        _lock(file)  # another worker may be installing it
        if not all((folder / "node_modules" / name).is_dir() for name in wanted):
            run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"], cwd=folder, timeout_s=300)
    return True


def read_kafkajs(bootstrap: str, topic: str, count: int, group: str | None = None) -> list[bytes]:
    """Read as a member of a group: kafkajs has no other way."""
    told = run(["node", str(PROGRAMS / "kafkajs" / "read.js"), bootstrap, topic, str(count), group or new_group()])
    return told.split(b"\n")[:-1]


def java_class_path() -> str | None:
    """Return the class path of Apache Kafka 3.9's tools, fetched through Maven the first time, or None without Java and Maven."""
    return _class_path("pom.xml", "kafka-3.9.2")


def java_library(artifact: str, version: str) -> str | None:
    """Return the class path of one of Kafka's libraries for programs, such as kafka-clients; None without Java and Maven."""
    return _class_path("client-pom.xml", f"{artifact}-{version}", f"-Dkafka.artifact={artifact}", f"-Dkafka.version={version}")


def old_java_class_path(version: str) -> str | None:
    """Return the class path of a broker from before Kafka 1.0, which needs what Java had then."""
    return _class_path("old-kafka-pom.xml", f"old-kafka-{version}", f"-Dkafka.version={version}")


def _class_path(pom: str, name: str, *properties: str) -> str | None:
    if not (shutil.which("java") and shutil.which("mvn")):
        return None
    cache = Path.home() / ".cache" / "twisted_kafka" / name
    known = cache / "class-path.txt"
    if not known.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with (cache.parent / "maven.lock").open("w") as file:
            _lock(file)  # workers collect the same tests, and Maven's repository takes one writer at a time
            if not known.exists():
                _fetch(cache, pom, known, *properties)
    return known.read_text()


def _fetch(cache: Path, pom: str, known: Path, *properties: str) -> None:
    shutil.copy(PROGRAMS / "java" / pom, cache / "pom.xml")
    new = cache / "class-path.new"
    goal = ["dependency:build-classpath", f"-Dmdep.outputFile={new}", *properties]
    run(["mvn", "-q", "-B", "-ntp", "-f", str(cache / "pom.xml"), *goal], timeout_s=900)
    new.rename(known)


LATER_KAFKA = "4.3.1"


def later_java_class_path() -> str | None:
    """Return the class path of Apache Kafka 4's tools."""
    parts = [java_library(artifact, LATER_KAFKA) for artifact in ("kafka-tools", "kafka_2.13")]
    return ":".join(part for part in parts if part) if all(parts) else None


def java_command(name: str, *arguments: str, class_path: str | None = None) -> list[str]:
    """Return the command of one of Kafka's tools, given by its class name; 3.9's without ``class_path``."""
    class_path = class_path or java_class_path()
    assert class_path is not None
    return [*java_machine(class_path), name, *arguments]


def java_machine(class_path: str) -> list[str]:
    """Return the beginning of a command that runs a class of the class path, or a source file."""
    logging = f"-Dlog4j.configuration=file:{PROGRAMS / 'java' / 'log4j.properties'}"
    return ["java", "-Xmx512M", "-XX:TieredStopAtLevel=1", logging, "-cp", class_path]


def counting_application(version: str, folder: Path) -> list[str] | None:
    """Return the command of Counting, compiled into ``folder`` for a version of Kafka Streams; None without Java or Maven."""
    class_path = java_library("kafka-streams", version)
    if class_path is None:
        return None
    run(["javac", "-d", str(folder), "-cp", class_path, str(PROGRAMS / "java" / "Counting.java")])
    return [*java_machine(f"{folder}:{class_path}"), "Counting"]


def java_tool(name: str, *arguments: str, stdin: bytes | None = None) -> str:
    """Run one of Kafka's tools and return what it printed."""
    return run(java_command(name, *arguments), stdin=stdin).decode()


def later_java_tool(name: str, *arguments: str, stdin: bytes | None = None) -> str:
    """Run one of Kafka 4's tools and return what it printed."""
    return run(java_command(name, *arguments, class_path=later_java_class_path()), stdin=stdin).decode()


JAVA_TOOLS = {"3.9": java_tool, LATER_KAFKA: later_java_tool}
"""What runs the tools, by Kafka's version."""


def read_java(bootstrap: str, topic: str, count: int, group: str | None = None) -> list[bytes]:
    words = ["--topic", topic, "--from-beginning", "--max-messages", str(count), "--timeout-ms", "60000"]
    if group is not None:
        words += ["--group", group]
    command = java_command("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap, *words)
    return run(command).split(b"\n")[:-1]


Reader = Callable[..., list[bytes]]
Sender = Callable[..., None]
SENDERS: dict[str, Sender] = {"confluent-kafka": send_confluent, "kafka-python": send_kafka_python, "aiokafka": send_aiokafka}
READERS: dict[str, Reader] = {"confluent-kafka": read_confluent, "kafka-python": read_kafka_python, "aiokafka": read_aiokafka}


def ensure_same(read: Sequence[bytes], sent: Sequence[bytes], who: str) -> None:
    """Compare without printing fifty megabytes when they differ."""
    if read == sent:
        return
    first = next((at for at, (one, other) in enumerate(zip(read, sent, strict=False)) if one != other), min(len(read), len(sent)))
    raise AssertionError(
        f"{who} read {len(read)} of {len(sent)} values; number {first}: {read[first : first + 1]}, sent {sent[first : first + 1]}"
    )
