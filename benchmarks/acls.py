"""What an authorizer costs per request: none, one without ACLs, and with 10,000 and 100,000, in turn in one process.

    python -m benchmarks.acls [--frames produce_1x100,fetch_empty] [--acls 10000,100000] [--rounds 300]

Prints the processor time of one thread per request, the fastest of many rounds and the median, as ``benchmarks.request_path`` does;
then that of a decision that is not remembered, and of starting with the ACLs.
"""

import argparse
import contextlib
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.request_path import CAPTURED, PER_ROUND, OneThread, capture_parts, frames
from benchmarks.scratch import scratch
from tests.support.oracle.talk import Talk
from twisted_kafka import Broker
from twisted_kafka.metadata.embedded import SqliteStore
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.protocol.messages.administration.acls import AclCreation, CreateAclsRequest
from twisted_kafka.security.authorizer.acl_authorizer import AclAuthorizer
from twisted_kafka.security.authorizer.acl_types import AclOperation, PatternType, PermissionType, ResourceType
from twisted_kafka.security.authorizer.audit_log import AuditLog
from twisted_kafka.security.authorizer.interfaces import Action
from twisted_kafka.timing.clock import SystemClock

AUTHORIZER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
TOPIC = "bench"
CREATED_AT_ONCE = 2000
DECISIONS = 20_000


class Measured(NamedTuple):
    """A broker whose requests this thread handles."""

    name: str
    path: OneThread
    prepared: dict[str, bytes]
    times: dict[str, list[float]]


def creation(name: str, principal: str, *, prefixed: bool = False) -> AclCreation:
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        resource_pattern_type=PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        principal=principal,
        host="*",
        operation=AclOperation.ALL,
        permission_type=PermissionType.ALLOW,
    )


def create(port: int, count: int, topics: Sequence[str] = (TOPIC,)) -> None:
    """Create ACLs: half of them of users of one topic each, half of prefixes, and those of the client that is measured."""
    made = [creation(topic, "User:ANONYMOUS") for topic in topics]
    for number in range(count - len(made)):
        is_prefixed = bool(number % 2)
        name = f"team-{number}." if is_prefixed else f"topic-{number}"
        made.append(creation(name, f"User:user-{number % 1000}", prefixed=is_prefixed))
    talk = Talk(port, "acls")
    for start in range(0, len(made), CREATED_AT_ONCE):
        answer = talk.ask(CreateAclsRequest(creations=made[start : start + CREATED_AT_ONCE]), 2, note=False)
        assert not any(each.error_code for each in answer.results)
    talk.close()


@contextlib.contextmanager
def started(name: str, directory: Path, count: int | None, names: list[str]) -> Iterator[Measured]:
    settings = {"access.log.dir": str(directory / "access"), **({} if count is None else AUTHORIZER)}
    with Broker(settings, data_dir=directory) as broker:
        port = broker.listeners[0].port
        prepared = frames.prepare("127.0.0.1", port, TOPIC)
        if count:
            create(port, count)
        yield Measured(name, OneThread(), prepared, {each: [] for each in names})


def measure(brokers: list[Measured], names: list[str], rounds: int) -> None:
    """Take turns, so that what else the machine does meets all alike."""
    for name in names:
        for _ in range(rounds):
            for each in brokers:
                data = each.prepared[name]
                began = time.thread_time()
                for _ in range(PER_ROUND):
                    each.path.send(data)
                each.times[name].append((time.thread_time() - began) / PER_ROUND * 1e6)


def show(brokers: list[Measured], names: list[str]) -> None:
    print(f"{'us of processor time':24} {'':14} {'fastest':>8} {'median':>8} {'more':>7}")
    for name in names:
        least = min(brokers[0].times[name])
        for each in brokers:
            fastest, median = min(each.times[name]), statistics.median(each.times[name])
            print(f"{name:24} {each.name:14} {fastest:8.2f} {median:8.2f} {(fastest / least - 1) * 100:6.1f}%")


def decisions(directory: Path) -> None:
    """Decide about names that nobody asked for before, with the ACLs that a broker left."""
    clock = SystemClock()
    (path,) = directory.rglob("*.sqlite")
    store = SqliteStore(path, clock)
    began = time.thread_time()
    authorizer = AclAuthorizer(store, clock, AuditLog())
    authorizer.configure(AUTHORIZER)
    loaded_ms = (time.thread_time() - began) * 1e3
    connection = ConnectionInfo("c", "L", "SSL", "10.0.0.1")
    connection.principal = KafkaPrincipal("User", "user-7")
    context = RequestContext(0, 9, 1, "bench", connection)
    actions = [(Action(AclOperation.WRITE, ResourceType.TOPIC, f"topic-{number}", False),) for number in range(DECISIONS)]
    began = time.thread_time()
    for action in actions:
        authorizer.authorize(context, action)
    print(f"{'a new decision':24} {'':14} {(time.thread_time() - began) / DECISIONS * 1e6:8.2f}   loading {loaded_ms:.0f} ms")
    authorizer.close()
    store.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.acls", description=__doc__)
    parser.add_argument("--frames", default="produce_1x100,fetch_empty,metadata1")
    parser.add_argument("--acls", default="10000,100000")
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    names = options.frames.split(",")
    counts = [None, 0, *map(int, options.acls.split(","))]
    capture_parts()
    with scratch() as directory:
        with contextlib.ExitStack() as stack:
            brokers = []
            for count in counts:
                name = "no authorizer" if count is None else f"{count:,} ACLs"
                brokers.append(stack.enter_context(started(name, directory / str(count), count, names)))
            measure(brokers, names, options.rounds)
            show(brokers, names)
        for count in counts[2:]:
            print(f"with {count:,} ACLs:")
            decisions(directory / str(count))
    CAPTURED.clear()


if __name__ == "__main__":
    main()
