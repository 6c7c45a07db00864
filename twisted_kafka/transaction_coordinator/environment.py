"""The parts that all shards of the transaction coordinator share."""

from collections.abc import Callable
from typing import NamedTuple

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.timing.clock import IClock
from twisted_kafka.transaction_coordinator.markers.transaction_marker import IMarkerWriter
from twisted_kafka.transaction_coordinator.transaction_metadata import TransactionEnd


class TransactionConfig(NamedTuple):
    """Values of ``transaction.*`` and ``transactional.id.*``, with Kafka's defaults; times in milliseconds."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    removal_interval_ms: int = 3_600_000
    load_buffer_size: int = 5_242_880
    request_timeout_ms: int = 30_000
    num_partitions: int = 50

    @classmethod
    def from_config(cls, config: KafkaConfig) -> "TransactionConfig":
        """Return the values of the broker's configuration."""
        return cls(
            max_timeout_ms=config.int("transaction.max.timeout.ms"),
            id_expiration_ms=config.int("transactional.id.expiration.ms"),
            abort_interval_ms=config.int("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            removal_interval_ms=config.int("transaction.remove.expired.transaction.cleanup.interval.ms"),
            load_buffer_size=config.int("transaction.state.log.load.buffer.size"),
            request_timeout_ms=config.int("request.timeout.ms"),
            num_partitions=config.int("transaction.state.log.num.partitions"),
        )


OnEnd = Callable[[TransactionEnd], None]
"""Told of an end that no request was answered with; must be fast, as the shard is locked."""


def ignore_end(end: TransactionEnd) -> None:
    pass  # there is no access log


class TransactionEnvironment(NamedTuple):
    """The configuration and services that every shard uses."""

    clock: IClock
    config: TransactionConfig
    markers: IMarkerWriter
    transaction_version: Callable[[], int]
    """Returns the finalized level of the feature ``transaction.version``."""
    on_end: OnEnd = ignore_end
