from pathlib import Path

import pytest
from OpenSSL import SSL

from tests.support.certificates import PASSWORD, Authority
from tests.support.certificates import Identity as Issued
from tests.support.network_fakes import frame, lines_of
from tests.support.tls_harness import ALICE, BROKER, CA, Listener, TlsClient, broker_settings, client_context
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.tls.ssl_context import Identity, verify_together
from twisted_kafka.tls.ssl_settings import SslSettings

OTHER_CA = Authority("CN=Other CA")


def files(folder: Path, identity: Issued) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(identity.write_pkcs12(folder / "key.p12")),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(CA.write_trust_pkcs12(folder / "trust.p12")),
        "ssl.truststore.password": PASSWORD,
        "listeners": "SSL://127.0.0.1:0",
    }


def serial_of(client: TlsClient) -> int:
    certificate = client.tls.get_peer_certificate(as_cryptography=True)
    assert certificate is not None
    return certificate.serial_number


@pytest.mark.medium
def test_a_file_that_was_replaced_serves_new_connections_and_leaves_the_old_ones(tmp_path: Path) -> None:
    listener = Listener(files(tmp_path, BROKER))
    old = listener.connect().handshake()
    listener.builder.reconfigure(listener.config())
    assert serial_of(listener.connect().handshake()) == BROKER.certificate.serial_number
    renewed = CA.issue("CN=broker,O=Tests", ["localhost", "second.example"])
    renewed.write_pkcs12(tmp_path / "key.p12")
    assert serial_of(listener.connect().handshake()) == BROKER.certificate.serial_number
    listener.builder.validate_reconfiguration(listener.config())
    assert serial_of(listener.connect().handshake()) == BROKER.certificate.serial_number
    listener.builder.reconfigure(listener.config())
    assert serial_of(listener.connect().handshake()) == renewed.certificate.serial_number
    old.send(frame(1))
    assert listener.layer.take() is not None


@pytest.mark.parametrize(
    ("identity", "expected", "allowed_by"),
    [
        (
            CA.issue("CN=another,O=Tests", ["localhost"]),
            "it was CN=broker,O=Tests and is now CN=another",
            "ssl.allow.dn.changes",
        ),
        (CA.issue("CN=broker,O=Tests", ["other"]), "lacks DNSName=localhost", "ssl.allow.san.changes"),
    ],
)
def test_somebody_elses_certificate_is_refused_unless_it_is_allowed(identity: Issued, expected: str, allowed_by: str) -> None:
    listener = Listener()
    changed = broker_settings(identity)
    for apply in (listener.builder.validate_reconfiguration, listener.builder.reconfigure):
        with pytest.raises(ConfigError, match=expected):
            apply(listener.config(**changed))
    assert serial_of(listener.connect().handshake()) == BROKER.certificate.serial_number
    listener.builder.reconfigure(listener.config(**changed, **{allowed_by: "true"}))
    assert serial_of(listener.connect().handshake()) == identity.certificate.serial_number


def test_a_bad_new_store_leaves_the_present_one(tmp_path: Path) -> None:
    listener = Listener(files(tmp_path, BROKER))
    (tmp_path / "key.p12").write_bytes(b"torn")
    with pytest.raises(ConfigError, match="is not a PKCS12 store"):
        listener.builder.reconfigure(listener.config())
    assert serial_of(listener.connect().handshake()) == BROKER.certificate.serial_number


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    listener = Listener(files(tmp_path, BROKER))
    listener.builder.refresh(listener.config())
    renewed = CA.issue("CN=broker,O=Tests", ["localhost"])
    renewed.write_pkcs12(tmp_path / "key.p12")
    listener.builder.refresh(listener.config())
    assert serial_of(listener.connect().handshake()) == renewed.certificate.serial_number


@pytest.mark.medium
def test_a_file_that_cannot_be_used_is_told_of_once_and_replaced_by_the_next(tmp_path: Path) -> None:
    listener = Listener(files(tmp_path, BROKER))
    path = tmp_path / "key.p12"
    path.write_bytes(b"torn")
    torn, again = (lines_of(lambda: listener.builder.refresh(listener.config())) for _ in range(2))
    path.unlink()
    gone = lines_of(lambda: listener.builder.refresh(listener.config()))
    assert [len(torn), len(again), len(gone)] == [1, 0, 1]
    assert "Listener SSL keeps its certificates: " in torn[0]
    assert "is not a PKCS12 store" in torn[0]
    assert "Cannot read ssl.keystore.location" in gone[0]
    assert serial_of(listener.connect().handshake()) == BROKER.certificate.serial_number
    renewed = CA.issue("CN=broker,O=Tests", ["localhost"])
    renewed.write_pkcs12(path)
    listener.builder.refresh(listener.config())
    assert serial_of(listener.connect().handshake()) == renewed.certificate.serial_number


def test_new_trust_counts_for_sessions_too() -> None:
    listener = Listener(ssl_client_auth="required")
    context = client_context(ALICE)
    first = listener.connect(context=context).handshake()
    changed = {"ssl.truststore.certificates": OTHER_CA.pem}
    listener.builder.reconfigure(listener.config(**changed))
    again = listener.connect(context=context, session=first.tls.get_session()).handshake()
    assert again.error is not None
    assert listener.stats.failed_authentications == 1
    assert listener.connect(OTHER_CA.issue("CN=bob")).handshake().channel.connection.principal == KafkaPrincipal("User", "CN=bob")


def test_the_listener_between_brokers_must_trust_itself() -> None:
    between = {"security.inter.broker.protocol": "SSL"}
    Listener({**broker_settings(), **between})
    with pytest.raises(ConfigError, match="does not accept the key store: the certificate 'CN=Test CA,O=Tests' is rejected"):
        Listener({**broker_settings(trusted=OTHER_CA), **between})
    Listener(broker_settings(trusted=OTHER_CA))  # no other broker connects to this one


@pytest.mark.parametrize("version", [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION])
def test_a_server_that_rejects_the_clients_certificate_is_noticed(version: int) -> None:
    """In TLS 1.3 the client's handshake is complete before the server has seen its certificate."""
    listener = Listener(ssl_client_auth="required")
    server = Identity(SslSettings.of_listener(listener.config(), "SSL"), 0).server
    for authority, is_accepted in ((CA, True), (OTHER_CA, False)):
        client = client_context(authority.issue("CN=client"))
        client.set_min_proto_version(version)
        client.set_max_proto_version(version)
        if is_accepted:
            verify_together(client, server)
        else:
            with pytest.raises(ConfigError, match=r"does not accept the key store: the certificate .* is rejected"):
                verify_together(client, server)


def test_without_a_trust_store_the_system_s_authorities_are_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CA.write_trust(tmp_path / "system.pem")))
    listener = Listener(
        {key: value for key, value in broker_settings().items() if "truststore" not in key}, ssl_client_auth="required"
    )
    assert listener.connect(ALICE).handshake().channel.connection.principal.name.startswith("CN=alice")
    assert listener.connect(OTHER_CA.issue("CN=mallory")).handshake().error is not None


def test_a_certificate_in_the_trust_store_is_trusted_by_itself() -> None:
    alone = broker_settings()
    alone["ssl.truststore.certificates"] = ALICE.chain_pem.split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----"
    listener = Listener(alone, ssl_client_auth="required")
    assert listener.connect(ALICE).handshake().channel.connection.principal.name.startswith("CN=alice")
    assert listener.connect(CA.issue("CN=bob")).handshake().error is not None


@pytest.mark.parametrize(
    ("settings", "protocol", "suite"),
    [
        ({"ssl.enabled.protocols": "TLSv1.2"}, "TLSv1.2", None),
        ({"ssl.enabled.protocols": "TLSv1.3"}, "TLSv1.3", None),
        ({"ssl.cipher.suites": "TLS_CHACHA20_POLY1305_SHA256"}, "TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256"),
        ({"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"}, "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ({"ssl.cipher.suites": "ECDHE-ECDSA-AES128-SHA256, TLS_AES_128_GCM_SHA256"}, "TLSv1.3", "TLS_AES_128_GCM_SHA256"),
        # A suite that OpenSSL enables only when it is named.
        ({"ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CCM_8, TLS_AES_128_GCM_SHA256"}, "TLSv1.3", "TLS_AES_128_GCM_SHA256"),
        ({"ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": ""}, "TLSv1.2", None),
    ],
)
def test_protocols_and_suites(settings: dict[str, str], protocol: str, suite: str | None) -> None:
    client = Listener({**broker_settings(), **settings}).connect().handshake()
    assert client.error is None
    assert client.tls.get_protocol_version_name() == protocol
    assert suite is None or client.tls.get_cipher_name() == suite


def test_a_client_without_a_common_version_or_suite_is_told_so() -> None:
    listener = Listener(ssl_enabled_protocols="TLSv1.3")
    context = client_context(None)
    context.set_max_proto_version(SSL.TLS1_2_VERSION)
    assert "protocol version" in str(listener.connect(context=context).handshake().error)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"ssl.enabled.protocols": "SSLv3"}, "ssl.enabled.protocols"),
        ({"ssl.cipher.suites": "TLS_RSA_WITH_ROT13"}, "unknown or weak cipher suite"),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384", "ssl.enabled.protocols": "TLSv1.2"}, "must have one for"),
    ],
)
def test_protocols_and_suites_that_are_none_are_refused(settings: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        Listener({**broker_settings(), **settings})


def test_a_listener_without_a_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be set for listener SSL"):
        Listener({"listeners": "SSL://127.0.0.1:0"})
