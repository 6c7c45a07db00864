"""How kazoo's connection thread is fed and woken; no ZooKeeper is needed."""

import socket
import threading
from collections.abc import Iterator

import pytest
from kazoo.exceptions import ConnectionDropped

from tests.support.eventually import join
from twisted_kafka.metadata.zookeeper.kazoo_handler import BufferedSocket, Handler, WakeUps
from twisted_kafka.metadata.zookeeper.session import Slots
from twisted_kafka.timing.clock import ManualClock

SHORT_S = 0.01


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def handler(clock: ManualClock) -> Handler:
    return Handler(None, clock.steady_ns)


@pytest.fixture
def pair(clock: ManualClock) -> Iterator[tuple[BufferedSocket, socket.socket]]:
    """A connection, and its other end."""
    near, far = socket.socketpair()
    near.setblocking(False)
    connection = BufferedSocket(near, clock.steady_ns)
    yield connection, far
    connection.close()
    far.close()


@pytest.fixture
def wake_ups(handler: Handler) -> Iterator[WakeUps]:
    reading, writing = handler.create_socket_pair()
    yield reading
    writing.close()
    reading.close()


def test_what_was_read_ahead_is_ready(handler: Handler, pair: tuple[BufferedSocket, socket.socket]) -> None:
    connection, far = pair
    assert handler.select([connection], [], [], SHORT_S) == ([], [], [])
    assert handler.select([], [connection], [], SHORT_S) == ([], [connection], [])
    far.sendall(b"one two ")
    assert handler.select([connection], [], [], None) == ([connection], [], [])
    assert connection.recv(4) == b"one "
    assert connection.pending() == 4
    assert handler.select([connection], [], [], 0) == ([connection], [], [])
    assert connection.recv(100) == b"two "
    assert handler.select([connection], [], [], 0) == ([], [], [])
    far.close()
    assert handler.select([connection], [], [], None) == ([connection], [], [])
    assert connection.recv(4) == b""


def test_each_request_is_counted_whether_the_thread_sleeps_or_not(
    handler: Handler, pair: tuple[BufferedSocket, socket.socket], wake_ups: WakeUps
) -> None:
    connection, far = pair
    assert handler.select([connection, wake_ups], [], [], SHORT_S) == ([], [], [])
    for _ in range(3):
        assert wake_ups.sender.send(b"\0") == 1
    for _ in range(3):
        assert handler.select([connection, wake_ups], [], [], 0) == ([wake_ups], [], [])
        assert wake_ups.recv(1) == b"\0"
    assert handler.select([connection, wake_ups], [], [], 0) == ([], [], [])
    with pytest.raises(BlockingIOError):
        wake_ups.recv(1)
    far.sendall(b"answers")
    connection.recv(3)
    wake_ups.sender.send(b"\0")
    assert handler.select([connection, wake_ups], [], [], None) == ([connection, wake_ups], [], [])


def test_a_thread_that_sleeps_is_woken_by_the_first_request(
    handler: Handler, pair: tuple[BufferedSocket, socket.socket], wake_ups: WakeUps
) -> None:
    connection, _ = pair
    count = 2000
    taken: list[bytes] = []

    def take() -> None:
        while len(taken) < count:
            assert handler.select([connection, wake_ups], [], [], 30)[0] == [wake_ups], "nobody woke the thread"
            taken.append(wake_ups.recv(1))

    thread = threading.Thread(target=take)
    thread.start()
    for _ in range(count):
        wake_ups.sender.send(b"\0")
    join([thread])
    assert len(taken) == count


def test_whoever_wakes_a_connection_that_is_closed_hears_of_it(handler: Handler) -> None:
    reading, writing = handler.create_socket_pair()
    reading.close()
    with pytest.raises(OSError, match="closed"):
        writing.send(b"\0")


def test_what_is_to_happen_with_an_answer_happens_once(handler: Handler) -> None:
    happened = []
    result = handler.async_result()
    result.when_done(lambda: happened.append(result.get()))
    assert happened == []
    result.set("answer")
    result.set_exception(ValueError())
    assert happened == ["answer"]
    result.when_done(lambda: happened.append("at once"))
    assert happened == ["answer", "at once"]


def test_who_waits_for_a_place_is_woken_when_half_of_them_are_free() -> None:
    slots = Slots(4)
    for _ in range(4):
        assert slots.acquire(0)
    assert not slots.acquire(0)
    slots.release()
    assert slots.acquire(0), "one that is free is taken, if nobody has to be woken for it"
    taken = threading.Event()

    def wait() -> None:
        assert slots.acquire(30)
        taken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    slots.release()
    assert not taken.wait(SHORT_S) or slots.acquire(0)
    slots.release()
    join([thread])
    assert taken.is_set()
    one = Slots(1)
    assert one.acquire(0)
    one.release()
    assert one.acquire(0)


def test_a_silent_connection_is_dropped_although_requests_are_sent(
    handler: Handler, pair: tuple[BufferedSocket, socket.socket], wake_ups: WakeUps, clock: ManualClock
) -> None:
    connection, far = pair
    handler.read_timeout_s = 4.0
    for _ in range(3):
        clock.advance_ms(1_300)
        wake_ups.sender.send(b"\0")
        assert handler.select([connection, wake_ups], [], [], 0) == ([wake_ups], [], [])
        wake_ups.recv(1)
    far.sendall(b"x")
    clock.advance_ms(1_300)
    wake_ups.sender.send(b"\0")
    assert handler.select([connection, wake_ups], [], [], 0) == ([connection, wake_ups], [], []), "there is an answer after all"
    connection.recv(1)
    wake_ups.recv(1)
    clock.advance_ms(3_999)
    assert handler.select([connection, wake_ups], [], [], 0) == ([], [], [])
    clock.advance_ms(1)
    wake_ups.sender.send(b"\0")
    with pytest.raises(ConnectionDropped, match=r"nothing was read for 4\.0 s"):
        handler.select([connection, wake_ups], [], [], None)


def test_a_wait_ends_when_the_connection_has_been_silent_for_too_long(
    handler: Handler, pair: tuple[BufferedSocket, socket.socket], wake_ups: WakeUps, clock: ManualClock
) -> None:
    connection, _ = pair
    handler.read_timeout_s = 4.0
    clock.advance_ms(3_999)
    assert handler.select([connection, wake_ups], [], [], 600) == ([], [], []), "after a millisecond"


def test_a_connection_that_is_being_opened_may_be_silent(
    handler: Handler, pair: tuple[BufferedSocket, socket.socket], wake_ups: WakeUps, clock: ManualClock
) -> None:
    connection, _ = pair
    clock.advance_ms(60_000)
    assert handler.select([connection, wake_ups], [], [], 0) == ([], [], [])
