"""What a network thread does when its loop fails, and when it is stopped meanwhile; no thread is started here."""

from collections.abc import Callable
from typing import Any

from tests.network.loop.schedule import HookedReactor
from tests.support.network_fakes import Layer, lines_of
from twisted_kafka.network.loop import network_thread
from twisted_kafka.network.loop.network_thread import NetworkThread
from twisted_kafka.network.requests.parker import Parker


class ScriptedReactor(HookedReactor):
    """A reactor whose loop does what it is told."""

    def __init__(self, loop: Callable[[], object]) -> None:
        super().__init__()
        self._loop = loop
        self._internalReaders: set[object] = set()
        self.starts = 0

    def startRunning(self, installSignalHandlers: bool) -> None:
        assert not installSignalHandlers
        self.starts += 1

    def mainLoop(self) -> None:
        self._loop()

    def stop(self) -> None:
        """Is called from the thread, if it runs."""


def fail() -> None:
    raise ValueError("as the test wants it")


class Setup:
    def __init__(self, monkeypatch: Any, loop: Callable[[], object]) -> None:
        monkeypatch.setattr(network_thread, "RESTART_PAUSE_S", 0)
        self.reactor = ScriptedReactor(loop)
        self.layer = Layer(reactor=self.reactor)
        self.making: list[Callable[[], Any]] = []
        self.thread = NetworkThread(self.layer.processor, self.reactor, "thread", self.make)  # type: ignore[arg-type]
        self.parker = Parker()

    def make(self) -> Any:
        return self.making.pop(0)()

    def run(self) -> list[str]:
        return [line.partition(":")[0] for line in lines_of(lambda: self.thread.run(self.parker))]


FAILED = "Uncaught exception in thread, which closes its 1 connections"
WENT_ON = "Network thread thread continues with a new reactor"


def test_a_loop_that_fails_is_begun_anew_as_soon_as_there_is_a_reactor(monkeypatch: Any) -> None:
    setup = Setup(monkeypatch, fail)
    _, transport = setup.layer.connect()
    following = ScriptedReactor(lambda: None)
    setup.making = [fail, fail, lambda: following]
    assert setup.run() == [FAILED, "Network thread thread cannot restart for now", WENT_ON]
    assert transport.is_closed
    assert (setup.reactor.starts, following.starts) == (1, 1)
    assert following.hooks is setup.layer.processor
    setup.layer.processor.check_connections()
    assert following.is_woken
    setup.reactor.wakeUp()
    assert not setup.reactor.is_woken, "it is closed"
    assert setup.thread._ended.is_set()


def test_a_thread_that_is_stopped_meanwhile_ends(monkeypatch: Any) -> None:
    setup = Setup(monkeypatch, fail)
    setup.layer.connect()
    setup.thread._stopping.set()
    assert setup.run() == [FAILED]
    assert setup.thread._ended.is_set()


def test_a_reactor_that_is_made_too_late_is_closed(monkeypatch: Any) -> None:
    setup = Setup(monkeypatch, fail)
    setup.layer.connect()
    late = ScriptedReactor(lambda: None)

    def make() -> Any:
        setup.thread._stopping.set()
        return late

    setup.making = [make]
    assert setup.run() == [FAILED]
    assert (late.starts, late.hooks) == (0, None)
    late.wakeUp()
    assert not late.is_woken, "it is closed"


def test_a_thread_that_has_lost_its_role_leaves_everything_to_the_next(monkeypatch: Any) -> None:
    class Handler:
        name = "handler"

        def run(self, parker: Parker) -> None:
            raise NotImplementedError

    setup = Setup(monkeypatch, lambda: setattr(setup.parker, "next_role", Handler()))
    _, transport = setup.layer.connect()
    assert setup.run() == []
    assert not setup.thread._ended.is_set()
    assert not transport.is_closed
    following = Parker()
    setup.reactor._loop = lambda: None
    setup.thread.run(following)
    assert setup.reactor.starts == 1
    assert setup.layer.processor.leader is following
    assert setup.thread._ended.is_set()


def test_a_thread_that_was_never_started_is_only_closed(monkeypatch: Any) -> None:
    setup = Setup(monkeypatch, fail)
    setup.layer.connect()
    assert setup.thread.connection_count == 0
    setup.thread.begin_shutdown()
    assert setup.reactor.asked == []
    setup.thread.stop()
    assert setup.reactor.asked == []
    setup.reactor.wakeUp()
    assert not setup.reactor.is_woken, "it is closed"


def test_a_thread_that_does_not_end_in_time_is_told_of(monkeypatch: Any) -> None:
    setup = Setup(monkeypatch, lambda: None)
    _, transport = setup.layer.connect()
    setup.thread.is_started = True
    assert setup.thread.connection_count == 1
    assert lines_of(lambda: setup.thread.stop(0)) == ["Network thread thread did not end within 0 s"]
    assert len(setup.reactor.asked) == 2
    assert setup.thread._stopping.is_set()
    setup.reactor.run_asked()
    assert transport.is_closed
    setup.run()
    assert setup.thread.connection_count == 0
    assert lines_of(lambda: setup.thread.stop(0)) == []
    setup.reactor.is_woken = False
    setup.reactor.wakeUp()
    assert not setup.reactor.is_woken, "it is closed"
