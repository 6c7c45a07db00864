"""What happens on days without incidents: batches, deployments, restarts, growth, people who look."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from benchmarks.unseen.expected import NoTargetError, Plan
from benchmarks.unseen.world import GO, HOUR_S, JAVA, Client, Day, Part, Request


def nightly_batch(plan: Plan) -> None:
    """A job writes at night, each night the same."""
    topic = plan.topic()
    first = plan.draw.uniform(1, 3) * HOUR_S
    last = first + plan.draw.uniform(20, 60) * 60
    job = Client("nightly-load", "User:etl", "10.44.0.2", JAVA, "3.7.0")

    def writes() -> Iterator[Request]:
        for at in plan.day.times(plan.draw.uniform(8, 20), first, last, follows_load=False):
            index = plan.draw.randrange(plan.day.topics[topic])
            part = Part(topic, (index,), 500, plan.draw.randint(90_000, 200_000))
            yield plan.day.noisy(
                Request(at, job, plan.day.leaders[topic, index], "Produce", 9, [part], request_bytes=part.bytes + 90)
            )

    plan.day.add(writes)


def deployment(plan: Plan) -> None:
    """A service is restarted, one process after the other, with the same version."""
    group = plan.group(2)
    first, draw = plan.draw.uniform(8, 17) * HOUR_S, plan.draw
    for index, client in enumerate(group.clients):
        down = first + index * 75
        plan.day.span(down, down + draw.uniform(8, 25), lambda each, client=client: each.client is client, lambda each: ())  # type: ignore[misc]

    def joins() -> Iterator[Request]:
        for index in range(len(group.clients)):
            at = first + index * 75 + 30
            yield from plan.day.connect(group.clients[index], plan.day.coordinator(group.name), at)
            streams = [list(group.join(each, at + 1 + each * 0.1, index + 2)) for each in range(len(group.clients))]
            yield from sorted((each for stream in streams for each in stream), key=lambda each: each.at)

    plan.day.add(joins)


def rolling_restart(plan: Plan) -> None:
    """All brokers are restarted one after the other; each is away for about 40 s."""
    if not 1 < len(plan.day.brokers) <= 12:
        raise NoTargetError
    first = plan.draw.uniform(9, 16) * HOUR_S
    for number, broker in enumerate(plan.day.brokers):
        down = first + number * 240
        others = [each for each in plan.day.brokers if each != broker]

        def moves(request: Request, down: float = down, others: list[int] = others) -> Iterable[Request]:
            moved = request.at < down + 3
            for part in request.parts if moved and request.api in ("Produce", "Fetch") else ():
                part.error = "NOT_LEADER_OR_FOLLOWER"
            if not moved:
                request.node = others[len(request.client.client_id) % len(others)]
            yield request

        plan.day.span(down, down + 40, lambda each, broker=broker: each.node == broker, moves)  # type: ignore[misc]


def curious_person(plan: Plan) -> None:
    """A person looks at groups and topics with the command-line tools."""
    person = Client("adminclient-1", f"User:{plan.draw.choice(['ada', 'bo', 'cleo'])}", "10.77.0.9", JAVA, "3.9.0")
    first = plan.draw.uniform(8, 18) * HOUR_S

    def asks() -> Iterator[Request]:
        yield from plan.day.connect(person, plan.day.brokers[0], first)
        for number, api in enumerate(("ListGroups", "DescribeGroups", "Metadata", "ListOffsets")):
            parts = [Part(each, (0,)) for each in list(plan.day.topics)[:2]] if api in ("Metadata", "ListOffsets") else []
            yield plan.day.noisy(Request(first + number, person, plan.day.brokers[0], api, 4, parts))

    plan.day.add(asks)


def scattered_errors(plan: Plan) -> None:
    """A few errors that clients retry, here and there."""

    def fails(request: Request) -> Iterable[Request]:
        if plan.draw.random() < 0.0004:
            if request.api == "Produce":
                request.parts[0].error = plan.draw.choice(["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT"])
            elif request.api == "Heartbeat":
                request.error = "REBALANCE_IN_PROGRESS"
        yield request

    plan.day.span(0, 24 * HOUR_S, lambda each: each.api in ("Produce", "Heartbeat"), fails)


def hourly_job(plan: Plan) -> None:
    """A job connects each hour, reads a topic for two minutes, and leaves."""
    topic = plan.topic()
    job = Client("hourly-report", "User:reports", "10.44.0.7", GO, "1.17.1")

    def reads() -> Iterator[Request]:
        for hour in range(24):
            at = hour * HOUR_S + 300 + plan.draw.uniform(0, 20)
            job.ports.clear()
            yield from plan.day.connect(job, plan.day.leaders[topic, 0], at)
            for step in range(plan.draw.randint(18, 26)):
                part = Part(topic, (step % plan.day.topics[topic],), 0, plan.draw.randint(30_000, 80_000))
                yield plan.day.noisy(
                    Request(at + 1 + step * 4, job, plan.day.leaders[topic, 0], "Fetch", 15, [part], response_bytes=part.bytes)
                )

    plan.day.add(reads)


def busy_hour(plan: Plan) -> None:
    """Everybody does somewhat more for an hour, as after a newsletter."""
    first = plan.draw.uniform(9, 18) * HOUR_S
    last, factor = first + plan.draw.uniform(35, 80) * 60, plan.draw.uniform(1.2, 1.6)

    def more(request: Request) -> Iterable[Request]:
        for part in request.parts:
            part.bytes, part.records = int(part.bytes * factor), int(part.records * factor)
        yield request

    plan.day.span(first, last, lambda each: each.api in ("Produce", "Fetch"), more)


def scaled_out(plan: Plan) -> None:
    """A service gets another process, which stays; together they write as much as before."""
    producer = plan.producer()
    first, old = plan.draw.uniform(7, 17) * HOUR_S, producer.clients[0]
    new = Client(f"{producer.name}-{len(producer.clients)}", old.principal, "10.1.90.44", old.software, old.software_version)
    turns, connected = len(producer.clients) + 1, set[int]()

    def shares(request: Request) -> Iterable[Request]:
        if plan.draw.random() < 1 / turns:
            if request.node not in connected:
                connected.add(request.node)
                yield from plan.day.connect(new, request.node, request.at)
            request.client = new
        yield request

    plan.day.span(first, 24 * HOUR_S, lambda each: each.client in producer.clients and each.api == "Produce", shares)


def nightly_export(plan: Plan) -> None:
    """A job reads a topic's day at night."""
    topic, first = plan.topic(), plan.draw.uniform(0.5, 4) * HOUR_S
    job = Client("lake-export", "User:lake", "10.44.0.21", JAVA, "3.8.0")

    def reads() -> Iterator[Request]:
        yield from plan.day.connect(job, plan.day.leaders[topic, 0], first)
        for at in plan.day.times(plan.draw.uniform(10, 30), first + 1, first + plan.draw.uniform(15, 50) * 60, follows_load=False):
            index = plan.draw.randrange(plan.day.topics[topic])
            part = Part(topic, (index,), 0, plan.draw.randint(100_000, 400_000))
            yield plan.day.noisy(
                Request(at, job, plan.day.leaders[topic, index], "Fetch", 15, [part], response_bytes=part.bytes + 60)
            )

    plan.day.add(reads)


def quiet_hour(plan: Plan) -> None:
    """A service has half as much to write for an hour or two, as during a football match."""
    producer = plan.producer()
    first = plan.draw.uniform(10, 19) * HOUR_S
    last, draw = first + plan.draw.uniform(50, 110) * 60, plan.draw
    plan.day.span(
        first,
        last,
        lambda each: each.client in producer.clients and each.api == "Produce" and draw.random() < 0.5,
        lambda each: (),
    )


SHAPES = (nightly_batch, deployment, rolling_restart, curious_person, scattered_errors, hourly_job, busy_hour)
MORE_SHAPES = (*SHAPES, scaled_out, nightly_export, quiet_hour)


def plant(day: Day, seed: int, shapes: Sequence[Callable[[Plan], None]] = SHAPES) -> None:
    """Let three to five of these happen in a day."""
    draw = random.Random(seed * 7 + 1)
    plan = Plan(day, draw)
    for shape in draw.sample(shapes, draw.randint(3, 5)):
        try:
            shape(plan)
        except NoTargetError:
            continue
