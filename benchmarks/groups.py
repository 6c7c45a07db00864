"""The speed of joins and rebalances, compared to Apache Kafka in the same run.

    python -m benchmarks.groups [--kafka] [--rounds 5] [--sizes]

- first assignment: librdkafka, from subscribe to the first assignment, with group.initial.rebalance.delay.ms=0
- 50 join: 50 members join at once, until all have the same generation (or epoch) and an assignment
- rebalance of 200: one member of a group of 200 joins with new metadata, until all have synced again
- 201st member joins: the new protocol, until all members have their new assignment
- with ``--sizes``, 100, 300 and 1,000 join: the time should increase linearly with the number of members

Members other than librdkafka's are those of group_members.py: their heartbeat interval is 100 ms, 200 ms with 200 members and so
on, which is about the minimum time of a rebalance.
"""

import argparse
import contextlib
import math
import statistics
import time
from collections.abc import Callable

from benchmarks.group_members import ClassicMember, ConsumerMember, Member, find_coordinator, run
from benchmarks.scratch import scratch
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka

TOPIC = "bench-groups"
PARTITIONS = 400
FIRST_ASSIGNMENTS = 7
SIZES = (100, 300, 1000)
ASSIGNMENT_S = 5
"""Timeout of an assignment, after which the result is NaN: librdkafka uses the new protocol as in Kafka 4, unlike Kafka 3.9."""
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 4, "num.partitions": 1}
BOTH = {"group.coordinator.rebalance.protocols": "classic,consumer"}


def make_topic(port: int) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        future.result(60)
    find_coordinator(port)


def first_assignment(port: int, name: str, **settings: object) -> float:
    """Return the seconds from subscribe to the first assignment."""
    from confluent_kafka import Consumer

    assigned: list[float] = []
    base = {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": name, "log_level": 0}
    consumer = Consumer(base | settings)
    consumer.list_topics(TOPIC, 30)  # connects, as other calls of an application would
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


def is_balanced(members: list[ConsumerMember]) -> Callable[[], bool]:
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
    # librdkafka reconnects after 50 ms in about a third of the runs with either broker; the median excludes these.
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
    figures["50 join, consumer"] = run(few, is_balanced(few))
    close(list(few))
    many = [ConsumerMember(port, f"{name}-newmany", number, TOPIC) for number in range(200)]
    figures["200 join, consumer"] = run(many, is_balanced(many))
    many.append(ConsumerMember(port, f"{name}-newmany", 200, TOPIC))
    figures["201st member joins, consumer"] = run(many, is_balanced(many))
    close(list(many))
    return figures


def sizes(port: int, name: str) -> dict[str, float]:
    figures = {}
    for count in SIZES:
        old: list[Member] = [ClassicMember(port, f"{name}-classic{count}", number) for number in range(count)]
        figures[f"{count} join, classic"] = run(old, is_one_generation(old))
        close(old)
        new = [ConsumerMember(port, f"{name}-consumer{count}", number, TOPIC) for number in range(count)]
        figures[f"{count} join, consumer"] = run(new, is_balanced(new))
        close(list(new))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kafka", action="store_true", help="also measure Apache Kafka 3.9 (KRaft)")
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
        for number in range(options.rounds + 1):  # the first round is a warm-up
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
