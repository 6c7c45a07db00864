"""How fast groups form and rebalance, beside Apache Kafka in the same run: ``python -m benchmarks.groups [--kafka] [--rounds 5]``.

- first assignment: librdkafka, from subscribe to the first assignment, with group.initial.rebalance.delay.ms=0
- 50 join: 50 members begin at once; until all are in one generation (or epoch) and have their assignment
- rebalance of 200: a group of 200 members, one of which joins with new metadata; until all have synced again
- one more among 200: the new protocol; until everybody has what the new assignment gives it
- with ``--sizes``, 100, 300 and 1,000 join: what they take grows with their number, not with its square

Members other than librdkafka's are of group_members.py: heartbeats every 100 ms, of 200 every 200 ms and so on, so that is about
the least that a rebalance takes.
"""

import argparse
import contextlib
import math
import statistics
import time
from collections.abc import Callable

from benchmarks.group_members import ClassicMember, ConsumerMember, Member, find_coordinator, run
from benchmarks.scratch import scratch
from tests.clients.served import ServedBroker
from tests.oracle.apache_kafka import ApacheKafka

TOPIC = "bench-groups"
PARTITIONS = 400
FIRST_ASSIGNMENTS = 7
SIZES = (100, 300, 1000)
ASSIGNMENT_S = 5
"""No assignment in this time: not a number. librdkafka speaks the new protocol as Kafka 4 does, which 3.9 does not understand."""
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 4, "num.partitions": 1}
BOTH = {"group.coordinator.rebalance.protocols": "classic,consumer"}


def make_topic(port: int) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        future.result(60)
    find_coordinator(port)


def first_assignment(port: int, name: str, **settings: object) -> float:
    """Seconds from subscribe to the first assignment."""
    from confluent_kafka import Consumer

    assigned: list[float] = []
    base = {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": name, "log_level": 0}
    consumer = Consumer(base | settings)
    consumer.list_topics(TOPIC, 30)  # connected, as an application that does more than wait for it
    started_s = time.perf_counter()
    consumer.subscribe([TOPIC], on_assign=lambda *_: assigned.append(time.perf_counter() - started_s))
    while not assigned and time.perf_counter() - started_s < ASSIGNMENT_S:
        consumer.poll(0.01)
    consumer.close()
    return assigned[0] if assigned else math.nan


def is_one_generation(members: list[Member]) -> Callable[[], bool]:
    def is_done() -> bool:
        first = members[0].generation
        return all(member.is_settled and member.generation == first for member in members)

    return is_done


def is_shared_out(members: list[ConsumerMember]) -> Callable[[], bool]:
    quota = PARTITIONS // len(members)

    def is_done() -> bool:
        first = members[0].generation
        return all(quota <= each.count <= quota + 1 and each.generation == first for each in members) and (
            sum(each.count for each in members) == PARTITIONS
        )

    return is_done


def close(members: list[Member]) -> None:
    for member in members:
        member.connection.socket.close()


def classic(port: int, name: str) -> dict[str, float]:
    # librdkafka connects anew after 50 ms in every third case or so, whatever the broker: the median leaves that out.
    first_ones = [first_assignment(port, f"{name}-first{number}") for number in range(FIRST_ASSIGNMENTS)]
    figures = {"first assignment, classic": statistics.median(first_ones)}
    few: list[Member] = [ClassicMember(port, f"{name}-few", number) for number in range(50)]
    figures["50 join, classic"] = run(few, is_one_generation(few))
    close(few)
    many: list[Member] = [ClassicMember(port, f"{name}-many", number) for number in range(200)]
    figures["200 join, classic"] = run(many, is_one_generation(many))
    first, generation = many[0], many[0].generation
    assert isinstance(first, ClassicMember)
    first.is_settled, first.metadata = False, b"changed"
    done = is_one_generation(many)
    figures["rebalance of 200, classic"] = run(many, lambda: first.generation > generation and done())
    close(many)
    return figures


def consumer(port: int, name: str) -> dict[str, float]:
    settings = {"group.protocol": "consumer"}
    figures = {"first assignment, consumer": first_assignment(port, f"{name}-new", **settings)}
    few = [ConsumerMember(port, f"{name}-newfew", number, TOPIC) for number in range(50)]
    figures["50 join, consumer"] = run(few, is_shared_out(few))
    close(list(few))
    many = [ConsumerMember(port, f"{name}-newmany", number, TOPIC) for number in range(200)]
    figures["200 join, consumer"] = run(many, is_shared_out(many))
    many.append(ConsumerMember(port, f"{name}-newmany", 200, TOPIC))
    figures["one more among 200, consumer"] = run(many, is_shared_out(many))
    close(list(many))
    return figures


def sizes(port: int, name: str) -> dict[str, float]:
    figures = {}
    for count in SIZES:
        old: list[Member] = [ClassicMember(port, f"{name}-classic{count}", number) for number in range(count)]
        figures[f"{count} join, classic"] = run(old, is_one_generation(old))
        close(old)
        new = [ConsumerMember(port, f"{name}-consumer{count}", number, TOPIC) for number in range(count)]
        figures[f"{count} join, consumer"] = run(new, is_shared_out(new))
        close(list(new))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kafka", action="store_true", help="measure Apache Kafka 3.9 (KRaft) too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", action="store_true", help="measure groups of 100, 300 and 1,000 members instead")
    options = parser.parse_args()
    measures = (sizes,) if options.sizes else (classic, consumer)
    figures: dict[str, dict[str, list[float]]] = {}
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(scratch())
        ours = ServedBroker(directory / "ours", *[f"{key}={value}" for key, value in SETTINGS.items()])
        stack.callback(ours.kill)
        ours.start()
        brokers = {"ours": ours.port}
        if options.kafka:
            (directory / "kafka").mkdir()
            kafka = ApacheKafka(directory / "kafka", kraft=True, **SETTINGS | BOTH)
            stack.callback(kafka.kill)
            kafka.start()
            brokers["kafka"] = kafka.port
        for port in brokers.values():
            make_topic(port)
        for number in range(options.rounds + 1):  # the first one warms up
            for broker, port in brokers.items():
                for measure in measures:
                    for name, took_s in measure(port, f"round{number}").items():
                        if number:
                            figures.setdefault(name, {}).setdefault(broker, []).append(took_s)
    for name, by_broker in figures.items():
        shown = "  ".join(
            f"{broker} {statistics.median(took) * 1000:7.0f} ms ({min(took) * 1000:.0f}-{max(took) * 1000:.0f})"
            for broker, took in by_broker.items()
        )
        print(f"{name:30} {shown}")


if __name__ == "__main__":
    main()
