"""The network between brokers passes bytes on, and holds them back while a way is cut."""

import os
import socket
from collections.abc import Iterator

import pytest

from tests.cluster.network import Network

CLIENT, SERVER, STRANGER = 1, 2, 3
QUIET_S = 0.2


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network(lambda: {os.getpid(): CLIENT})
    yield network
    network.close()


@pytest.fixture
def ends(network: Network) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection from CLIENT to SERVER."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = network.add(SERVER, listening.getsockname()[1])
        with socket.create_connection(("127.0.0.1", port)) as client, listening.accept()[0] as server:
            for end in (client, server):
                end.settimeout(30)
            # The connection's owner is known once something has passed.
            client.sendall(b"first")
            assert server.recv(10) == b"first"
            yield client, server


def nothing_comes(end: socket.socket) -> bool:
    end.settimeout(QUIET_S)
    try:
        return not end.recv(10)
    except TimeoutError:
        return True
    finally:
        end.settimeout(30)


@pytest.mark.parametrize("is_request", [True, False], ids=["to the server", "to the client"])
def test_one_way_is_cut_and_the_other_is_not(network: Network, ends: tuple[socket.socket, socket.socket], is_request: bool) -> None:
    sender, receiver = ends if is_request else ends[::-1]
    network.cut(*(([CLIENT], [SERVER]) if is_request else ([SERVER], [CLIENT])))
    sender.sendall(b"late")
    assert nothing_comes(receiver)
    receiver.sendall(b"through")
    assert sender.recv(10) == b"through"
    network.mend()
    assert receiver.recv(10) == b"late"


def test_an_isolated_broker_hears_nobody_and_is_heard_by_nobody(
    network: Network, ends: tuple[socket.socket, socket.socket]
) -> None:
    client, server = ends
    network.isolate(SERVER, [CLIENT, SERVER, STRANGER])
    client.sendall(b"request")
    server.sendall(b"answer")
    assert nothing_comes(server)
    assert nothing_comes(client)
    network.mend()
    assert (server.recv(10), client.recv(10)) == (b"request", b"answer")


def test_others_are_not_concerned(network: Network, ends: tuple[socket.socket, socket.socket]) -> None:
    client, server = ends
    network.isolate(STRANGER, [CLIENT, SERVER])
    client.sendall(b"request")
    assert server.recv(10) == b"request"


def test_a_closed_connection_is_closed_at_the_other_end(ends: tuple[socket.socket, socket.socket]) -> None:
    client, server = ends
    client.close()
    assert server.recv(10) == b""
