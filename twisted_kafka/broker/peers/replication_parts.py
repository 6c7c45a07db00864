"""Replication between brokers.

A broker without others has an empty shell: the first replica on another broker makes and loads the rest.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from twisted_kafka.broker.peers.inter_broker_client import InterBrokerClient
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.inter_broker_protocol import is_at_least
from twisted_kafka.metadata.worker import SerialWorker
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.interfaces import IControllerChannel
from twisted_kafka.replication.partition.partition import Partition
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock
from twisted_kafka.timing.scheduler import KafkaScheduler
from twisted_kafka.timing.timer import Timer

if TYPE_CHECKING:
    from twisted_kafka.replication.alter_partition_manager import AlterPartitionManager
    from twisted_kafka.replication.fetching.replica_fetcher_manager import FetcherKey, ReplicaFetcherManager
    from twisted_kafka.replication.fetching.replica_fetcher_thread import ReplicaFetcherThread

_COUNT_KEY: Final = "num.replica.fetchers"
_BUFFER_KEY: Final = "replica.socket.receive.buffer.bytes"
_MAX_LAG_KEY: Final = "replica.lag.time.max.ms"

_FETCH_VERSIONS: Final = (
    ("3.9-IV0", 17),
    ("3.7-IV4", 16),
    ("3.5-IV1", 15),
    ("3.5-IV0", 14),
    ("3.1-IV0", 13),
    ("2.8-IV0", 12),
)
_LIST_OFFSETS_VERSIONS: Final = (("3.0-IV1", 7), ("2.8-IV0", 6))
"""The latest version of each request that followers may send, from a value of ``inter.broker.protocol.version`` on."""

_EPOCHS_OF_BROKERS: Final = "3.5-IV1"
"""From this version on, requests contain the broker epochs of replicas (KIP-903)."""


class BrokerParts(NamedTuple):
    """The parts of the broker that replication uses."""

    scheduler: KafkaScheduler
    retries: Timer
    clock: IClock
    metrics: MetricsRegistry
    channel: IControllerChannel
    epoch: Callable[[], int]
    """Returns this broker's epoch."""


class Replication:
    """The fetchers of following replicas, and the in-sync replicas of leaders."""

    def __init__(self, config: KafkaConfig, replicas: ReplicaManager, parts: BrokerParts) -> None:
        self._config = config
        self._replicas = replicas
        self._parts = parts
        self._lock = machine.Lock()
        self._fetchers: ReplicaFetcherManager | None = None
        self._in_sync: AlterPartitionManager | None = None
        self._checks: SerialWorker
        """Looks for followers that lag; made with ``_in_sync``."""
        self._is_stopped = False
        tags = {"clientId": "Replica"}
        gauges: dict[str, Callable[[], object]] = {
            "MaxLag": lambda: 0 if self._fetchers is None else self._fetchers.max_lag,
            "MinFetchRate": lambda: 0.0 if self._fetchers is None else self._fetchers.min_fetch_rate,
            "FailedPartitionsCount": lambda: 0 if self._fetchers is None else len(self._fetchers.failed),
            "DeadThreadCount": lambda: 0,  # a thread that fails starts again
        }
        for name, function in gauges.items():
            parts.metrics.gauge("ReplicaFetcherManager", name, function, **tags)
        replicas.set_fetchers(self)
        replicas.set_in_sync_replicas(self)

    # As follower.

    def follow(self, partitions: Iterable[Partition]) -> None:
        """Fetch partitions from their leaders (``IReplicaFetchers``)."""
        with self._lock:
            if self._is_stopped:
                return
            if self._fetchers is None:
                self._fetchers = self._make_fetchers()
                self._replicas.metadata.add_listener(self._fetchers.metadata_changed)
        self._fetchers.follow(partitions)

    def stop_following(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching partitions (``IReplicaFetchers``)."""
        if self._fetchers is not None:
            self._fetchers.stop_following(topic_partitions)

    def shutdown(self) -> None:
        """Stop fetching (``IReplicaFetchers``)."""
        with self._lock:
            self._is_stopped = True
            has_checks = self._in_sync is not None
        if has_checks:
            self._checks.close()
        if self._fetchers is not None:
            self._fetchers.shutdown()

    def resize(self, count: int) -> None:
        """Use another ``num.replica.fetchers``."""
        if self._fetchers is not None:
            self._fetchers.resize(count)

    def refresh(self) -> None:
        """Use certificates that have changed."""
        if self._fetchers is not None:
            self._fetchers.refresh()

    def _make_fetchers(self) -> "ReplicaFetcherManager":
        from twisted_kafka.replication.fetching.leader_requests import FetchLimits, LeaderRequests, PeerVersions
        from twisted_kafka.replication.fetching.replica_fetcher import FetcherHost
        from twisted_kafka.replication.fetching.replica_fetcher_manager import ReplicaFetcherManager

        config, parts, replicas = self._config, self._parts, self._replicas
        versions = PeerVersions(self._latest(_FETCH_VERSIONS), self._latest(_LIST_OFFSETS_VERSIONS))
        limits = FetchLimits(
            config.int("replica.fetch.wait.max.ms"),
            config.int("replica.fetch.min.bytes"),
            config.int("replica.fetch.response.max.bytes"),
            config.int("replica.fetch.max.bytes"),
        )
        host = FetcherHost(
            clock=parts.clock,
            requests=LeaderRequests(config.broker_id, limits, versions),
            quota=replicas.follower_quota,
            backoff_ms=config.int("replica.fetch.backoff.ms"),
            broker_epoch=parts.epoch,
            on_appended=lambda each, size_bytes: replicas.stats.replicated_in(size_bytes, is_joining=each.is_joining),
            on_high_watermark=replicas.purgatories.check_fetches,
        )
        address = partial(self._replicas.metadata.node, listener_name=config.inter_broker_listener_name)
        return ReplicaFetcherManager(host, self._make_thread, config.int(_COUNT_KEY), address, parts.scheduler, parts.metrics)

    def _latest(self, table: tuple[tuple[str, int], ...]) -> int:
        return next((version for since, version in table if is_at_least(self._config, since)), table[-1][1])

    def _make_thread(self, key: "FetcherKey") -> "ReplicaFetcherThread":
        from twisted_kafka.replication.fetching.replica_fetcher_thread import Leader, ReplicaFetcherThread

        config = self._config
        name = f"ReplicaFetcherThread-{key.fetcher_id}-{key.leader_id}"
        # Without a setting, the system chooses the size: Kafka's default, 64 KiB, is smaller.
        buffer_bytes = config.int(_BUFFER_KEY) if config.is_set(_BUFFER_KEY) else -1
        client = InterBrokerClient(config, name, f"fetcher-{key.fetcher_id}", self._parts.clock, receive_buffer_bytes=buffer_bytes)
        node = partial(self._replicas.metadata.node, key.leader_id, config.inter_broker_listener_name)
        return ReplicaFetcherThread(
            Leader(key.leader_id, node),
            client,
            self._parts.retries,
            self._parts.scheduler,
            timeout_ms=config.int("replica.socket.timeout.ms"),
            retry_ms=config.int("replica.fetch.backoff.ms"),
        )

    # As leader.

    def watch(self, partition: Partition) -> None:
        """Take out followers that lag, from now on (``IInSyncReplicas``)."""
        self._manager()

    def maybe_expand(self, partition: Partition, replica_id: int) -> None:
        """Let a follower join (``IInSyncReplicas``)."""
        self._manager().maybe_expand(partition, replica_id)

    def _manager(self) -> "AlterPartitionManager":
        found = self._in_sync
        if found is None:
            from twisted_kafka.replication.alter_partition_manager import AlterPartitionManager, Proposer

            config, parts, replicas = self._config, self._parts, self._replicas
            with self._lock:
                found = self._in_sync
                if found is None:
                    self._checks = SerialWorker("isr-expiration-thread", threaded=not self._is_stopped)
                    found = self._in_sync = AlterPartitionManager(
                        Proposer(config.broker_id, parts.epoch, is_at_least(config, _EPOCHS_OF_BROKERS), parts.channel),
                        replicas.partitions,
                        replicas.purgatories,
                        parts.retries,
                        config.long(_MAX_LAG_KEY),
                        parts.metrics,
                        self._checks.submit,
                    )
        return found
