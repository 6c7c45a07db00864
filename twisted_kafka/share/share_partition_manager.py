"""SharePartitionManager: the share partitions that this broker leads, and the requests of members for them.

A share partition is made for the first fetch. It is dropped when this broker no longer leads the partition, when the persister
has fenced it, and when its group has no session on this broker any more: nothing in it is lost, as the persister has the state.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final, TypeVar

from twisted.logger import Logger

from twisted_kafka.config.group_configs import ShareGroupConfigs
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.network.requests.request_context import GroupNote, ShareCount, ShareCounts, TopicNote
from twisted_kafka.protocol.errors import ErrorCode, KafkaError, NotLeaderOrFollowerError
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.partition.fetch_data import (
    CONSUMER_REPLICA_ID,
    NO_EPOCH,
    FetchParams,
    PartitionFetch,
    PartitionRead,
)
from twisted_kafka.replication.replica_manager import ReplicaManager
from twisted_kafka.share.acknowledgements import AcknowledgementBatch
from twisted_kafka.share.delayed_share_fetch import (
    FIRST_LOOK,
    UNCHANGED,
    DelayedShareFetch,
    Fetched,
    ShareFetchAnswer,
    ShareFetchParams,
)
from twisted_kafka.share.in_flight_records import Acquisition, Expired
from twisted_kafka.share.other_threads import OneByOne
from twisted_kafka.share.share_metrics import ShareGroupMetrics
from twisted_kafka.share.share_partition import OK, Result, SharePartition, SharePartitionEnvironment, SharePartitionState
from twisted_kafka.share.share_partition_key import SharePartitionKey
from twisted_kafka.share.share_records import ReadBatches
from twisted_kafka.share.share_sessions import PartitionId, SessionKey, ShareSession, ShareSessionCache
from twisted_kafka.system import machine
from twisted_kafka.waiting.futures import completed, gather, then

READ_COMMITTED: Final = "read_committed"
MAX_ROUNDS: Final = 10
"""Reads of one attempt: a read may find only records that cannot be acquired, such as aborted ones."""

_LEADER_ONLY_VERSION: Final = 10
"""With this version of Fetch, a read goes to the leader only, and returns a first batch of any size."""
_EARLIEST: Final = -2
_LATEST: Final = -1
_NOT_LEADER: Final = Result(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_NOT_LOADED: Final = Result(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_UNTRIED: Final = Fetched(is_tried=False)

K = TypeVar("K")

Target = tuple[PartitionId, TopicPartition]
"""A partition of a request, and its name."""

Returned = list[tuple[TopicPartition, Result]]
"""The partitions in which a member that has gone still had records, with their numbers."""

_Ready = tuple[int, TopicPartition, SharePartition]
"""A share partition whose fetch lock the caller has: its position in the fetch, its name and itself."""

OnLost = Callable[[GroupNote, Sequence[TopicNote], Mapping[str, ShareCounts]], object]
"""Takes the group and member, the topics' partitions, and how many records the member has lost of each topic."""

_log = Logger()


class _Fetch:
    """A ShareFetch: its parameters, and a share partition or an error for each of its partitions."""

    __slots__ = ("_indexes", "_with_bytes", "began_ns", "group_id", "isolation", "made", "member_id", "params", "targets")

    def __init__(
        self,
        group_id: str,
        member_id: str,
        params: ShareFetchParams,
        isolation: FetchIsolation,
        targets: list[tuple[TopicPartition, SharePartition | Result]],
        made: frozenset[SharePartitionKey],
        began_ns: int,
    ) -> None:
        """``made`` are the share partitions that did not exist before this fetch."""
        self.group_id = group_id
        self.member_id = member_id
        self.params = params
        self.isolation = isolation
        self.targets = targets
        self.made = made
        self.began_ns = began_ns
        self._with_bytes: set[int] = set()
        self._indexes: dict[Hashable, list[int]] = {}

    def to_look_at(self, changed: Hashable) -> Iterable[int]:
        """Return the indexes of the changed target and of the targets with some bytes; all indexes for a first look."""
        if changed is FIRST_LOOK:
            return range(len(self.targets))
        if changed is UNCHANGED:
            return sorted(self._with_bytes)
        if not self._indexes:
            for index, (name, target) in enumerate(self.targets):
                for key in (name, target.key) if isinstance(target, SharePartition) else (name,):
                    self._indexes.setdefault(key, []).append(index)
        return sorted(self._with_bytes.union(self._indexes.get(changed, ())))

    def not_enough_yet(self, indexes: Iterable[int]) -> None:
        """Keep the indexes of targets that have bytes, but not enough for an answer."""
        self._with_bytes.update(indexes)


class SharePartitionManager:
    """See the module. Methods may be called on any thread."""

    def __init__(
        self,
        replicas: ReplicaManager,
        environment: SharePartitionEnvironment,
        sessions: ShareSessionCache,
        metrics: ShareGroupMetrics,
        later: Callable[[Callable[[], None]], None],
        undeliverable: Callable[[SharePartition, TopicPartition], object],
        lost: OnLost,
    ) -> None:
        """``later`` runs a function on another thread, which may read from logs.

        ``undeliverable`` is called when a share partition has records that are on their way to the dead-letter queue, ``lost`` when
        a member has lost records without a request.
        """
        self.sessions = sessions
        self.metrics = metrics
        self._replicas = replicas
        self._environment = environment
        self._later = later
        self._undeliverable = undeliverable
        self._lost = lost
        self._lock = machine.Lock()
        self._partitions: dict[SharePartitionKey, SharePartition] = {}
        self._names: dict[SharePartitionKey, TopicPartition] = {}
        self._by_name: dict[TopicPartition, set[SharePartitionKey]] = {}
        self._by_group: dict[str, set[SharePartitionKey]] = {}
        self._sessions_of: dict[str, set[ShareSession]] = {}
        """The sessions by group."""
        self._connections: dict[str, set[ShareSession]] = {}
        self._purgatory = replicas.purgatories.share_fetch
        # One thread at a time: two would meet in a share partition, and each would look again after the other, without end.
        self._checks: OneByOne[SharePartitionKey] = OneByOne(self._purgatory.check_and_complete, later)
        self._follows_leaders = False
        """False until the first share partition is made: a broker without share groups pays nothing."""

    # sessions

    def session_used(self, session: ShareSession) -> None:
        """Keep the group's share partitions while this session lasts."""
        with self._lock:
            self._sessions_of.setdefault(session.key[0], set()).add(session)
            self._connections.setdefault(session.connection_id, set()).add(session)

    def connection_closed(self, connection_id: str) -> None:
        """End the sessions of a connection."""
        with self._lock:
            sessions = self._connections.pop(connection_id, set())
        for session in sessions:
            if session.connection_id != connection_id:
                continue  # the member has begun again on another connection
            if self.sessions.evict(session):
                then(self._release(session), partial(self._report, session.key))
            else:
                self._forget(session)

    def end_session(self, session: ShareSession) -> "Future[Returned]":
        """End a session; the future is done when the records that its member still had are released."""
        if not self.sessions.end(session):
            return completed([])
        return self._release(session)

    def _release(self, session: ShareSession) -> "Future[Returned]":
        """Release the records of an ended session's member, and drop share partitions that no session uses."""
        group_id, member_id = session.key
        with self._lock:
            keys = [SharePartitionKey(group_id, *each) for each in session.partitions]
            held = [(self._names[key], self._partitions[key]) for key in keys if key in self._partitions]
        released: list[Result | Future[Result]] = [each.release(member_id) for _, each in held]

        def done(results: list[Result]) -> Returned:
            self._forget(session)
            return [(name, result) for (name, _), result in zip(held, results, strict=True) if result.returned]

        ended = gather(released, done)
        return ended if isinstance(ended, Future) else completed(ended)

    def _report(self, key: SessionKey, returned: Returned) -> None:
        """Report the records of a member whose connection was closed."""
        lost: dict[str, ShareCounts] = {}
        partitions: dict[str, list[int]] = {}
        for name, result in returned:
            counts = lost.setdefault(name.topic, {ShareCount.RETURNED: 0})
            counts[ShareCount.RETURNED] += result.returned
            if result.over_limit:
                counts[ShareCount.OVER_LIMIT] = counts.get(ShareCount.OVER_LIMIT, 0) + result.over_limit
            partitions.setdefault(name.topic, []).append(name.partition)
        if lost:
            self._lost((*key, -1), [(topic, tuple(ids), 0, 0, 0) for topic, ids in partitions.items()], lost)

    def _expired(self, group_id: str, name: TopicPartition, lost: dict[str, Expired]) -> None:
        """Report the records of members whose locks have expired."""
        for member_id, (records, over_limit) in lost.items():
            counts = {ShareCount.EXPIRED: records}
            if over_limit:
                counts[ShareCount.OVER_LIMIT] = over_limit
            self._lost((group_id, member_id, -1), [(name.topic, (name.partition,), 0, 0, 0)], {name.topic: counts})

    def _forget(self, session: ShareSession) -> None:
        group_id = session.key[0]
        with self._lock:
            of_connection = self._connections.get(session.connection_id)
            if of_connection is not None:
                of_connection.discard(session)
                if not of_connection:
                    del self._connections[session.connection_id]
            sessions = self._sessions_of.get(group_id)
            if sessions is None:
                return
            sessions.discard(session)
            if sessions:
                return
            del self._sessions_of[group_id]
            dropped = list(self._by_group.get(group_id, ()))
        for key in dropped:
            self._drop(key)
        self.metrics.forget(group_id)

    # share partitions

    def _leaders_changed(self, led: Sequence[TopicPartition], not_led: Sequence[TopicPartition]) -> None:
        with self._lock:
            dropped = [key for partition in not_led for key in self._by_name.get(partition, ())]
        for key in dropped:
            self._drop(key)

    def _drop(self, key: SharePartitionKey, only: SharePartition | None = None) -> None:
        """Fence a share partition, and answer the requests that wait for it."""
        with self._lock:
            found = self._partitions.get(key)
            if found is None or (only is not None and found is not only):
                return
            del self._partitions[key]
            _discard(self._by_name, self._names.pop(key), key)
            _discard(self._by_group, key.group_id, key)
        found.fence()
        self._check_later(key)

    def _target(self, key: SharePartitionKey, name: TopicPartition) -> SharePartition | Result:
        """Return the share partition, which may have to be initialized yet, or the reason for its absence."""
        found = self._partitions.get(key)
        if found is not None:
            return found
        try:
            partition = self._replicas.get_partition_or_error(name)
            if not partition.is_leader:
                raise NotLeaderOrFollowerError("")
        except KafkaError as error:
            return Result(error.code)
        made = SharePartition(
            key,
            partition.leader_epoch,
            self._environment,
            partial(self._reset_offset, name),
            partial(self._check_later, key),
            lambda: self._undeliverable(made, name),
            partial(self._expired, key.group_id, name),
        )
        with self._lock:
            if not self._follows_leaders:
                self._follows_leaders = True
                self._replicas.add_leadership_listener(self._leaders_changed)
            found = self._partitions.setdefault(key, made)
            if found is made:
                self._names[key] = name
                self._by_name.setdefault(name, set()).add(key)
                self._by_group.setdefault(key.group_id, set()).add(key)
        if found is made:
            self._initialize(made)
        return found

    def _initialize(self, made: SharePartition) -> None:
        clock = self._environment.clock
        began_ns = clock.monotonic_ns()

        def initialized(done: "Future[Result]") -> None:
            result = done.result()
            self.metrics.loaded((clock.monotonic_ns() - began_ns) / 1e6)
            if result.error:
                _log.debug("{key} is not initialized: {error}", key=made.key, error=result.error.name)
                self._later(partial(self._drop, made.key, made))

        made.initialize().add_done_callback(initialized)
        if self._replicas.online_leader(self._names.get(made.key, TopicPartition("", -1))) is None:
            self._drop(made.key, made)  # it was made just when another broker became the leader

    def _reset_offset(self, name: TopicPartition, configs: ShareGroupConfigs) -> int:
        """Return where a new group begins (``share.auto.offset.reset``)."""
        offsets = self._replicas.offsets
        timestamp = _EARLIEST if configs.auto_offset_reset == "earliest" else _LATEST
        if configs.reset_by_ms is not None:
            timestamp = max(self._environment.clock.wall_ms() - configs.reset_by_ms, 0)
        found = offsets.list_offset(name, timestamp, CONSUMER_REPLICA_ID, 0, NO_EPOCH)
        if found is None:
            found = offsets.list_offset(name, _LATEST, CONSUMER_REPLICA_ID, 0, NO_EPOCH)
        assert found is not None, "a log has an end"
        return found.offset

    def _check_later(self, key: SharePartitionKey) -> None:
        """Let fetches that wait for a share partition look at it: on another thread, as the caller may hold such a fetch."""
        if self._purgatory.is_watched(key):
            self._checks.ask(key)

    def share_partitions(self, group_id: str) -> list[tuple[TopicPartition, SharePartition]]:
        """Return the group's share partitions that are in use on this broker."""
        with self._lock:
            return [(self._names[key], self._partitions[key]) for key in self._by_group.get(group_id, ())]

    # requests

    def acknowledge(
        self, group_id: str, member_id: str, partition: PartitionId, batches: list[AcknowledgementBatch]
    ) -> "Future[Result]":
        """Acknowledge records of one partition."""
        key = SharePartitionKey(group_id, *partition)
        found = self._partitions.get(key)
        if found is None:
            return completed(_NOT_LOADED)

        def done(result: Result) -> Result:
            if result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                self._drop(key, found)  # the persister has another leader or a newer state: the next fetch reads it
            return result

        return then(found.acknowledge(member_id, batches), done)

    def fetch(
        self, group_id: str, member_id: str, params: ShareFetchParams, asked: Sequence[Target]
    ) -> list[Fetched] | ShareFetchAnswer:
        """Acquire records of the partitions, in the order of ``asked``; return a future if there is something to wait for."""
        configs = self._environment.configs(group_id)
        isolation = FetchIsolation.TXN_COMMITTED if configs.isolation_level == READ_COMMITTED else FetchIsolation.HIGH_WATERMARK
        keys = [SharePartitionKey(group_id, *identity) for identity, _ in asked]
        made = frozenset(key for key in keys if key not in self._partitions)
        targets = [(name, self._target(key, name)) for key, (_, name) in zip(keys, asked, strict=True)]
        fetch = _Fetch(group_id, member_id, params, isolation, targets, made, self._environment.clock.monotonic_ns())
        if not targets:
            return []
        if not params.may_wait:
            return self._acquire(fetch, True, FIRST_LOOK) or []
        operation = DelayedShareFetch(params, partial(self._acquire, fetch), self.metrics.expired)
        shares = [target for _, target in targets if isinstance(target, SharePartition)]
        watched = [*(each.key for each in shares), *dict.fromkeys(name for name, _ in targets)]
        self._purgatory.try_complete_else_watch(operation, watched)
        return operation.future.result() if operation.future.done() else operation.future

    def _acquire(self, fetch: _Fetch, any_amount: bool, changed: Hashable) -> list[Fetched] | None:
        """Acquire records for a fetch; return None if there is neither enough nor an error.

        ``changed`` is the partition or share partition that has changed since an earlier look, FIRST_LOOK or UNCHANGED.
        """
        results: dict[int, Fetched] = {}
        ready: list[_Ready] = []
        for index in fetch.to_look_at(changed):
            name, target = fetch.targets[index]
            failed = self._failure(target)
            if failed is not None:
                results[index] = Fetched(failed)
            elif isinstance(target, SharePartition) and self._may_have_more(fetch, name, target) and target.lock_fetch():
                ready.append((index, name, target))
        try:
            left_out = self._read_in_turn(fetch, ready, results, any_amount)
        finally:
            for _, _, share in ready:
                if share.unlock_fetch():
                    self._check_later(share.key)
        if not results and not any_amount:
            return None
        acquired = sum(bool(each.acquired) for each in results.values())
        self.metrics.fetched(fetch.group_id, acquired, len(fetch.targets))
        if acquired:
            self.metrics.acquired(fetch.group_id, (self._environment.clock.monotonic_ns() - fetch.began_ns) / 1e6)
        return [results.get(index) or (_UNTRIED if index in left_out else Fetched()) for index in range(len(fetch.targets))]

    def _may_have_more(self, fetch: _Fetch, name: TopicPartition, share: SharePartition) -> bool:
        """Return whether a read may find something; a read says why not if this broker does not lead the partition any more."""
        partition = self._replicas.online_leader(name)
        if partition is None:
            return True
        log = partition.log
        is_committed = fetch.isolation is FetchIsolation.TXN_COMMITTED
        return share.next_fetch_offset != (log.last_stable_offset if is_committed else log.high_watermark)

    @staticmethod
    def _failure(target: SharePartition | Result) -> Result | None:
        """Return why nothing can be acquired of a partition, None if something can be, now or later."""
        if isinstance(target, Result):
            return target
        if target.state in (SharePartitionState.FAILED, SharePartitionState.FENCED):
            failed = target.outcome
            return failed if failed.error else _NOT_LEADER
        return None

    def _read_in_turn(self, fetch: _Fetch, ready: list[_Ready], results: dict[int, Fetched], any_amount: bool) -> frozenset[int]:
        """Read and acquire; return the partitions that are left to later fetches.

        As in Kafka, the first fetch of a group is answered when one share partition is loaded and has enough records. Here all
        of them may be loaded by then.
        """
        made = [each for each in ready if each[2].key in fetch.made]
        has_waited = any_amount and fetch.params.may_wait
        if len(made) > 1 and not has_waited:
            left_out = {index for index, _, _ in made[1:]}
            self._read(fetch, [each for each in ready if each[0] not in left_out], results, any_amount)
            for each in made[1:]:
                if results:
                    return frozenset(left_out)
                left_out.remove(each[0])
                self._read(fetch, [each], results, any_amount)
            if results:
                return frozenset()
        if ready:
            self._read(fetch, ready, results, any_amount)
        return frozenset()

    def _read(
        self,
        fetch: _Fetch,
        ready: list[_Ready],
        results: dict[int, Fetched],
        any_amount: bool,
    ) -> None:
        """Read and acquire, from the partitions whose fetch locks the caller has."""
        params = fetch.params
        left = params.max_records
        share_bytes = max(params.max_bytes // len(ready), 1)
        read_params = FetchParams(CONSUMER_REPLICA_ID, 0, 0, params.max_bytes, fetch.isolation, _LEADER_ONLY_VERSION)
        waiting = ready
        for _ in range(MAX_ROUNDS):
            fetches = [
                PartitionFetch(name, share.key.topic_id, share.key.partition, share.next_fetch_offset, share_bytes)
                for _, name, share in waiting
            ]
            reads = self._replicas.reader.read(read_params, fetches, from_purgatory=True)
            has_enough = any_amount or results or sum(read.size_bytes for read in reads) >= params.min_bytes
            if not has_enough:
                fetch.not_enough_yet(each[0] for each, read in zip(waiting, reads, strict=True) if read.size_bytes)
            again = []
            for (index, name, share), asked, read in zip(waiting, fetches, reads, strict=True):
                if read.error == ErrorCode.OFFSET_OUT_OF_RANGE:
                    if self._log_start_moved(name, share):
                        again.append((index, name, share))
                elif read.error:
                    results[index] = Fetched(Result(ErrorCode(read.error)))
                elif read.size_bytes and has_enough and left > 0:
                    fetched = self._acquire_of(fetch, share, asked, read, left)
                    if fetched is None:
                        again.append((index, name, share))
                    elif fetched.acquired or fetched.result.error:
                        results[index] = fetched
                        left -= sum(each.last_offset - each.first_offset + 1 for each in fetched.acquired)
            if not again or left <= 0:
                return
            waiting = again

    def _acquire_of(
        self, fetch: _Fetch, share: SharePartition, asked: PartitionFetch, read: PartitionRead, left: int
    ) -> Fetched | None:
        """Acquire records of one read; return None if later records may be acquired instead of these."""
        share.log_start_moved(read.log_start_offset)
        batches = ReadBatches(read.records, read.aborted_transactions)
        params = fetch.params
        acquisition = Acquisition(fetch.member_id, left, params.batch_size, params.is_record_limit, share.due_ns())
        try:
            acquired = share.acquire(acquisition, asked.fetch_offset, batches, batches.aborted)
        except OSError as error:
            _log.error("Cannot read {partition}: {error}", partition=asked.topic_partition, error=error)
            return Fetched(Result(ErrorCode.KAFKA_STORAGE_ERROR))
        if not acquired:
            is_past = share.next_fetch_offset > asked.fetch_offset and share.can_acquire()
            return None if is_past else Fetched()
        return Fetched(OK, batches.part(acquired), tuple(acquired))

    def _log_start_moved(self, name: TopicPartition, share: SharePartition) -> bool:
        """Move the start offset to where the log begins; return whether the fetch offset is in the log then."""
        partition = self._replicas.online_leader(name)
        if partition is None:
            return False
        share.log_start_moved(partition.log.log_start_offset)
        return partition.log.log_start_offset <= share.next_fetch_offset <= partition.log.high_watermark

    def shutdown(self) -> None:
        """Fence all share partitions: this broker stops."""
        with self._lock:
            keys = list(self._partitions)
        for key in keys:
            self._drop(key)


def _discard(index: dict[K, set[SharePartitionKey]], name: K, key: SharePartitionKey) -> None:
    """Remove a share partition from an index, and its entry with the last one."""
    keys = index[name]
    keys.discard(key)
    if not keys:
        del index[name]
