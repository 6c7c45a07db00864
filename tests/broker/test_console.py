"""The console as a part of the broker: its start, its end, and what it costs nobody else."""

import socket
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from tests.support.ports import free_port
from twisted_kafka.broker.broker import Broker, StartError
from twisted_kafka.config.command_line import make_config


def connect(broker: Broker) -> HTTPConnection:
    parts = urlsplit(broker.console_url)
    return HTTPConnection(parts.hostname, parts.port, timeout=30)


@pytest.mark.medium
def test_a_broker_has_a_console_if_asked_and_ends_it_first() -> None:
    with Broker(console=True) as broker:
        browser = connect(broker)
        browser.request("GET", "/topics")
        answer = browser.getresponse()
        assert (answer.status, b"There are no topics yet." in answer.read()) == (200, True)
        stream = connect(broker)
        stream.request("GET", "/live?at=/topics")
        opened = stream.getresponse()
        assert opened.headers["content-type"] == "text/event-stream"
    assert opened.read().startswith(b"retry: 3000\n\n")  # and it has an end
    assert broker.console_url is None
    browser.close()
    with pytest.raises(OSError, match="refused"):
        browser.request("GET", "/")


def test_a_broker_has_none_otherwise() -> None:
    with Broker() as broker:
        assert broker.console_url is None


def test_a_taken_address_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=rf"^Cannot listen at 127.0.0.1:{port} \(console.listener\): Address already in use;"):
            Broker({"console.listener": f"127.0.0.1:{port}"}).start()


def test_https_without_a_key_is_one_line() -> None:
    with pytest.raises(StartError, match=r"^ssl.keystore.location or ssl.keystore.key must be set for listener CONSOLE"):
        Broker({"console.listener": f"https://127.0.0.1:{free_port()}"}).start()


def test_the_option_is_an_address_unless_there_is_one() -> None:
    options = {"config": None, "data-dir": None, "listeners": None, "broker-id": None}
    assert make_config(options, ()).console_listener is None
    assert make_config({**options, "console": 1}, ()).console_listener == ("127.0.0.1", 8080, False)
    assert make_config({**options, "console": 1}, ["console.listener=https://:9000"]).console_listener == ("", 9000, True)
