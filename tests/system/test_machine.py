"""The machine is the standard library's unless a world replaces it."""

import concurrent.futures
import os
import random
import socket
import threading

import pytest

from twisted_kafka.system import machine


def test_each_name_is_the_standard_librarys() -> None:
    for name in ("BoundedSemaphore", "Condition", "Event", "Lock", "RLock", "Thread", "current_thread", "get_ident", "local"):
        assert getattr(machine, name) is getattr(threading, name)
    assert machine.ThreadPoolExecutor is concurrent.futures.ThreadPoolExecutor
    assert machine.chance is random
    assert machine.random_bytes is os.urandom
    assert (machine.getaddrinfo, machine.gethostname, machine.make_socket) == (
        socket.getaddrinfo,
        socket.gethostname,
        socket.socket,
    )
    assert not machine.is_simulated


def test_uuids_and_texts_come_from_the_random_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "random_bytes", lambda count: bytes(range(count)))
    assert str(machine.new_uuid()) == "00010203-0405-4607-8809-0a0b0c0d0e0f"
    assert machine.random_text(4) == "AAECAw"


def test_a_result_is_waited_for() -> None:
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    with pytest.raises(TimeoutError):
        machine.result_of(future, 0)
    future.set_result(3)
    assert machine.result_of(future, 0) == 3
