"""The access log of a broker that is given all the requests it can take: none missing; a crash costs at most a second of them."""

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.clients.served import ServedBroker
from tests.support.eventually import WAIT_S

API_VERSIONS = bytes.fromhex("00120000") + (7).to_bytes(4, "big") + (3).to_bytes(2, "big") + b"all"
FRAME = len(API_VERSIONS).to_bytes(4, "big") + API_VERSIONS
DEPTH, CONNECTIONS = 64, 4
pytestmark = [pytest.mark.slow, pytest.mark.alone]


class Load(threading.Thread):
    """A connection that always has many requests under way; knows how many were answered at which moment."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT_S)
        self.name = "{}:{}".format(*self.socket.getsockname())
        self.is_over = False
        self.answered: list[tuple[float, int]] = [(time.monotonic(), 0)]

    def run(self) -> None:
        count, waiting = 0, b""
        try:
            self.socket.sendall(FRAME * DEPTH)
            while count % DEPTH or not self.is_over:
                received = self.socket.recv(1 << 18)
                if not received:
                    return  # the broker was killed
                waiting += received
                before = count
                while len(waiting) >= 4 and len(waiting) >= (size := 4 + int.from_bytes(waiting[:4], "big")):
                    waiting = waiting[size:]
                    count += 1
                self.answered.append((time.monotonic(), count))
                if count > before and count % DEPTH == 0 and not self.is_over:
                    self.socket.sendall(FRAME * DEPTH)
        except OSError:
            pass  # as above

    def answered_until(self, moment: float) -> int:
        return max(count for at, count in self.answered if at <= moment)


def lines_by_client(directory: Path) -> Counter[str]:
    """Count the whole lines of each of our connections, in closed files and in open ones."""
    found: Counter[str] = Counter()
    for path in directory.rglob("*.jsonl"):
        for text in path.read_text().splitlines(keepends=True):
            if text.endswith("\n") and (fields := json.loads(text))["client_id"] == "all":
                found[fields["connection"].split("-")[1]] += 1
    return found


def loaded(broker: ServedBroker, seconds: float) -> list[Load]:
    loads = [Load(broker.port) for _ in range(CONNECTIONS)]
    for load in loads:
        load.start()
    time.sleep(seconds)
    return loads


def test_no_line_is_lost_at_full_rate(start_broker: Callable[..., ServedBroker]) -> None:
    broker = start_broker()
    loads = loaded(broker, 4)
    for load in loads:
        load.is_over = True
    for load in loads:
        load.join(30)
    assert broker.stop() == 0
    answered = {load.name: load.answered[-1][1] for load in loads}
    assert min(answered.values()) > 100
    assert lines_by_client(broker.access_dir) == answered


def test_a_killed_broker_loses_at_most_the_last_second(start_broker: Callable[..., ServedBroker]) -> None:
    broker = start_broker()
    loads = loaded(broker, 4)
    killed = time.monotonic()
    broker.kill()
    for load in loads:
        load.join(30)
    found = lines_by_client(broker.access_dir)
    for load in loads:
        assert load.answered_until(killed - 1) > 100
        assert load.answered_until(killed - 1) <= found[load.name]
