"""What a context is set to, and what is said of OpenSSL's errors."""

import pytest
from OpenSSL import SSL

from tests.support.tls_harness import ALICE, BROKER, Listener
from twisted_kafka.tls.ssl_context import SESSION_S, Identity, client_context, is_end_of_file, reason_of
from twisted_kafka.tls.ssl_settings import SslSettings


def entry(reason: str) -> tuple[str, str, str]:
    return ("SSL routines", "", reason)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SSL.Error([entry("no shared cipher")]), "no shared cipher: both sides have no cipher suite in common"),
        (SSL.Error([entry("bad length"), entry("no shared cipher")]), "bad length"),
        (SSL.Error([entry(""), entry("bad length")]), "bad length"),
        (SSL.SysCallError(-1, "Unexpected EOF"), "the peer closed the connection"),
        (SSL.Error(), "Error"),
        (SSL.Error([]), "[]"),
        (ValueError("the certificate is strange"), "the certificate is strange"),
        (SSL.ZeroReturnError(), "ZeroReturnError"),
    ],
)
def test_the_reason_of_an_error_is_one_short_line(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
    connection = SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD))
    assert reason_of(error, connection) == reason
    connection.set_app_data("the certificate is rejected")
    assert reason_of(error, connection) == "the certificate is rejected"


def test_an_end_without_a_goodbye_is_known_wherever_it_is_among_the_errors() -> None:
    end = entry("unexpected eof while reading")
    for entries in ([end], [entry("system library"), end], [end, entry("system library")]):
        assert is_end_of_file(SSL.Error(entries))
    for error in (SSL.Error(), SSL.Error([]), SSL.Error([entry("bad length")]), SSL.Error("unexpected eof while reading")):
        assert not is_end_of_file(error)


@pytest.mark.parametrize(
    ("client_auth", "mode"),
    [
        ("none", SSL.VERIFY_NONE),
        ("requested", SSL.VERIFY_PEER),
        ("required", SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT),
    ],
)
def test_the_context_of_a_listener(client_auth: str, mode: int) -> None:
    listener = Listener(ssl_client_auth=client_auth)
    context = Identity(SslSettings.of_listener(listener.config(), "SSL"), 0).server
    assert context.get_verify_mode() == mode
    assert context.get_timeout() == SESSION_S
    assert context.get_session_cache_mode() == SSL.SESS_CACHE_OFF
    options = SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE
    assert context.set_options(0) & options == options
    assert context.set_mode(0) & SSL.MODE_RELEASE_BUFFERS


def test_a_client_is_told_whose_certificates_are_trusted() -> None:
    client = Listener(ssl_client_auth="requested").connect(ALICE).handshake()
    assert [dict(name.get_components())[b"CN"] for name in client.tls.get_client_ca_list()] == [b"Test CA"]


def test_a_client_gets_the_whole_chain() -> None:
    client = Listener().connect().handshake()
    assert client.tls.get_peer_cert_chain(as_cryptography=True) == list(BROKER.chain)
    assert len(BROKER.chain) > 1


def test_a_client_needs_neither_a_key_nor_a_trust_store() -> None:
    config = Listener().config(
        **dict.fromkeys(("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates"), "")
    )
    context = client_context(SslSettings.of_listener(config, "SSL"))
    assert context.get_verify_mode() == SSL.VERIFY_PEER
