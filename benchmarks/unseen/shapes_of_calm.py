"""More of what happens on days without incidents: each is planned, finished well, and nobody's trouble."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from benchmarks.unseen.expected import NoTargetError, Plan
from benchmarks.unseen.world import GO, HOUR_S, JAVA, LIBRDKAFKA, MINUTE_S, PYTHON, Client, Part, Producer, Request, copied


def load_test(plan: Plan) -> None:
    """A load test under its own account writes to its own topic for half an hour."""
    draw, first = plan.draw, plan.draw.uniform(9, 16) * HOUR_S
    topic, tester = plan.day.topic("loadtest.sink", 6), Client("loadtest-1", "User:loadtest", "10.44.1.5", JAVA, "3.9.0")

    def writes() -> Iterator[Request]:
        yield from plan.day.connect(tester, plan.day.leaders[topic, 0], first)
        for at in plan.day.times(draw.uniform(15, 40), first + 1, first + draw.uniform(20, 40) * MINUTE_S, follows_load=False):
            index = draw.randrange(6)
            part = Part(topic, (index,), 50, draw.randint(20_000, 50_000))
            yield plan.day.noisy(
                Request(at, tester, plan.day.leaders[topic, index], "Produce", 9, [part], request_bytes=part.bytes + 80)
            )

    plan.day.add(writes)


def new_team(plan: Plan) -> None:
    """A new team's group reads a topic from ten o'clock on, at the rate of others."""
    topic, draw, first = plan.topic(), plan.draw, plan.draw.uniform(9, 13) * HOUR_S
    client, group = Client("insights-0", "User:insights", "10.1.160.4", JAVA, "3.9.0"), "insights-group"
    node = plan.day.coordinator(group)

    def reads() -> Iterator[Request]:
        yield from plan.day.connect(client, node, first)
        for step, api in enumerate(("FindCoordinator", "JoinGroup", "SyncGroup")):
            named: list[tuple[str, str | None]] = [("group", group)] if api == "FindCoordinator" else []
            request = plan.day.noisy(Request(first + 1 + step * 3, client, node, api, 4, resources=named))
            if api != "FindCoordinator":
                request.group, request.member = group, "insights-0-1"
            yield request
        for number, at in enumerate(plan.day.times(4, first + 15, follows_load=False)):
            api = ("Fetch", "Fetch", "Heartbeat", "OffsetCommit")[number % 4]
            index = number % plan.day.topics[topic]
            request = Request(at, client, node if api != "Fetch" else plan.day.leaders[topic, index], api, 8)
            if api == "Fetch":
                request.parts = [Part(topic, (index,), 0, draw.randint(500, 9000))]
            else:
                request.group, request.member = group, "insights-0-1"
                request.parts = [Part(topic, (index,))] if api == "OffsetCommit" else []
            yield plan.day.noisy(request)

    plan.day.add(reads)


def throttled_reassignment(plan: Plan) -> None:
    """A tool moves some partitions with a throttle: a follower copies about three times as much for twenty minutes."""
    broker, first = plan.broker(3), plan.draw.uniform(9, 17) * HOUR_S
    last, topic = first + plan.draw.uniform(12, 25) * MINUTE_S, plan.topic()
    tool = Client("cruise-control", "User:cruise-control", "10.9.0.20", JAVA, "3.7.0")

    def asks() -> Iterator[Request]:
        yield from plan.day.connect(tool, plan.day.brokers[0], first)
        named: list[tuple[str, str | None]] = [("topic", topic)]
        yield plan.day.noisy(Request(first + 1, tool, plan.day.brokers[0], "AlterPartitionReassignments", 0, resources=named))
        for at in plan.day.times(2.0, first + 10, last, follows_load=False):
            yield plan.day.noisy(Request(at, tool, plan.day.brokers[0], "ListPartitionReassignments", 0))

    def copies(request: Request) -> Iterable[Request]:
        for part in request.parts:
            part.bytes *= 3
        request.response_bytes *= 3
        yield request

    plan.day.add(asks)
    plan.day.span(first, last, lambda each: each.client.client_id == f"broker-{broker}-fetcher-0", copies)


def upgraded_service(plan: Plan) -> None:
    """A service is deployed with a newer version of its library, one process after the other; each connects, and goes on."""
    producer, first = plan.producer(), plan.draw.uniform(8, 17) * HOUR_S
    newer = {JAVA: "3.9.1", LIBRDKAFKA: "2.8.0", GO: "1.19.0"}
    for index, client in enumerate(producer.clients):
        new, at = replace(client, software_version=newer[client.software], ports={}), first + index * 90
        plan.replace(client, new, at)


def caught_up(plan: Plan) -> None:
    """A group is down for some minutes during a deployment, and reads twice as much for as long afterwards."""
    group, first = plan.group(), plan.draw.uniform(8, 18) * HOUR_S
    last, draw = first + plan.draw.uniform(90, 240), plan.draw

    def more(request: Request) -> Iterable[Request]:
        for part in request.parts:
            part.bytes *= 2
        request.response_bytes *= 2
        yield request

    def joins() -> Iterator[Request]:
        for index in range(len(group.clients)):
            at = last + 2 + index * 4
            yield from plan.day.connect(group.clients[index], plan.day.coordinator(group.name), at)
            yield from group.join(index, at + 0.5, 2)

    plan.day.span(first, last, lambda each: each.client in group.clients, lambda each: ())
    plan.day.span(last, last + draw.uniform(120, 300), lambda each: each.client in group.clients and each.api == "Fetch", more)
    plan.day.add(joins)


def console_reader(plan: Plan) -> None:
    """A developer looks at the newest records of a topic for two minutes."""
    topic, at, draw = plan.topic(), plan.draw.uniform(9, 18) * HOUR_S, plan.draw
    person = Client("console-consumer", f"User:{draw.choice(['ines', 'karl', 'wim'])}", "10.77.1.12", JAVA, "3.9.0")
    group, node = f"console-consumer-{draw.randint(1000, 99999)}", plan.day.leaders[topic, 0]

    def reads() -> Iterator[Request]:
        yield from plan.day.connect(person, node, at)
        for step, api in enumerate(("JoinGroup", "SyncGroup")):
            yield plan.day.noisy(Request(at + 1 + step, person, node, api, 5, group=group, member="console-consumer-1"))
        for step in range(40):
            yield plan.day.noisy(
                Request(at + 4 + step * 3, person, node, "Fetch", 13, [Part(topic, (0,), 0, draw.randint(0, 4000))])
            )
        yield plan.day.noisy(Request(at + 130, person, node, "LeaveGroup", 4, group=group, member="console-consumer-1"))

    plan.day.add(reads)


def secrets_renewed(plan: Plan) -> None:
    """A service gets a new password, and each of its processes connects once again, without a failure."""
    producer, first = plan.producer(), plan.draw.uniform(8, 18) * HOUR_S

    def connects() -> Iterator[Request]:
        for index, client in enumerate(producer.clients):
            for number, node in enumerate(plan.day.brokers[:3]):
                yield from (plan.day.noisy(each) for each in plan.day.connect(client, node, first + index * 300 + number))

    plan.day.add(connects)


def office_service(plan: Plan) -> None:
    """A service of an office writes from half past seven until half past six, and is off at night."""
    day = plan.day
    topic = day.topic("desk.tickets", 3)
    clients = [Client(f"desk-{pod}", "User:desk", f"10.1.170.{10 + pod}", JAVA, "3.7.1") for pod in range(2)]
    day.producers.append(Producer(day, "desk", [topic], clients, 2.0, 5, 300, hours=(7.5, 18.5)))


def small_pauses(plan: Plan) -> None:
    """A broker collects garbage for a fifth of a second every few minutes, as always."""
    broker, draw = plan.broker(), plan.draw

    def waits(request: Request) -> Iterable[Request]:
        if request.at % 230 < 0.3:
            request.queue_us += int(draw.uniform(0.2, 1) * 200_000)
        yield request

    plan.day.span(0, 24 * HOUR_S, lambda each: each.node == broker, waits)


def new_topic(plan: Plan) -> None:
    """The pipeline makes a topic for a new feature, and its service writes a little to it from then on."""
    draw, at = plan.draw, plan.draw.uniform(9, 16) * HOUR_S
    tool, service = Client("gitops", "User:gitops", "10.9.0.11", GO, "1.17.0"), plan.producer()
    topic, client = plan.day.topic(f"{service.name}.feedback", 3), service.clients[0]

    def makes() -> Iterator[Request]:
        yield from plan.day.connect(tool, plan.day.brokers[0], at)
        named: list[tuple[str, str | None]] = [("topic", topic)]
        yield plan.day.noisy(Request(at + 1, tool, plan.day.brokers[0], "CreateTopics", 7, resources=named))
        for when in plan.day.times(1.0, at + 600):
            index = draw.randrange(3)
            part = Part(topic, (index,), 3, draw.randint(300, 1500))
            yield plan.day.noisy(
                Request(when, client, plan.day.leaders[topic, index], "Produce", 9, [part], request_bytes=part.bytes + 80)
            )

    plan.day.add(makes)


def streams_purges(plan: Plan) -> None:
    """A streams application deletes what it has read of its own repartition topic, each half minute, as such applications do."""
    topic = plan.day.topic("visits-app-COUNT-repartition", 2)
    client, node = Client("visits-app-admin", "User:visits-app", "10.2.44.8", JAVA, "3.7.1"), plan.day.leaders[topic, 0]

    def purges() -> Iterator[Request]:
        yield from plan.day.connect(client, node, 5)
        for at in plan.day.times(2.0, 10, follows_load=False):
            yield plan.day.noisy(Request(at, client, node, "DeleteRecords", 2, [Part(topic, (0,))]))

    plan.day.add(purges)


def restarts_in_turn(plan: Plan) -> None:
    """All brokers are restarted for an update: clients are told for some seconds who leads, go elsewhere, and come back."""
    if not 1 < len(plan.day.brokers) <= 12:
        raise NoTargetError
    first, draw = plan.draw.uniform(9, 16) * HOUR_S, plan.draw
    for number, broker in enumerate(plan.day.brokers):
        down, others = first + number * 400, [each for each in plan.day.brokers if each != broker]

        def moves(request: Request, down: float = down, others: list[int] = others) -> Iterable[Request]:
            if request.client.client_id.startswith("broker-"):
                return
            if request.at < down + 4 and request.api in ("Produce", "Fetch"):
                failed = copied(request)
                for part in failed.parts:
                    part.error, part.bytes = "NOT_LEADER_OR_FOLLOWER", 0
                yield failed
            request.node = others[len(request.client.client_id) % len(others)]
            if draw.random() < 0.2:
                yield from plan.day.connect(request.client, request.node, request.at)
            yield request

        plan.day.span(down, down + 100, lambda each, broker=broker: each.node == broker, moves)  # type: ignore[misc]


def poller_of_status(plan: Plan) -> None:
    """A dashboard of a team asks for the ends of its topic each five minutes, all day."""
    topic, client = plan.topic(), Client("team-dashboard", "User:team-dashboard", "10.44.2.9", PYTHON, "2.0.6")

    def asks() -> Iterator[Request]:
        for at in plan.day.times(0.2, follows_load=False):
            yield plan.day.noisy(Request(at, client, plan.day.leaders[topic, 0], "ListOffsets", 5, [Part(topic, (0,))]))

    plan.day.add(asks)


SHAPES = (
    load_test,
    new_team,
    throttled_reassignment,
    upgraded_service,
    caught_up,
    console_reader,
    secrets_renewed,
    office_service,
    small_pauses,
    new_topic,
    streams_purges,
    restarts_in_turn,
    poller_of_status,
)
