"""The console over TLS, with the keys of the broker's settings, which it follows."""

import http.client
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.certificates import Authority
from tests.support.console import session_in
from tests.support.eventually import eventually
from twisted_kafka.broker.broker import Broker
from twisted_kafka.testing import Broker as Kafka

pytestmark = pytest.mark.medium


def served(broker: Broker, authority: Authority) -> tuple[int, str, bytes]:
    """The status and a header of the first page, and the certificate."""
    context = ssl.create_default_context(cadata=authority.pem)
    parts = urlsplit(broker.console_url)
    client = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=30, context=context)
    client.request("GET", "/login")
    certificate = client.sock.getpeercert(binary_form=True)
    answer = client.getresponse()
    answer.read()
    client.close()
    return answer.status, answer.headers["set-cookie"] or "", certificate


def test_the_console_speaks_tls_and_takes_a_new_certificate(tmp_path: Path) -> None:
    authority = Authority()
    names = ["localhost", "127.0.0.1"]
    store = authority.issue("CN=broker", names).write_pem(tmp_path / "store.pem")
    settings = {
        "console.listener": "https://127.0.0.1:0",
        "console.write.enable": True,
        "listener.name.console.ssl.keystore.type": "PEM",
        "listener.name.console.ssl.keystore.location": store,
    }
    with Kafka(settings) as kafka:
        broker = kafka.embedded
        assert broker.console_url.startswith("https://127.0.0.1:")
        status, cookie, first = served(broker, authority)
        assert (status, "; Secure" in cookie, cookie.startswith("__Host-")) == (303, True, True)
        authority.issue("CN=broker", names).write_pem(store)
        kafka.clock.advance(seconds=15)
        eventually(lambda: served(broker, authority)[2] != first)
        live, session = broker._server.live(), session_in(broker)
        ((where, prefix),) = [(each.listener, each.store) for each in live.certificates(session)]
        assert (where, prefix) == ("CONSOLE", "ssl.keystore")
