"""What the console's pages cost: processor time and memory with many topics and groups, and with twenty open pages.

python -m benchmarks.console_pages [TOPICS [GROUPS]]

The last figures are the processor time of a Produce with its client while nobody looks, and, in turns with that, the time that
twenty open pages take beside it.
"""

import gc
import http.client
import socket
import statistics
import sys
import threading
import time
from urllib.parse import quote, urlsplit

from twisted_kafka.broker.broker import Broker
from twisted_kafka.client.connections.socket_connection import SocketConnection
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreateTopicsRequest
from twisted_kafka.protocol.messages.coordinators.groups import FindCoordinatorRequest
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord

PAGES = (
    *("/", "/topics", "/topics?page=150", "/topics?search=123", "/topics?sort=-size_bytes", "/topic?name=topic-00017"),
    *("/messages?topic=topic-00017", "/groups", "/groups?search=123", "/groups?page=200", "/group?name=group-00017"),
    *("/transactions", "/hanging", "/requests", "/clients", "/threads", "/storage", "/cluster", "/report", "/users"),
)
OPEN_PAGES = 20
TIMES = 3
SECONDS = 30
TURNS, TURN_S = 6, 4
BATCH = 500
GROUP_VERSION = 9  # the last one that names topics


def fill(broker: Broker, topics: int, groups: int) -> None:
    host, _, port = broker.bootstrap_servers.partition(":")
    with SocketConnection((host, int(port)), "fill", 120.0) as connection:
        for first in range(0, topics, BATCH):
            names = [f"topic-{number:05d}" for number in range(first, min(topics, first + BATCH))]
            new = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
            connection.ask(CreateTopicsRequest(topics=new, timeout_ms=60_000), 7, 120.0)
        connection.ask(FindCoordinatorRequest(key="any"), 3, 120.0)  # makes the coordinator's topic
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=0)]
        for number in range(groups):
            topic = OffsetCommitRequestTopic(name=f"topic-{number % topics:05d}", partitions=partitions)
            request = OffsetCommitRequest(group_id=f"group-{number:05d}", topics=[topic])
            while connection.ask(request, GROUP_VERSION, 120.0).topics[0].partitions[0].error_code:
                time.sleep(0.1)  # the coordinator's topic is being made


def resident_mb() -> float:
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def cost_of_pages(url: str) -> None:
    parts = urlsplit(url)
    client = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
    for path in PAGES:
        first_s, best_s, size = 0.0, float("inf"), 0
        for _ in range(TIMES):
            began_s = time.process_time()
            client.request("GET", path)
            answer = client.getresponse()
            size = len(answer.read())
            cost_s = time.process_time() - began_s
            first_s, best_s = first_s or cost_s, min(best_s, cost_s)
        print(f"{first_s * 1000:8.1f} ms at first {best_s * 1000:8.1f} ms {size:9,} bytes {answer.status} {path}", flush=True)


def cost_of_looking(url: str, count: int) -> float:
    """The part of one processor that open pages take."""
    open_pages = open_pages_of(url, count)
    time.sleep(5)
    cpu_s, began_s = time.process_time(), time.monotonic()
    time.sleep(SECONDS)
    share = (time.process_time() - cpu_s) / (time.monotonic() - began_s)
    close(open_pages)
    return share


def open_pages_of(url: str, count: int) -> list[http.client.HTTPConnection]:
    parts, found = urlsplit(url), []
    for number in range(count):
        client = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
        client.request("GET", f"/live?at={quote(PAGES[number % len(PAGES)])}")
        threading.Thread(target=_drain, args=(client.getresponse(),), daemon=True).start()
        found.append(client)
    return found


def cost_of_requests(broker: Broker) -> tuple[float, float, float]:
    """Return the microseconds of a request while nobody looks, requests per second, and what open pages take of a processor.

    These are medians. The rate of requests that keep a processor busy falls by that part: their own time is the same.
    """
    url, (host, _, port) = str(broker.console_url), broker.bootstrap_servers.partition(":")
    batch = build_batch([SimpleRecord(timestamp_ms=int(time.time() * 1000), value=b"x" * 100)])
    data = TopicProduceData(name="topic-00017", partition_data=[PartitionProduceData(index=0, records=batch)])
    produce = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[data])
    turns: dict[int, list[tuple[int, float]]] = {0: [], OPEN_PAGES: []}
    with SocketConnection((host, int(port)), "beside", 60.0) as connection:
        for turn in range(2 * TURNS):
            count = OPEN_PAGES * (turn % 2)
            pages = open_pages_of(url, count)
            time.sleep(TURN_S)  # the first part of each page is there at once
            requests, ends_s, cpu_s = 0, time.monotonic() + TURN_S, time.process_time()
            while time.monotonic() < ends_s:
                connection.ask(produce, 9, 60.0)
                requests += 1
            turns[count].append((requests, time.process_time() - cpu_s))
            close(pages)
    one_s = statistics.median(cpu_s / requests for requests, cpu_s in turns[0])
    rate = statistics.median(requests / TURN_S for requests, _ in turns[0])
    part = statistics.median((cpu_s - requests * one_s) / TURN_S for requests, cpu_s in turns[OPEN_PAGES])
    return one_s * 1e6, rate, part


def close(pages: list[http.client.HTTPConnection]) -> None:
    for page in pages:  # a close would wait for the thread that reads
        page.sock.shutdown(socket.SHUT_RDWR)


def _drain(answer: http.client.HTTPResponse) -> None:
    try:
        while answer.read1(65_536):
            pass
    except (AttributeError, OSError, ValueError, http.client.HTTPException):
        pass  # the page was closed


def main(topics: int, groups: int) -> None:
    with Broker({"console.listener": "127.0.0.1:0", "offsets.topic.num.partitions": 5}) as broker:
        url = str(broker.console_url)
        began_s = time.monotonic()
        fill(broker, topics, groups)
        print(f"filled in {time.monotonic() - began_s:.0f} s", flush=True)
        before_mb = resident_mb()
        print(f"{topics:,} topics, {groups:,} groups, {before_mb:.0f} MB before the first page")
        nobody = cost_of_looking(url, 0)
        cost_of_pages(url)
        print(f"{resident_mb() - before_mb:+.0f} MB after all pages")
        print(f"nobody looks: {nobody:.2%} of a processor; {OPEN_PAGES} open pages: {cost_of_looking(url, OPEN_PAGES):.2%}")
        print(f"{resident_mb() - before_mb:+.0f} MB in all", flush=True)
        one_us, rate, part = cost_of_requests(broker)
        print(
            f"a Produce takes {one_us:.0f} us ({rate:,.0f} a second); {OPEN_PAGES} open pages beside it {part:.1%} of a processor"
        )


if __name__ == "__main__":
    main(*(int(each) for each in (*sys.argv[1:], 10_000, 15_000)[:2]))
