"""Clients on many threads, replicas that confirm on another one, elections on a third: no answer is lost or ahead of the log."""

import random
import threading
from concurrent.futures import Future
from typing import Any

from tests.support.coordinator_fakes import Bench, MemoryLog
from twisted_kafka.coordinator.interfaces import Appended
from twisted_kafka.group_coordinator.offsets.offset_metadata_manager import OffsetFetch
from twisted_kafka.group_coordinator.requests import Sender
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.coordinator_records import OffsetCommitValue
from twisted_kafka.protocol.topic_partition import TopicPartition

PARTITION = TopicPartition("t", 0)
CLIENTS, ROUNDS = 6, 150
WAIT_S = 60.0


class ReplicatedLog(MemoryLog):
    """Appends wait for a thread that confirms them in any order, or says that it took too long."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.holds = True
        self._chance = chance
        self._changed = threading.Condition()
        self._stopped = False

    def append(self, partition: TopicPartition, batch: Any, guard: object) -> Appended | ErrorCode:
        with self._changed:
            appended = super().append(partition, batch, guard)
            self._changed.notify()
            return appended

    def confirm(self) -> None:
        while True:
            with self._changed:
                while not self.held and not self._stopped:
                    self._changed.wait(WAIT_S)
                if not self.held:
                    return
                held, self.held = self.held, []
                self.commit()
            self._chance.shuffle(held)
            for future in held:
                future.set_result(ErrorCode.REQUEST_TIMED_OUT if self._chance.random() < 0.1 else ErrorCode.NONE)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()


def outcome(answer: Any) -> Any:
    return answer.result(WAIT_S) if isinstance(answer, Future) else answer


class Client:
    """The only one that commits for its group; it knows the least that a fetch may return."""

    def __init__(self, bench: Bench, number: int) -> None:
        self.bench = bench
        self.sender = Sender(f"g{number}")
        self.chance = random.Random(number)
        self.stored = self.read = 0
        self.failures: list[str] = []

    def run(self) -> None:
        try:
            for offset in range(1, ROUNDS + 1):
                self.commit(offset)
                self.fetch(offset)
        except Exception as error:  # noqa: BLE001 the test's thread reports it
            self.failures.append(repr(error))

    def commit(self, offset: int) -> None:
        least = self.stored
        error = outcome(self.bench.groups.commit_offsets(self.sender, {PARTITION: OffsetCommitValue(offset=offset)}, 9))
        self.stored = offset if error is ErrorCode.NONE else least

    def fetch(self, last: int) -> None:
        error, offsets = outcome(self.bench.groups.fetch_offsets(OffsetFetch(self.sender, [PARTITION])))
        if error is ErrorCode.NONE:
            value = offsets[PARTITION]
            found = 0 if value is None else value.offset
            if not max(self.stored, self.read) <= found <= last:
                self.failures.append(f"{found} instead of {self.stored} or more")
            self.read = found


def test_clients_on_many_threads_during_elections() -> None:
    chance = random.Random(1)
    log = ReplicatedLog(chance)
    bench = Bench(log=log)
    clients = [Client(bench, number) for number in range(CLIENTS)]
    threads = [threading.Thread(target=client.run, daemon=True) for client in clients]
    confirming = threading.Thread(target=log.confirm, daemon=True)
    for thread in (*threads, confirming):
        thread.start()
    epoch = 0
    while any(thread.is_alive() for thread in threads):
        epoch += 1
        bench.reload(epoch=epoch)
        threads[chance.randrange(CLIENTS)].join(0.01)
    log.stop()
    confirming.join(WAIT_S)
    assert [client.failures for client in clients] == [[]] * CLIENTS
    assert all(client.read for client in clients)
    log.holds = False
    bench.reload(epoch=epoch + 1)
    for client in clients:
        client.fetch(ROUNDS)
        assert client.read >= client.stored > 0
    assert [client.failures for client in clients] == [[]] * CLIENTS
