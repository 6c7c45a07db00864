"""``twisted-kafka doctor`` against a broker, and against what is none."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import twisted_kafka
from twisted_kafka.tools.main import main


@contextmanager
def something_that_answers(answer: bytes) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(10)


def test_a_broker_that_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    with twisted_kafka.Broker() as broker:
        assert main(["doctor", broker.bootstrap_servers]) == 0
        lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["ok", "ok", "ok"]
    assert lines[1] == f"ok: broker {broker.broker_id} advertises {broker.bootstrap_servers}"


def test_a_broker_that_advertises_an_address_where_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with twisted_kafka.Broker({"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}) as broker:
            assert main(["doctor", broker.bootstrap_servers]) == 1
    assert f"advertises 127.0.0.1:{port}, where clients go next, but" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", "wants TLS"),
        (b"HTTP/1.1 400 No\r\n\r\n", "web server"),
        (b"", "closes the connection"),
    ],
)
def test_what_is_no_plain_text_listener(answer: bytes, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with something_that_answers(answer) as address:
        assert main(["doctor", address]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("problem: ")
    assert told in printed


def test_an_address_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "localhost"]) == 2
    assert "expected HOST:PORT" in capsys.readouterr().err
