"""ReplicaFetcher: copies partitions from one leader, one request at a time, without any I/O of the network.

``work`` is a generator: it yields a request or a pause, and receives the response, an error in its place, or None after a
pause. So it runs on a client's thread, and in tests step by step.

A partition is fetched from its log's end on. The leader says if the logs diverge (KIP-595), and the follower truncates its own. A
log without leader epochs cannot be compared: records above its high watermark are removed before the first fetch.

The cost of a fetch depends on the number of changes: only the partitions in ``_changed`` are examined for the next request.

After an error, the leader's or our own, a partition is left alone for ``replica.fetch.backoff.ms`` and then tried again, until the
controller says otherwise or its log directory goes offline. If the leader does not know yet that it is, which takes milliseconds,
the first pauses are shorter. Only a partition with a later leader is not fetched before the controller says who that is.
"""

import heapq
from collections.abc import Callable, Generator, Iterable
from enum import Enum
from typing import Final, NamedTuple, cast

from twisted.logger import Logger

from twisted_kafka.log.leader_epoch import UNDEFINED_EPOCH, UNDEFINED_OFFSET
from twisted_kafka.log.results import EpochEndOffset
from twisted_kafka.metrics.instruments import Meter
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import (
    CorruptRecordError,
    ErrorCode,
    FencedLeaderEpochError,
    KafkaStorageError,
    error_code_of,
)
from twisted_kafka.protocol.messages.fetch import FetchResponse, PartitionData
from twisted_kafka.protocol.messages.list_offsets import ListOffsetsResponse
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.fetching.fetch_session_handler import INITIAL_EPOCH, FetchSessionHandler, SessionRequest, Wanted
from twisted_kafka.replication.fetching.leader_requests import (
    EARLIEST,
    LATEST,
    LeaderRequests,
    Outgoing,
    fetched,
    listed,
)
from twisted_kafka.replication.partition.partition import Partition
from twisted_kafka.replication.replication_quota_manager import ReplicationQuotaManager
from twisted_kafka.system import machine
from twisted_kafka.timing.clock import IClock

_SESSION_ERRORS: Final = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR}
)
"""After these the next request begins another session, at once; later if the refused one had begun a session."""

_NOT_LEADING_YET: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""The errors of a broker that does not know yet that it is the leader, while its follower does."""

FIRST_BACKOFF_MS: Final = 10
"""The first pause after such an answer; each further one is twice as long."""

_log = Logger()


class Pause(NamedTuple):
    """A wait of ``ms`` milliseconds, or until there is work if that is sooner; with None, only until there is work."""

    ms: int | None


class Overtaken(Enum):
    """Sent to the work instead of the answer to a waiting fetch, when there are partitions that the fetch does not have."""

    OVERTAKEN = "overtaken"


Answer = Message | Exception | Overtaken | None
Work = Generator["Outgoing | Pause", Answer, None]


class FetcherHost(NamedTuple):
    """The parts that the fetchers of a broker share."""

    clock: IClock
    requests: LeaderRequests
    quota: ReplicationQuotaManager
    backoff_ms: int
    """``replica.fetch.backoff.ms``."""
    broker_epoch: Callable[[], int]
    on_appended: Callable[[Partition, int], object]
    """Is called with the bytes that were appended to a partition."""
    on_high_watermark: Callable[[TopicPartition], object]
    """Is called when consumers may read more, without any lock."""


class FetchState:
    """A partition on its way (Kafka: ``PartitionFetchState``)."""

    __slots__ = (
        "early",
        "fetch_offset",
        "has_unknown_end",
        "lag",
        "last_fetched_epoch",
        "leader_epoch",
        "not_before_ns",
        "partition",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.lag: int | None = None
        """In records; None before the first answer."""
        self.not_before_ns = 0
        self.early = 0
        """How often in a row the leader did not know that it is."""
        self.go_on()
        log = partition.log
        self.has_unknown_end = self.last_fetched_epoch == UNDEFINED_EPOCH and log.log_end_offset > log.high_watermark
        """Whether the log may end with records that the leader lacks, without the leader noticing: the log has no epochs."""

    def next_backoff_ms(self, why: object, most_ms: int) -> int:
        """Return how long to leave the partition alone after an error."""
        if why not in _NOT_LEADING_YET:
            return most_ms
        self.early += 1
        return min(FIRST_BACKOFF_MS << min(self.early - 1, 16), most_ms)

    def go_on(self) -> None:
        """Fetch at the log's end from now on."""
        log = self.partition.log
        self.fetch_offset = log.log_end_offset
        self.last_fetched_epoch = log.latest_epoch

    def wanted(self) -> Wanted:
        """Return the fetch of the partition."""
        partition = self.partition
        start_offset = partition.log.log_start_offset
        return Wanted(partition.topic_id, self.fetch_offset, start_offset, self.leader_epoch, self.last_fetched_epoch)


class ReplicaFetcher:
    """The partitions that are copied from one leader. Any thread may add and remove some; one thread at a time works."""

    def __init__(self, host: FetcherHost, requests: Meter, size: Meter, wake: Callable[[], object]) -> None:
        """``requests`` and ``size`` count fetches and their bytes. ``wake`` makes the worker look at the changes."""
        self._host = host
        self._session = FetchSessionHandler()
        self._lock = machine.Lock()
        self._states: dict[TopicPartition, FetchState] = {}
        self._changed: dict[TopicPartition, None] = {}
        """The partitions whose next fetch may differ from their last."""
        self._delayed: list[tuple[int, TopicPartition]] = []
        """A heap of when partitions may be fetched again; later delays and removals are noticed then."""
        self._behind: set[TopicPartition] = set()
        """The partitions that are not in sync, as far as is known: a quota applies to them."""
        self._held: dict[TopicPartition, None] = {}
        """The partitions that the quota holds back."""
        self._failed: set[TopicPartition] = set()
        self._is_out_of_step = False
        """Whether the leader may believe that the follower had an answer that it did not take."""
        self._wake = wake
        self.may_be_overtaken = False
        """Whether the work waits for a fetch, and may be sent OVERTAKEN. For the thread that works."""
        self.requests = requests
        self.size = size

    # Called on any thread.

    def add(self, partitions: Iterable[Partition]) -> None:
        """Copy these partitions, from the ends of their logs on. A copy in progress in the same leader epoch continues."""
        with self._lock:
            for partition in partitions:
                topic_partition = partition.topic_partition
                self._failed.discard(topic_partition)
                known = self._states.get(topic_partition)
                if known is None or known.leader_epoch != partition.leader_epoch:
                    self._states[topic_partition] = FetchState(partition)
                    self._changed[topic_partition] = None
                    self._behind.add(topic_partition)
        self._wake()

    def remove(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Stop copying these partitions; return when nothing of them will be appended any more.

        Without any of them this does not wait for an append: another fetcher's partitions are not on the disk that stalls.
        """
        known = [each for each in topic_partitions if each in self._states or each in self._failed]
        if not known:
            return
        with self._lock:
            for topic_partition in known:
                self._drop(topic_partition)
                self._failed.discard(topic_partition)

    def _drop(self, topic_partition: TopicPartition) -> None:
        if self._states.pop(topic_partition, None) is not None:
            self._changed[topic_partition] = None
            self._behind.discard(topic_partition)
            self._held.pop(topic_partition, None)

    def remove_all(self) -> list[Partition]:
        """Stop copying; return the partitions."""
        partitions = [state.partition for state in list(self._states.values())]
        self.remove([each.topic_partition for each in partitions])
        return partitions

    def retry(self) -> None:
        """Retry partitions at once that were delayed by an error."""
        with self._lock:
            delayed, self._delayed = self._delayed, []
            for _, topic_partition in delayed:
                state = self._states.get(topic_partition)
                if state is not None:
                    state.not_before_ns = 0
                    self._changed[topic_partition] = None
        if delayed:
            self._wake()

    # Gauges ask for the following, without the lock: an append holds it while its disk stalls.

    @property
    def count(self) -> int:
        """The number of partitions, including failed ones."""
        return len(self._states.keys() | self._failed) if self._failed else len(self._states)

    @property
    def is_idle(self) -> bool:
        """Whether there is no partition. It costs the same for any number of them."""
        return not self._states and not self._failed

    @property
    def failed(self) -> set[TopicPartition]:
        """The partitions that cannot be copied at the moment, because of this broker or until the controller says more."""
        return self._failed.copy()

    def lag(self, topic_partition: TopicPartition) -> int:
        """Return by how many records a partition is behind; 0 if that is not known."""
        state = self._states.get(topic_partition)
        return 0 if state is None else state.lag or 0

    @property
    def max_lag(self) -> int:
        """The largest lag of a partition, in records."""
        return max((state.lag or 0 for state in list(self._states.values())), default=0)

    # The work.

    def work(self) -> Work:
        """Copy for ever."""
        self.may_be_overtaken = False
        while True:
            request = self._next_request()
            if request is None:
                yield self._pause()
                continue
            self.requests.mark()
            self.may_be_overtaken = self._session.may_be_overtaken
            # The leader waits no longer than until more has to be asked.
            answer = yield self._host.requests.fetch(request, self._host.broker_epoch(), self._pause_ms())
            self.may_be_overtaken = False
            if answer is Overtaken.OVERTAKEN:
                self._session.overtaken()
            elif isinstance(answer, FetchResponse):
                yield from self._take(answer, began_session=request.session_epoch == INITIAL_EPOCH)
            else:
                self._session.failed()
                self._delay(list(self._session), answer)

    @property
    def has_changes(self) -> bool:
        """Whether there is something to ask for that the last request did not have."""
        return bool(self._changed)

    def answered_late(self, answer: Answer) -> None:
        """Note the answer to a fetch that was overtaken; for the thread that works.

        Usually it says that the session is at a later epoch. A leader that answered before it had the next request believes that
        the follower has its data: only another session sends it again.
        """
        if isinstance(answer, FetchResponse) and answer.responses:
            self._is_out_of_step = True

    def _next_request(self) -> SessionRequest | None:
        """Return the next fetch; None if there is nothing to fetch now."""
        if self._is_out_of_step:
            self._is_out_of_step = False
            self._session.failed()
        now_ns = self._host.clock.monotonic_ns()
        with self._lock:
            while self._delayed and self._delayed[0][0] <= now_ns:
                self._changed[heapq.heappop(self._delayed)[1]] = None
            if self._host.quota.has_throttled:
                self._changed.update(dict.fromkeys(self._behind))
            changed, self._changed = self._changed | self._held, {}
            changes = {each: self._wanted(each, now_ns) for each in changed}
        request = self._session.build(changes)
        return request if len(self._session) or request.forgotten else None

    def _wanted(self, topic_partition: TopicPartition, now_ns: int) -> Wanted | None:
        """Return the fetch of a partition; None if there is nothing to fetch at the moment. Call it with the lock."""
        state = self._states.get(topic_partition)
        if state is None or state.not_before_ns > now_ns:
            return None
        if self._is_throttled(topic_partition):
            self._held[topic_partition] = None
            return None
        self._held.pop(topic_partition, None)
        if state.has_unknown_end:
            why = self._attempt(topic_partition, state, self._cut_unknown_end)
            if why is not None:
                self._leave_alone(topic_partition, state, now_ns, self._host.backoff_ms)
                _log.warn("{partition}: not fetched for now: {why}", partition=str(topic_partition), why=why)
                return None
        return state.wanted()

    def _is_throttled(self, topic_partition: TopicPartition) -> bool:
        quota = self._host.quota  # partitions in sync are not throttled
        return quota.has_throttled and topic_partition in self._behind and quota.is_throttled(topic_partition) and quota.is_exceeded

    def _pause(self) -> Pause:
        """Return a pause until the first partition may be fetched again, without partitions one without end."""
        return Pause(self._pause_ms() if self._states else None)

    def _pause_ms(self) -> int:
        now_ns, most_ms = self._host.clock.monotonic_ns(), self._host.backoff_ms
        with self._lock:
            left_ns = self._delayed[0][0] - now_ns if self._delayed else 0
        # One that the quota holds back has nothing to wait for.
        return min(most_ms, -(-left_ns // 1_000_000)) if left_ns > 0 else most_ms

    # Errors.

    def _attempt(self, topic_partition: TopicPartition, state: FetchState, action: Callable[[FetchState], object]) -> str | None:
        """Do something to a partition's log; return why it has to be tried again, None if it has not. Call it with the lock.

        This is the only place that says what an error of our own means: any error may be over after a pause. A disk that
        fails takes its partitions away from here.
        """
        try:
            action(state)
        except FencedLeaderEpochError:
            return None  # this thread is not informed yet
        except CorruptRecordError as error:
            return str(error)  # the next fetch may get intact records
        except Exception as error:  # noqa: BLE001 one partition must not stop the others
            if topic_partition not in self._failed:
                self._failed.add(topic_partition)
                if not isinstance(error, KafkaStorageError):
                    _log.failure("Cannot copy {partition}", partition=str(topic_partition))
            state.go_on()
            return str(error) or type(error).__name__
        self._failed.discard(topic_partition)
        return None

    def _delay(self, topic_partitions: Iterable[TopicPartition], why: object) -> None:
        """Leave these partitions alone for a while."""
        now_ns, most_ms = self._host.clock.monotonic_ns(), self._host.backoff_ms
        delayed = []
        with self._lock:
            for topic_partition in topic_partitions:
                state = self._states.get(topic_partition)
                if state is not None:
                    backoff_ms = state.next_backoff_ms(why, most_ms)
                    self._leave_alone(topic_partition, state, now_ns, backoff_ms)
                    if backoff_ms == most_ms:
                        delayed.append(str(topic_partition))
        if delayed:
            more = f" and {len(delayed) - 1} others" if len(delayed) > 1 else ""
            said = why.name if isinstance(why, ErrorCode) else why
            _log.warn("{partition}{more}: not fetched for now: {why}", partition=delayed[0], more=more, why=said)

    def _leave_alone(self, topic_partition: TopicPartition, state: FetchState, now_ns: int, backoff_ms: int) -> None:
        state.not_before_ns = now_ns + backoff_ms * 1_000_000
        heapq.heappush(self._delayed, (state.not_before_ns, topic_partition))
        self._changed[topic_partition] = None

    def _fenced(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """Stop fetching a partition until the controller names its leader. Call it with the lock.

        This is no error: when leaders change, some brokers learn it before their followers.
        """
        _log.info(
            "{partition} has a leader with a later epoch than {epoch}: not fetched until the controller says more",
            partition=str(topic_partition),
            epoch=leader_epoch,
        )
        self._drop(topic_partition)
        self._failed.add(topic_partition)

    # Responses.

    def _take(self, response: FetchResponse, *, began_session: bool) -> Work:
        if not self._session.answered(response.error_code, response.session_id):
            if began_session or response.error_code not in _SESSION_ERRORS:
                self._delay(list(self._session), error_code_of(response.error_code))
            return
        failed: dict[ErrorCode | str, list[TopicPartition]] = {}
        out_of_range: list[tuple[TopicPartition, Wanted]] = []
        for topic_partition, data in fetched(response, self._session.topic_name):
            asked = self._session.asked(topic_partition)
            if asked is None:
                continue
            error = self._take_partition(topic_partition, asked, data)
            if error == ErrorCode.OFFSET_OUT_OF_RANGE:
                out_of_range.append((topic_partition, asked))
            elif error is not None:
                failed.setdefault(error, []).append(topic_partition)
        for topic_partition, asked in out_of_range:
            yield from self._reset(topic_partition, asked)
        for why, topic_partitions in failed.items():
            self._delay(topic_partitions, why)

    def _take_partition(self, topic_partition: TopicPartition, asked: Wanted, data: PartitionData) -> "ErrorCode | str | None":
        """Append the fetched records of a partition. Return the reason to pause its fetches for a while, or None."""
        with self._lock:
            state = self._states.get(topic_partition)
            if state is None or not _is_answer_to(asked, state):
                return None
            if data.error_code == ErrorCode.FENCED_LEADER_EPOCH:
                self._fenced(topic_partition, state.leader_epoch)
                return None
            if data.error_code:
                return error_code_of(data.error_code)
            has_moved = False

            def take(state: FetchState) -> None:
                nonlocal has_moved
                if data.diverging_epoch is not None and data.diverging_epoch.epoch != UNDEFINED_EPOCH:
                    diverging = data.diverging_epoch
                    self._truncate_one(state, EpochEndOffset(diverging.epoch, diverging.end_offset))
                    state.go_on()
                else:
                    has_moved = self._append(topic_partition, state, data)

            why = self._attempt(topic_partition, state, take)
            if state.wanted() != asked:
                self._changed[topic_partition] = None
        if has_moved:
            self._host.on_high_watermark(topic_partition)
        return why

    def _append(self, topic_partition: TopicPartition, state: FetchState, data: PartitionData) -> bool:
        """Append, and take over the leader's watermarks; return whether the high watermark moved."""
        partition, records = state.partition, data.records
        size_bytes = 0
        if records is not None and len(records):
            info = partition.append_as_follower(cast("Buffer", records), state.fetch_offset, state.leader_epoch)
            size_bytes = info.size_bytes
        state.early = 0
        has_moved = partition.leader_said(data.high_watermark, data.log_start_offset)
        if size_bytes or state.lag is None:
            state.go_on()
        state.lag = max(0, data.high_watermark - state.fetch_offset)
        if state.lag:
            self._behind.add(topic_partition)
        else:
            self._behind.discard(topic_partition)
        if size_bytes:
            self.size.mark(size_bytes)
            self._host.on_appended(partition, size_bytes)
            if self._host.quota.has_throttled and self._host.quota.is_throttled(topic_partition):
                self._host.quota.record(size_bytes)
        return has_moved

    # Truncation.

    @staticmethod
    def _cut_unknown_end(state: FetchState) -> None:
        """Remove all above the high watermark: nothing of it can be relied on."""
        state.partition.truncate_to(state.partition.log.high_watermark, state.leader_epoch)
        state.has_unknown_end = False
        state.go_on()

    @staticmethod
    def _truncate_one(state: FetchState, end: EpochEndOffset) -> None:
        """Truncate to what both logs have, as far as is known; the next fetch says if more has to go.

        ``end`` is the leader's largest epoch up to that of the last record here, and where it ended.
        """
        partition, epoch = state.partition, state.leader_epoch
        log = partition.log
        if end.end_offset == UNDEFINED_OFFSET:  # the leader has no epochs: nothing above the high watermark can be relied on
            partition.truncate_to(log.high_watermark, epoch)
            return
        own = log.end_offset_for_epoch(end.leader_epoch)
        if own.end_offset == UNDEFINED_OFFSET:
            partition.truncate_to(end.end_offset, epoch)
        elif own.leader_epoch == end.leader_epoch:
            partition.truncate_to(min(own.end_offset, end.end_offset), epoch)
        else:  # the leader's epoch is unknown here: what follows the epoch before it goes
            partition.truncate_to(own.end_offset, epoch)

    def _reset(self, topic_partition: TopicPartition, asked: Wanted) -> Work:
        """Go on where the leader's log allows, as it does not have the offset that was fetched (Kafka: ``fetchOffsetAndTruncate``).

        If its log ends before that offset, an unclean election made it the leader: the follower removes the records behind. If its
        log begins after that offset, the follower was away for long, and removes all records.
        """
        requests = self._host.requests
        offsets = []
        for timestamp in (LATEST, EARLIEST):
            answer = yield requests.offset(topic_partition, asked.leader_epoch, timestamp)
            code, offset = listed(answer) if isinstance(answer, ListOffsetsResponse) else (0, -1)
            if offset < 0:
                why = error_code_of(code) if code else answer
                self._delay([topic_partition], f"its offset {asked.fetch_offset} is out of range at the leader, and then: {why}")
                return
            offsets.append(offset)
        end_offset, start_offset = offsets
        with self._lock:
            state = self._states.get(topic_partition)
            if state is None or not _is_answer_to(asked, state):
                return
            log = state.partition.log
            _log.warn(
                "{partition}: offset {offset} is out of the leader's range, {start} to {end}: fetching from the nearest offset",
                partition=str(topic_partition),
                offset=asked.fetch_offset,
                start=start_offset,
                end=end_offset,
            )
            has_changed_meanwhile = log.log_end_offset <= end_offset and start_offset <= log.log_end_offset

            def reset(state: FetchState) -> None:
                if end_offset < log.log_end_offset:
                    state.partition.truncate_to(end_offset, state.leader_epoch)
                elif start_offset > log.log_end_offset:
                    state.partition.truncate_fully_and_start_at(start_offset, state.leader_epoch)
                state.go_on()

            failure = self._attempt(topic_partition, state, reset)
            self._changed[topic_partition] = None
        if failure is not None or has_changed_meanwhile:  # the next fetch may be in range
            self._delay([topic_partition], failure or "the leader's log has changed meanwhile")


def _is_answer_to(asked: Wanted, state: FetchState) -> bool:
    """Return whether the partition is still in the state of the request. It may have been removed and added, or truncated."""
    return asked.fetch_offset == state.fetch_offset and asked.leader_epoch == state.leader_epoch
