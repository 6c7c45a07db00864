"""What the console's queries cost in a broker with many topics and groups, in processor time and memory.

    python -m benchmarks.console_queries [--topics 10000] [--groups 15000] [--rounds 5] [--only topics,groups]

A broker in this process gets that many topics of one partition, and groups with an offset each. Each query is asked in process, as
the console does, and then with the rights of a user whose ACLs count. The table has the median of the processor time of the whole
process in milliseconds (the handlers' part included), and the peak of the memory that the query allocated, in MB, measured in a
round of its own, since that makes it slower. The limits are those of the console: 100 ms and 30 MB.

The last part is the cost of the capture of requests: nanoseconds of processor time for a request that is captured, for one that
passes since more come than are captured, and for a request altogether (a Metadata of one topic over a socket, with its client).

A first look at the list of topics after a change of topics, leaders or ACLs reads all of them again: the row "overview, first".
"""

import argparse
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, Final

import twisted_kafka
from tests.support.console import session_in
from twisted_kafka.client.connections.addresses import parse_address
from twisted_kafka.console.cluster.connections import Connections
from twisted_kafka.console.cluster.coordinators import GROUP, coordinator_of
from twisted_kafka.console.cluster.groups import committed
from twisted_kafka.console.cluster.problems import CommandError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.live.requests import RequestFilter
from twisted_kafka.console.queries.access import acls
from twisted_kafka.console.queries.cluster import cluster
from twisted_kafka.console.queries.directories import directories
from twisted_kafka.console.queries.findings import findings
from twisted_kafka.console.queries.groups import group, groups
from twisted_kafka.console.queries.overview import overview
from twisted_kafka.console.queries.paging import Asked
from twisted_kafka.console.queries.records.messages import MessagesAsked, messages
from twisted_kafka.console.queries.topics.topic import topic
from twisted_kafka.console.queries.topics.topics import topics
from twisted_kafka.console.queries.transactions import transactions
from twisted_kafka.protocol.messages.administration.acls import AclCreation, CreateAclsRequest
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreateTopicsRequest
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from twisted_kafka.security.authorizer.acl_types import AclOperation, PatternType, PermissionType, ResourceType
from twisted_kafka.timing.clock import SystemClock

LIMIT_MS: Final = 100
LIMIT_MB: Final = 30
AT_ONCE: Final = 200
CALLS: Final = 2_000
SETTINGS: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:root;User:ANONYMOUS",
    "offsets.topic.num.partitions": 10,
}


def fill(broker: twisted_kafka.Broker, topic_count: int, group_count: int) -> None:
    """Create topics and groups, and a user with rights for all of them by prefix."""
    root = session_in(broker, "root", 600)
    for first in range(0, topic_count, AT_ONCE):
        names = [f"topic-{number:05}" for number in range(first, min(first + AT_ONCE, topic_count))]
        asked = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
        root.ask(CreateTopicsRequest(topics=asked, timeout_ms=600_000))
    root.retrying(lambda: coordinator_of(root, "group", GROUP))
    committed(root, "group")
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    for number in range(group_count):
        name = f"topic-{number % topic_count:05}"
        request = OffsetCommitRequest(
            group_id=f"group-{number:05}", topics=[OffsetCommitRequestTopic(name=name, partitions=[partition])]
        )
        (answer,) = root.ask(request, latest=9).topics
        assert not answer.partitions[0].error_code, answer
    for kind, name in ((ResourceType.TOPIC, "topic"), (ResourceType.GROUP, "group")):
        creation = AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=PatternType.PREFIXED,
            principal="User:alice",
            host="*",
            operation=AclOperation.READ,
            permission_type=PermissionType.ALLOW,
        )
        root.ask(CreateAclsRequest(creations=[creation]))


def queries(broker: twisted_kafka.Broker) -> dict[str, Callable[[Session], Any]]:
    """Return the queries by name."""
    live, clock = broker._server.live(), SystemClock()
    return {
        "overview, first": lambda session: (session._asked._broker.kept._results.clear(), overview(session)),  # type: ignore[union-attr]
        "overview": overview,
        "topics": lambda session: topics(session, Asked()),
        "topics, last page": lambda session: topics(session, Asked(sort="-name", page=150)),
        "topics, search": lambda session: topics(session, Asked("9999")),
        "topics by size": lambda session: topics(session, Asked(sort="-size_bytes")),
        "topic": lambda session: topic(session, "topic-00007", live.readers("topic-00007")),
        "messages": lambda session: messages(session, clock, MessagesAsked("topic-00007")),
        "groups": lambda session: groups(session, Asked()),
        "groups, search": lambda session: groups(session, Asked("9999")),
        "group": lambda session: group(session, "group-00007"),
        "transactions": lambda session: transactions(session, Asked()),
        "cluster": cluster,
        "directories": directories,
        "findings": findings,
        "acls": lambda session: acls(session, Asked()),
        "clients": lambda session: live.clients(session, Asked()),
        "requests": lambda session: live.requests(session, RequestFilter()),
        "counts": live.counts,
    }


def measure(ask: Callable[[Session], Any], session: Session, rounds: int) -> tuple[float, float]:
    """Return milliseconds and megabytes."""
    ask(session)
    times = []
    for _ in range(rounds):
        began = time.process_time_ns()
        ask(session)
        times.append((time.process_time_ns() - began) / 1e6)
    tracemalloc.start()
    try:
        ask(session)
        return statistics.median(times), tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def capture_costs(broker: twisted_kafka.Broker) -> Iterator[tuple[str, float]]:
    """Yield the cost of a request in nanoseconds: captured, passed, altogether."""
    live, root = broker._server.live(), session_in(broker, "root")
    with Session(Connections([parse_address(broker.bootstrap_servers)], {}, 60), SystemClock(), 60) as client:
        client.metadata(["topic-00007"])

        def cost() -> float:
            began = time.process_time_ns()
            for _ in range(CALLS):
                client.metadata(["topic-00007"])
            return (time.process_time_ns() - began) / CALLS

        yield "a request altogether", cost()
        live.requests(root, RequestFilter())
        capture = live._parts.capture
        (request,) = [capture.look()[-1].request] if capture.look() else (None,)
        while request is None:
            client.metadata([])
            found = capture.look()
            request = found[-1].request if found else None
        for name, left in (("captured", 10**9), ("passed by", 0)):
            request.dequeued_ns = capture._window_ns
            began = time.process_time_ns()
            for _ in range(CALLS):
                capture._left = left
                capture.note(request)
                capture.request_completed(request)
            yield name, (time.process_time_ns() - began) / CALLS
        live.stop()


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=15_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="names of queries, by comma")
    options = parser.parse_args()
    wanted = [each for each in options.only.split(",") if each]
    with twisted_kafka.Broker(SETTINGS) as broker:
        began = time.process_time()
        fill(broker, options.topics, options.groups)
        print(f"{options.topics:,} topics and {options.groups:,} groups took {time.process_time() - began:.0f} s of CPU time")
        print(f"{'query':20} {'root ms':>8} {'root MB':>8} {'alice ms':>9} {'alice MB':>9}")
        for name, ask in queries(broker).items():
            if wanted and not any(each in name for each in wanted):
                continue
            row = []
            for user in ("root", "alice"):
                try:
                    row.append(measure(ask, session_in(broker, user, 60), options.rounds))
                except CommandError:  # alice may not do everything
                    row.append((float("nan"), float("nan")))
            over = "  <- over the limit" if any(ms > LIMIT_MS or mb > LIMIT_MB for ms, mb in row) else ""
            print(f"{name:20} " + " ".join(f"{ms:8.1f} {mb:8.1f}" for ms, mb in row) + over, flush=True)
        for name, cost_ns in capture_costs(broker):
            print(f"{name:20} {cost_ns:8,.0f} ns")


if __name__ == "__main__":
    main()
