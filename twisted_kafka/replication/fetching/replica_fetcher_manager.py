"""ReplicaFetcherManager: spreads the partitions that this broker follows over fetchers, some for each leader."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final, NamedTuple

from twisted.logger import Logger

from twisted_kafka.metadata.cache import Node
from twisted_kafka.metrics.instruments import Meter
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.fetching.replica_fetcher import FetcherHost, ReplicaFetcher
from twisted_kafka.replication.fetching.replica_fetcher_thread import ReplicaFetcherThread
from twisted_kafka.replication.partition.partition import NO_LEADER, Partition
from twisted_kafka.system import machine
from twisted_kafka.timing.scheduler import IScheduler

IDLE_MS: Final = 5_000
"""How long a fetcher without partitions is kept: leaders come and go when brokers restart."""

_STATS: Final = "FetcherStats"
_LAG: Final = "FetcherLagMetrics"

_log = Logger()


class FetcherKey(NamedTuple):
    """A leader, and the number of one of its fetchers."""

    leader_id: int
    fetcher_id: int


class _Fetcher(NamedTuple):
    name: str
    fetcher: ReplicaFetcher
    thread: ReplicaFetcherThread
    stats_tags: dict[str, object]


def fetcher_id(topic_partition: TopicPartition, count: int) -> int:
    """Return which of a leader's fetchers copies a partition (Kafka: ``AbstractFetcherManager.getFetcherId``)."""
    code = 0
    for character in topic_partition.topic:  # Java's String.hashCode
        code = _int32(31 * code + ord(character))
    total = _int32(31 * code + topic_partition.partition)
    return (0 if total == -(1 << 31) else abs(total)) % count


def _int32(number: int) -> int:
    number &= 0xFFFFFFFF
    return number - (1 << 32) if number & 0x80000000 else number


class ReplicaFetcherManager:
    """Methods may be called on any thread."""

    def __init__(
        self,
        host: FetcherHost,
        make_thread: Callable[[FetcherKey], ReplicaFetcherThread],
        count: int,
        address: Callable[[int], Node | None],
        scheduler: IScheduler,
        metrics: MetricsRegistry,
    ) -> None:
        """``count`` is ``num.replica.fetchers``. ``address`` returns a broker's address, for the names of metrics."""
        self._host = host
        self._make_thread = make_thread
        self._count = count
        self._address = address
        self._scheduler = scheduler
        self._metrics = metrics
        self._lock = machine.Lock()
        self._fetchers: dict[FetcherKey, _Fetcher] = {}
        self._lagging: dict[TopicPartition, dict[str, object]] = {}
        """The tags of the partitions' gauges."""
        self._is_idle_watched = False
        """Whether fetchers without partitions are about to be stopped."""
        self._is_stopped = False

    def follow(self, partitions: Iterable[Partition]) -> None:
        """Fetch these partitions from their leaders (``IReplicaFetchers``)."""
        by_key: dict[FetcherKey, list[Partition]] = defaultdict(list)
        with self._lock:
            for partition in partitions:
                if partition.leader_id == NO_LEADER:
                    continue
                by_key[FetcherKey(partition.leader_id, fetcher_id(partition.topic_partition, self._count))].append(partition)
            if self._is_stopped:
                return
            for key, some in by_key.items():
                fetcher = self._fetcher(key)
                fetcher.fetcher.add(some)
                self._register_lags(fetcher, some)

    def stop_following(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions (``IReplicaFetchers``)."""
        gone = list(topic_partitions)
        with self._lock:
            for each in self._fetchers.values():
                each.fetcher.remove(gone)
            self._remove_lags(gone)
            if not self._is_idle_watched and any(each.fetcher.is_idle for each in self._fetchers.values()):
                self._is_idle_watched = True
                self._scheduler.schedule_once("shutdown-idle-fetchers", self._stop_idle, IDLE_MS)

    def shutdown(self) -> None:
        """Stop all (``IReplicaFetchers``)."""
        with self._lock:
            self._is_stopped = True
            fetchers, self._fetchers = self._fetchers, {}
            for each in fetchers.values():
                self._remove_lags([partition.topic_partition for partition in each.fetcher.remove_all()])
        for each in fetchers.values():
            self._stop(each)

    def resize(self, count: int) -> None:
        """Spread the partitions over another number of fetchers for each leader."""
        with self._lock:
            if count == self._count:
                return
            self._count = count
            partitions = [partition for each in self._fetchers.values() for partition in each.fetcher.remove_all()]
            self._remove_lags([partition.topic_partition for partition in partitions])
        self.follow(partitions)
        self._stop_idle()

    def metadata_changed(self, _: Collection[str] = ()) -> None:
        """Retry at once the fetches that may have failed without a leader's address."""
        for each in list(self._fetchers.values()):
            each.fetcher.retry()

    def refresh(self) -> None:
        """Use certificates that have changed for new connections."""
        for each in list(self._fetchers.values()):
            each.thread.refresh()

    def _fetcher(self, key: FetcherKey) -> _Fetcher:
        found = self._fetchers.get(key)
        if found is None:
            thread = self._make_thread(key)
            node = self._address(key.leader_id)
            name = f"ReplicaFetcherThread-{key.fetcher_id}-{key.leader_id}"
            tags: dict[str, object] = {
                "clientId": name,
                "brokerHost": "" if node is None else node.host,
                "brokerPort": -1 if node is None else node.port,
            }
            meters: list[Meter] = [self._metrics.meter(_STATS, each, **tags) for each in ("RequestsPerSec", "BytesPerSec")]
            fetcher = ReplicaFetcher(self._host, meters[0], meters[1], thread.wake)
            thread.run(fetcher)
            found = self._fetchers[key] = _Fetcher(name, fetcher, thread, tags)
            _log.info("{name} fetches from broker {id}", name=name, id=key.leader_id)
        return found

    def _stop_idle(self) -> None:
        with self._lock:
            self._is_idle_watched = False
            idle = [self._fetchers.pop(key) for key, each in list(self._fetchers.items()) if each.fetcher.is_idle]
        for each in idle:
            self._stop(each)

    def _stop(self, fetcher: _Fetcher) -> None:
        fetcher.thread.stop()
        for name in ("RequestsPerSec", "BytesPerSec"):
            self._metrics.remove(_STATS, name, **fetcher.stats_tags)

    # Metrics.

    @property
    def failed(self) -> set[TopicPartition]:
        """The partitions that should be copied, and cannot be at the moment."""
        return {partition for each in list(self._fetchers.values()) for partition in each.fetcher.failed}

    @property
    def max_lag(self) -> int:
        """The largest lag of a partition, in records."""
        return max((each.fetcher.max_lag for each in list(self._fetchers.values())), default=0)

    @property
    def min_fetch_rate(self) -> float:
        """The least number of fetches per second of a fetcher."""
        return min((each.fetcher.requests.one_minute_rate() for each in list(self._fetchers.values())), default=0.0)

    def _register_lags(self, fetcher: _Fetcher, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            topic_partition = partition.topic_partition
            if topic_partition in self._lagging:
                continue
            topic, index = topic_partition
            tags: dict[str, object] = {"clientId": fetcher.name, "topic": topic, "partition": index}
            self._lagging[topic_partition] = tags
            self._metrics.gauge(_LAG, "ConsumerLag", partial(fetcher.fetcher.lag, topic_partition), **tags)

    def _remove_lags(self, topic_partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            tags = self._lagging.pop(topic_partition, None)
            if tags is not None:
                self._metrics.remove(_LAG, "ConsumerLag", **tags)
