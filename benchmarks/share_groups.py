"""ShareFetch and acknowledgements of share groups, and the memory that groups take, beside Apache Kafka 4.4 in the same run.

    python -m benchmarks.share_groups [--kafka] [--rounds 3] [--warm-up 1] [--records 200000] [--members 1 16] [--memory]

- records/s: members read records of 100 bytes in batches of 100; each ShareFetch (500 records) accepts those of the one before.
  Each member has a partition. The requests of all members come from one thread, one at a time for each.
- p99: of a ShareFetch, in milliseconds
- CPU: the broker's processor time, in microseconds per record
- Rounds that warm up have a request for each 100 records. PyPy needs some 12,000 requests: ``--warm-up 6``
- ``--memory``, instead: 1,000 groups (``--groups``) acquire the same 100 records each; how much more memory the broker has then

On a busy machine only the CPU time means something.
"""

import argparse
import contextlib
import os
import selectors
import statistics
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.scratch import scratch
from tests.support.clients.served import ServedBroker, cpu_s
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.share_client import RawClient, ShareMember, acquired_of, new_topic, set_group_configs
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest, FindCoordinatorResponse
from twisted_kafka.protocol.messages.share.share_fetch import ShareFetchResponse
from twisted_kafka.protocol.messages.share.share_groups import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

VERSION = "4.4.0"
COMMON = {
    "group.share.assignment.interval.ms": 0,
    "group.share.max.share.sessions": 2000,
    "share.coordinator.state.topic.num.partitions": 4,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
}
VALUE = b"x" * 100
BATCH = 100
FETCHED = 500
ACCEPT = 1
WAIT_S = 60
OF_GROUP = 100
NOT_YET = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
CASES = (1, 16)
"""How many members there are, with a partition for each."""


class Measured(NamedTuple):
    """What one round took."""

    records_s: float
    p99_ms: float
    cpu_us: float


def member_id() -> str:
    """Return the text of a UUID: Kafka reads a member's id as one."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def produce(bootstrap: str, topic: str, count: int, partitions: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "acks": "all", "batch.num.messages": BATCH})
    for number in range(count):
        while True:
            try:
                producer.produce(topic, VALUE, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(WAIT_S * 10) == 0


def join(client: RawClient, group_id: str, member: str, topic: str, partitions: int) -> None:
    """Join, and wait until the group has initialized its partitions."""
    epoch = 0
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        request = ShareGroupHeartbeatRequest(
            group_id=group_id, member_id=member, member_epoch=epoch, subscribed_topic_names=[topic]
        )
        answer = client.call(request, ShareGroupHeartbeatResponse, 1)
        if answer.error_code in NOT_YET:
            client.call(FindCoordinatorRequest(coordinator_keys=[group_id]), FindCoordinatorResponse, 6)
            time.sleep(0.05)
            continue
        assert not answer.error_code, answer
        epoch = answer.member_epoch
        if answer.assignment is not None and sum(len(each.partitions) for each in answer.assignment.topic_partitions) == partitions:
            return
        time.sleep(0.05)
    raise TimeoutError(f"{group_id} has no assignment")


class Reader(ShareMember):
    """A member that accepts with each ShareFetch what the last one has acquired."""

    def begin(self) -> None:
        """Send the next ShareFetch."""
        self.began_s = time.perf_counter()
        most = self.most_records
        self.send_fetch(*self.left, partition=self.partitions[0], max_wait_ms=100, max_records=most, batch_size=most)

    most_records = FETCHED
    left: tuple[tuple[int, int, list[int]], ...] = ()
    began_s = 0.0

    def end(self) -> int:
        """Take the answer; return how many records were acquired."""
        acquired = acquired_of(self.receive(ShareFetchResponse, 2))
        self.left = tuple((first, last, [ACCEPT]) for first, last, _ in acquired)
        return sum(last - first + 1 for first, last, _ in acquired)

    def fileno(self) -> int:
        return self._socket.fileno()


def read_all(bootstrap: str, pid: int, members: int, count: int, most_records: int = FETCHED) -> Measured:
    """Let members read a new topic; each ShareFetch acquires at most ``most_records``."""
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    with RawClient(bootstrap) as client:
        topic_id = new_topic(client, topic, members)
        set_group_configs(client, topic, share_auto_offset_reset="earliest")
        join(client, topic, member_id(), topic, members)
        produce(bootstrap, topic, count, members)
    with contextlib.ExitStack() as stack:
        readers = [Reader(bootstrap, topic, member_id(), topic_id, (number,)) for number in range(members)]
        for each in readers:
            stack.callback(each.close)
            each.most_records = most_records
        return _read(readers, pid, count)


def _read(readers: list[Reader], pid: int, count: int) -> Measured:
    began_cpu_s, began_s = cpu_s(pid), time.perf_counter()
    times_s: list[float] = []
    done = 0
    with selectors.DefaultSelector() as selector:
        for each in readers:
            each.begin()
            selector.register(each, selectors.EVENT_READ, each)
        while done < count:
            for key, _ in selector.select(WAIT_S):
                reader: Reader = key.data
                done += reader.end()
                times_s.append(time.perf_counter() - reader.began_s)
                reader.begin()
    took_s = time.perf_counter() - began_s
    p99_ms = 1000 * statistics.quantiles(times_s, n=100)[98]
    return Measured(count / took_s, p99_ms, (cpu_s(pid) - began_cpu_s) / count * 1e6)


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def memory(bootstrap: str, pid: int, groups: int) -> float:
    """Return the growth of the broker's memory by groups that have acquired records."""
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    with RawClient(bootstrap) as client, contextlib.ExitStack() as stack:
        topic_id = new_topic(client, topic, 1)
        produce(bootstrap, topic, OF_GROUP, 1)
        before_mb = memory_mb(pid)
        group_ids = [f"{topic}-{number}" for number in range(groups)]
        for group_id in group_ids:  # before any of them joins: a broker applies it a moment after its answer
            set_group_configs(client, group_id, share_auto_offset_reset="earliest")
        for group_id in group_ids:
            member = member_id()
            join(client, group_id, member, topic, 1)
            session = ShareMember(bootstrap, group_id, member, topic_id)
            stack.callback(session.close)
            got = 0
            while not got:
                got = sum(last - first + 1 for first, last, _ in session.acquired(max_records=OF_GROUP, max_wait_ms=500))
            assert got == OF_GROUP, got
        return memory_mb(pid) - before_mb


@contextlib.contextmanager
def brokers(directory: Path, with_kafka: bool) -> Iterator[dict[str, tuple[str, int]]]:
    """Start the brokers; yield address and process id of each."""
    with contextlib.ExitStack() as stack:
        settings = COMMON | {"group.coordinator.rebalance.protocols": "classic,consumer,share"}
        ours = ServedBroker(directory / "ours", *[f"{key}={value}" for key, value in settings.items()])
        stack.callback(ours.kill)
        ours.start()
        assert ours.process is not None
        found = {"here": (ours.bootstrap, ours.process.pid)}
        if with_kafka:
            (directory / "kafka").mkdir()
            kafka = ApacheKafka(directory / "kafka", kraft=True, version=VERSION, **COMMON)  # type: ignore[arg-type]
            stack.callback(kafka.stop)
            kafka.start()
            found["Kafka"] = kafka.bootstrap, kafka.broker_pid
        yield found


def compare(found: dict[str, tuple[str, int]], cases: Sequence[int], rounds: int, warm_up: int, records: int) -> None:
    """Print the medians of all cases."""
    for members in cases:
        results: dict[str, list[Measured]] = {name: [] for name in found}
        for _ in range(warm_up):
            for bootstrap, pid in found.values():
                read_all(bootstrap, pid, members, records, BATCH)
        for _ in range(rounds):
            for name, (bootstrap, pid) in found.items():
                results[name].append(read_all(bootstrap, pid, members, records))
        for name, each in results.items():
            records_s, p99_ms, cpu_us = (statistics.median(values) for values in zip(*each, strict=True))
            text = f"{records_s:9,.0f} records/s, p99 {p99_ms:6.1f} ms, CPU {cpu_us:5.2f} us/record"
            print(f"{members:2} members, {name:5}: {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=1, help="rounds before that")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--members", type=int, nargs="+", default=CASES)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--groups", type=int, default=1000)
    options = parser.parse_args()
    with scratch() as directory, brokers(directory, options.kafka) as found:
        print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        if options.memory:
            for name, (bootstrap, pid) in found.items():
                more_mb = memory(bootstrap, pid, options.groups)
                print(f"{options.groups} groups with {OF_GROUP} acquired records each, {name}: {more_mb:.0f} MB more", flush=True)
        else:
            compare(found, options.members, options.rounds, options.warm_up, options.records)


if __name__ == "__main__":
    main()
