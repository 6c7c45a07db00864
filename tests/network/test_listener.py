"""A listener and the number of its network threads."""

from types import SimpleNamespace
from typing import Any

from tests.support.network_fakes import lines_of
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.network.listener import Listener


class FakeThread:
    def __init__(self, number: int) -> None:
        self.processor = number
        self.is_started = False
        self.acceptor: object = None

    def start(self) -> None:
        assert not self.is_started
        self.is_started = True

    def run_acceptor(self, acceptor: object) -> None:
        self.acceptor = acceptor


class Setup:
    def __init__(self) -> None:
        self.made: list[FakeThread] = []
        self.acceptor: Any = SimpleNamespace(processors=(), port=12345)
        self.listener: Any = Listener(EndPoint("localhost", 0, "L", "PLAINTEXT"), self.acceptor, self.make)  # type: ignore[arg-type]

    def make(self) -> FakeThread:
        self.made.append(FakeThread(len(self.made)))
        return self.made[-1]

    def resize(self, count: int, *, start: bool = False) -> list[str]:
        """Resize; return what is logged. The threads that end are the last ones."""
        before = self.listener.threads
        ending: list[FakeThread] = []
        lines = lines_of(lambda: ending.extend(self.listener.resize(count, start=start)))
        assert ending == before[count:]
        assert self.listener.threads[: len(before)] == before[:count]
        assert self.acceptor.processors == [thread.processor for thread in self.listener.threads]
        assert len(self.acceptor.processors) == count
        return lines

    @property
    def started(self) -> list[int]:
        return [thread.processor for thread in self.made if thread.is_started]

    @property
    def accepting(self) -> list[int]:
        return [thread.processor for thread in self.made if thread.acceptor is self.acceptor]


def test_threads_come_and_the_last_ones_go() -> None:
    setup = Setup()
    assert setup.resize(2) == []
    assert setup.resize(2) == []
    assert setup.resize(4) == ["Listener L has 4 network threads, it had 2"]
    assert setup.resize(1) == ["Listener L has 1 network threads, it had 4"]
    assert setup.resize(0) == ["Listener L has 0 network threads, it had 1"]
    assert len(setup.made) == 4
    assert setup.accepting == [], "the main reactor accepts: it had two threads at first"


def test_a_single_thread_accepts_and_goes_on_when_others_come() -> None:
    setup = Setup()
    setup.resize(1)
    setup.resize(3)
    setup.resize(1)
    assert setup.accepting == [0]
    assert setup.listener.bound.port == 12345


def test_threads_are_started_when_told_and_once() -> None:
    setup = Setup()
    setup.resize(2)
    assert setup.started == []
    setup.listener.start_threads()
    assert setup.started == [0, 1]
    setup.resize(4, start=True)
    setup.listener.start_threads()
    assert setup.started == [0, 1, 2, 3]


def test_a_thread_that_the_system_does_not_give_gets_no_connections() -> None:
    setup = Setup()
    setup.resize(1, start=True)

    def refuse() -> None:
        raise RuntimeError("can't start new thread")

    make = setup.make

    def make_third_without() -> FakeThread:
        made = make()
        if made.processor == 2:
            made.start = refuse
        return made

    setup.listener._make_thread = make_third_without
    ending = setup.listener.resize(4, start=True)
    assert [thread.processor for thread in ending] == [2, 3]
    assert setup.acceptor.processors == [0, 1]
    assert [thread.is_started for thread in setup.listener.threads] == [True, True]
