"""The incidents that can be added to a synthetic day, each with the name of the finding that should report it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from twisted_kafka_spark.synthetic.flows import CONSUMERS, PRODUCERS, Client, Flow
from twisted_kafka_spark.synthetic.transactions import Transactions


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident at a time of the day: additional flows and transactions, or an increase of the local time of Produce."""

    finding: str
    first_minute: int
    minutes: int
    flows: tuple[Flow, ...] = ()
    slower_writes: float = 1.0
    transactions: tuple[Transactions, ...] = ()

    def covers(self, minute: int) -> bool:
        """Return whether it takes place in this minute of the day."""
        return self.first_minute <= minute < self.first_minute + self.minutes


_BULK = Client("bulk-loader", "librdkafka", "2.8.0", "User:bulk")
_DASHBOARD = Client("dashboard", "kafka-python", "2.2.15", "User:dashboard")
_LEGACY = Client("legacy-import", "unknown", "unknown", "User:legacy")
_ORDERS, _BILLING = PRODUCERS[0], CONSUMERS[0]

_WRITE = Flow(
    client=_BULK,
    api="Produce",
    version=9,
    per_minute=60,
    request_bytes=60_000,
    response_bytes=60,
    local_us=400,
    remote_us=900,
    topics=("bulk.import",),
    records=500,
    batch_bytes=59_000,
)
_JOIN = Flow(client=_BILLING, api="JoinGroup", version=9, per_minute=50, local_us=80, remote_us=400_000)
_STUCK = Transactions(
    client=Client("invoice-writer", "librdkafka", "2.8.0", "User:invoice"),
    transactional_id="invoice-writer-1",
    topics=("orders.000",),
    per_minute=1,
    timeout_ms=30_000,
    ends=False,
)
_ABORTING = Transactions(
    client=Client("price-updater", "apache-kafka-java", "3.7.1", "User:price"),
    transactional_id="price-updater-1",
    topics=("stock.000",),
    per_minute=0.3,
    aborted_share=0.8,
)

INCIDENTS: tuple[Incident, ...] = (
    Incident("slow-disk", 3 * 60, 6, slower_writes=150.0),
    Incident("throttled-client", 10 * 60, 30, (replace(_WRITE, throttle_us=450_000),)),
    Incident(
        "error-burst",
        13 * 60 + 10,
        5,
        (
            replace(
                _WRITE,
                client=_ORDERS,
                topics=("orders.000",),
                per_minute=90,
                request_bytes=9000,
                batch_bytes=8800,
                records=40,
                errors=("NOT_LEADER_OR_FOLLOWER",),
                error_share=0.9,
            ),
        ),
    ),
    Incident(
        "rebalance-storm",
        15 * 60,
        8,
        (
            _JOIN,
            replace(_JOIN, api="SyncGroup", version=5),
            replace(_JOIN, api="LeaveGroup", version=5, per_minute=40, remote_us=0),
            replace(
                _JOIN, api="Heartbeat", version=4, per_minute=50, remote_us=0, errors=("REBALANCE_IN_PROGRESS",), error_share=0.8
            ),
        ),
    ),
    Incident("hanging-transaction", 16 * 60, 10, transactions=(_STUCK,)),
    Incident(
        "metadata-storm",
        17 * 60,
        10,
        (Flow(client=_DASHBOARD, api="Metadata", version=12, per_minute=900, response_bytes=48_000, local_us=900),),
    ),
    Incident("mostly-aborts", 0, 24 * 60, transactions=(_ABORTING,)),
    Incident(
        "old-client",
        0,
        24 * 60,
        (
            replace(
                _WRITE,
                client=_LEGACY,
                version=1,
                per_minute=0.5,
                request_bytes=4000,
                batch_bytes=3900,
                records=0,
                topics=("legacy.in",),
            ),
            Flow(
                client=_LEGACY,
                api="Fetch",
                version=2,
                per_minute=0.5,
                response_bytes=3000,
                remote_us=90_000,
                topics=("legacy.out",),
                batch_bytes=2900,
            ),
        ),
    ),
)
"""The incidents of `make demo-report`."""
