"""The clients of the synthetic broker, and the flows of requests that they send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Client(NamedTuple):
    """The fields that all lines of a client share."""

    client_id: str
    software: str
    software_version: str
    principal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Requests of one API by one client: `per_minute` of them, or if that is 0, a share of the day's requests by `weight`.

    Times are medians in microseconds. `topics`: the topics that the client uses; `per_request`: the number of topics in a request.
    """

    client: Client
    api: str
    version: int
    weight: float = 0.0
    per_minute: float = 0.0
    request_bytes: int = 100
    response_bytes: int = 100
    local_us: int = 60
    remote_us: int = 0
    throttle_us: int = 0
    topics: Sequence[str] = ()
    per_request: int = 1
    records: int = 0
    batch_bytes: int = 0
    errors: tuple[str, ...] = ()
    error_share: float = 0.0
    new_connections: bool = False


def _user(name: str, software: str, version: str) -> Client:
    return Client(name, software, version, f"User:{name.partition('-')[0]}")


_JAVA, _C, _PYTHON, _GO = "apache-kafka-java", "librdkafka", "kafka-python", "sarama"
PRODUCERS = (
    _user("orders-service", _JAVA, "3.9.0"),
    _user("payments-service", _JAVA, "3.7.1"),
    _user("clickstream-agent", _C, "2.8.0"),
    _user("inventory-sync", _PYTHON, "2.2.15"),
    _user("telemetry-gateway", _GO, "1.45.0"),
)
CONSUMERS = (
    _user("billing", _JAVA, "3.9.0"),
    _user("search-indexer", _C, "2.8.0"),
    _user("analytics-loader", _JAVA, "3.8.0"),
    _user("fraud-detector", _PYTHON, "2.2.15"),
    _user("mailer", _GO, "1.45.0"),
)

_ZIPF = 1.05
"""The exponent of the distribution of topics: the weight of the topic with index n is 1 / (n + 3) ** _ZIPF."""


def topic_names(count: int) -> list[str]:
    """Return the names of the day's topics, the busiest first."""
    areas = ("orders", "payments", "clicks", "stock", "metrics", "audit", "mail", "search")
    return [f"{areas[at % len(areas)]}.{at // len(areas):03}" for at in range(count)]


def popular(topics: Sequence[str], size: int = 4096) -> list[str]:
    """Return a list of about `size` entries in which topics occur in proportion to their traffic."""
    weights = [1 / (at + 3) ** _ZIPF for at in range(len(topics))]
    whole = sum(weights)
    return [topic for topic, weight in zip(topics, weights, strict=True) for _ in range(max(1, round(size * weight / whole)))]


def usual_flows(topic_count: int, extra_clients: int = 0) -> list[Flow]:
    """Return the flows of a healthy broker."""
    topics = topic_names(topic_count)
    names = [
        *PRODUCERS,
        *(_user(f"agent-{at:04}", _C, "2.8.0") for at in range(extra_clients)),
    ]
    flows: list[Flow] = []
    for at, client in enumerate(names):
        own = popular(topics[at % len(PRODUCERS) :: len(PRODUCERS)] or topics)
        share = 1.0 if at < len(PRODUCERS) else 0.2
        flows += [
            Flow(
                client=client,
                api="Produce",
                version=9,
                weight=8 * share,
                request_bytes=9000,
                response_bytes=60,
                local_us=220,
                remote_us=900,
                topics=own,
                records=40,
                batch_bytes=8800,
            ),
            Flow(client=client, api="Metadata", version=12, weight=0.05 * share, response_bytes=2400, local_us=140),
        ]
    for at, client in enumerate(CONSUMERS):
        own = popular(topics[at::2] or topics)
        flows += [
            Flow(
                client=client,
                api="Fetch",
                version=13,
                weight=6,
                response_bytes=40_000,
                local_us=90,
                remote_us=60_000,
                topics=own,
                per_request=2,
                batch_bytes=20_000,
            ),
            Flow(client=client, api="OffsetCommit", version=8, weight=0.5, local_us=180, remote_us=700, topics=own),
            Flow(client=client, api="Heartbeat", version=4, weight=0.6, local_us=20),
            Flow(client=client, api="Metadata", version=12, weight=0.05, response_bytes=2400, local_us=140),
            Flow(client=client, api="ListOffsets", version=7, weight=0.03, local_us=70, topics=own),
        ]
    return flows
