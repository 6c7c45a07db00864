import io
import random
import warnings
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from OpenSSL import SSL, crypto

from tests.support.budget import share_of
from tests.support.cases import case
from tests.support.certificates import Authority, Identity
from tests.support.network_fakes import frame, lines_of
from tests.support.tls_harness import ALICE, CA, Listener, TlsClient, client_context
from twisted_kafka.network.connection.channel import READ_AHEAD_BYTES
from twisted_kafka.network.connection.newcomers import SILENT_S
from twisted_kafka.network.tls import tls_transport
from twisted_kafka.network.tls.tls_transport import PIECE_BYTES, RECORD_BYTES, RECORDS_PER_TURN
from twisted_kafka.protocol.regions import FileRegion

SUITE = "TLS_AES_256_GCM_SHA384"


def test_a_request_and_its_response() -> None:
    listener = Listener()
    client = listener.connect().handshake()
    assert str(client.channel.connection.principal) == "User:ANONYMOUS"
    assert listener.stats.successful_authentications == 1
    assert listener.stats.successful_authentications_no_reauth == 1
    assert listener.metric("connections", cipher=SUITE, protocol="TLSv1.3") == 1
    client.send(frame(7, b"hello"))
    request = listener.layer.take()
    assert request is not None
    assert request.context.correlation_id == 7
    sent = listener.layer.answer(request, b"world")
    client.pump()
    assert client.received == sent
    client.channel.close()
    client.pump()
    assert client.is_closed
    assert isinstance(client.error, SSL.ZeroReturnError)  # told in TLS's own way, not just cut off
    assert listener.metric("connections", cipher=SUITE, protocol="TLSv1.3") is None


def test_the_principal_is_the_certificates_name() -> None:
    listener = Listener(ssl_client_auth="required")
    assert str(listener.connect(ALICE).handshake().channel.connection.principal) == "User:CN=alice,OU=Engineering,O=Tests"
    rules = "RULE:^CN=(.*?),.*$/$1/U"
    mapped = Listener(ssl_client_auth="requested", ssl_principal_mapping_rules=rules)
    assert str(mapped.connect(ALICE).handshake().channel.connection.principal) == "User:ALICE"
    assert str(mapped.connect().handshake().channel.connection.principal) == "User:ANONYMOUS"
    assert mapped.stats.successful_authentications == mapped.stats.successful_authentications_no_reauth == 2


def test_frames_however_they_are_cut_into_records() -> None:
    for seed in range(share_of(20)):
        with case(seed=seed):
            cut_and_send(seed)


def cut_and_send(seed: int) -> None:
    dice = random.Random(seed)
    listener = Listener()
    client = listener.connect().handshake()
    bodies = [dice.randbytes(dice.choice((0, 5, 300, 20_000, 70_000, 300_000))) for _ in range(8)]
    data = b"".join(frame(number, body) for number, body in enumerate(bodies))
    got: list[bytes] = []
    while len(got) < len(bodies):
        if data:
            size = dice.choice((1, 7, 1000, 16_384, 60_000, 400_000))
            client.send(data[:size])
            data = data[size:]
        if request := listener.layer.take():
            got.append(bytes(request.frame[request.body_offset :]))
            listener.layer.answer(request)
            client.pump()
    assert got == bodies
    assert client.received == b"".join(bytes(3) + b"\x04" + bytes(3) + bytes([number]) for number in range(8))


def test_regions_of_files_are_sent_a_piece_at_a_time(tmp_path: Path) -> None:
    content = random.Random(1).randbytes(700_000)
    path = tmp_path / "segment"
    path.write_bytes(content)
    listener = Listener()
    client = listener.connect().handshake()
    client.send(frame(1))
    request = listener.layer.take()
    assert request is not None
    client.is_reading = False
    with io.FileIO(path) as file:
        parts = [b"head", FileRegion(file, 100, 500_000), b"", memoryview(content)[:150_000], b"tail"]
        listener.layer.channel.send_response(request, parts, sum(map(len, parts)))  # type: ignore[arg-type]
        listener.layer.reactor.run_asked()
        client.pump()
        # The client does not read: what is held as bytes is one piece, the rest is still in its file.
        held = [part for part in client.transport._parts if not isinstance(part, FileRegion)]
        assert len(held[0]) <= PIECE_BYTES
        assert sum(len(part) for part in client.transport._parts) > 400_000
        client.is_reading = True
        client.pump()
    assert client.received == b"head" + content[100:500_100] + content[:150_000] + b"tail"
    assert listener.layer.observer.completed == [request]


def test_a_response_waits_behind_the_one_that_is_being_sent(tmp_path: Path) -> None:
    content = random.Random(2).randbytes(600_000)
    (tmp_path / "segment").write_bytes(content)
    client = Listener().connect().handshake()
    with io.FileIO(tmp_path / "segment") as file:
        assert not client.transport.send([FileRegion(file, 0, 600_000)], 600_000)
        assert not client.transport.send([b"second"], 6)
        client.pump()
    assert client.received == content + b"second"


def test_a_file_that_ends_too_early_closes_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(b"short")
    listener = Listener()
    client = listener.connect().handshake()
    client.send(frame(1))
    request = listener.layer.take()
    assert request is not None
    with io.FileIO(path) as file:
        lines = lines_of(
            lambda: (
                listener.layer.channel.send_response(request, [FileRegion(file, 0, 100)], 100),
                listener.layer.reactor.run_asked(),
                client.pump(),
            )
        )
    assert client.is_closed
    assert f"cannot read {path}: " in lines[0]
    assert "ends at byte 5" in lines[0]
    assert listener.layer.observer.completed == [request]


def test_a_file_that_cannot_be_read_closes_the_connection() -> None:
    listener = Listener()
    client = listener.connect().handshake()
    client.send(frame(1))
    request = listener.layer.take()
    assert request is not None
    with io.FileIO("/proc/self/mem") as file:  # at address 0 there is nothing
        lines = lines_of(
            lambda: (
                listener.layer.channel.send_response(request, [FileRegion(file, 0, 100)], 100),
                listener.layer.reactor.run_asked(),
                client.pump(),
            )
        )
    assert client.is_closed
    assert [line.rpartition("cannot read ")[2] for line in lines] == ["/proc/self/mem: Input/output error at byte 0"]


def test_a_client_that_sends_without_end_is_not_read_without_end() -> None:
    listener = Listener()
    client = listener.connect().handshake()
    client.send(frame(0))
    client.send(b"".join(frame(number, bytes(20_000)) for number in range(100)))
    assert len(client.outgoing) > 1_000_000
    assert client.channel.is_paused
    assert client.channel._backlog_bytes < READ_AHEAD_BYTES + 40_000


def test_no_further_record_is_read_when_the_channel_has_read_ahead_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Listener().connect().handshake()
    record = frame(1, bytes(RECORD_BYTES - len(frame(1))))
    reads: list[int] = []

    class Endless:
        def recv(self, size: int) -> bytes:
            reads.append(size)
            return record

    with monkeypatch.context() as endless:
        endless.setattr(client.transport, "_tls", Endless())
        assert client.transport.doRead() is None
    assert client.channel.is_paused
    assert len(reads) == 1 + READ_AHEAD_BYTES // RECORD_BYTES < RECORDS_PER_TURN, "the request, and what is read ahead"


def test_nothing_is_read_while_there_is_no_room_for_requests() -> None:
    listener = Listener(queue_size=1)
    clients = [listener.connect().handshake() for _ in range(5)]
    for turn in range(3):
        for client in clients:
            client.send(frame(turn, bytes(30_000)))
        assert sum(client.channel.in_flight is not None for client in clients) < len(clients)
        for _ in clients:
            request = listener.layer.take()
            assert request is not None
            listener.layer.answer(request)
            for client in clients:
                client.pump()
        assert {len(client.received) for client in clients} == {8 * (turn + 1)}


def test_requests_sent_before_a_hasty_goodbye_are_served() -> None:
    listener = Listener()
    client = listener.connect().handshake()
    client.tls.send(frame(1) + frame(2))
    client.tls.shutdown()
    client.pump()
    served = []
    while request := listener.layer.take():
        served.append(request.context.correlation_id)
        listener.layer.answer(request)
        client.pump()
    assert served == [1, 2]
    assert client.is_closed


def test_the_end_is_known_behind_what_openssl_remembers_of_another_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener()
    client = listener.connect().handshake()
    client.send(frame(1) + frame(2))
    remembered = [("system library", "", ""), ("SSL routines", "", "unexpected eof while reading")]

    class Ending:
        def recv(self, size: int) -> bytes:
            raise SSL.Error(remembered)

    tls = client.transport._tls
    monkeypatch.setattr(client.transport, "_tls", Ending())
    assert lines_of(client.transport.doRead) == []
    monkeypatch.setattr(client.transport, "_tls", tls)
    served = []
    while request := listener.layer.take():
        served.append(request.context.correlation_id)
        listener.layer.answer(request)
    assert served == [1, 2]
    assert not client.channel.is_open


def test_a_connection_that_is_cut_off_is_forgotten() -> None:
    listener = Listener()
    client = listener.connect().handshake()
    client.socket.close()
    client.is_closed = True
    client.pump()
    assert not client.channel.is_open
    assert not listener.layer.processor.channels
    assert listener.metric("connections", cipher=SUITE, protocol="TLSv1.3") is None


def test_records_that_are_none_close_the_connection_with_a_line() -> None:
    listener = Listener()
    client = listener.connect().handshake()
    lines = lines_of(lambda: client.raw(b"\x17\x03\x03\0\x20" + bytes(32)))
    assert lines == ["Closing connection c of SSL: decryption failed or bad record mac"]
    assert not client.channel.is_open


def test_a_session_is_resumed_with_its_principal() -> None:
    listener = Listener(ssl_client_auth="required")
    context = client_context(ALICE)
    first = listener.connect(context=context).handshake()
    session = first.tls.get_session()
    again = listener.connect(context=context, session=session).handshake()
    again.send(frame(1))
    assert listener.layer.take() is not None
    assert str(again.channel.connection.principal) == "User:CN=alice,OU=Engineering,O=Tests"


def context_of_no_version(identity: Identity) -> SSL.Context:
    """A client with a certificate of a version that there is not."""
    context = client_context(None)
    content = identity.certificate.public_bytes(serialization.Encoding.DER)
    version_3 = b"\xa0\x03\x02\x01\x02"
    assert content.count(version_3) == 1
    certificate = crypto.load_certificate(crypto.FILETYPE_ASN1, content.replace(version_3, b"\xa0\x03\x02\x01\x09"))
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # cryptography has no such certificate
        context.use_certificate(certificate)
    context.use_privatekey(identity.key)
    return context


def test_a_long_name_is_shortened_where_it_is_refused() -> None:
    name = ",".join(["CN=mallory", *[f"OU={number:060}" for number in range(500)]])
    listener = Listener(ssl_client_auth="required")
    (line,) = lines_of(listener.connect(Authority("CN=Other").issue(name)).handshake)
    assert "'CN=mallory,OU=000" in line
    assert len(line) < 600


REFUSED = {
    "no certificate": ("peer did not return a certificate", lambda it: it.connect().handshake()),
    "unknown authority": ("'CN=mallory' is rejected", lambda it: it.connect(Authority("CN=Other").issue("CN=mallory")).handshake()),
    "expired": ("'CN=late' is rejected: it has expired", lambda it: it.connect(CA.issue("CN=late", days=(-2, -1))).handshake()),
    "not yet valid": (
        "'CN=early' is rejected: it is not valid yet",
        lambda it: it.connect(CA.issue("CN=early", days=(1, 2))).handshake(),
    ),
    "of no version": (
        "certificate 'with an unreadable name' is rejected",
        lambda it: it.connect(context=context_of_no_version(Authority("CN=Other").issue("CN=mallory"))).handshake(),
    ),
    "broker not trusted": ("does not trust this broker", lambda it: it.connect(ALICE, Authority("CN=Else")).handshake()),
    "plain Kafka": ("speaks Kafka without TLS", lambda it: _raw(it, frame(1))),
    "HTTP": ("speaks HTTP", lambda it: _raw(it, b"GET / HTTP/1.1\r\n\r\n")),
    "noise": ("not TLS", lambda it: _raw(it, b"\xff" * 50)),
    "noise in a record": ("", lambda it: _raw(it, b"\x16\x03\x01\x00\x05\xff\xff\xff\xff\xff" + b"\xff" * 50)),
}


def _raw(listener: Listener, data: bytes) -> TlsClient:
    client = listener.connect()
    client.raw(data)
    return client


@pytest.mark.parametrize("case", REFUSED)
def test_who_is_refused_is_counted_named_in_one_line_and_closed_after_the_delay(case: str) -> None:
    expected, begin = REFUSED[case]
    listener = Listener(ssl_client_auth="required")
    listener.layer.processor.settings.failed_authentication_delay_ms = 70
    clients: list[TlsClient] = []
    lines = lines_of(lambda: clients.append(begin(listener)))  # type: ignore[no-untyped-call]
    assert len(lines) == 1
    assert lines[0].startswith("Failed authentication with c of SSL (SSL handshake failed: ")
    assert expected in lines[0]
    assert listener.stats.failed_authentications == 1
    assert listener.stats.successful_authentications == 0
    client = clients[0]
    assert client.channel.is_open
    listener.layer.advance_ms(69)
    assert client.channel.is_open
    listener.layer.advance_ms(1)
    assert not client.channel.is_open
    assert listener.layer.take() is None


def test_a_client_reads_why_it_was_refused() -> None:
    listener = Listener(ssl_client_auth="required")
    client = listener.connect()
    client.handshake()
    assert "certificate required" in str(client.error)
    assert client.is_closed, "nothing more comes"
    assert client.channel.is_open


def test_a_name_without_a_principal_is_refused() -> None:
    listener = Listener(ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=bob$/bob/")
    client = listener.connect(ALICE)
    assert "no rule" in lines_of(client.handshake)[0]
    client.send(frame(1))
    assert listener.layer.take() is None


def test_a_handshake_has_its_time() -> None:
    listener = Listener(ssl_handshake_timeout_ms=500)
    silent = listener.connect()
    listener.reactor.advance(0.3)
    late = listener.connect()
    late.raw(b"\x16\x03\x01")
    done = listener.connect().handshake()
    listener.reactor.advance(0.25)
    assert not silent.channel.is_open
    assert late.channel.is_open
    listener.reactor.advance(0.25)
    assert not late.channel.is_open
    assert listener.stats.failed_authentications == 2
    listener.reactor.advance(10)
    assert done.channel.is_open


def test_too_many_handshakes_cost_those_that_have_sent_nothing() -> None:
    listener = Listener(ssl_handshake_max_pending=3, ssl_handshake_timeout_ms=60_000)
    flood = [listener.connect() for _ in range(3)]
    flood[0].socket.send(b"\x16\x03\x01")
    begun = listener.connect()
    begun.raw(b"\x16\x03\x01")
    listener.reactor.advance(SILENT_S)
    honest = listener.connect().handshake()
    flood.append(listener.connect())
    assert [one.channel.is_open for one in flood] == [True, False, False, True]
    assert begun.channel.is_open
    assert honest.channel.is_open
    assert listener.stats.failed_authentications == 2


def test_a_probe_that_says_nothing_is_no_failed_authentication() -> None:
    listener = Listener()
    client = listener.connect()
    client.socket.close()
    client.is_closed = True
    assert lines_of(client.pump) == []
    assert not client.channel.is_open
    assert listener.stats.failed_authentications == 0


def test_a_connection_that_is_reset_before_it_says_anything_is_closed() -> None:
    listener = Listener()
    client = listener.connect()
    client.transport.socket.send(b"x")
    client.socket.close()  # with a byte unread: the other side is told of a reset
    client.is_closed = True
    assert lines_of(client.pump) == []
    assert not client.channel.is_open


def test_a_flood_of_refused_clients_does_not_flood_the_log() -> None:
    listener = Listener()
    lines = lines_of(lambda: [_raw(listener, frame(1)) for _ in range(50)])
    assert len(lines) == 10
    assert listener.stats.failed_authentications == 50
    listener.layer.clock.advance_ms(10_000)
    lines = lines_of(lambda: _raw(listener, frame(1)))
    assert "(40 similar lines were suppressed before this one)" in lines[0]


def test_a_response_that_the_socket_does_not_take_is_not_yet_sent() -> None:
    client = Listener().connect().handshake()
    assert client.transport.send([b"x"], 1)
    assert not client.transport.send([b"x" * 1_000_000], 1_000_000)


@pytest.mark.parametrize(("turn_bytes", "pieces"), [(2000, 2), (2001, 3)])
def test_one_connection_does_not_take_all_of_a_turn(monkeypatch: pytest.MonkeyPatch, turn_bytes: int, pieces: int) -> None:
    monkeypatch.setattr(tls_transport, "TURN_BYTES", turn_bytes)
    monkeypatch.setattr(tls_transport, "PIECE_BYTES", 1000)
    client = Listener().connect().handshake()
    assert not client.transport.send([bytes(3500), bytes(3500)], 7000)
    assert sum(map(len, client.transport._parts)) == 7000 - 1000 * pieces
    client.pump()
    assert len(client.received) == 7000


@pytest.mark.parametrize("parts", [[b"x"], [b"x", b"y"]])
def test_a_response_to_a_client_that_is_gone_is_not_sent(parts: list[bytes]) -> None:
    client = Listener().connect().handshake()
    client.socket.close()
    assert not client.transport.send(parts, len(parts))
    assert not client.channel.is_open


@pytest.mark.parametrize("protocols", ["TLSv1.1,TLSv1.3", "TLSv1.3,TLSv1.1"])
def test_a_version_between_two_that_are_enabled_is_not(protocols: str) -> None:
    listener = Listener(ssl_enabled_protocols=protocols)
    assert listener.connect().handshake().tls.get_protocol_version_name() == "TLSv1.3"
    context = client_context(None)
    context.set_max_proto_version(SSL.TLS1_2_VERSION)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    assert listener.connect(context=context).handshake().error is not None


class Renegotiating:
    """OpenSSL that has to write before it reads on, until ``is_writable``."""

    def __init__(self, tls: SSL.Connection) -> None:
        self._tls = tls
        self.is_writable = False

    def recv(self, size: int) -> bytes:
        if not self.is_writable:
            raise SSL.WantWriteError
        return self._tls.recv(size)

    def __getattr__(self, name: str) -> object:
        return getattr(self._tls, name)


def test_what_cannot_be_read_before_something_is_written_is_read_when_the_socket_takes_it() -> None:
    listener = Listener()
    client = listener.connect().handshake()
    transport, writers = client.transport, listener.reactor.writers
    client.tls.send(frame(1))
    tls = Renegotiating(transport._tls)
    transport._tls = tls  # type: ignore[assignment]
    client.pump()
    client._client_writes()
    assert listener.layer.take() is None
    assert transport in writers
    tls.is_writable = True
    assert transport.doWrite() is None
    request = listener.layer.take()
    assert request is not None
    assert transport not in writers
    client.tls.send(frame(2))
    client._client_writes()
    transport.doWrite()
    assert client.channel.in_flight is request
    assert not client.channel.has_waiting_requests, "what is read when the socket may be written is that only"


class Full:
    """OpenSSL whose handshake finds the socket full, until ``is_writable``."""

    def __init__(self, tls: SSL.Connection) -> None:
        self._tls = tls
        self.is_writable = False

    def do_handshake(self) -> None:
        if not self.is_writable:
            raise SSL.WantWriteError
        self._tls.do_handshake()

    def __getattr__(self, name: str) -> object:
        return getattr(self._tls, name)


def test_a_handshake_goes_on_when_the_socket_takes_more() -> None:
    listener = Listener()
    client = listener.connect()
    tls = Full(client.transport._tls)
    client.transport._tls = tls  # type: ignore[assignment]
    client.handshake()
    assert client.transport in listener.reactor.writers
    assert listener.stats.successful_authentications == 0
    tls.is_writable = True
    assert client.transport.doWrite() is None
    client.pump()
    assert listener.stats.successful_authentications == 1
    assert client.transport not in listener.reactor.writers
