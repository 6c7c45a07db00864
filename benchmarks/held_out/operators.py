"""Incidents as operators describe them, planted into a day of `cluster_day`; sizes come from the reports, not from `thresholds`.

Each maker names its source in `SOURCES`. What must be found is who, where and when; what the finding is called, is free within
a few names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.held_out.cluster_day import MINUTES, Client, Day, Flow, Requests, away, between, constant, group_fields

SOURCES: dict[str, str] = {
    "library": "Kafka in Production, part 10: Incident Library (arika.dev)",
    "stories": "Production War Stories: Root Cause Analysis of 10 Real Incidents (tools.yiteai.com, chapter 32)",
    "runbook": "Kafka Ops 9: Incident Response Runbook (data-dynamics.io)",
    "cookbook": "Kafka Cookbook 8.4: Troubleshooting runbook (dsbasko.github.io)",
    "modes": "Kafka internals II.07: Failure Modes & The Runbook (krivaltsevich.com)",
    "disk-full": "Postmortem PM-014: Unbounded Kafka Topic Exhausts Broker Disk (grokdevops-wiki)",
    "hot": "Failure Modes: Rebalance Storms, Hot Partitions, and Recovery Strategies (systemoverflow.com)",
    "streams": "Runbooks of Kafka Streams applications: rebalance storm (wireform.systems)",
    "offsets": "librdkafka issue 4238, reactor-kafka issue 290: consumers start again from old offsets",
    "strimzi": "Acting on Alerts: Strimzi's Prometheus rules (docs.axual.io)",
    "owasp": "OWASP: Credential stuffing; Kafka documentation: Security, SASL and ACLs",
    "kip-219": "KIP-13, KIP-219: quotas and throttling",
    "kip-896": "KIP-896: removal of old client protocol versions; client upgrades",
}


@dataclass(slots=True)
class Expected:
    """The answer that operators want. `who`: alternatives of evidence that name it; `first`, `last`: minutes of the day."""

    kind: str
    source: str
    names: tuple[str, ...]
    who: tuple[dict[str, Any], ...]
    first: int
    last: int
    is_point: bool = False
    """Whether only the beginning matters."""


@dataclass(slots=True)
class Plan:
    """A time for an incident in a day."""

    day: Day
    draw: np.random.Generator
    first: int
    room: int
    """Minutes that the incident may last."""

    def span(self, least: int, most: int) -> tuple[int, int]:
        length = int(self.draw.integers(least, min(most, self.room) + 1))
        return self.first, self.first + length - 1

    def node(self) -> int:
        return int(self.draw.integers(1, self.day.brokers + 1))

    def producer(self) -> Flow:
        busy = [flow for flow in self.day.producers if flow.rate[self.first] > 1]
        return (busy or self.day.producers)[int(self.draw.integers(len(busy or self.day.producers)))]

    def consumer(self) -> Flow:
        busy = [flow for flow in self.day.consumers if flow.rate[self.first] > 1]
        return (busy or self.day.consumers)[int(self.draw.integers(len(busy or self.day.consumers)))]


Maker = Callable[[Plan], Expected]


def _slower(phase: str, first: int, last: int, factor: float, add_us: float, matches: Callable[[Requests], Any]) -> Any:
    def effect(made: Requests, draw: np.random.Generator) -> None:
        inside = (made.minute >= first) & (made.minute <= last) & matches(made)
        made.us[phase][inside] = made.us[phase][inside] * factor + add_us * draw.lognormal(0, 0.6, int(inside.sum()))

    return effect


def _stopped(flow: Flow, first: int, last: int) -> None:
    flow.rate = flow.rate.copy()
    flow.rate[first : last + 1] = 0


def _flows_of(day: Day, client_id: str | None) -> list[Flow]:
    return [flow for flow in day.flows if flow.client.client_id == client_id]


def _place(node: int, day: Day) -> dict[str, Any]:
    return {"node": node} if day.brokers > 1 else {}


def slow_disk(at: Plan) -> Expected:
    """A RAID array in degraded mode: writes and reads on one broker take 20 times as long and more."""
    first, last = at.span(7, 45)
    node = at.node()
    slow = float(at.draw.uniform(15, 100))
    apis = ("Produce", "Fetch", "OffsetCommit")
    at.day.effects.append(_slower("local_us", first, last, slow, 3_000, lambda made: (made.node == node) & (made.flow.api in apis)))
    return Expected("slow disk on one broker", "stories", ("slow-disk",), (_place(node, at.day),), first, last)


def slow_reader(at: Plan) -> Expected:
    """A consumer behind a slow link takes its responses slowly."""
    first, last = at.span(15, 90)
    consumer = at.consumer()
    us = float(at.draw.uniform(60_000, 900_000))
    at.day.effects.append(_slower("send_us", first, last, 1, us, lambda made: made.flow is consumer))
    return Expected("slow reader", "modes", ("slow-readers",), ({"client_id": consumer.client.client_id},), first, last)


def slow_follower(at: Plan) -> Expected:
    """A follower drops out of the ISR slowly: writes with acks=all wait on the brokers that lead its partitions."""
    first, last = at.span(8, 40)
    us = float(at.draw.uniform(150_000, 2_000_000))
    at.day.effects.append(_slower("remote_us", first, last, 1, us, lambda made: made.flow.api == "Produce"))
    return Expected("slow follower", "runbook", ("slow-follower",), ({},), first, last)


def few_threads(at: Plan) -> Expected:
    """One expensive client keeps the request handlers of a broker busy."""
    first, last = at.span(6, 30)
    node = at.node()
    us = float(at.draw.uniform(20_000, 300_000))
    at.day.effects.append(_slower("request_queue_us", first, last, 1, us, lambda made: made.node == node))
    return Expected("request handlers busy", "runbook", ("busy-threads",), (_place(node, at.day),), first, last)


def broker_away(at: Plan) -> Expected:
    """A broker crashes and is away for minutes; clients go to the others at once."""
    first, last = at.span(6, 25)
    node = at.node()
    if at.day.brokers == 1:
        at.day.effects.append(_lost(first, last))
    else:
        at.day.effects.append(away(node, first, last, at.day.brokers))
    return Expected("broker away", "modes", ("absent-broker",), ({"node": node},), first, last)


def _lost(first: int, last: int) -> Any:
    def effect(made: Requests, draw: np.random.Generator) -> None:
        inside = (made.minute >= first) & (made.minute <= last)
        made.at_ms[inside] = (last + 1) * 60_000 + made.at_ms[inside] % 60_000

    return effect


def silent_producer(at: Plan) -> Expected:
    """An application hangs, and its producer sends nothing for most of an hour."""
    first, last = at.span(25, 110)
    producer = at.producer()
    for flow in _flows_of(at.day, producer.client.client_id):
        if flow.api == "Produce":
            _stopped(flow, first, last)
    return Expected("silent producer", "cookbook", ("silent-client",), ({"client_id": producer.client.client_id},), first, last)


def dead_consumer(at: Plan) -> Expected:
    """A consumer crash-loops after a deployment and does not come back."""
    consumer = at.consumer()
    first = at.first
    for flow in _flows_of(at.day, consumer.client.client_id):
        _stopped(flow, first, MINUTES - 1)
    names = ("silent-client", "unread-topic")
    return Expected(
        "dead consumer", "disk-full", names, ({"client_id": consumer.client.client_id},), first, MINUTES - 1, is_point=True
    )


def poison_pill(at: Plan) -> Expected:
    """A record that cannot be processed: the consumer fetches it again and again, and commits nothing."""
    first, last = at.span(40, 150)
    consumer = at.consumer()
    for flow in _flows_of(at.day, consumer.client.client_id):
        if flow.api == "OffsetCommit":
            _stopped(flow, first, last)
    who = {"client_id": consumer.client.client_id}
    return Expected("poison pill", "library", ("stalled-consumer", "silent-client"), (who,), first, last)


def rebalance_loop(at: Plan) -> Expected:
    """Eight threads with client ids of their own rejoin all the time."""
    first, last = at.span(10, 60)
    each = float(at.draw.uniform(3, 9))
    group = "enrichment"
    for thread in range(int(at.draw.integers(5, 12))):
        who = Client(f"enrichment-{thread}-StreamThread-{thread}", "User:enrichment", address=f"10.70.0.{thread}")
        for api, version in (("JoinGroup", 9), ("SyncGroup", 5)):
            said = group_fields(group, f"{who.client_id}-m")
            at.day.add(Flow(who, api, between(first, last, each), version, us={"remote_us": 2e6}, fields=said))
        at.day.add(Flow(who, "Heartbeat", constant(6), 4, fields=group_fields(group, f"{who.client_id}-m")))
    return Expected("rebalance loop", "streams", ("rebalance-storm", "repeated-rebalances"), ({"group_id": group},), first, last)


def slow_poll(at: Plan) -> Expected:
    """A member exceeds max.poll.interval.ms (five minutes) over and over: a rebalance each five or six minutes for hours."""
    first, last = at.span(120, 170)
    group = "scoring"
    for member in range(4):
        who = Client(f"scoring-{member}", "User:scoring", address=f"10.71.0.{member}")
        rate = np.zeros(MINUTES)
        rate[first : last + 1 : int(at.draw.integers(5, 7))] = 1.5
        for api, version in (("LeaveGroup", 5), ("JoinGroup", 9), ("SyncGroup", 5)):
            at.day.add(Flow(who, api, rate, version, us={"remote_us": 3e6}, fields=group_fields(group, f"{who.client_id}-m")))
        at.day.add(Flow(who, "Heartbeat", constant(5), 4, fields=group_fields(group, f"{who.client_id}-m")))
    return Expected("member exceeds the poll interval", "library", ("repeated-rebalances",), ({"group_id": group},), first, last)


def hot_key(at: Plan) -> Expected:
    """From some time on most records have one key."""
    producer = at.producer()
    topic = producer.topics[0]
    hours = int(at.draw.integers(3, 7))
    first = at.first // 60 * 60
    for flow in at.day.producers:
        if flow.client.principal == producer.client.principal:
            share = float(at.draw.uniform(0.75, 0.95))
            flow.rate = flow.rate.copy()
            hot = replace(flow, rate=flow.rate * 0, topics=(topic,), hot=share, hot_since=0)
            hot.rate[first : first + hours * 60] = flow.rate[first : first + hours * 60] * 2 + 2
            flow.rate[first : first + hours * 60] *= 0.5
            at.day.add(hot)
    who = {"topic": topic[0], "partition": topic[1] - 1}
    return Expected("hot key", "hot", ("hot-partition",), (who,), first, min(first + hours * 60, MINUTES) - 1)


def retries(at: Plan) -> Expected:
    """Too few in-sync replicas: the producers of a topic retry for minutes."""
    first, last = at.span(6, 30)
    producer = at.producer()
    rate = between(first, last, float(at.draw.uniform(15, 80)))
    topics = producer.topics[:1]
    at.day.add(replace(producer, rate=rate, error="NOT_ENOUGH_REPLICAS", topics=topics, bytes=0.0))
    names = ("error-burst", "failing-client")
    return Expected("retries without enough replicas", "stories", names, ({"client_id": producer.client.client_id},), first, last)


def deleted_topic(at: Plan) -> Expected:
    """An operator deletes a topic that is still written."""
    producer = at.producer()
    topic = f"{producer.client.principal[5:]}.legacy"
    admin = Client("adminclient-7", "User:ops-bob", address="10.60.0.12")
    at.day.add(Flow(admin, "DeleteTopics", between(at.first, at.first, 3), 6, ((topic, 3),)))
    first, last = at.first, at.first + int(at.draw.integers(30, 120))
    rate = between(first + 1, last, float(at.draw.uniform(2, 12)))
    who = replace(producer.client, client_id=f"{producer.client.client_id}-legacy")
    at.day.add(Flow(who, "Produce", np.concatenate((np.full(first, 5.0), np.zeros(MINUTES - first))), 9, ((topic, 3),), 900.0))
    at.day.add(Flow(who, "Metadata", rate, 12, ((topic, 3),), error="UNKNOWN_TOPIC_OR_PARTITION"))
    expected = ({"client_id": who.client_id}, {"principal": "User:ops-bob", "topic": topic})
    return Expected(
        "deleted topic", "cookbook", ("failing-client", "error-burst", "cluster-change"), expected, first, last, is_point=True
    )


def revoked_acl(at: Plan) -> Expected:
    """An ACL is removed at noon; the application is refused from then on, a few times a minute."""
    consumer = at.consumer()
    first, last = at.span(90, 170)
    topic = consumer.topics[0][0]
    rate = between(first, last, float(at.draw.uniform(0.8, 6)))
    for flow in _flows_of(at.day, consumer.client.client_id):
        if flow.api in ("Fetch", "OffsetCommit"):
            _stopped(flow, first, last)
    at.day.add(replace(consumer, rate=rate, error="TOPIC_AUTHORIZATION_FAILED", empty=0.0))
    who = ({"principal": consumer.client.principal, "topic": topic},)
    return Expected("ACL removed", "owasp", ("access-denied", "error-burst"), who, first, last)


def stuffing(at: Plan) -> Expected:
    """Guessed passwords from a network of many addresses, a few from each."""
    first, last = at.span(10, 60)
    network = f"198.51.{at.draw.integers(1, 250)}"
    addresses = tuple(f"{network}.{each}" for each in range(1, int(at.draw.integers(30, 90))))
    who = Client("kafka-client", "User:ANONYMOUS", "kafka-python", "2.0.2", addresses[0])
    rate = between(first, last, float(at.draw.uniform(4, 25)))
    flow = Flow(who, "SaslAuthenticate", rate, 2, error="SASL_AUTHENTICATION_FAILED", connections=0, addresses=addresses)
    at.day.add(flow, replace(flow, api="SaslHandshake", version=1, error=""), replace(flow, api="ApiVersions", version=3, error=""))
    who_ = ({"network": f"{network}.0/24"}, {"client_id": "kafka-client"})
    return Expected("credential stuffing", "owasp", ("failed-logins",), who_, first, last)


def expired_token(at: Plan) -> Expected:
    """The token of an application expires: it cannot log in, once every few seconds, until somebody renews it."""
    producer = at.producer()
    first, last = at.span(20, 120)
    for flow in _flows_of(at.day, producer.client.client_id):
        _stopped(flow, first, last)
    who = replace(producer.client, principal="User:ANONYMOUS")
    rate = between(first, last, float(at.draw.uniform(2, 12)))
    at.day.add(Flow(who, "SaslAuthenticate", rate, 2, error="SASL_AUTHENTICATION_FAILED", connections=0))
    found = ({"client_id": who.client_id}, {"address": who.address})
    return Expected("expired token", "owasp", ("failed-logins", "silent-client"), found, first, last)


def from_the_beginning(at: Plan) -> Expected:
    """A consumer group starts again from the earliest offset."""
    consumer = at.consumer()
    first, last = at.span(20, 110)
    rate = between(first, last, 60.0)
    more = float(at.draw.uniform(300_000, 1_000_000))
    at.day.add(replace(consumer, rate=rate, bytes=more, empty=0.0))
    return Expected("reads from the beginning", "offsets", ("bulk-read",), ({"client_id": consumer.client.client_id},), first, last)


def tiny_batches(at: Plan) -> Expected:
    """A deployment sets linger.ms=0: one record per request."""
    producer = at.producer()
    first, last = at.span(40, 170)
    usual = producer.rate[first : last + 1].copy()
    _stopped(producer, first, last)
    rate = np.zeros(MINUTES)
    rate[first : last + 1] = np.maximum(usual, 2) * 12
    at.day.add(replace(producer, rate=rate, bytes=float(at.draw.uniform(120, 350))))
    return Expected(
        "one record per request",
        "library",
        ("tiny-batches", "traffic-peak"),
        ({"client_id": producer.client.client_id},),
        first,
        last,
    )


def quota(at: Plan) -> Expected:
    """A backfill runs into its quota."""
    first, last = at.span(20, 120)
    who = Client("backfill", "User:backfill", "librdkafka", "2.5.0", "10.80.0.4")
    us = {"throttle_us": float(at.draw.uniform(300_000, 2_000_000)), "local_us": 400.0}
    at.day.add(Flow(who, "Produce", between(first, last, 15), 9, at.day.topics[:1], 200_000.0, us=us))
    return Expected(
        "throttled by a quota", "kip-219", ("throttled-client", "bulk-write"), ({"client_id": "backfill"},), first, last
    )


def leak(at: Plan) -> Expected:
    """A web application opens a producer per request and never closes it."""
    first, last = at.span(120, 170)
    who = Client("web-frontend", "User:web", address="10.90.0.4")
    rate = between(first, last, float(at.draw.uniform(3, 15)))
    for api, version in (("ApiVersions", 3), ("SaslHandshake", 1), ("SaslAuthenticate", 2), ("Metadata", 12)):
        at.day.add(Flow(who, api, rate, version, us={"local_us": 60}, connections=0))
    return Expected(
        "connection leak", "runbook", ("leaked-connections", "reconnect-storm"), ({"client_id": "web-frontend"},), first, last
    )


def reconnects(at: Plan) -> Expected:
    """A client with a wrong truststore or idle timeout reconnects without a pause."""
    first, last = at.span(8, 45)
    consumer = at.consumer()
    rate = between(first, last, float(at.draw.uniform(40, 200)))
    for api, version in (("ApiVersions", 3), ("SaslHandshake", 1), ("SaslAuthenticate", 2)):
        at.day.add(Flow(consumer.client, api, rate, version, us={"local_us": 60}, connections=0))
    return Expected("reconnects", "strimzi", ("reconnect-storm",), ({"client_id": consumer.client.client_id},), first, last)


def metadata_loop(at: Plan) -> Expected:
    """A client asks for metadata in a loop."""
    first, last = at.span(10, 60)
    who = Client("inventory-sync", "User:inventory", "sarama", "1.38.0", "10.91.0.4")
    at.day.add(Flow(who, "Metadata", constant(0.5), 12), Flow(who, "Produce", constant(3), 9, at.day.topics[:1], 900.0))
    at.day.add(Flow(who, "Metadata", between(first, last, float(at.draw.uniform(120, 600))), 12))
    names = ("metadata-storm", "traffic-peak")
    return Expected("metadata in a loop", "cookbook", names, ({"client_id": "inventory-sync"},), first, last)


def upgraded(at: Plan) -> Expected:
    """A client is deployed with another version of its library."""
    producer = at.producer()
    new = replace(producer.client, version="4.0.0")
    for flow in _flows_of(at.day, producer.client.client_id):
        rate = flow.rate.copy()
        rate[: at.first] = 0
        at.day.add(replace(flow, client=new, rate=rate))
        _stopped(flow, at.first, MINUTES - 1)
    who = {"client_id": producer.client.client_id}
    return Expected("client upgraded", "kip-896", ("changed-client",), (who,), at.first, MINUTES - 1, is_point=True)


def copies_all(at: Plan) -> Expected:
    """A principal that was never seen reads every topic within an hour."""
    first, last = at.span(20, 80)
    who = Client("kcat", "User:contractor", "librdkafka", "2.3.0", "172.16.9.9")
    extra = tuple((f"archive.{number:03}", 3) for number in range(40))
    at.day.add(Flow(who, "Fetch", between(first, last, 40), 13, (*at.day.topics, *extra), 30_000.0))
    return Expected("copies all topics", "owasp", ("broad-reader", "bulk-read"), ({"principal": "User:contractor"},), first, last)


def admin_at_night(at: Plan) -> Expected:
    """Somebody deletes topics, changes ACLs and adds a user within minutes."""
    who = Client("adminclient-1", "User:eve", address="10.60.0.66")
    first = at.first
    deleted = (("audit.raw", 3),)
    acl = ',"resources":[{"type":"topic","name":"payments"}]'
    user = ',"resources":[{"type":"user","name":"User:backdoor"}]'
    at.day.add(Flow(who, "DeleteTopics", between(first, first + 2, 0.7), 6, deleted))
    at.day.add(Flow(who, "CreateAcls", between(first + 1, first + 3, 1.5), 3, fields=acl))
    at.day.add(Flow(who, "AlterUserScramCredentials", between(first + 2, first + 4, 1.0), 0, fields=user))
    return Expected("administration at night", "owasp", ("cluster-change",), ({"principal": "User:eve"},), first, first + 4)


def too_large(at: Plan) -> Expected:
    """Some records of a producer exceed max.message.bytes and are sent again and again."""
    producer = at.producer()
    first, last = at.span(45, 170)
    rate = between(first, last, float(at.draw.uniform(1.5, 8)))
    who = replace(producer.client, client_id=f"{producer.client.client_id}-images")
    at.day.add(Flow(who, "Produce", constant(2), 9, producer.topics[:1], 50_000.0))
    at.day.add(Flow(who, "Produce", rate, 9, producer.topics[:1], error="MESSAGE_TOO_LARGE"))
    return Expected("records too large", "library", ("failing-client", "error-burst"), ({"client_id": who.client_id},), first, last)


def offline_disk(at: Plan) -> Expected:
    """A log directory fails: requests to one broker fail with a storage error."""
    first, last = at.span(5, 30)
    node = at.node()
    for flow in at.day.producers:
        errors = between(first, last, float(max(flow.rate[first] / at.day.brokers, 1.5)))
        at.day.add(replace(flow, rate=errors, error="KAFKA_STORAGE_ERROR", bytes=0.0, nodes=(node,)))
    return Expected("log directory offline", "runbook", ("error-burst", "failing-client"), (_place(node, at.day),), first, last)


def zombie(at: Plan) -> Expected:
    """Two instances use one transactional.id: one is fenced over and over."""
    first, last = at.span(30, 150)
    who = Client("settlement-1", "User:settlement", address="10.92.0.4")
    said = ',"transaction":{"id":"settlement"}'
    at.day.add(Flow(who, "Produce", constant(3), 9, at.day.topics[:1], 2_000.0, fields=said))
    rate = between(first, last, float(at.draw.uniform(1, 5)))
    at.day.add(Flow(who, "InitProducerId", rate, 4, fields=said))
    at.day.add(Flow(who, "AddPartitionsToTxn", rate, 3, at.day.topics[:1], error="INVALID_PRODUCER_EPOCH", fields=said))
    names = ("failing-client", "error-burst", "mostly-aborts")
    return Expected("zombie producer", "modes", names, ({"client_id": "settlement-1"},), first, last)


MAKERS: tuple[Maker, ...] = (
    *(slow_disk, slow_reader, slow_follower, few_threads, broker_away, silent_producer, dead_consumer, poison_pill, rebalance_loop),
    *(slow_poll, hot_key, retries, deleted_topic, revoked_acl, stuffing, expired_token, from_the_beginning, tiny_batches, quota),
    *(leak, reconnects, metadata_loop, upgraded, copies_all, admin_at_night, too_large, offline_disk, zombie),
)
_BEGIN, _ROOM = 180, 180
"""The first incident's minute, and the minutes between incidents."""


def plant(day: Day, draw: np.random.Generator) -> list[Expected]:
    """Plant six incidents of different kinds, one after another."""
    chosen = draw.choice(len(MAKERS), 6, replace=False)
    found: list[Expected] = []
    used: set[Any] = set()
    for place, which in enumerate(chosen.tolist()):
        first = _BEGIN + place * _ROOM + int(draw.integers(0, 20))
        plan = Plan(_without(day, used), draw, first, _ROOM - 25)
        expected = MAKERS[which](plan)
        used |= {who["client_id"] for who in expected.who if "client_id" in who}
        found.append(expected)
    return found


def _without(day: Day, used: set[Any]) -> Day:
    """Let later incidents choose clients that no other one has."""
    day.producers = [flow for flow in day.producers if flow.client.client_id not in used] or day.producers
    day.consumers = [flow for flow in day.consumers if flow.client.client_id not in used] or day.consumers
    return day
