"""The transactional producers of the synthetic broker, and the requests of their transactions."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from twisted_kafka_spark.records.schema import ABORTED, COMMITTED, TIMED_OUT
from twisted_kafka_spark.synthetic.flows import Client, Flow, topic_names

REQUESTS = 4
"""Lines of a transaction."""
LATEST_START_S = 20.0
"""Transactions begin in the first seconds of a minute and end in the same minute: nothing of one is left for the next minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """Transactions of one producer: `per_minute` of them, or if that is 0, as many as make up a share of the lines by `weight`.

    `duration_ms` is a median. Without `ends`, they time out.
    """

    client: Client
    transactional_id: str
    topics: Sequence[str]
    weight: float = 0.0
    per_minute: float = 0.0
    duration_ms: int = 150
    timeout_ms: int = 60_000
    aborted_share: float = 0.0
    ends: bool = True

    def start(self) -> tuple[Flow, str]:
        """Return the request with which the producer starts, and its line's fields about the transactional id."""
        return self._request("InitProducerId", 4), f'{self._id},"timeout_ms":{self.timeout_ms}'

    def lines(self, chosen: random.Random, factor: float) -> Iterator[tuple[float, Flow | None, str]]:
        """Yield the lines of a transaction, which takes `factor` times as long as usual.

        Each has the second of its minute, its request (None for a timeout's line), and its fields about the transaction.
        """
        begun_s = chosen.random() * LATEST_START_S
        took_ms = int(self.duration_ms * factor) if self.ends else self.timeout_ms + int(chosen.random() * 8_000)
        yield begun_s, self._request("AddPartitionsToTxn", 3, self.topics), self._id
        if not self.ends:
            yield begun_s + took_ms / 1000, None, f'{self._id},"outcome":"{TIMED_OUT}","duration_ms":{took_ms}'
            return
        outcome = ABORTED if chosen.random() < self.aborted_share else COMMITTED
        end = f'{self._id},"outcome":"{outcome}","duration_ms":{took_ms}'
        yield begun_s + took_ms / 3000, self._request("AddOffsetsToTxn", 3, ("__consumer_offsets",)), self._id
        yield begun_s + took_ms / 2000, self._request("TxnOffsetCommit", 3, self.topics), self._id
        yield begun_s + took_ms / 1000, self._request("EndTxn", 3, self.topics), end

    @property
    def _id(self) -> str:
        return f'"id":"{self.transactional_id}"'

    def _request(self, api: str, version: int, topics: Sequence[str] = ()) -> Flow:
        return Flow(client=self.client, api=api, version=version, topics=topics, local_us=150, remote_us=600)


def usual_transactions(topic_count: int) -> list[Transactions]:
    """Return the transactions on a healthy broker."""
    topics = topic_names(topic_count)
    ledger = Transactions(
        client=Client("ledger", "apache-kafka-java", "3.9.0", "User:ledger"),
        transactional_id="ledger-0",
        topics=topics[:1],
        weight=0.6,
        aborted_share=0.02,
    )
    joiner = replace(
        ledger,
        client=Client("joiner", "apache-kafka-java", "3.8.0", "User:joiner"),
        transactional_id="joiner-0_0",
        topics=topics[1:2] or topics[:1],
        weight=1.0,
        duration_ms=400,
        aborted_share=0.005,
    )
    return [ledger, joiner, replace(joiner, transactional_id="joiner-0_1")]
