"""The series that are searched for changes: each measure of each service, client and broker, by API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twisted_kafka_spark.cells.kinds import MINUTE_S
from twisted_kafka_spark.findings.names import service_and_account
from twisted_kafka_spark.findings.runs import median, rolling
from twisted_kafka_spark.records.kafka_names import OF_EACH_START, WAITS_BY_DESIGN

if TYPE_CHECKING:
    from twisted_kafka_spark.cells.grids import Axis, Grid
    from twisted_kafka_spark.findings.runs import Marks, Values
    from twisted_kafka_spark.views import Tables

MOST_CLIENTS = 400
"""Clients that are searched one by one, those with the most requests; of the others only the services are."""
_STEADY, _HOUR_SLOTS = 3, 12
"""The requests that a steady series has in each interval, and the intervals of an hour."""
_LEAST_PEERS, _SMOOTH_SLOTS, _LEAST_LOAD = 4, 5, 0.2
"""The services whose load is the time of day, the intervals over which it is an average, and the least that it is taken for."""
EVERYBODY = "*"
"""Stands for a service where all clients together are the subject."""
CONNECTIONS = "connections"
"""Stands for an API where connections are counted."""


class Measure(NamedTuple):
    """A number of each interval: a sum, or the mean of one for each request."""

    name: str
    column: str
    is_mean: bool
    unit: str
    up: str
    down: str
    floor: float
    """A change to less than this, or of less, does not matter: in the measure's unit for one interval or request."""
    is_share: bool = False
    may_begin: bool = False
    """Whether it may be unlike itself since before the period: only more of it matters, and the time of day changes it little."""


RATE = Measure(
    "requests",
    "requests",
    False,
    "requests",
    "sent {factor} times as many {api} requests",
    "sent {factor} times fewer {api} requests",
    4,
)
OPENED = Measure("connections", "requests", False, "connections", "opened {factor} times as many connections", "", 1)
_READ = Measure(
    "bytes read", "bytes", False, "bytes", "read {factor} times as many bytes", "read {factor} times fewer bytes", 20_000
)
_SIZE = Measure(
    "bytes of a write", "bytes", True, "bytes", "sent {factor} times larger writes", "sent {factor} times smaller writes", 300
)
_RECORDS = Measure(
    "records of a write",
    "records",
    True,
    "records",
    "sent {factor} times as many records in each write",
    "sent {factor} times fewer records in each write",
    5,
)
_ANSWER = Measure(
    "bytes of a response",
    "response_bytes",
    True,
    "bytes",
    "got {factor} times larger {api} responses",
    "got {factor} times smaller {api} responses",
    3000,
)
_FAILED = Measure(
    "failed", "failed", True, "share", "had {share} of its {api} requests fail", "", 0.08, is_share=True, may_begin=True
)
_EMPTY = Measure("empty", "empty", True, "share", "got nothing from {share} of its {api} requests", "", 0.4, is_share=True)
_ABORTED = Measure(
    "aborted", "aborted", True, "share", "aborted {share} of its transactions", "", 0.3, is_share=True, may_begin=True
)
_IDLE = Measure(
    "idle", "requests", True, "share", "sent its {api} requests in bursts, nothing for {share} of the time", "", 0.25, is_share=True
)
_PART = Measure(
    "part of its service",
    "requests",
    True,
    "part",
    "",
    "sent {factor} times fewer {api} requests than usual, compared to the other processes of its service",
    0.1,
)
"""What one of several processes does, for each request of the others: the time of day is the same for all of them."""
MOST_PROCESSES, _OF_PROCESSES = 20, ("Produce", "Fetch")
_PHASES = tuple(
    Measure(
        f"{name} time",
        column,
        True,
        "ms",
        f"waited {{factor}} times as long {where} with its {{api}} requests",
        "",
        15_000,
        may_begin=True,
    )
    for name, column, where in (
        ("local", "local_us", "in the broker"),
        ("remote", "remote_us", "for other replicas"),
        ("send", "send_us", "for responses to be sent"),
        ("throttle", "throttle_us", "for a quota"),
    )
)
_LONG_WAIT = Measure(
    "remote time",
    "remote_us",
    True,
    "ms",
    "waited {factor} times as long for records with its {api} requests",
    "",
    1_000_000,
    may_begin=True,
)
"""What a fetch waits, if that is longer than fetch.max.wait.ms usually is: records come from a store that is slow."""
_QUEUES = tuple(
    Measure(f"{name} time", column, True, "ms", f"took {{factor}} times as long {where}", "", 5_000, may_begin=True)
    for name, column, where in (
        ("local", "local_us", "in the broker"),
        ("request queue", "request_queue_us", "until a handler was free"),
        ("response queue", "response_queue_us", "until a network thread was free"),
        ("send", "send_us", "to be sent"),
    )
)


class Subject(NamedTuple):
    """Whose series it is: a service (clients of a principal whose ids differ in numbers), one client, or a broker."""

    service: str | None
    principal: str | None
    clients: tuple[str | None, ...] = ()
    node: int | None = None
    """The broker; None if the log does not say which one it is of."""

    @property
    def is_broker(self) -> bool:
        """Whether it is a broker."""
        return self.service is None

    @property
    def is_service(self) -> bool:
        """Whether it has several clients."""
        return len(self.clients) > 1

    def includes(self, other: Subject) -> bool:
        """Return whether another one is a part of this."""
        return (
            self.is_broker == other.is_broker
            and self.node == other.node
            and self.principal == other.principal
            and set(other.clients) <= set(self.clients)
        )


@dataclass(slots=True)
class Series:
    """A measure over time: `sums` in each interval of `axis`, and the `requests` there."""

    subject: Subject
    api: str
    measure: Measure
    axis: Axis
    sums: Values
    requests: Values
    there: Marks
    """The intervals in which the subject was there, with any API."""
    load: Values | None = None
    """How many times as much as on average the others of its kind do in each interval, if it may follow them."""
    begins: int = 0
    """The first of them."""

    def __post_init__(self) -> None:
        self.begins = int(np.argmax(self.there))

    @property
    def key(self) -> tuple[str, str]:
        """What it has in common with the series of others that it is compared with."""
        return self.api, self.measure.name


def measures_of(api: str) -> tuple[Measure, ...]:
    """Return the measures of a client's requests of an API."""
    phases = tuple(each for each in _PHASES if each.column != "remote_us" or api not in WAITS_BY_DESIGN)
    match api:
        case "Produce":
            return RATE, _SIZE, _RECORDS, _FAILED, *phases
        case "Fetch":
            return RATE, _READ, _EMPTY, _FAILED, _LONG_WAIT, *phases
        case "EndTxn":
            return RATE, _ABORTED, _FAILED, *phases
        case _ if api in OF_EACH_START:
            return RATE, _FAILED, *phases
    return RATE, _ANSWER, _FAILED, *phases


def every_series(tables: Tables) -> Iterator[Series]:
    """Yield the series of services, of clients and of brokers."""
    persons = tables.grids.persons
    subjects = list(_subjects(persons))
    yield from _parts(persons, subjects)
    for subject, rows in subjects:
        there = persons["requests"][list(rows)].sum(0) > 0
        by_api: dict[str, list[int]] = defaultdict(list)
        for row in rows:
            by_api[persons.names[row][2]].append(row)
        for api, mine in by_api.items():
            requests = persons["requests"][mine].sum(0)
            for measure in measures_of(api):
                sums = requests if measure is RATE else persons[measure.column][mine].sum(0)
                if measure is RATE or sums.any():
                    yield Series(subject, api, measure, persons.axis, sums, requests, there)
            if median(requests[int(np.argmax(there)) :]) >= _STEADY:
                idle = _idle_beyond_chance(requests)
                yield Series(subject, api, _IDLE, persons.axis, idle, np.ones(len(idle)), there)
    yield from _connections(tables, subjects)
    yield from _brokers(tables.grids.nodes, persons.axis)


def with_loads(every: list[Series]) -> list[Series]:
    """Give each number of requests or bytes of a service or client the load of the other services with the same."""
    peers: dict[tuple[str, str], list[Series]] = defaultdict(list)
    wholes: set[tuple[Any, ...]] = set()
    for series in every:
        key = series.key, series.subject.service, series.subject.principal
        if _may_follow(series) and key not in wholes:  # the service comes before its clients
            wholes.add(key)
            peers[series.key].append(series)
    loads = {key: _load(each) for key, each in peers.items()}
    for series in every:
        if _may_follow(series):
            series.load = loads.get(series.key)
    return every


def _may_follow(series: Series) -> bool:
    return not series.measure.is_mean and series.api != CONNECTIONS and not series.subject.is_broker


def _load(peers: list[Series]) -> Values | None:
    """Return the median of what services do in each interval, compared to their own average; None of few."""
    steady = [each for each in peers if median(each.sums) > 0]
    if len(steady) < _LEAST_PEERS:
        return None
    around = rolling(np.ones(len(steady[0].sums)), _SMOOTH_SLOTS)
    shares = [rolling(each.sums, _SMOOTH_SLOTS) / around / each.sums.mean() for each in steady]
    usual = np.maximum(np.median(np.array(shares), axis=0), _LEAST_LOAD)
    found: Values = usual / usual.mean()
    return found


def _idle_beyond_chance(requests: Values) -> Values:
    """Return where there are no requests, less the probability of that for as many requests at random times."""
    around = rolling(requests, _HOUR_SLOTS) / _HOUR_SLOTS
    found: Values = np.maximum((requests == 0) - np.exp(-around), 0)
    found[around == 0] = 0  # it was not there
    return found


def _subjects(persons: Grid) -> Iterator[tuple[Subject, tuple[int, ...]]]:
    by_client: dict[tuple[Any, Any], list[int]] = defaultdict(list)
    for row, name in enumerate(persons.names):
        by_client[name[0], name[1]].append(row)
    services: dict[tuple[str, Any], list[tuple[Any, Any]]] = defaultdict(list)
    for who in by_client:
        services[service_and_account(who)].append(who)
    whole = persons["requests"].sum(1)
    busiest = sorted(by_client, key=lambda who: (-whole[by_client[who]].sum(), str(who)))[:MOST_CLIENTS]
    for (service, principal), members in services.items():
        rows = tuple(row for who in members for row in by_client[who])
        if whole[list(rows)].sum():
            yield Subject(service, principal, tuple(sorted((who[0] for who in members), key=str))), rows
    alone = {members[0] for members in services.values() if len(members) == 1}
    for who in busiest:
        if who not in alone and whole[by_client[who]].sum():
            yield Subject(*service_and_account(who), (who[0],)), tuple(by_client[who])


def _parts(persons: Grid, subjects: list[tuple[Subject, tuple[int, ...]]]) -> Iterator[Series]:
    """Yield what each client of a service does, compared to the service's others."""
    whole = {
        (subject.service, subject.principal): rows
        for subject, rows in subjects
        if subject.is_service and len(subject.clients) <= MOST_PROCESSES
    }
    for subject, rows in subjects:
        of_service = whole.get((subject.service, subject.principal))
        if subject.is_service or of_service is None:
            continue
        for row in rows:
            api = persons.names[row][2]
            if api in _OF_PROCESSES:
                mine = persons["requests"][row]
                every = persons["requests"][[each for each in of_service if persons.names[each][2] == api]].sum(0)
                yield Series(subject, api, _PART, persons.axis, mine, every - mine, mine > 0)


def _connections(tables: Tables, subjects: list[tuple[Subject, tuple[int, ...]]]) -> Iterator[Series]:
    grid, persons = tables.grids.connections, tables.grids.persons
    if len(grid.names) > 1:
        every, there = grid["requests"].sum(0), np.ones(grid.axis.length, np.bool_)
        clients = tuple(dict.fromkeys(sorted((name[0] for name in grid.names), key=str)))
        yield Series(Subject(EVERYBODY, None, clients), CONNECTIONS, OPENED, grid.axis, every, every, there)
    rows = {name: row for row, name in enumerate(grid.names)}
    for subject, of_persons in subjects:
        mine = [rows[client, subject.principal] for client in subject.clients if (client, subject.principal) in rows]
        if mine:
            counts = grid["requests"][mine].sum(0)
            there = persons["requests"][list(of_persons)].sum(0) > 0
            yield Series(subject, CONNECTIONS, OPENED, grid.axis, counts, counts, there)


def _brokers(nodes: Grid, axis: Axis) -> Iterator[Series]:
    """Yield the series of brokers, by minute in the grid and by slot here."""
    step = axis.step_s // MINUTE_S
    places = (np.arange(nodes.axis.length) + (nodes.axis.first_s - axis.first_s) // MINUTE_S) // step
    for row, (node, api) in enumerate(nodes.names):
        if api is None:
            continue  # a mixture of APIs
        requests = np.bincount(places, nodes["requests"][row], axis.length)[: axis.length].astype(np.float64)
        for measure in (*_QUEUES, _FAILED):
            sums = np.bincount(places, nodes[measure.column][row], axis.length)[: axis.length].astype(np.float64)
            if sums.any() and requests.any():
                yield Series(Subject(None, None, (), node), api, measure, axis, sums, requests, requests > 0)
