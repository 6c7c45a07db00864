"""More connections than there is room for: of file descriptors, of the listen queue, of what a limit allows."""

import resource
import socket
import struct
import threading
from pathlib import Path

import pytest

from tests.support.budget import patient
from tests.support.clients.served import ServedBroker
from twisted_kafka.broker.broker import Broker

REQUEST = struct.pack(">ihhih", 10, 18, 0, 7, -1)
WAIT_S = patient(30.0)
DESCRIPTORS = 20
"""So many more than it has may the broker of the test open."""

pytestmark = [pytest.mark.slow, pytest.mark.alone]


def connect(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
    client.sendall(REQUEST)
    return client


def is_answered(client: socket.socket, timeout_s: float) -> bool:
    client.settimeout(timeout_s)
    try:
        return client.recv(4096)[4:8] == b"\0\0\0\7"
    except TimeoutError:
        return False


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="Linux alone lets one limit another process")
def test_without_file_descriptors_connections_wait_and_are_served_later(tmp_path: Path) -> None:
    broker = ServedBroker(tmp_path / "data")
    broker.start()
    assert broker.process is not None
    try:
        pid = broker.process.pid
        used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + DESCRIPTORS, used + DESCRIPTORS))
        clients = [connect(broker.port) for _ in range(2 * DESCRIPTORS)]
        served = [client for client in clients if is_answered(client, 0.2)]
        assert DESCRIPTORS // 2 <= len(served) <= DESCRIPTORS + 5, "the numbers have gaps"
        waiting = [client for client in clients if client not in served]
        before, lines_before = cpu_ticks(pid), complaints(broker)
        threading.Event().wait(2)
        assert cpu_ticks(pid) - before < 100, "a second of CPU in two: it spins"
        assert lines_before, "it says why clients wait"
        assert complaints(broker) - lines_before <= 1, "it says so again and again"
        served[0].sendall(REQUEST)
        assert is_answered(served[0], WAIT_S), "those that have a connection are served meanwhile"
        for client in served:
            client.close()
        assert sum(is_answered(client, WAIT_S) for client in waiting[: DESCRIPTORS // 2]) == DESCRIPTORS // 2
        for client in waiting:
            client.close()
    finally:
        broker.stop()


def complaints(broker: ServedBroker) -> int:
    return broker.output.read_text().count("Too many open files")


def test_a_full_listen_queue_drops_nobody() -> None:
    """The system lets a client that finds the queue full try again; whoever is patient is served."""
    with Broker({"max.connections": "2", "socket.listen.backlog.size": "1"}) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        answered = []

        def visit() -> None:
            with connect(port) as client:
                answered.append(is_answered(client, WAIT_S))

        visitors = [threading.Thread(target=visit) for _ in range(12)]
        for visitor in visitors:
            visitor.start()
        for visitor in visitors:
            visitor.join(WAIT_S)
        assert answered == [True] * 12
