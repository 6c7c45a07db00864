"""ReplicaFetcher: copies partitions from one leader, one request at a time, without any I/O of the network.

``work`` is a generator: it yields a request or a pause, and is sent the response, the error that there was instead of one, or None
after a pause. So it runs on a client's thread, and in tests step by step.

A partition is in one of two states (Kafka: ``ReplicaState``):

    truncating   its log may have what the leader's has not: the leader is asked where the log's last epoch ended (KIP-101,
                 KIP-279), or, without epochs, all above the high watermark is removed       -> fetching
    fetching     from the log's end on. The leader says if it diverges (KIP-595), which is truncated then; with leaders that do
                 not compare epochs, followers begin with truncating

After an error a partition is left alone for ``replica.fetch.backoff.ms``. If the leader does not know yet that it is, which takes
milliseconds, the first pauses are shorter. A partition whose log cannot be written, or whose leader is not
the latest any more, has failed: it is fetched again when the controller says who leads it.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from twisted.logger import Logger

from twisted_kafka.log.leader_epoch import UNDEFINED_EPOCH, UNDEFINED_OFFSET
from twisted_kafka.log.results import EpochEndOffset
from twisted_kafka.metrics.instruments import Meter
from twisted_kafka.protocol.codec import Message
from twisted_kafka.protocol.errors import (
    CorruptRecordError,
    ErrorCode,
    FencedLeaderEpochError,
    KafkaStorageError,
    error_code_of,
)
from twisted_kafka.protocol.messages.fetch import FetchResponse, PartitionData
from twisted_kafka.protocol.messages.list_offsets import ListOffsetsResponse, OffsetForLeaderEpochResponse
from twisted_kafka.protocol.regions import Buffer
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.replication.fetching.fetch_session_handler import FetchSessionHandler, Wanted
from twisted_kafka.replication.fetching.leader_requests import (
    EARLIEST,
    LATEST,
    LeaderRequests,
    Outgoing,
    all_have_ids,
    ends_of_epochs,
    fetched,
    listed,
)
from twisted_kafka.replication.partition.partition import Partition
from twisted_kafka.replication.replication_quota_manager import ReplicationQuotaManager
from twisted_kafka.timing.clock import IClock

NO_EPOCH: Final = -1

_SESSION_ERRORS: Final = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR}
)
"""After these the next request begins another session, at once."""

_NOT_LEADING_YET: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""What a broker answers that the controller has not made the leader yet, although it has told the follower."""

FIRST_BACKOFF_MS: Final = 10
"""The first pause after such an answer; each further one is twice as long."""

_log = Logger()


class Pause(NamedTuple):
    """A wait of so many milliseconds, or until there is something to do if that is sooner; None: only until then."""

    ms: int | None


Answer = Message | Exception | None
Work = Generator["Outgoing | Pause", Answer, None]


class FetcherHost(NamedTuple):
    """What the fetchers of a broker share."""

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
    on_failed: Callable[[TopicPartition], object]
    """Is called when a partition is not fetched any more. It may not call the fetcher."""


class FetchState:
    """A partition on its way (Kafka: ``PartitionFetchState``)."""

    __slots__ = (
        "early",
        "fetch_offset",
        "is_truncating",
        "lag",
        "last_fetched_epoch",
        "leader_epoch",
        "not_before_ns",
        "partition",
    )

    def __init__(self, partition: Partition, truncates_on_fetch: bool) -> None:
        log = partition.log
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.last_fetched_epoch = log.latest_epoch
        has_epochs = truncates_on_fetch and self.last_fetched_epoch != UNDEFINED_EPOCH
        self.is_truncating = not has_epochs
        self.fetch_offset = log.log_end_offset if has_epochs else log.high_watermark
        self.lag: int | None = None
        """In records; None before the first answer."""
        self.not_before_ns = 0
        self.early = 0
        """How often in a row the leader did not know that it is."""

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
        self.is_truncating = False


class ReplicaFetcher:
    """The partitions that are copied from one leader. Any thread may add and remove some; one thread at a time works."""

    def __init__(self, host: FetcherHost, requests: Meter, size: Meter, wake: Callable[[], object]) -> None:
        """``requests`` and ``size`` count fetches and their bytes. ``wake`` ends the worker's pause."""
        self._host = host
        self._session = FetchSessionHandler()
        self._lock = threading.Lock()
        self._states: dict[TopicPartition, FetchState] = {}
        self._wake = wake
        self.requests = requests
        self.size = size

    # Called on any thread.

    def add(self, partitions: Iterable[Partition]) -> None:
        """Copy these partitions, from their logs' ends on. One that is copied in the same leader epoch goes on."""
        truncates_on_fetch = self._host.requests.versions.truncates_on_fetch
        with self._lock:
            for partition in partitions:
                known = self._states.get(partition.topic_partition)
                if known is None or known.leader_epoch != partition.leader_epoch:
                    self._states[partition.topic_partition] = FetchState(partition, truncates_on_fetch)
        self._wake()

    def remove(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Stop copying these partitions; return when nothing of them will be appended any more."""
        with self._lock:
            for topic_partition in topic_partitions:
                self._states.pop(topic_partition, None)

    def remove_all(self) -> list[Partition]:
        """Stop copying; return the partitions."""
        with self._lock:
            states, self._states = self._states, {}
        return [state.partition for state in states.values()]

    def retry(self) -> None:
        """Try again at once what is left alone because of an error."""
        with self._lock:
            for state in self._states.values():
                state.not_before_ns = 0
        self._wake()

    @property
    def count(self) -> int:
        """The number of partitions."""
        return len(self._states)

    def lags(self) -> dict[TopicPartition, int]:
        """Return by how many records each partition is behind, where that is known."""
        with self._lock:
            return {each: state.lag for each, state in self._states.items() if state.lag is not None}

    # The work.

    def work(self) -> Work:
        """Copy for ever."""
        while True:
            yield from self._truncate()
            wanted = self._wanted()
            session = self._session.build(wanted)
            if not wanted and not session.forgotten:
                yield self._pause()
                continue
            has_ids = all_have_ids([each.topic_id for each in wanted.values()])
            self.requests.mark()
            answer = yield self._host.requests.fetch(session, self._host.broker_epoch(), has_ids=has_ids)
            if isinstance(answer, FetchResponse):
                yield from self._take(wanted, answer)
            else:
                self._session.failed()
                self._delay(wanted, answer)

    def _pause(self) -> Pause:
        """Return a pause until the first partition may be fetched again."""
        now_ns, most_ms = self._host.clock.monotonic_ns(), self._host.backoff_ms
        with self._lock:
            if not self._states:
                return Pause(None)
            left_ns = [state.not_before_ns - now_ns for state in self._states.values()]
        # One that the quota holds back has nothing to wait for.
        return Pause(min([most_ms, *(-(-ns // 1_000_000) for ns in left_ns if ns > 0)]))

    def _wanted(self) -> dict[TopicPartition, Wanted]:
        """Return what can be fetched now, in order of turn."""
        now_ns, truncates_on_fetch = self._host.clock.monotonic_ns(), self._host.requests.versions.truncates_on_fetch
        with self._lock:
            return {
                topic_partition: Wanted(
                    state.partition.topic_id,
                    state.fetch_offset,
                    state.partition.log.log_start_offset,
                    state.leader_epoch,
                    state.last_fetched_epoch if truncates_on_fetch else NO_EPOCH,
                )
                for topic_partition, state in self._states.items()
                if not state.is_truncating and state.not_before_ns <= now_ns and not self._is_throttled(topic_partition, state)
            }

    def _is_throttled(self, topic_partition: TopicPartition, state: FetchState) -> bool:
        quota = self._host.quota
        if not quota.has_throttled or (state.lag is not None and state.lag <= 0):
            return False  # who is in sync is not throttled
        return quota.is_throttled(topic_partition) and quota.is_exceeded

    def _delay(self, topic_partitions: Iterable[TopicPartition], why: object) -> None:
        """Leave these partitions alone for a while."""
        now_ns, most_ms = self._host.clock.monotonic_ns(), self._host.backoff_ms
        delayed = []
        with self._lock:
            for topic_partition in topic_partitions:
                state = self._states.get(topic_partition)
                if state is not None:
                    backoff_ms = state.next_backoff_ms(why, most_ms)
                    state.not_before_ns = now_ns + backoff_ms * 1_000_000
                    if backoff_ms == most_ms:
                        delayed.append(str(topic_partition))
        if delayed:
            more = f" and {len(delayed) - 1} others" if len(delayed) > 1 else ""
            said = why.name if isinstance(why, ErrorCode) else why
            _log.warn("{partition}{more}: not fetched for now: {why}", partition=delayed[0], more=more, why=said)

    def _fail(self, topic_partition: TopicPartition, why: object) -> None:
        """Stop fetching a partition until the controller says who leads it. Call it with the lock."""
        _log.error("{partition} is not fetched any more: {why}", partition=str(topic_partition), why=why)
        self._drop(topic_partition)

    def _fenced(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """Stop fetching likewise. This is no error: whenever leaders change, some are told before their followers."""
        _log.info(
            "{partition} has a leader with a later epoch than {epoch}: not fetched until the controller says more",
            partition=str(topic_partition),
            epoch=leader_epoch,
        )
        self._drop(topic_partition)

    def _drop(self, topic_partition: TopicPartition) -> None:
        self._states.pop(topic_partition, None)
        self._host.on_failed(topic_partition)

    # Responses.

    def _take(self, wanted: Mapping[TopicPartition, Wanted], response: FetchResponse) -> Work:
        if not self._session.answered(response.error_code, response.session_id):
            if response.error_code not in _SESSION_ERRORS:
                self._delay(wanted, error_code_of(response.error_code))
            return
        names = {each.topic_id: topic_partition.topic for topic_partition, each in wanted.items()}
        failed: dict[ErrorCode | str, list[TopicPartition]] = {}
        out_of_range: list[TopicPartition] = []
        for topic_partition, data in fetched(response, names):
            asked = wanted.get(topic_partition)
            if asked is None:
                continue
            error = self._take_partition(topic_partition, asked, data)
            if error == ErrorCode.OFFSET_OUT_OF_RANGE:
                out_of_range.append(topic_partition)
            elif error is not None:
                failed.setdefault(error, []).append(topic_partition)
        for topic_partition in out_of_range:
            yield from self._reset(topic_partition, wanted[topic_partition])
        for why, topic_partitions in failed.items():
            self._delay(topic_partitions, why)

    def _take_partition(self, topic_partition: TopicPartition, asked: Wanted, data: PartitionData) -> "ErrorCode | str | None":
        """Append what was fetched of a partition; return why it is to be left alone for a while, None if it is not."""
        with self._lock:
            state = self._states.get(topic_partition)
            if state is None or not _is_answer_to(asked, state):
                return None
            if data.error_code == ErrorCode.FENCED_LEADER_EPOCH:
                self._fenced(topic_partition, state.leader_epoch)
                return None
            if data.error_code:
                return error_code_of(data.error_code)
            try:
                if data.diverging_epoch is not None and data.diverging_epoch.epoch != UNDEFINED_EPOCH:
                    diverging = data.diverging_epoch
                    self._truncate_one(state, EpochEndOffset(diverging.epoch, diverging.end_offset))
                    state.go_on()
                    return None
                has_moved = self._append(topic_partition, state, data)
            except CorruptRecordError as error:
                return str(error)  # it may be intact the next time
            except FencedLeaderEpochError:
                return None  # this thread is not told yet
            except Exception as error:  # noqa: BLE001 one partition must not stop the others
                if not isinstance(error, KafkaStorageError):
                    _log.failure("Cannot append to {partition}", partition=str(topic_partition))
                self._fail(topic_partition, error)
                return None
        if has_moved:
            self._host.on_high_watermark(topic_partition)
        return None

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
            if len(self._states) > 1:  # it is the others' turn
                self._states[topic_partition] = self._states.pop(topic_partition)
        state.lag = max(0, data.high_watermark - state.fetch_offset)
        if size_bytes:
            self.size.mark(size_bytes)
            self._host.on_appended(partition, size_bytes)
            if self._host.quota.has_throttled and self._host.quota.is_throttled(topic_partition):
                self._host.quota.record(size_bytes)
        return has_moved

    # Truncation.

    def _truncate(self) -> Work:
        """Truncate the partitions in that state; ask the leader where epochs ended."""
        asked: dict[TopicPartition, tuple[int, int]] = {}
        now_ns = self._host.clock.monotonic_ns()
        for topic_partition, state in self._truncating(now_ns):
            epoch = state.partition.log.latest_epoch
            if epoch == UNDEFINED_EPOCH:
                self._truncate_to(topic_partition, state, state.fetch_offset)
            else:
                asked[topic_partition] = (state.leader_epoch, epoch)
        if not asked:
            return
        answer = yield self._host.requests.end_offsets(asked)
        if not isinstance(answer, OffsetForLeaderEpochResponse):
            self._delay(asked, answer)
            return
        for topic_partition, code, end in ends_of_epochs(answer):
            if topic_partition in asked:
                self._take_end(topic_partition, asked.pop(topic_partition)[0], code, end)
        self._delay(asked, "the leader did not say where its epoch ended")

    def _truncating(self, now_ns: int) -> Sequence[tuple[TopicPartition, FetchState]]:
        with self._lock:
            states = self._states.items()
            return [(each, state) for each, state in states if state.is_truncating and state.not_before_ns <= now_ns]

    def _take_end(self, topic_partition: TopicPartition, leader_epoch: int, code: int, end: EpochEndOffset) -> None:
        """Truncate to where an epoch ended at the leader."""
        with self._lock:
            state = self._states.get(topic_partition)
            if state is None or state.leader_epoch != leader_epoch or not state.is_truncating:
                return
            if code == ErrorCode.FENCED_LEADER_EPOCH:
                self._fenced(topic_partition, leader_epoch)
            elif not code:
                try:
                    if self._truncate_one(state, end):
                        state.go_on()
                except FencedLeaderEpochError:
                    pass  # this thread is not told yet
                except KafkaStorageError as error:
                    self._fail(topic_partition, error)
                return
        if code != ErrorCode.FENCED_LEADER_EPOCH:
            self._delay([topic_partition], error_code_of(code))

    def _truncate_to(self, topic_partition: TopicPartition, state: FetchState, offset: int) -> None:
        with self._lock:
            if self._states.get(topic_partition) is not state:
                return
            try:
                state.partition.truncate_to(offset, state.leader_epoch)
                state.go_on()
            except FencedLeaderEpochError:
                pass  # this thread is not told yet
            except KafkaStorageError as error:
                self._fail(topic_partition, error)

    @staticmethod
    def _truncate_one(state: FetchState, end: EpochEndOffset) -> bool:
        """Truncate to what both logs have, as far as is known; return whether that is all that has to go.

        ``end`` is the leader's largest epoch up to the one that was asked for, and where it ended.
        """
        partition, epoch = state.partition, state.leader_epoch
        log = partition.log
        if end.end_offset == UNDEFINED_OFFSET:  # the leader has no epochs: nothing above the high watermark can be relied on
            partition.truncate_to(log.high_watermark, epoch)
            return True
        own = log.end_offset_for_epoch(end.leader_epoch) if end.leader_epoch != UNDEFINED_EPOCH else None
        if own is None or own.end_offset == UNDEFINED_OFFSET:
            partition.truncate_to(end.end_offset, epoch)
            return True
        if own.leader_epoch == end.leader_epoch:
            partition.truncate_to(min(own.end_offset, end.end_offset), epoch)
            return True
        # The leader's epoch is unknown here. What follows the epoch before it goes, and the leader is asked about that one.
        partition.truncate_to(own.end_offset, epoch)
        return False

    def _reset(self, topic_partition: TopicPartition, asked: Wanted) -> Work:
        """Go on where the leader's log allows, as it does not have the offset that was fetched (Kafka: ``fetchOffsetAndTruncate``).

        If it ends before that, an unclean election made it the leader: what it does not have goes. If it begins after that, the
        follower was away for long: all goes.
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
                "{partition}: offset {offset} is out of range, the leader has {start} to {end}",
                partition=str(topic_partition),
                offset=asked.fetch_offset,
                start=start_offset,
                end=end_offset,
            )
            try:
                if end_offset < log.log_end_offset:
                    state.partition.truncate_to(end_offset, state.leader_epoch)
                elif start_offset > log.log_end_offset:
                    state.partition.truncate_fully_and_start_at(start_offset, state.leader_epoch)
                else:  # the leader's log has changed meanwhile: the next fetch may be in range
                    state.not_before_ns = self._host.clock.monotonic_ns() + self._host.backoff_ms * 1_000_000
                state.go_on()
            except FencedLeaderEpochError:
                pass  # this thread is not told yet
            except KafkaStorageError as error:
                self._fail(topic_partition, error)


def _is_answer_to(asked: Wanted, state: FetchState) -> bool:
    """Return whether the partition is as it was when it was asked for: it may have been removed and added, or truncated."""
    return asked.fetch_offset == state.fetch_offset and asked.leader_epoch == state.leader_epoch and not state.is_truncating
