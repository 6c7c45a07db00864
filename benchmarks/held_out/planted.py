"""Incidents that are planted into a day: kind, size, time and length are drawn, and what a finding must say of each is kept.

A size is drawn around the floor that `thresholds` states for the kind, from a third of it to many times. An incident is above its
floor from `CLEARLY_ABOVE` times of it on, and below up to `CLEARLY_BELOW`; between them noise decides, and it is not scored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.held_out.fleet import Fleet, transactions
from benchmarks.held_out.streams import MINUTES, Numbers, Stream, Topic
from twisted_kafka_spark import thresholds as limits

CLEARLY_ABOVE, CLEARLY_BELOW = 1.3, 0.75
_SHORTEST, _LONGEST = limits.MINUTES_FLOOR + 1, 40
_LEAST_SIZE, _MOST_SIZE = 0.35, 6.0


@dataclass(slots=True)
class Planted:
    """An incident, and what must be said about it. `size` is in floors."""

    kind: str
    size: float
    first: int | None = None
    last: int | None = None
    """Minutes of the day, None for kinds that concern the whole day."""
    names: dict[str, Any] = field(default_factory=dict)
    """Evidence that names who: a key and its value."""
    apis: frozenset[str] = frozenset()
    damaged: list[tuple[int, str]] = field(default_factory=list)
    is_blurred: bool = False
    """Whether other incidents of the day make it unclear what is to be said."""

    @property
    def is_above(self) -> bool:
        """Whether it must be found."""
        return self.size >= CLEARLY_ABOVE and not self.is_blurred

    @property
    def is_below(self) -> bool:
        """Whether it must not be found."""
        return self.size <= CLEARLY_BELOW and not self.is_blurred


@dataclass(slots=True)
class Draw:
    """What the makers of incidents draw from."""

    fleet: Fleet
    draw: np.random.Generator
    longest: int = _LONGEST

    def size(self, most: float = _MOST_SIZE) -> float:
        return float(np.exp(self.draw.uniform(np.log(_LEAST_SIZE), np.log(most))))

    def span(self) -> tuple[int, int]:
        """Return the first and the last minute."""
        length = int(np.exp(self.draw.uniform(np.log(_SHORTEST), np.log(self.longest))))
        first = int(self.draw.integers(5, MINUTES - length - 5))
        return first, first + length - 1

    def during(self, first: int, last: int, per_minute: float) -> Numbers:
        """Return a rate that varies a little over these minutes, and is nothing otherwise."""
        rate = np.zeros(MINUTES)
        rate[first : last + 1] = per_minute * self.draw.uniform(0.97, 1.12, last - first + 1)
        return rate

    def client(self, streams: list[Stream], name: str) -> Stream:
        """Return a stream of a client, mostly one of the fleet's, sometimes that of a new one."""
        if streams and self.draw.random() < 0.7:
            return streams[int(self.draw.integers(len(streams)))]
        who = self.fleet.newcomer(name)
        return Stream(who=who, api="", version=0, per_minute=np.zeros(MINUTES), connections=[self.fleet.connection()])


def _storm(kind: str, floor: float, apis: tuple[tuple[str, int], ...], name: str, *, most: float, longest: int) -> Any:
    """Return the maker of a storm of requests by one client; `floor`: requests of these APIs in a minute."""

    def make(at: Draw) -> Planted:
        at.longest = longest
        first, last = at.span()
        size = at.size(most)
        one = at.client(at.fleet.consumers, name)
        rate = at.during(first, last, size * floor / len(apis))
        said = f',"group_id":"{one.who.client_id}-group"' if "Group" in apis[0][0] else ""
        for api, version in apis:
            stream = one.with_(api=api, version=version, per_minute=rate, said=said, error_share=0.0, topics=(), empty_share=0.0)
            at.fleet.streams.append(stream.with_(times_us={"local_us": 120.0}, response_bytes=900))
        usual = sum((each.per_minute[first : last + 1].max() for each in at.fleet.streams if _is_same(each, one, apis)), 0.0)
        return Planted(kind, usual / floor, first, last, _who(one))

    return make


def _is_same(stream: Stream, one: Stream, apis: tuple[tuple[str, int], ...]) -> bool:
    return stream.who == one.who and stream.api in {api for api, _ in apis}


def _who(stream: Stream) -> dict[str, Any]:
    return {"client_id": stream.who.client_id}


def _commit_flood(at: Draw) -> Planted:
    at.longest = 6
    first, last = at.span()
    size = at.size(3.0)
    who = at.fleet.newcomer("eager")
    one = Stream(who=who, api="Fetch", version=12, per_minute=np.zeros(MINUTES), connections=[at.fleet.connection()])
    rate = at.during(first, last, size * limits.COMMITS_A_MINUTE)
    topics = at.fleet.topics[:1]
    at.fleet.streams.append(
        one.with_(per_minute=rate * at.draw.uniform(0.7, 1.0), topics=topics, batch_bytes=700, response_bytes=800)
    )
    at.fleet.streams.append(one.with_(api="OffsetCommit", version=8, per_minute=rate, topics=topics, said=',"group_id":"eager"'))
    return Planted("commit-flood", size, first, last, _who(one))


def _fetch_storm(at: Draw) -> Planted:
    at.longest = _SHORTEST + 1
    first, last = at.span()
    size = float(at.draw.choice([0.5, 1.4]))
    who = at.fleet.newcomer("spinner")
    one = Stream(who=who, api="Fetch", version=12, per_minute=np.zeros(MINUTES), connections=[at.fleet.connection()])
    rate = at.during(first, last, size * limits.FETCHES_A_MINUTE)
    at.fleet.streams.append(
        one.with_(per_minute=rate, topics=at.fleet.topics[:1], batch_bytes=900, empty_share=at.draw.uniform(0.7, 0.95))
    )
    return Planted("fetch-storm", size, first, last, _who(one))


def _reconnect_storm(at: Draw) -> Planted:
    first, last = at.span()
    one = at.client(at.fleet.producers, "flapper")
    size = at.size()
    rate = at.during(first, last, size * limits.NEW_CONNECTIONS_FLOOR)
    octet = at.draw.integers(250)
    stream = one.with_(api="ApiVersions", version=3, per_minute=rate, topics=(), said="", error_share=0.0, throttled_share=0.0)
    # As many on each connection: those of one number are on the same.
    counts = at.draw.poisson(rate)
    stream = stream.with_(per_minute=counts, exact=True, new_connections=True, connections=[f"10.2.{octet}.7:4"])
    at.fleet.streams.append(stream.with_(times_us={"local_us": 30.0}))
    if one.who.listener == "SASL":
        at.fleet.streams.append(stream.with_(api="SaslHandshake", version=1, times_us={"local_us": 30.0}))
    return Planted("reconnect-storm", size, first, last, _who(one))


def _error_burst(at: Draw) -> Planted:
    first, last = at.span()
    streams = [each for each in (*at.fleet.producers, *at.fleet.consumers) if each.per_minute.max() > 0]
    one = streams[int(at.draw.integers(len(streams)))]
    usual = at.fleet.per_minute(one.api)[first : last + 1].max()
    share = limits.ERRORS_SHARE
    floor = max(limits.ERRORS_A_MINUTE_FLOOR, share * usual / (1 - share))
    size = at.size()
    errors = [
        "NOT_LEADER_OR_FOLLOWER",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "NOT_ENOUGH_REPLICAS",
        "TOPIC_AUTHORIZATION_FAILED",
        "REQUEST_TIMED_OUT",
    ]
    failing = one.with_(per_minute=at.during(first, last, size * floor), error=str(at.draw.choice(errors)), error_share=1.0)
    at.fleet.streams.append(failing)
    return Planted("error-burst", size, first, last, {"top client": one.who.client_id}, frozenset({one.api}))


_SLOW = {
    "slow-disk": ("local_us", ("Produce", "OffsetCommit")),
    "slow-follower": ("remote_us", ("Produce", "OffsetCommit")),
    "busy-threads": ("request_queue_us", ("*",)),
    "busy-network": ("response_queue_us", ("*",)),
    "slow-readers": ("send_us", ("Fetch",)),
}


def _slow(kind: str) -> Callable[[Draw], Planted]:
    phase, apis = _SLOW[kind]

    def make(at: Draw) -> Planted:
        first, last = at.span()
        size = at.size(20.0)
        # Means: their medians times what the spread of a lognormal adds; three times that is beyond eight deviations of it.
        usual = max((each.times_us.get(phase, 20.0) for each in at.fleet.streams if each.api in apis), default=20.0) * 1.4
        stated = min(limits.SLOW_FLOOR_US, max(limits.SLOW_RELATIVE_FLOOR_US, limits.SLOW_FACTOR * usual))
        us = size * max(stated, 3 * usual)
        for api in apis:
            at.fleet.weather.add(phase, api, slice(first, last + 1), us)
        planted = Planted(kind, size, first, last, apis=frozenset() if apis == ("*",) else frozenset(apis))
        # A minute with few requests says nothing: the busiest API of these must have enough in all of them.
        named = {each.api for each in at.fleet.streams} if apis == ("*",) else set(apis)
        busiest = max(at.fleet.per_minute(api)[first : last + 1].min() for api in named)
        planted.is_blurred = busiest < 2.5 * limits.SLOW_REQUESTS_A_MINUTE
        # What is usual differs from client to client: below is what is below the floor of the quickest of them.
        quickest = min((each.times_us.get(phase, 20.0) for each in at.fleet.streams if each.api in apis), default=20.0)
        lowest = min(limits.SLOW_FLOOR_US, max(limits.SLOW_RELATIVE_FLOOR_US, limits.SLOW_FACTOR * quickest))
        planted.is_blurred |= size < CLEARLY_ABOVE and us > CLEARLY_BELOW * lowest
        return planted

    return make


def _throttled(at: Draw) -> Planted:
    """Plant many throttled requests, or few that are throttled for nearly all of the time."""
    first, last = at.span()
    minutes = last - first + 1
    who = at.fleet.newcomer("bulk")
    base = Stream(who=who, api="Produce", version=9, per_minute=np.zeros(MINUTES), connections=[at.fleet.connection()])
    base = base.with_(
        topics=at.fleet.topics[-1:], batch_bytes=60_000, records=90, request_bytes=60_200, throttled_share=1.0, spread=0.3
    )
    size = at.size()
    if at.draw.random() < 0.6:
        per_minute = max(size * limits.THROTTLED_REQUESTS_FLOOR * 1.2 / minutes, 0.1)
        ms = limits.THROTTLED_MEAN_US / 1000 * at.draw.uniform(2, 40)
        ms = min(ms, 300.0)
    else:  # a minute at least in all, and most of the time of its connection
        per_minute, share = 2.0, min(0.95, size * limits.THROTTLED_TIME_SHARE * 0.8)
        ms = share * 60_000 / per_minute
        size = min(size * 0.8, share * minutes * 60e6 / limits.THROTTLED_TIME_FLOOR_US) if size < 1 else size
    stream = base.with_(per_minute=at.during(first, last, per_minute), times_us={"local_us": 300.0, "throttle_us": ms * 1000})
    at.fleet.streams.append(stream)
    planted = Planted("throttled-client", size, first, last, _who(base))
    planted.is_blurred = per_minute < 1.0 or (per_minute == 2.0 and minutes < 6)  # its first and last minute are chance
    return planted


def _hanging(at: Draw) -> Planted:
    first, last = at.span()
    is_left = bool(at.draw.random() < 0.75)
    who = at.fleet.newcomer("stuck")
    name = f"{who.client_id}-0"
    rate = np.zeros(MINUTES)
    rate[first : last + 1] = at.draw.uniform(0.6, 2)
    transactions(at.fleet, who, name, rate, took_ms=at.draw.uniform(20_000, 50_000), timed_out=is_left)
    begun = at.fleet.streams[-2].per_minute
    if is_left:
        ended = np.concatenate((begun[-1:] * 0, begun[:-1]))
        said = f',"transaction":{{"id":"{name}","outcome":"timed-out","duration_ms":61000}}'
        at.fleet.streams.append(
            at.fleet.streams[-1].with_(api="", version=-1, per_minute=ended, said=said, records=0, batch_bytes=0)
        )
    minutes = np.flatnonzero(begun)
    if not len(minutes):
        return Planted("hanging-transaction", 0.0, is_blurred=True)
    names = {"transactional_id": name}
    return Planted("hanging-transaction", 2.0 if is_left else 0.5, int(minutes[0]) + 1, int(minutes[-1]) + 1, names)


def _stuck(at: Draw) -> Planted:
    """A decided transaction whose marker is refused: a line each minute, until the end of the day or until it ends after all."""
    first, last = at.span()
    is_left = bool(at.draw.random() < 0.75)
    who = at.fleet.newcomer("refused")
    name = f"{who.client_id}-0"
    rate = np.zeros(MINUTES)
    rate[: first - 2] = at.draw.uniform(0.6, 2)
    transactions(at.fleet, who, name, rate)
    template = at.fleet.streams[-1].with_(api="", version=-1, records=0, batch_bytes=0)
    for outcome, begin, end in (("stuck", first, MINUTES if is_left else last), ("committed", last + 1, last + 1 + (not is_left))):
        counts = np.zeros(MINUTES)
        counts[begin:end] = 1
        said = f',"transaction":{{"id":"{name}","outcome":"{outcome}","duration_ms":61000}}'
        at.fleet.streams.append(template.with_(per_minute=counts, said=said))
    names = {"transactional_id": name}
    return Planted("stuck-transaction", 2.0 if is_left else 0.5, first, MINUTES - 1 if is_left else last, names)


def _aborts(at: Draw) -> Planted:
    who = at.fleet.newcomer("undecided")
    name = f"{who.client_id}-0"
    share = float(at.draw.uniform(0.2, 1.0))
    rate = np.full(MINUTES, at.draw.uniform(0.04, 0.4))
    transactions(at.fleet, who, name, rate, aborted_share=share)
    return Planted("mostly-aborts", share / limits.ABORTS_SHARE, names={"transactional_id": name})


def _failed_logins(at: Draw) -> Planted:
    first, last = at.span()
    size = at.size()
    who = at.fleet.newcomer("guesser")._replace(listener="SASL", protocol="SASL_SSL", principal="User:ANONYMOUS")
    address = f"203.0.113.{at.draw.integers(1, 250)}"
    attempts = round(size * limits.FAILED_LOGINS_FLOOR)
    counts = np.zeros(MINUTES)
    np.add.at(counts, [first, last, *at.draw.integers(first, last + 1, max(attempts - 2, 0))], 1)
    stream = Stream(
        who=who,
        api="SaslAuthenticate",
        version=2,
        per_minute=counts,
        connections=[f"{address}:4"],
        exact=True,
        new_connections=True,
    )
    at.fleet.streams.append(stream.with_(error="SASL_AUTHENTICATION_FAILED", error_share=1.0, times_us={"local_us": 4_000.0}))
    planted = Planted("failed-logins", counts.sum() / limits.FAILED_LOGINS_FLOOR, first, last, {"address": address})
    planted.is_blurred = CLEARLY_BELOW < planted.size < CLEARLY_ABOVE
    return planted


def _old_client(at: Draw) -> Planted:
    who = at.fleet.newcomer("legacy", is_known_library=False)
    api, version = [("Fetch", 2), ("Produce", 1), ("ListOffsets", 0), ("OffsetCommit", 1)][int(at.draw.integers(4))]
    is_old = bool(at.draw.random() < 0.75)
    counts = np.zeros(MINUTES)
    counts[at.draw.integers(0, MINUTES, int(at.draw.integers(1, 40)))] = 1
    stream = Stream(
        who=who, api=api, version=version if is_old else 4, per_minute=counts, connections=[at.fleet.connection()], exact=True
    )
    at.fleet.streams.append(stream.with_(topics=at.fleet.topics[:1], batch_bytes=900))
    return Planted("old-client", 2.0 if is_old else 0.5, names=_who(stream), apis=frozenset({api}))


def _hot_topic(at: Draw) -> Planted:
    size = at.size(1.22)
    share = min(size * limits.SKEW_SHARE, 0.97)
    produced = sum(each.per_minute.sum() * each.batch_bytes * 1.063 for each in at.fleet.streams if each.api == "Produce")
    topic = Topic("firehose.events.00", 12)
    base = at.client(at.fleet.producers, "firehose").with_(api="Produce", version=9, said=',"acks":1', error_share=0.0, records=400)
    needed = produced * share / (1 - share)
    per_minute = 1.5
    batch = int(needed / (per_minute * MINUTES * 1.063))
    stream = base.with_(per_minute=np.full(MINUTES, per_minute), topics=[topic], batch_bytes=batch, request_bytes=batch + 90)
    at.fleet.streams.append(stream.with_(empty_share=0.0))
    planted = Planted("hot-topic", share / limits.SKEW_SHARE, names={"topic": topic.name})
    used = {each.name for stream in at.fleet.streams if stream.api == "Produce" for each in stream.topics}
    planted.is_blurred = len(used) < limits.SKEW_TOPICS_FLOOR * 1.5
    planted.size = 2.0 if share > limits.SKEW_SHARE + 0.05 else 0.5 if share < limits.SKEW_SHARE - 0.05 else 1.0
    return planted


def _hot_partition(at: Draw) -> Planted:
    topic = Topic("lopsided.events.00", int(at.draw.choice([3, 6, 12])), hot=float(at.draw.uniform(0.1, 0.95)))
    produced = sum(each.per_minute.sum() * each.batch_bytes * 1.063 for each in at.fleet.streams if each.api == "Produce")
    of_all = float(at.draw.uniform(0.06, 0.4))
    per_minute = 4.0
    batch = int(produced * of_all / (1 - of_all) / (per_minute * MINUTES * 1.063)) + 100
    base = at.client(at.fleet.producers, "lopsided").with_(api="Produce", version=9, said=',"acks":1', error_share=0.0, records=40)
    stream = base.with_(per_minute=np.full(MINUTES, per_minute), topics=[topic], batch_bytes=batch, request_bytes=batch + 90)
    at.fleet.streams.append(stream.with_(empty_share=0.0))
    share = topic.hot + (1 - topic.hot) * (1 - (1 - 1 / topic.partitions) ** (2 / 3))
    gap = share - max(limits.SKEW_PARTITION_SHARE, limits.SKEW_PARTITION_FACTOR / topic.partitions)
    names = {"topic": topic.name, "partition": topic.partitions - 1}
    return Planted("hot-partition", 2.0 if gap > 0.05 else 0.5 if gap < -0.05 else 1.0, names=names)


def _hot_broker(at: Draw) -> Planted:
    nodes = 3
    hot, share = int(at.draw.integers(nodes)), float(at.draw.uniform(0.5, 0.97))
    weights = [(1 - share) / (nodes - 1)] * nodes
    weights[hot] = share
    at.fleet.weather.node_weights = tuple(weights)
    gap = share - limits.SKEW_NODES_SHARE
    return Planted("hot-broker", 2.0 if gap > 0.04 else 0.5 if gap < -0.04 else 1.0, names={"node": hot + 1})


def _traffic_peak(at: Draw) -> Planted:
    at.longest = 12
    first, last = at.span()
    streams = [each for each in (*at.fleet.producers, *at.fleet.consumers) if each.per_minute.max() > 0]
    one = streams[int(at.draw.integers(len(streams)))]
    usual = at.draw.poisson(at.fleet.per_minute(one.api))
    median = np.median(usual)
    deviation = max(np.median(abs(usual - median)), median / 20)
    floor = max(limits.TRAFFIC_FLOOR_A_MINUTE, limits.TRAFFIC_FACTOR * median, median + limits.MAD_FACTOR * deviation)
    size = at.size(4.0)
    most = usual[first : last + 1].min()
    at.fleet.streams.append(one.with_(per_minute=at.during(first, last, max(size * floor - most, 0)), error_share=0.0))
    return Planted("traffic-peak", size, first, last, apis=frozenset({one.api}))


def _tiny_batches(at: Draw) -> Planted:
    size = at.size(3.0)
    who = at.fleet.newcomer("dribbler")
    rate = np.full(MINUTES, size * limits.TINY_BATCHES_FLOOR / MINUTES)
    batch = int(at.draw.uniform(70, limits.TINY_BATCH_BYTES * 0.85))
    stream = Stream(who=who, api="Produce", version=9, per_minute=rate, connections=[at.fleet.connection()], said=',"acks":1')
    at.fleet.streams.append(stream.with_(topics=at.fleet.topics[:2], records=1, batch_bytes=batch, request_bytes=batch + 90))
    return Planted("tiny-batches", size, names=_who(stream), apis=frozenset({"Produce"}))


def _idle_poller(at: Draw) -> Planted:
    size = at.size(4.0)
    who = at.fleet.newcomer("idler")
    rate = np.full(MINUTES, size * limits.IDLE_FETCHES_FLOOR / MINUTES)
    stream = Stream(who=who, api="Fetch", version=12, per_minute=rate, connections=[at.fleet.connection()])
    empty = float(at.draw.choice([1.0, 0.995, 0.9]))
    at.fleet.streams.append(
        stream.with_(topics=at.fleet.topics[-1:], batch_bytes=900, empty_share=empty, times_us={"remote_us": 500_000.0})
    )
    return Planted(
        "idle-poller", size if empty > limits.IDLE_SHARE else min(size, 0.5), names=_who(stream), apis=frozenset({"Fetch"})
    )


def _unreadable(at: Draw) -> Planted:
    expected = sum(each.per_minute.sum() for each in at.fleet.streams)
    size = at.size(5.0)
    count = int(expected * size * limits.UNREADABLE_SHARE)
    texts = ['{"v":2,"time":"2026-03-1', '{"level":"info","msg":"compaction done"}\n', "\x00\x00\x00\x00\n", '"sequence":17}\n']
    damaged = [(int(at.draw.integers(24)), texts[int(at.draw.integers(len(texts)))].rstrip("\n") + "\n") for _ in range(count)]
    return Planted("unreadable-lines", size, damaged=damaged)


REBALANCE = (("JoinGroup", 9), ("SyncGroup", 5), ("LeaveGroup", 5))
MAKERS: dict[str, Callable[[Draw], Planted]] = {
    "error-burst": _error_burst,
    **{kind: _slow(kind) for kind in _SLOW},
    "hanging-transaction": _hanging,
    "stuck-transaction": _stuck,
    "rebalance-storm": _storm("rebalance-storm", limits.REBALANCES_A_MINUTE, REBALANCE, "shaky", most=6.0, longest=_LONGEST),
    "throttled-client": _throttled,
    "metadata-storm": _storm("metadata-storm", limits.METADATA_A_MINUTE, (("Metadata", 12),), "dashboard", most=3.0, longest=12),
    "reconnect-storm": _reconnect_storm,
    "fetch-storm": _fetch_storm,
    "commit-flood": _commit_flood,
    "mostly-aborts": _aborts,
    "failed-logins": _failed_logins,
    "old-client": _old_client,
    "hot-topic": _hot_topic,
    "hot-partition": _hot_partition,
    "hot-broker": _hot_broker,
    "traffic-peak": _traffic_peak,
    "tiny-batches": _tiny_batches,
    "idle-poller": _idle_poller,
    "unreadable-lines": _unreadable,
}
"""How each kind is planted: all kinds of findings."""

_LATE = ("hot-partition", "hot-topic", "traffic-peak", "unreadable-lines")
"""Kinds whose size depends on the rest of the day: planted last."""
_EXPLAINING = ("error-burst", "throttled-client", "fetch-storm", "commit-flood", "tiny-batches", "hot-topic", "slow-disk")


def plant(fleet: Fleet, draw: np.random.Generator) -> list[Planted]:
    """Plant between one and five incidents of different kinds, some of which overlap."""
    count = int(draw.choice([1, 2, 3, 5], p=[0.3, 0.35, 0.25, 0.1]))
    kinds = [str(kind) for kind in draw.choice(list(MAKERS), count, replace=False)]
    kinds.sort(key=lambda kind: kind in _LATE)
    planted = [MAKERS[kind](Draw(fleet, draw)) for kind in kinds]
    for each in planted:
        if each.kind == "traffic-peak" and set(kinds) & set(_EXPLAINING):
            each.is_blurred = True  # another finding may explain it, or be its cause
        if each.kind == "hot-partition" and "hot-topic" in kinds:
            each.is_blurred = True  # the hot topic may leave too little for this one's to matter
    return planted
