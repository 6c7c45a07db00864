"""What nobody needs to be told: tests, probes, pages that somebody looks at, functions, and pods that move."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchmarks.unseen.expected import Plan
from benchmarks.unseen.world import DAY_S, GO, HOUR_S, JAVA, LIBRDKAFKA, PYTHON, Client, Part, Request, copied


def node_drained(plan: Plan) -> None:
    """A machine is emptied for maintenance: one process of each of some services moves to another host, and keeps its name."""
    first = plan.draw.uniform(8, 19) * HOUR_S
    services = [*plan.day.producers, *plan.day.groups]
    for number, service in enumerate(plan.draw.sample(services, min(4, len(services)))):
        old = service.clients[-1]
        plan.replace(old, replace(old, host=f"10.2.200.{10 + number}", ports={}), first + number * 25)


def ci_tests(plan: Plan) -> None:
    """A build server makes a topic for its tests, writes and reads a little, and deletes it, some times in an hour, all day."""
    draw, runner = plan.draw, Client("ci-runner", "User:ci", "10.12.0.4", GO, "1.18.0")

    def runs() -> Iterator[Request]:
        for number, at in enumerate(plan.day.times(1 / 25, follows_load=False)):
            topic, node = f"ci-{number:03}-orders", draw.choice(plan.day.brokers)
            yield from plan.day.connect(runner, node, at)
            yield plan.day.noisy(Request(at + 1, runner, node, "CreateTopics", 7, resources=[("topic", topic)]))
            for step in range(10):
                part = Part(topic, (0,), 2, draw.randint(200, 900))
                yield plan.day.noisy(Request(at + 2 + step, runner, node, "Produce", 9, [part], request_bytes=part.bytes + 80))
                read = Part(topic, (0,), 0, part.bytes)
                yield plan.day.noisy(Request(at + 2.5 + step, runner, node, "Fetch", 15, [read]))
            yield plan.day.noisy(Request(at + 14, runner, node, "DeleteTopics", 6, resources=[("topic", topic)]))

    plan.day.add(runs)


def evening_peak(plan: Plan) -> None:
    """Between seven and half past ten in the evening everybody writes up to half as much again, as television does."""
    draw, top = plan.draw, plan.draw.uniform(0.3, 0.5)

    def more(request: Request) -> Iterable[Request]:
        yield request
        rise = top * max(0.0, 1 - abs(request.at / HOUR_S - 20.75) / 1.75)
        if draw.random() < rise:
            yield plan.day.noisy(copied(request, at=request.at + draw.uniform(0, 20)))

    plan.day.span(19 * HOUR_S, 22.5 * HOUR_S, lambda each: each.api == "Produce" and each.transaction is None, more)


def ui_visits(plan: Plan) -> None:
    """A web page for topics and groups is opened some times a day: it lists everything, and shows the last records of one."""
    draw, page = plan.draw, Client("kafka-ui", "User:kafka-ui", "10.9.0.70", JAVA, "3.8.0")
    topics = sorted(plan.day.topics)

    def visits() -> Iterator[Request]:
        for at in plan.day.times(1 / 75, 7.5 * HOUR_S, 19 * HOUR_S, follows_load=False):
            node, topic = draw.choice(plan.day.brokers), draw.choice(topics)
            yield plan.day.noisy(Request(at, page, node, "Metadata", 12, [Part(each, ()) for each in topics]))
            yield plan.day.noisy(Request(at + 0.3, page, node, "ListGroups", 4))
            described: list[tuple[str, str | None]] = [("topic", each) for each in topics]
            yield plan.day.noisy(Request(at + 0.6, page, node, "DescribeConfigs", 4, resources=described))
            for index in range(min(4, plan.day.topics[topic])):
                leader, part = plan.day.leaders[topic, index], Part(topic, (index,), 0, draw.randint(1_000, 60_000))
                yield plan.day.noisy(Request(at + 4 + index, page, leader, "ListOffsets", 7, [Part(topic, (index,))]))
                yield plan.day.noisy(Request(at + 4.2 + index, page, leader, "Fetch", 15, [part]))

    plan.day.add(visits)


def probes_all_day(plan: Plan) -> None:
    """A probe beside each broker connects every half minute and asks for its versions, today as yesterday."""

    def probes(broker: int) -> Iterator[Request]:
        probe = Client("probe", "User:ANONYMOUS", f"10.0.0.{broker}", GO, "1.15.0")
        for at in plan.day.times(2 if len(plan.day.brokers) < 6 else 0.3, follows_load=False):
            yield plan.day.noisy(Request(at, probe, broker, "ApiVersions", 3, port=plan.draw.randint(32768, 60999)))

    for broker in plan.day.brokers:
        plan.day.add(lambda broker=broker: probes(broker))  # type: ignore[misc]


def records_a_little_larger(plan: Plan) -> None:
    """After a deployment a service's records have two fields more, and are larger by a fifth or a third."""
    producer, first = plan.producer(), plan.draw.uniform(8, 18) * HOUR_S
    factor = plan.draw.uniform(1.15, 1.35)

    def grows(request: Request) -> Iterable[Request]:
        request.parts[0].bytes = int(request.parts[0].bytes * factor)
        request.request_bytes = request.parts[0].bytes + 80
        yield request

    plan.day.span(first, DAY_S, lambda each: each.client in producer.clients and each.api == "Produce", grows)


def functions_come_and_go(plan: Plan) -> None:
    """Functions write to a topic: each lives for a minute or two, has a name and an address of its own, and follows the load."""
    topic, draw = plan.day.topic("webhooks.received", 3), plan.draw

    def writes() -> Iterator[Request]:
        for number, at in enumerate(plan.day.times(0.5)):
            function = Client(
                f"webhook-fn-{number:05x}", "User:webhooks", f"10.60.{number % 200}.{draw.randint(2, 250)}", PYTHON, "2.2.3"
            )
            index = draw.randrange(3)
            node = plan.day.leaders[topic, index]
            yield from plan.day.connect(function, node, at)
            for step in range(draw.randint(1, 4)):
                part = Part(topic, (index,), 1, draw.randint(300, 3000))
                write = Request(at + 0.2 + step * 9, function, node, "Produce", 9, [part], request_bytes=part.bytes + 80)
                yield plan.day.noisy(write)

    plan.day.add(writes)


def laptop_reader(plan: Plan) -> None:
    """A developer's program reads a topic in a group of its own, and is started and stopped some times in the day."""
    topic, draw = plan.draw.choice(sorted(plan.day.topics)), plan.draw
    laptop = Client("dev-anna", "User:anna", "192.168.7.19", LIBRDKAFKA, "2.6.1")
    node, begins = plan.day.leaders[topic, 0], sorted(draw.uniform(9, 17) * HOUR_S for _ in range(draw.randint(3, 6)))

    def reads() -> Iterator[Request]:
        for generation, begin in enumerate(begins):
            yield from plan.day.connect(laptop, node, begin)
            for api, version, wait in (("JoinGroup", 9, 0.1), ("SyncGroup", 5, 3.2)):
                joins = plan.day.noisy(Request(begin + wait, laptop, node, api, version, group="dev-anna"))
                joins.member, joins.generation = "dev-anna-1", generation * 2 + 1
                yield joins
            for at in plan.day.times(12, begin + 4, begin + draw.uniform(2, 12) * 60, follows_load=False):
                part = Part(topic, (0,), 0, draw.randint(0, 20_000))
                yield plan.day.noisy(Request(at, laptop, node, "Fetch", 15, [part], response_bytes=part.bytes + 60))

    plan.day.add(reads)


SHAPES = (
    node_drained,
    ci_tests,
    evening_peak,
    ui_visits,
    probes_all_day,
    records_a_little_larger,
    functions_come_and_go,
    laptop_reader,
)
