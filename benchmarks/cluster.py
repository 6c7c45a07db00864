"""What a cluster of three brokers does in how much time, beside Apache Kafka's in the same run.

    python -m benchmarks.cluster [--rounds 2] [--seconds 5] [--megabytes 200] [--topics 1000] [--failovers 5] [--only 'fail*']
        [--no-kafka] [--no-ours]

All with replication factor 3, min.insync.replicas=2, plaintext, over the loopback interface, three brokers and their clients on one
machine. The kinds are measured in turn in each round, each on a fresh cluster; the table has medians.

- failover: of a partition whose leader ends by ``kill -9`` or SIGTERM. "until another leads" is the time from the signal until
  ZooKeeper has a new leader; "not acknowledged" the longest time between two acknowledgements of a producer that sends every 5 ms.
  Both contain up to SESSION_MS after ``kill -9``: until then nobody knows that the broker is gone. How long that takes depends on
  when the broker last said something to ZooKeeper, so the times from the topic's creation to the kill are spread evenly over the
  time between two pings, the same for both kinds; "from its session's end" is without it. The producer asks for the metadata 20
  times a second: with a longer ``topic.metadata.refresh.interval.ms`` the figures would tell when it happened to ask.
- produce: records of 1,000 B with acks=all from librdkafka, MB/s of three partitions; and one at a time, its latency.
- catching up: a follower that was stopped gets MEGABYTES that it lacks; from the first byte to the last, as its log grows.
- loading: the controller is killed with TOPICS topics of one partition; from the next one's election until none of the partitions
  has the dead broker as its leader.

Requires Java and Maven.
"""

import argparse
import fnmatch
import itertools
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.scratch import scratch
from tests.cluster.brokers import BrokerProcess, Kind
from tests.cluster.cluster import Cluster, running
from tests.support.eventually import eventually

SESSION_MS = 6000
PARTITIONS = 3
RECORD_BYTES = 1000
WAIT_S = 120
_SETTINGS: dict[str, object] = {
    "zookeeper.session.timeout.ms": SESSION_MS,
    "replica.lag.time.max.ms": 10_000,
    "request.timeout.ms": 30_000,
    "replica.fetch.wait.max.ms": 500,
    "replica.socket.timeout.ms": 30_000,
    "controller.socket.timeout.ms": 30_000,
}

Figures = dict[str, float]
_names = itertools.count()


class Ticks:
    """A producer that sends every 5 ms, and when each was acknowledged."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.at: list[float] = []
        self._ending = threading.Event()
        settings = {"linger.ms": 0, "acks": "all", "topic.metadata.refresh.interval.ms": 50, "reconnect.backoff.ms": 10}
        settings |= {"reconnect.backoff.max.ms": 100, "retry.backoff.ms": 10, "retry.backoff.max.ms": 100, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
        self._topic = topic
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.is_set():
            self._producer.produce(self._topic, b"tick", partition=0, on_delivery=lambda *_: self.at.append(time.monotonic()))
            self._producer.poll(0)
            self._ending.wait(0.005)
        self._producer.flush(60)

    def end(self) -> None:
        self._ending.set()
        self._thread.join()

    def longest_since(self, start: float) -> float:
        """Return the longest time between two acknowledgements, from the last one before ``start`` on."""
        known = sorted(self.at)
        first = max((index for index, at in enumerate(known) if at <= start), default=0)
        return max(later - earlier for earlier, later in itertools.pairwise(known[first:]))


def failover(cluster: Cluster, options: argparse.Namespace) -> Figures:
    found: dict[str, list[float]] = defaultdict(list)
    for number in range(options.failovers):
        pause_s = 0.5 + (number + 0.5) / options.failovers * SESSION_MS / 3000
        for name, end in (("kill -9", lambda broker: broker.kill()), ("SIGTERM", lambda broker: broker.stop())):
            for figure, seconds in fail(cluster, end, pause_s).items():
                found[f"failover, {name}: {figure}, s"].append(seconds)
    for name, seconds in found.items():
        print(f"{cluster.brokers[1].kind.value:15} {name:50}", " ".join(f"{each:.3f}" for each in seconds), flush=True)
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def fail(cluster: Cluster, end: Callable[[BrokerProcess], object], pause_s: float) -> Figures:
    """Have a leader end while a producer sends, ``pause_s`` after all is well."""
    topic = f"failover-{next(_names)}"
    cluster.create_topic(topic, 1, 3)
    ticks = Ticks(cluster, topic)
    figures: Figures = {}
    try:
        eventually(lambda: len(ticks.at) > 10, wait_s=60)
        time.sleep(pause_s)
        leader = cluster.leader(topic)
        began = time.monotonic()
        ender = threading.Thread(target=end, args=(cluster.brokers[leader],))
        ender.start()
        gone = None
        while cluster.states(topic)[0].leader in (leader, -1):
            if gone is None and leader not in cluster.registered():
                gone = time.monotonic()
            time.sleep(0.001)
        now = time.monotonic()
        figures["until another leads"] = now - began
        if gone is not None:
            figures["from its session's end"] = now - gone
        ender.join()
        count = len(ticks.at)
        eventually(lambda: len(ticks.at) > count + 50, wait_s=60)
    finally:
        ticks.end()
    figures["not acknowledged"] = ticks.longest_since(began)
    cluster.start_brokers(leader)
    cluster.wait_until_whole()
    return figures


def produce(cluster: Cluster, options: argparse.Namespace) -> Figures:
    topic = f"produced-{next(_names)}"
    cluster.create_topic(topic, PARTITIONS, 3)
    settings = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5, "queue.buffering.max.messages": 100_000}
    producer = Producer(settings)
    send(producer, topic, 1.0)
    began = time.monotonic()
    count = send(producer, topic, options.seconds)
    figures = {"produce, acks=all: MB/s": count * RECORD_BYTES / 1e6 / (time.monotonic() - began)}
    one = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0})
    times = []
    until = time.monotonic() + options.seconds
    while time.monotonic() < until:
        began = time.monotonic()
        one.produce(topic, b"x" * RECORD_BYTES, partition=0)
        assert one.flush(30) == 0
        times.append((time.monotonic() - began) * 1000)
    figures["produce, one at a time: median, ms"] = statistics.median(times)
    figures["produce, one at a time: 99th percentile, ms"] = statistics.quantiles(times, n=100)[98]
    figures["produce, one at a time: requests/s"] = len(times) / options.seconds
    return figures


def send(producer: Producer, topic: str, seconds: float, most: int = 1 << 40) -> int:
    """Send for some time or that many records; return how many, when all are acknowledged."""
    value = b"x" * RECORD_BYTES
    until = time.monotonic() + seconds
    count = 0
    while count < most and time.monotonic() < until:
        try:
            producer.produce(topic, value, partition=count % PARTITIONS)
        except BufferError:
            producer.poll(0.01)
        else:
            count += 1
    assert producer.flush(WAIT_S) == 0
    return count


def catch_up(cluster: Cluster, options: argparse.Namespace) -> Figures:
    topic = f"caught-up-{next(_names)}"
    cluster.create_topic(topic, PARTITIONS, 3)
    late = next(each for each in cluster.brokers if each != cluster.controller())
    cluster.brokers[late].stop()
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 20})
    send(producer, topic, 300, options.megabytes * 1_000_000 // RECORD_BYTES)
    other = next(each for each in cluster.brokers if each != late)
    goal = size_of(cluster, other, topic)
    before = size_of(cluster, late, topic)
    cluster.brokers[late].launch()
    while (size := size_of(cluster, late, topic)) == before:
        time.sleep(0.001)
    began = time.monotonic()
    while size_of(cluster, late, topic) < goal:
        time.sleep(0.005)
    took = time.monotonic() - began
    cluster.wait_until_whole()
    return {"catching up of a follower: MB/s": (goal - size) / 1e6 / took}


def size_of(cluster: Cluster, broker_id: int, topic: str) -> int:
    directories = cluster.brokers[broker_id].log_dir.glob(f"{topic}-*")
    return sum(segment.stat().st_size for directory in directories for segment in directory.glob("*.log"))


def load(cluster: Cluster, options: argparse.Namespace) -> Figures:
    names = [f"loaded-{number}" for number in range(options.topics)]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_topics([NewTopic(name, 1, 3) for name in names], operation_timeout=60, request_timeout=90).values():
        made.result(120)
    cluster.wait_until_whole()
    former = cluster.controller()
    cluster.brokers[former].kill()
    while cluster.controller() == former:
        time.sleep(0.001)
    began = time.monotonic()
    eventually(lambda: former not in cluster.leaders(names), wait_s=WAIT_S, pause_s=0.001)
    took = time.monotonic() - began
    cluster.start_brokers(former)
    cluster.wait_until_whole()
    return {f"new controller, {options.topics} topics: s": took}


SCENARIOS: tuple[Callable[[Cluster, argparse.Namespace], Figures], ...] = (failover, produce, catch_up, load)


def measured(kind: Kind, directory: Path) -> Cluster:
    return Cluster(directory, [kind] * 3, is_direct=True, **_SETTINGS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--failovers", type=int, default=5, help="of each sort in each round")
    parser.add_argument("--only", default="*", help="pattern of scenarios' names: failover, produce, catch_up, load")
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument("--no-ours", action="store_true")
    options = parser.parse_args()
    kinds = [kind for kind, without in ((Kind.OURS, options.no_ours), (Kind.APACHE, options.no_kafka)) if not without]
    found: dict[str, dict[Kind, list[float]]] = defaultdict(lambda: defaultdict(list))
    with scratch() as directory:
        for number in range(options.rounds):
            for kind in kinds:
                with running(measured(kind, directory / f"{kind.name}-{number}")) as cluster:
                    for scenario in SCENARIOS:
                        if fnmatch.fnmatch(scenario.__name__, options.only):
                            for name, figure in scenario(cluster, options).items():
                                found[name][kind].append(figure)
    print(f"{'':50}" + "".join(f"{kind.value:>15}" for kind in kinds))
    for name, figures in found.items():
        print(f"{name:50}" + "".join(f"{statistics.median(figures[kind]):15.3f}" for kind in kinds))


if __name__ == "__main__":
    main()
