import base64
import os
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from tests.support.certificates import KEY_PASSWORD, PASSWORD, Authority
from tests.tls import jks_stores
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.tls.distinguished_name import java_name
from twisted_kafka.tls.ssl_settings import MAX_STORE_BYTES, SslSettings
from twisted_kafka.tls.stores import load_key_store, load_trust_store

DATA = Path(__file__).resolve().parents[1] / "data" / "tls"
SECRETS = (PASSWORD, KEY_PASSWORD, "wrong-secret", "BEGIN PRIVATE", "BEGIN ENCRYPTED")
CA = Authority()
BROKER = CA.issue("CN=broker,O=Tests", ["localhost"])
EC_KEY = "2a8648ce3d0201"
"""The object identifier of keys on elliptic curves, in hexadecimal digits."""


def settings(**keys: object) -> SslSettings:
    properties = {f"ssl.{key.replace('_', '.')}": str(value) for key, value in keys.items()}
    return SslSettings.of_listener(KafkaConfig.embedded(properties), "SSL")


def test_pem_in_a_file_with_an_encrypted_key(tmp_path: Path) -> None:
    path = BROKER.write_pem(tmp_path / "key.pem", KEY_PASSWORD)
    found = load_key_store(settings(keystore_type="PEM", keystore_location=path, key_password=KEY_PASSWORD).key_store)
    assert found.distinguished_name == "CN=broker,O=Tests"
    assert found.alternative_names == {"DNSName=localhost"}
    assert [one.subject for one in found.chain] == [BROKER.certificate.subject, CA.certificate.subject]


@pytest.mark.parametrize("between", ["\n", " ", "\r\n", ""])
def test_pem_in_the_settings_with_its_lines_joined(between: str) -> None:
    chain = between.join(BROKER.chain_pem.splitlines())
    key = between.join(BROKER.key_pem().splitlines())
    trusted = between.join(CA.pem.splitlines())
    loaded = settings(
        keystore_type="PEM",
        keystore_certificate_chain=chain,
        keystore_key=key,
        truststore_type="PEM",
        truststore_certificates=trusted,
    )
    assert load_key_store(loaded.key_store).chain == BROKER.chain
    assert load_trust_store(loaded.trust_store) == (CA.certificate,)


def test_traditional_keys_are_read_too(tmp_path: Path) -> None:
    encryption = serialization.BestAvailableEncryption(KEY_PASSWORD.encode())
    form = serialization.PrivateFormat.TraditionalOpenSSL
    key = BROKER.key.private_bytes(serialization.Encoding.PEM, form, encryption).decode()
    assert "DEK-Info" in key
    path = tmp_path / "key.pem"
    path.write_text(BROKER.chain_pem + key)
    found = load_key_store(settings(keystore_type="PEM", keystore_location=path, key_password=KEY_PASSWORD).key_store)
    assert found.chain == BROKER.chain


def test_a_store_in_the_settings_is_named_by_their_prefix() -> None:
    chain, key = "".join(BROKER.chain_pem.splitlines()), "".join(BROKER.key_pem(KEY_PASSWORD).splitlines())
    store = settings(keystore_type="PEM", keystore_certificate_chain=chain, keystore_key=key).key_store
    with pytest.raises(ConfigError) as refused:
        load_key_store(store)
    assert str(refused.value) == "The private key of ssl.keystore.* is encrypted: ssl.key.password must be set"


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_pkcs12_whatever_of_javas_two_kinds_it_is_said_to_be(tmp_path: Path, kind: str) -> None:
    path = BROKER.write_pkcs12(tmp_path / "key.p12")
    trust = CA.write_trust_pkcs12(tmp_path / "trust.p12")
    loaded = settings(
        keystore_type=kind,
        keystore_location=path,
        keystore_password=PASSWORD,
        truststore_type=kind,
        truststore_location=trust,
        truststore_password=PASSWORD,
    )
    assert load_key_store(loaded.key_store).chain == BROKER.chain
    assert load_trust_store(loaded.trust_store) == (CA.certificate,)


def test_a_trust_store_without_a_password(tmp_path: Path) -> None:
    path = tmp_path / "trust.p12"
    path.write_bytes(pkcs12.serialize_key_and_certificates(None, None, None, [CA.certificate], serialization.NoEncryption()))
    assert load_trust_store(settings(truststore_location=path).trust_store) == (CA.certificate,)


def test_stores_that_keytool_made() -> None:
    loaded = settings(
        keystore_location=DATA / "key.jks",
        keystore_password=PASSWORD,
        key_password=KEY_PASSWORD,
        truststore_location=DATA / "trust.jks",
        truststore_password=PASSWORD,
    )
    found = load_key_store(loaded.key_store)
    assert found.distinguished_name == "CN=jks-broker,O=Tests"
    assert load_trust_store(loaded.trust_store) == found.chain
    pkcs12 = settings(truststore_type="PKCS12", truststore_location=DATA / "trust.p12", truststore_password=PASSWORD)
    assert load_trust_store(pkcs12.trust_store) == found.chain


def bad_stores(folder: Path) -> list[tuple[str, dict[str, object]]]:
    encrypted = BROKER.write_pem(folder / "encrypted.pem", KEY_PASSWORD)
    store = BROKER.write_pkcs12(folder / "key.p12")
    jceks = folder / "key.jceks"
    jceks.write_bytes(b"\xce\xce\xce\xce" + bytes(50))
    cut = folder / "cut.jks"
    cut.write_bytes((DATA / "key.jks").read_bytes()[:100])
    other = folder / "other.pem"
    other.write_text(CA.issue("CN=other").key_pem() + BROKER.chain_pem)
    nothing = folder / "nothing.pem"
    nothing.write_text("nothing")
    pem, jks = {"keystore_type": "PEM"}, {"keystore_type": "JKS"}
    no_certificate = folder / "key.pem"
    no_certificate.write_text(BROKER.key_pem())
    no_key = folder / "certificates.p12"
    encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
    no_key.write_bytes(pkcs12.serialize_key_and_certificates(None, None, None, [CA.certificate], encryption))
    return [
        ("must hold a private key and its certificate", {**jks, "keystore_location": no_key, "keystore_password": PASSWORD}),
        ("must hold a private key and its certificate", {**pem, "keystore_location": no_certificate}),
        ("ssl.key.password must be set", {**pem, "keystore_location": encrypted}),
        ("ssl.key.password is wrong", {**pem, "keystore_location": encrypted, "key_password": "wrong-secret"}),
        ("no certificate for its private key", {**pem, "keystore_location": other}),
        ("must hold one private key", {**pem, "keystore_location": nothing}),
        ("No such file", {**pem, "keystore_location": folder / "absent"}),
        ("ssl.keystore.password is wrong", {**jks, "keystore_location": store, "keystore_password": "wrong-secret"}),
        ("its password is wrong", {**jks, "keystore_location": DATA / "key.jks", "keystore_password": "wrong-secret"}),
        ("password of its key broker is wrong", {**jks, "keystore_location": DATA / "key.jks", "keystore_password": PASSWORD}),
        ("keytool -importkeystore", {**jks, "keystore_location": jceks, "keystore_password": PASSWORD}),
        ("its password is wrong, or it has been modified", {**jks, "keystore_location": cut, "keystore_password": PASSWORD}),
        ("is PEM: ssl.keystore.type must be PEM", {**jks, "keystore_location": encrypted, "keystore_password": PASSWORD}),
    ]


@pytest.mark.parametrize("number", range(13))
def test_a_bad_store_is_one_clear_line_without_secrets(tmp_path: Path, number: int) -> None:
    expected, keys = bad_stores(tmp_path)[number]
    with pytest.raises(ConfigError) as caught:
        load_key_store(settings(**keys).key_store)
    text = str(caught.value)
    assert expected in text
    assert f"ssl.keystore.location {keys['keystore_location']}" in text
    assert "\n" not in text
    assert not any(secret in text for secret in SECRETS)


@pytest.mark.parametrize(
    ("expected", "keys"),
    [
        ("must be PEM when", {"keystore_certificate_chain": "x", "keystore_key": "y"}),
        ("must be set together", {"keystore_type": "PEM", "keystore_key": "y"}),
        (
            "PEM stores have no password; the private key's is ssl.key.password",
            {"keystore_type": "PEM", "keystore_location": "x", "keystore_password": PASSWORD},
        ),
        (
            "PEM stores have no password$",
            {"truststore_type": "PEM", "truststore_location": "x", "truststore_password": PASSWORD},
        ),
        ("must not be set together", {"truststore_type": "PEM", "truststore_location": "x", "truststore_certificates": "y"}),
        ("must be JKS, PKCS12 or PEM", {"truststore_type": "BKS"}),
        ("ssl.keystore.password must be set", {"keystore_location": "x"}),
        ("must be https", {"endpoint_identification_algorithm": "LDAPS"}),
        ("loads no Java classes", {"engine_factory_class": "org.example.Factory"}),
        ("ssl.protocol", {"protocol": "SSLv3"}),
    ],
)
def test_settings_at_odds_are_refused(expected: str, keys: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=expected):
        settings(**keys)


def test_secrets_do_not_show() -> None:
    loaded = settings(
        keystore_type="PEM",
        keystore_certificate_chain=BROKER.chain_pem,
        keystore_key=BROKER.key_pem(KEY_PASSWORD),
        key_password=KEY_PASSWORD,
        truststore_password=PASSWORD,
    )
    shown = repr(loaded) + repr(load_key_store(loaded.key_store))
    assert not any(secret in shown for secret in SECRETS)


def test_a_listeners_own_settings_come_first() -> None:
    config = KafkaConfig.embedded(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:SSL",
            "ssl.client.auth": "none",
            "listener.name.outside.ssl.client.auth": "required",
        }
    )
    assert SslSettings.of_listener(config, "OUTSIDE").client_auth == "required"
    assert SslSettings.of_listener(config, "SSL").client_auth == "none"


def test_a_chain_is_put_in_order_without_what_is_not_of_it(tmp_path: Path) -> None:
    other = CA.issue("CN=other")
    path = tmp_path / "key.pem"
    pem = [one.public_bytes(serialization.Encoding.PEM).decode() for one in (*other.chain, BROKER.certificate, CA.certificate)]
    path.write_text("".join(pem) + BROKER.key_pem())
    found = load_key_store(settings(keystore_type="PEM", keystore_location=path).key_store)
    assert found.chain == BROKER.chain
    path.write_text(BROKER.key_pem() + BROKER.chain_pem.split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----")
    found = load_key_store(settings(keystore_type="PEM", keystore_location=path).key_store)
    assert found.chain == (BROKER.certificate,), "its issuer is not there"


def altered(certificate: x509.Certificate, before: str, after: str) -> str:
    data = certificate.public_bytes(serialization.Encoding.DER)
    assert bytes.fromhex(before) in data
    found = base64.b64encode(data.replace(bytes.fromhex(before), bytes.fromhex(after), 1)).decode()
    return f"-----BEGIN CERTIFICATE-----\n{found}\n-----END CERTIFICATE-----\n"


def test_an_issuer_with_a_key_of_an_unknown_kind_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    own = BROKER.certificate.public_bytes(serialization.Encoding.PEM).decode()
    path.write_text(altered(CA.certificate, EC_KEY, EC_KEY[:-2] + "63") + own + BROKER.key_pem())
    found = load_key_store(settings(keystore_type="PEM", keystore_location=path).key_store)
    assert [java_name(each.subject.public_bytes()) for each in found.chain] == ["CN=broker,O=Tests", "CN=Test CA,O=Tests"]


def test_a_certificate_with_a_broken_name_is_malformed(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_text(altered(BROKER.certificate, "0c055465737473", "03055465737473") + BROKER.key_pem())
    with pytest.raises(ConfigError, match="it is malformed"):
        load_key_store(settings(keystore_type="PEM", keystore_location=path).key_store)


def test_a_certificate_of_an_unknown_version_is_malformed(tmp_path: Path) -> None:
    path = tmp_path / "trust.pem"
    path.write_text(altered(CA.certificate, "a003020102", "a003020105"))
    with pytest.raises(ConfigError, match="it is malformed"):
        load_trust_store(settings(truststore_type="PEM", truststore_location=path).trust_store)


def test_a_password_for_a_key_without_one_is_no_matter(tmp_path: Path) -> None:
    path = BROKER.write_pem(tmp_path / "key.pem")
    found = load_key_store(settings(keystore_type="PEM", keystore_location=path, key_password=KEY_PASSWORD).key_store)
    assert found.chain == BROKER.chain


def test_names_of_a_certificate(tmp_path: Path) -> None:
    named = CA.issue("CN=broker", ["localhost", "127.0.0.1"]).write_pem(tmp_path / "named.pem")
    found = load_key_store(settings(keystore_type="PEM", keystore_location=named).key_store)
    assert found.alternative_names == {"DNSName=localhost", "IPAddress=127.0.0.1"}
    plain = CA.issue("CN=broker").write_pem(tmp_path / "plain.pem")
    assert load_key_store(settings(keystore_type="PEM", keystore_location=plain).key_store).alternative_names == frozenset()


def bad_trust_stores(folder: Path) -> list[tuple[str, dict[str, object]]]:
    pem = folder / "trust.pem"
    pem.write_text("nothing")
    torn = folder / "torn.pem"
    torn.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")
    store = CA.write_trust_pkcs12(folder / "trust.p12")
    return [
        ("holds no certificate", {"truststore_type": "PEM", "truststore_location": pem}),
        ("cannot be read: it is malformed", {"truststore_type": "PEM", "truststore_location": torn}),
        ("ssl.truststore.password is wrong", {"truststore_location": store, "truststore_password": "wrong-secret"}),
        ("its password is wrong", {"truststore_location": DATA / "trust.jks", "truststore_password": "wrong-secret"}),
        ("is PEM: ssl.truststore.type must be PEM", {"truststore_location": CA.write_trust(folder / "ca.pem")}),
        ("No such file", {"truststore_location": folder / "absent"}),
    ]


@pytest.mark.parametrize("number", range(6))
def test_a_bad_trust_store_is_one_clear_line(tmp_path: Path, number: int) -> None:
    expected, keys = bad_trust_stores(tmp_path)[number]
    with pytest.raises(ConfigError) as caught:
        load_trust_store(settings(**keys).trust_store)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_java_also_trusts_the_certificates_of_keys_in_a_trust_store() -> None:
    loaded = settings(truststore_location=DATA / "key.jks", truststore_password=PASSWORD)
    keys = settings(keystore_location=DATA / "key.jks", keystore_password=PASSWORD, key_password=KEY_PASSWORD)
    assert load_trust_store(loaded.trust_store) == load_key_store(keys.key_store).chain[:1]


def test_a_key_store_may_be_a_trust_store(tmp_path: Path) -> None:
    path = BROKER.write_pkcs12(tmp_path / "key.p12")
    loaded = settings(truststore_location=path, truststore_password=PASSWORD)
    assert load_trust_store(loaded.trust_store) == BROKER.chain


def test_a_key_may_have_the_password_of_its_store(tmp_path: Path) -> None:
    der = BROKER.key.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain = [each.public_bytes(serialization.Encoding.DER) for each in BROKER.chain]
    path = tmp_path / "key.jks"
    path.write_bytes(jks_stores.store(jks_stores.key("broker", jks_stores.protected(der, PASSWORD), chain), password=PASSWORD))
    loaded = settings(keystore_location=path, keystore_password=PASSWORD)
    assert load_key_store(loaded.key_store).chain == BROKER.chain


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    path = BROKER.write_pem(tmp_path / "key.pem")
    loaded = settings(keystore_type="PEM", keystore_location=path)
    state = loaded.state()
    assert loaded.state() == state
    path.write_text(path.read_text() + "\n")
    assert loaded.state() != state
    path.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        loaded.state()
    assert settings().state() == ()


def test_settings_and_their_defaults() -> None:
    loaded = settings(enabled_protocols="TLSv1.2,TLSv1.3", cipher_suites="A,B", client_auth="required")
    assert (loaded.protocols, loaded.cipher_suites, loaded.client_auth) == (("TLSv1.2", "TLSv1.3"), ("A", "B"), "required")
    assert (loaded.identification, loaded.key_store.is_set, loaded.trust_store.is_set) == ("https", False, False)
    for protocol, enabled in (("TLS", "TLSv1.3"), ("TLSv1.3", "TLSv1.3"), ("TLSv1.2", "TLSv1.2")):
        assert settings(protocol=protocol, enabled_protocols="").protocols == (enabled,)
    assert settings(protocol="").protocols == settings().protocols
    assert settings(endpoint_identification_algorithm="HTTPS").identification == "https"
    assert settings(truststore_type="pem", truststore_certificates="x").trust_store.is_set
    assert settings(keystore_location="x", keystore_password="y").key_store.is_set


def test_an_empty_setting_is_none() -> None:
    stores = [f"{store}_{key}" for store in ("keystore", "truststore") for key in ("type", "location", "password")]
    inline = ["key_password", "keystore_certificate_chain", "keystore_key", "truststore_certificates"]
    empty = dict.fromkeys((*stores, *inline, "engine_factory_class"), "")
    assert settings(**empty) == settings()


def test_a_block_without_an_end_is_no_block() -> None:
    begun = "-----BEGIN CERTIFICATE-----\n"
    store = settings(truststore_type="PEM", truststore_certificates=begun * 40_000 + "-----END NOTHING-----\n" + CA.pem).trust_store
    assert load_trust_store(store) == (CA.certificate,)


def test_a_store_is_a_file_of_a_bounded_size(tmp_path: Path) -> None:
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    large.touch()
    os.truncate(large, MAX_STORE_BYTES + 1)
    for path, why in ((pipe, "not a regular file"), ("/dev/zero", "not a regular file"), (large, "more than 16777216 bytes")):
        with pytest.raises(ConfigError, match=f"Cannot read ssl.truststore.location .*{why}"):
            load_trust_store(settings(truststore_type="PEM", truststore_location=path).trust_store)
