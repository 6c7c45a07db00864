"""The coordinators' runtime, producer ids, and share partitions."""

import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from typing_extensions import override

from tests.stress.crew import STUCK_S, Crew, wait_for
from tests.support.coordinator_fakes import Bench, MemoryLog
from tests.support.share_bench import KEY, ShareBench
from twisted_kafka.config.group_configs import ShareGroupConfigs
from twisted_kafka.coordinator.interfaces import Appended
from twisted_kafka.group_coordinator.offsets.offset_metadata_manager import OffsetFetch
from twisted_kafka.group_coordinator.requests import Sender
from twisted_kafka.metadata import shared
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.messages.share import share_state as wire
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.topic_partition import TopicPartition
from twisted_kafka.share.acknowledgements import ACCEPT, RELEASE, AcknowledgementBatch
from twisted_kafka.share.in_flight_records import Acquisition
from twisted_kafka.share.persister import IPersister
from twisted_kafka.share.share_partition import SharePartition, SharePartitionEnvironment
from twisted_kafka.timing.clock import SystemClock
from twisted_kafka.timing.scheduler import Action, KafkaScheduler, ManualScheduler, ScheduledTask
from twisted_kafka.timing.timer import Timer
from twisted_kafka.transaction_coordinator.producer_id_manager import BLOCK_SIZE, ProducerIdManager

PARTITION = TopicPartition("t", 0)
GROUPS = 6
NOT_NOW = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE}


class SlowReplicas(MemoryLog):
    """A log whose replicas confirm appends from another thread."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._waiting: list[tuple[Future[Any], TopicPartition, int]] = []

    @override
    def append(self, partition: TopicPartition, batch: Any, guard: object) -> Appended | ErrorCode:
        future: Future[Any] = Future()
        with self._lock:
            base_offset = self.end_offsets[partition]
            data = base_offset.to_bytes(8, "big") + bytes(batch)[8:]
            self.batches[partition].append(data)
            self.end_offsets[partition] = end = next(iter(batches(data))).last_offset + 1
            self.uncommitted.setdefault(partition, base_offset)
            self._waiting.append((future, partition, end))
        return Appended(base_offset, future)

    def confirm(self) -> None:
        """Let the replicas have what was appended so far."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            ends = {partition: end for _, partition, end in waiting}
            for partition, end in ends.items():
                if self.end_offsets[partition] == end:
                    self.uncommitted.pop(partition, None)
                else:
                    self.uncommitted[partition] = end
        for future, _, _ in waiting:
            future.set_result(ErrorCode.NONE)


class Threads(ManualScheduler):
    """Runs tasks on threads, and none in ``run_due``."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self._threads = KafkaScheduler(SystemClock(), 2)
        self._threads.startup()

    @override
    def shutdown(self, timeout_s: float = 10.0) -> None:
        self._threads.shutdown(timeout_s)

    @override
    def schedule_once(self, name: str, action: Action, delay_ms: float = 0) -> ScheduledTask:
        return self._threads.schedule_once(name, action, delay_ms)

    @override
    def schedule(self, name: str, action: Action, delay_ms: float, period_ms: float) -> ScheduledTask:
        return self._threads.schedule(name, action, delay_ms, period_ms)


class ThreadedBench(Bench):
    """A coordinator whose scheduler has threads."""

    @override
    def make_scheduler(self) -> ManualScheduler:
        return Threads()


def _of(answer: Any) -> Any:
    return answer.result(STUCK_S) if isinstance(answer, Future) else answer


def coordinators(crew: Crew) -> None:
    """A commit that was answered is read afterwards, and each partition's records give its state again after it has moved."""
    log = SlowReplicas()
    bench = ThreadedBench(partitions=2, log=log)
    wait_for(lambda: len(bench.runtime.active_partitions()) == 2, "a partition is not loaded")
    committed: dict[str, int] = {}
    owners = threading.local()
    free = [f"group-{number}" for number in range(GROUPS)]

    def commit(own: random.Random) -> None:
        group_id = getattr(owners, "group_id", None)
        if group_id is None:
            group_id = owners.group_id = free.pop()
        offset = committed.get(group_id, 0) + 1
        answer = _of(bench.groups.commit_offsets(Sender(group_id), {PARTITION: OffsetCommitValue(offset=offset)}, 9))
        error = answer if isinstance(answer, ErrorCode) else answer[PARTITION]
        if error:
            assert error in NOT_NOW, error
            return
        committed[group_id] = offset
        error, offsets = _of(bench.groups.fetch_offsets(OffsetFetch(Sender(group_id), [PARTITION], False)))
        assert error in NOT_NOW or offsets[PARTITION].offset == offset, f"{offset} was committed, but not {offsets}"

    epochs = [0]

    def move(own: random.Random) -> None:
        epochs[0] += 1
        partition = own.randrange(2)
        bench.runtime.on_leadership_change([], [(partition, epochs[0])])
        bench.runtime.on_leadership_change([(partition, epochs[0])], [])
        wait_for(lambda: len(bench.runtime.active_partitions()) == 2, "a partition is not loaded")
        bench.groups.list_groups((), ())

    is_over = threading.Event()

    def confirm() -> None:
        while not is_over.is_set():
            log.confirm()

    crew.add_server(confirm)
    crew.add(commit, GROUPS // 2)
    crew.add(move)
    try:
        crew.run(is_over.set)
        log.confirm()
        assert bench.runtime.queue_size() == 0
        offsets: dict[str, int] = {}
        for partition in range(2):
            for record in bench.written(partition):
                assert record.value.offset >= offsets.get(record.key.group, 0)
                offsets[record.key.group] = record.value.offset
        for group_id, offset in committed.items():
            assert offset <= offsets[group_id] <= offset + 1, "what was committed is in the log"
    finally:
        bench.scheduler.shutdown()


def producer_ids(crew: Crew) -> None:
    """No id is given twice, by one broker or by two."""
    connect = shared.new_connect()
    clock = SystemClock()
    shared.share(connect, clock)
    try:
        managers = []
        for broker_id in range(2):
            store = shared.open_shared(f"{connect}@{broker_id}", threaded=False)
            if not broker_id:
                store.create("/latest_producer_id_block", b"")
            managers.append(ProducerIdManager(broker_id, store))
        given: list[int] = []
        crew.add(lambda own: given.append(own.choice(managers).next_producer_id()), 4)
        crew.run()
        assert len(set(given)) == len(given), "an id is given twice"
        assert max(given) < len(given) + 2 * BLOCK_SIZE
    finally:
        shared.unshare(connect)


class Coordinator(IPersister):
    """The share coordinator, asked from any thread."""

    def __init__(self, bench: ShareBench) -> None:
        self._bench = bench

    def _ask(self, method: Callable[[Any], Any], request: Any) -> "Future[Any]":
        answer: Future[Any] = Future()
        response = method(request)
        if isinstance(response, Future):
            return response
        answer.set_result(response)
        return answer

    @override
    def read_state(self, request: wire.ReadShareGroupStateRequest) -> "Future[wire.ReadShareGroupStateResponse]":
        return self._ask(self._bench.shares.read_state, request)

    @override
    def write_state(self, request: wire.WriteShareGroupStateRequest) -> "Future[wire.WriteShareGroupStateResponse]":
        return self._ask(self._bench.shares.write_state, request)

    def _unused(self, request: Any) -> "Future[Any]":
        raise AssertionError("the leader of a partition does not ask this")

    initialize_state = delete_state = read_state_summary = _unused


def share_partitions(crew: Crew) -> None:
    """A record has one owner at a time and is accepted once, and a fetch that had to wait for another one is called."""
    bench = ShareBench()
    assert not bench.initialize(start_offset=0).error_code
    configs = ShareGroupConfigs(600_000, 1_000_000, 200, "read_uncommitted", "earliest", True, "", False)
    timer = Timer(SystemClock())
    environment = SharePartitionEnvironment(SystemClock(), timer, Coordinator(bench), lambda _: configs, lambda _: False)
    share = SharePartition(KEY, 0, environment, lambda _: 0, bool, bool, bool)
    assert not share.initialize().result(STUCK_S).error
    owners: dict[int, object] = {}
    accepted: list[int] = []

    def consume(own: random.Random) -> None:
        member = str(threading.get_ident())
        if not share.lock_fetch():
            return
        try:
            start = share.next_fetch_offset
            asked = Acquisition(member, own.randint(1, 20), 5, True, share.due_ns())
            acquired = share.acquire(asked, start, [(start + 10 * number, start + 10 * number + 9) for number in range(3)])
        finally:
            share.unlock_fetch()
        for each in acquired:
            offsets = range(each.first_offset, each.last_offset + 1)
            for offset in offsets:
                assert owners.setdefault(offset, member) == member, f"{offset} has two owners"
            is_final = own.random() < 0.8
            if not is_final:
                for offset in offsets:
                    del owners[offset]
            batch = AcknowledgementBatch(each.first_offset, each.last_offset, [ACCEPT if is_final else RELEASE])
            assert not share.acknowledge(member, [batch]).result(STUCK_S).error
            accepted.extend(offsets if is_final else ())

    crew.add(consume, 4)
    crew.run()
    assert max(Counter(accepted).values(), default=1) == 1, "a record is accepted twice"
    start, _, runs = share.snapshot()
    ended = {offset for first, last, state, _, _ in runs if state.is_terminal for offset in range(first, last + 1)}
    assert {*range(start), *ended} == set(accepted), "what was accepted is complete"
    assert bench.read().start_offset <= start


def fetch_rights(crew: Crew) -> None:
    """A fetch that did not get the right to fetch is tried again when the right is given back."""
    bench = ShareBench()
    assert not bench.initialize(start_offset=0).error_code
    configs = ShareGroupConfigs(600_000, 5, 200, "read_uncommitted", "earliest", True, "", False)
    environment = SharePartitionEnvironment(bench.clock, bench.timer, Coordinator(bench), lambda _: configs, lambda _: False)
    share = SharePartition(KEY, 0, environment, lambda _: 0, bool, bool, bool)
    assert not share.initialize().result(STUCK_S).error
    lock = threading.Lock()
    waiting: list[threading.Event] = []

    def give_back() -> None:
        """Do as a fetch does when it ends: try all again that wait."""
        if share.unlock_fetch():
            with lock:
                tried = list(waiting)
            for each in tried:
                each.set()

    def fetch(_: random.Random) -> None:
        tried_again = threading.Event()
        with lock:
            waiting.append(tried_again)
        while not share.lock_fetch():
            assert tried_again.wait(STUCK_S), "a fetch that waits is not tried again"
            tried_again.clear()
        with lock:
            waiting.remove(tried_again)
        give_back()

    crew.add(fetch, 4)
    crew.run()
    assert share.lock_fetch()
