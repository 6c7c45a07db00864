"""Host names with name servers that hang."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from twisted_kafka.network.accepting import host_names
from twisted_kafka.network.accepting.host_names import MAX_LOOKUPS, UnknownHostError, addresses
from twisted_kafka.system import machine


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Name servers that do not answer until the test is over; the names that they were asked."""
    asked: list[str] = []
    over, free = threading.Event(), threading.BoundedSemaphore(MAX_LOOKUPS)

    def look_up(host: str, *_: object, flags: int = 0, **__: object) -> list[Any]:
        if flags == socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        asked.append(host)
        over.wait(60)
        return []

    monkeypatch.setattr(host_names, "_free", free)
    monkeypatch.setattr(host_names, "LOOKUP_TIMEOUT_S", 0.05)
    monkeypatch.setattr(machine, "getaddrinfo", look_up)
    yield asked
    over.set()
    for _ in asked:
        assert free.acquire(timeout=30), "a lookup that ends makes room for another"


def test_addresses_need_no_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_names, "_free", threading.Semaphore(0))
    assert addresses("127.0.0.1") == ["127.0.0.1"]
    assert addresses("::1") == ["::1"]
    with pytest.raises(UnknownHostError):
        addresses("localhost")


def test_a_name_is_all_its_addresses() -> None:
    assert "127.0.0.1" in addresses("localhost")


def test_what_is_no_name() -> None:
    for name in ("nowhere.invalid", "a" * 300, "a..b"):
        with pytest.raises(UnknownHostError) as caught:
            addresses(name)
        assert "Errno" not in str(caught.value), "it is for people"


@pytest.mark.medium
def test_lookups_that_hang_end_and_are_few(hanging: list[str]) -> None:
    for number in range(MAX_LOOKUPS):
        with pytest.raises(UnknownHostError, match=r"no name server answered within 0\.05 s"):
            addresses(f"host{number}.example")
    with pytest.raises(UnknownHostError, match=f"{MAX_LOOKUPS} lookups of other hosts hang"):
        addresses("one-more.example")
    assert len(hanging) == MAX_LOOKUPS
    lookups = [thread for thread in threading.enumerate() if thread.name.startswith("host-name-lookup-host")]
    assert len(lookups) == MAX_LOOKUPS
    assert all(thread.daemon for thread in lookups), "the end of the process does not wait for them"


def test_a_thread_that_the_system_does_not_give_leaves_room_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(machine.Thread, "start", none)
        for _ in range(MAX_LOOKUPS + 1):
            with pytest.raises(UnknownHostError, match="can't start new thread"):
                addresses("host.example")
    monkeypatch.setattr(host_names, "_look_up", lambda *_: ["10.0.0.1"])
    assert addresses("host.example") == ["10.0.0.1"]
