"""What three brokers with thousands of partitions do in how much time, beside Apache Kafka's in the same run.

    python -m benchmarks.ten_thousand_partitions [--partitions 10000] [--rounds 1] [--seconds 10] [--only idle,latency]
        [--no-kafka] [--no-ours]

All with replication factor 3, min.insync.replicas=2, plaintext, over the loopback interface: each of the three brokers has all of
the partitions, and nothing happens to most of them. The kinds are measured in turn in each round, each on a fresh cluster. The
table has medians, and marks what takes more than 1.5 times as long as with Kafka.

- whole: all topics are created, of 100 partitions each, until each partition is in sync on all brokers.
- idle: the processor time of the three brokers together, while nobody asks for anything.
- latency: records of 100 B with acks=all, one at a time, to one partition after the other.
- topics: one more topic is created, gets its first record with acks=all, and is deleted.
- scrape: all metrics of one broker once. Ours is asked by HTTP, as Prometheus does. Kafka is asked by JMX for all of its beans;
  how long the tool takes for a single one is subtracted.
- reassignment: 50 partitions without records move from one broker to another, all at the same time.
- failover: a broker ends by ``kill -9``; from the end of its session until none of a sample of its partitions has it as its leader.

Requires Java and Maven. Apache Kafka gets 2 GB of heap for each broker, and each broker needs two file descriptors a partition.
"""

import argparse
import json
import statistics
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.exceptions import NoNodeError

from benchmarks.scratch import scratch
from tests.cluster.brokers import Kind
from tests.cluster.cluster import Cluster, running
from tests.support.clients.clients import java_class_path, java_machine
from tests.support.clients.clients import run as run_command
from tests.support.clients.served import cpu_s
from tests.support.eventually import eventually
from tests.support.ports import free_port

SESSION_MS = 6000
PER_TOPIC = 100
MOVED = 50
SAMPLE = 50
"""How many of a dead broker's partitions are looked at while others are elected: to look at all would delay that."""
TOPICS = 20
"""How many topics are created and deleted, one after the other."""
RECORD_BYTES = 100
WAIT_S = 900
LIMIT = 1.5
HEAP = "-Xmx2G"
_SETTINGS: dict[str, object] = {
    "zookeeper.session.timeout.ms": SESSION_MS,
    "replica.lag.time.max.ms": 30_000,
    "request.timeout.ms": 30_000,
    "replica.fetch.wait.max.ms": 500,
    "replica.socket.timeout.ms": 30_000,
    "controller.socket.timeout.ms": 30_000,
}

Figures = dict[str, float]


class Measured:
    """A cluster with its partitions, and where its brokers' metrics are."""

    def __init__(self, cluster: Cluster, kind: Kind, options: argparse.Namespace) -> None:
        self.cluster = cluster
        self.kind = kind
        self.options = options
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        self.topics = [f"t{number}" for number in range(max(1, options.partitions // PER_TOPIC))]
        self.per_topic = min(PER_TOPIC, options.partitions)
        self.metrics_ports = {broker.id: free_port() for broker in cluster.brokers.values()}

    def create(self, names: list[str], partitions: int, replication: int = 3) -> None:
        made = [NewTopic(name, num_partitions=partitions, replication_factor=replication) for name in names]
        for future in self.admin.create_topics(made, operation_timeout=300, request_timeout=300).values():
            future.result(300)

    def leaders(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the leader of each partition of the large topics, and how many replicas are in sync, as a broker says."""
        known = self.admin.list_topics(timeout=60).topics
        return {
            (name, index): (each.leader, len(each.isrs))
            for name in self.topics
            if name in known
            for index, each in known[name].partitions.items()
        }

    def is_whole(self) -> bool:
        found = self.leaders()
        return len(found) == len(self.topics) * self.per_topic and all(leader > 0 and isr == 3 for leader, isr in found.values())


def whole(measured: Measured) -> Figures:
    began = time.monotonic()
    for start in range(0, len(measured.topics), 10):
        measured.create(measured.topics[start : start + 10], measured.per_topic)
    eventually(measured.is_whole, wait_s=WAIT_S, pause_s=0.2)
    return {"whole: all topics created and in sync, s": time.monotonic() - began}


def idle(measured: Measured) -> Figures:
    time.sleep(5)  # what was begun ends
    pids = [broker.pid or 0 for broker in measured.cluster.brokers.values()]
    before, began = sum(map(cpu_s, pids)), time.monotonic()
    time.sleep(measured.options.seconds)
    return {"idle: of a processor, three brokers, %": 100 * (sum(map(cpu_s, pids)) - before) / (time.monotonic() - began)}


def latency(measured: Measured) -> Figures:
    producer = Producer({"bootstrap.servers": measured.cluster.bootstrap, "acks": "all", "linger.ms": 0})
    times = []
    until = time.monotonic() + measured.options.seconds
    while time.monotonic() < until:
        began = time.monotonic()
        producer.produce(measured.topics[0], b"x" * RECORD_BYTES, partition=len(times) % measured.per_topic)
        assert producer.flush(30) == 0
        times.append((time.monotonic() - began) * 1000)
    return {
        "latency: acks=all, one at a time, median, ms": statistics.median(times),
        "latency: 99th percentile, ms": statistics.quantiles(times, n=100)[98],
    }


def topics(measured: Measured) -> Figures:
    found: dict[str, list[float]] = defaultdict(list)
    settings = {"bootstrap.servers": measured.cluster.bootstrap, "acks": "all", "linger.ms": 0}
    for number in range(TOPICS):
        name = f"short-lived-{number}"
        began = time.monotonic()
        measured.create([name], 1)
        found["topics: created, ms"].append((time.monotonic() - began) * 1000)
        producer = Producer({**settings, "topic.metadata.refresh.interval.ms": 50, "retry.backoff.ms": 10, "log_level": 0})
        producer.produce(name, b"x")
        assert producer.flush(60) == 0
        found["topics: created until its first record is acknowledged, ms"].append((time.monotonic() - began) * 1000)
        began = time.monotonic()
        measured.admin.delete_topics([name], operation_timeout=60, request_timeout=90)[name].result(120)
        directories = [broker.log_dir / f"{name}-0" for broker in measured.cluster.brokers.values()]
        eventually(lambda directories=directories: not any(map(Path.exists, directories)), wait_s=60, pause_s=0.001)  # type: ignore[misc]
        found["topics: deleted on all brokers, ms"].append((time.monotonic() - began) * 1000)
    return {name: statistics.median(times) for name, times in found.items()}


def scrape(measured: Measured) -> Figures:
    port = measured.metrics_ports[1]
    if measured.kind is Kind.OURS:
        times = []
        for _ in range(3):
            began = time.monotonic()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=300) as page:
                assert page.read()
            times.append(time.monotonic() - began)
        return {"scrape: all metrics of a broker, s": statistics.median(times)}
    times = []
    for _ in range(3):
        one, everything = (_jmx_s(port, beans) for beans in ("kafka.server:type=KafkaServer,name=BrokerState", "kafka.*:*"))
        times.append(everything - one)
    return {"scrape: all metrics of a broker, s": statistics.median(times)}


def _jmx_s(port: int, beans: str) -> float:
    """Return how long a tool takes to ask for these beans."""
    class_path = java_class_path()
    assert class_path is not None
    url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"
    tool = "org.apache.kafka.tools.JmxTool"
    began = time.monotonic()
    run_command([*java_machine(class_path), tool, "--jmx-url", url, "--object-name", beans, "--one-time"])
    return time.monotonic() - began


def reassignment(measured: Measured) -> Figures:
    cluster = measured.cluster
    (made,) = [NewTopic("moved", num_partitions=MOVED, replica_assignment=[[1]] * MOVED)]
    measured.admin.create_topics([made], operation_timeout=60, request_timeout=90)["moved"].result(120)
    eventually(lambda: len(cluster.states("moved")) == MOVED, wait_s=WAIT_S)
    moves = [{"topic": "moved", "partition": index, "replicas": [2]} for index in range(MOVED)]
    nodes = cluster._nodes
    assert nodes is not None
    began = time.monotonic()
    nodes.create("/admin/reassign_partitions", json.dumps({"version": 1, "partitions": moves}).encode())

    def is_over() -> bool:
        try:
            nodes.get("/admin/reassign_partitions")
        except NoNodeError:
            return True
        return False

    eventually(is_over, wait_s=WAIT_S, pause_s=0.002)
    return {f"reassignment: {MOVED} empty partitions at a time, s": time.monotonic() - began}


def failover(measured: Measured) -> Figures:
    cluster = measured.cluster
    victim = next(each for each in cluster.brokers if each != cluster.controller())
    led = [partition for partition, (leader, _) in measured.leaders().items() if leader == victim]
    sample = {*led[:: max(1, len(led) // SAMPLE)], *led[-1:]}
    nodes = cluster._nodes
    assert nodes is not None

    def is_over() -> bool:
        asked = [nodes.get_async(f"/brokers/topics/{topic}/partitions/{index}/state") for topic, index in sample]
        return not {int(json.loads(each.get(WAIT_S)[0])["leader"]) for each in asked} & {victim, -1}

    cluster.brokers[victim].kill()
    while victim in cluster.registered():
        time.sleep(0.005)
    began = time.monotonic()
    eventually(is_over, wait_s=WAIT_S, pause_s=0.01)
    return {"failover: all leaders elsewhere, from its session's end, s": time.monotonic() - began}


SCENARIOS: tuple[Callable[[Measured], Figures], ...] = (idle, latency, topics, scrape, reassignment, failover)
"""In this order, after ``whole``: the last one leaves a broker dead."""


def measure(kind: Kind, directory: Path, options: argparse.Namespace) -> Figures:
    cluster = Cluster(directory, [kind] * 3, is_direct=True, **_SETTINGS)
    measured = Measured(cluster, kind, options)
    for broker in cluster.brokers.values():
        port = measured.metrics_ports[broker.id]
        if kind is Kind.OURS:
            broker.more_settings["metrics.listener"] = f"127.0.0.1:{port}"
        else:
            broker.java_options = [
                HEAP,
                "-Djava.rmi.server.hostname=127.0.0.1",
                *(f"-Dcom.sun.management.jmxremote{each}" for each in ("", f".port={port}", f".rmi.port={port}")),
                *(f"-Dcom.sun.management.jmxremote.{each}=false" for each in ("authenticate", "ssl")),
            ]
    figures: Figures = {}
    with running(cluster):
        figures |= whole(measured)
        print(kind.value, figures, flush=True)
        for scenario in SCENARIOS:
            if not options.only or scenario.__name__ in options.only.split(","):
                found = scenario(measured)
                print(kind.value, found, flush=True)
                figures |= found
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10, help="of the rows 'idle' and 'latency'")
    parser.add_argument("--only", default="", help="names of rows: idle, latency, topics, scrape, reassignment, failover")
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument("--no-ours", action="store_true")
    options = parser.parse_args()
    kinds = [kind for kind, without in ((Kind.OURS, options.no_ours), (Kind.APACHE, options.no_kafka)) if not without]
    found: dict[str, dict[Kind, list[float]]] = defaultdict(lambda: defaultdict(list))
    with scratch() as directory:
        for number in range(options.rounds):
            for kind in kinds:
                for name, figure in measure(kind, directory / f"{kind.name}-{number}", options).items():
                    found[name][kind].append(figure)
    print(f"{options.partitions} partitions{'':46}" + "".join(f"{kind.value:>15}" for kind in kinds))
    for name, figures in found.items():
        medians = [statistics.median(figures[kind]) for kind in kinds]
        is_slow = len(medians) == len(Kind) and medians[0] > LIMIT * medians[1]
        print(f"{name:62}" + "".join(f"{each:15.3f}" for each in medians) + (f"   more than {LIMIT} times" if is_slow else ""))


if __name__ == "__main__":
    main()
