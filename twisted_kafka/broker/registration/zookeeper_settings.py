"""The ``zookeeper.*`` keys as settings of the metadata store in ZooKeeper, with its TLS context."""

import os
import ssl
import tempfile
from importlib.util import find_spec
from typing import Final

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.metadata.zookeeper.settings import SaslCredentials, ZooKeeperSettings, split_connect
from twisted_kafka.security.sasl.jaas import JaasError, options_of, parse_jaas
from twisted_kafka.system import machine
from twisted_kafka.system.installation import install_command
from twisted_kafka.tls.ciphers import OPENSSL_NAMES, TLS_1_3_SUITES
from twisted_kafka.tls.ssl_settings import JKS, PEM, PKCS12, StoreSettings
from twisted_kafka.tls.stores import KeyMaterial, load_key_store, load_trust_store

_JAAS_KEY: Final = "zookeeper.sasl.jaas.config"
_LOGIN_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
_NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
_NIO: Final = "org.apache.zookeeper.ClientCnxnSocketNIO"
_VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_TYPES_BY_ENDING: Final = {".jks": JKS, ".p12": PKCS12, ".pfx": PKCS12, ".pem": PEM}


def zookeeper_settings(config: KafkaConfig) -> ZooKeeperSettings:
    """Return the settings of a broker whose ``zookeeper.connect`` is set; raises ConfigError."""
    for key in ("zookeeper.metadata.migration.enable", "zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"):
        if config.boolean(key):
            raise ConfigError(f"Invalid value true for {key}: must be false, this broker does not support it")
    try:
        hosts, chroot = split_connect(config.string("zookeeper.connect"))
    except ValueError as error:
        raise ConfigError(f"Invalid value {config.text('zookeeper.connect')!r} for zookeeper.connect: {error}") from None
    digest = _password(config, "zookeeper.auth.digest")
    if digest is not None and not all(digest.partition(":")):
        raise ConfigError("Invalid value for zookeeper.auth.digest: must be USER:PASSWORD")
    sasl = _sasl(config)
    tls = _tls_context(config)
    secure = config.boolean("zookeeper.set.acl")
    has_certificate = tls is not None and config.optional_string("zookeeper.ssl.keystore.location")
    if secure and digest is None and sasl is None and not has_certificate:
        raise ConfigError(
            "zookeeper.set.acl=true requires an identity at ZooKeeper: zookeeper.sasl.jaas.config, zookeeper.auth.digest, or "
            "zookeeper.ssl.client.enable with zookeeper.ssl.keystore.location"
        )
    session_ms = config.int("zookeeper.session.timeout.ms")
    connection_ms = (
        config.int("zookeeper.connection.timeout.ms") if config.is_set("zookeeper.connection.timeout.ms") else session_ms
    )
    return ZooKeeperSettings(
        hosts=hosts,
        chroot=chroot,
        session_timeout_ms=session_ms,
        connection_timeout_ms=connection_ms,
        max_in_flight=config.int("zookeeper.max.in.flight.requests"),
        secure_acls=secure,
        digest=digest,
        sasl=sasl,
        tls=tls,
    )


def _password(config: KafkaConfig, key: str) -> str | None:
    value = config.for_listener("", key)
    return value if isinstance(value, str) and value else None


def _sasl(config: KafkaConfig) -> SaslCredentials | None:
    """Return the credentials of ``DigestLoginModule``, None without a login module."""
    text = _password(config, _JAAS_KEY)
    if text is None:
        return None
    try:
        entries = parse_jaas(text)
    except JaasError as error:
        raise ConfigError(f"Invalid value for {_JAAS_KEY}: {error}") from None
    options = options_of(entries, _LOGIN_MODULE.rpartition(".")[2])
    if any(entry.login_module != _LOGIN_MODULE for entry in entries) or not all(map(options.get, SaslCredentials._fields)):
        raise ConfigError(f"Invalid value for {_JAAS_KEY}: must be {_LOGIN_MODULE} required username=... password=...;")
    if find_spec("puresasl") is None:
        raise ConfigError(f"{_JAAS_KEY} requires pure-sasl: {install_command('zookeeper-sasl')}")
    return SaslCredentials(options["username"], options["password"])


def _list(config: KafkaConfig, key: str) -> list[str]:
    value = config.for_listener("", key)
    return [each for each in value if each] if isinstance(value, tuple) else []


def _tls_context(config: KafkaConfig) -> ssl.SSLContext | None:
    """Return the TLS context, None without ``zookeeper.ssl.client.enable``."""
    transport = config.optional_string("zookeeper.clientCnxnSocket")
    if transport not in (None, _NETTY, _NIO):
        raise ConfigError(f"Invalid value {transport!r} for zookeeper.clientCnxnSocket: must be {_NETTY} or {_NIO}")
    if not config.boolean("zookeeper.ssl.client.enable"):
        return None
    if transport == _NIO:
        raise ConfigError(f"zookeeper.ssl.client.enable=true requires zookeeper.clientCnxnSocket={_NETTY}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    identification = config.optional_string("zookeeper.ssl.endpoint.identification.algorithm") or ""
    if identification.lower() not in ("https", ""):
        raise ConfigError(
            f"Invalid value {identification!r} for zookeeper.ssl.endpoint.identification.algorithm: must be HTTPS, or empty"
        )
    context.check_hostname = bool(identification)
    trust_store, key_store = _trust_store(config), _key_store(config)
    if trust_store.is_set:
        trusted = load_trust_store(trust_store)
        context.load_verify_locations(cadata="".join(each.public_bytes(Encoding.PEM).decode() for each in trusted))
        # As in Java, every certificate of a trust store is a trust anchor, even if it is not self-signed.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    else:
        context.load_default_certs()
    if key_store.is_set:
        _use_key(context, load_key_store(key_store))
    _restrict(context, config)
    return context


def _key_store(config: KafkaConfig) -> StoreSettings:
    location = config.optional_string("zookeeper.ssl.keystore.location")
    password = _password(config, "zookeeper.ssl.keystore.password")
    kind = _type(config, "zookeeper.ssl.keystore.type", location)
    return StoreSettings("zookeeper.ssl.keystore", kind, location, password, password)


def _trust_store(config: KafkaConfig) -> StoreSettings:
    location = config.optional_string("zookeeper.ssl.truststore.location")
    password = _password(config, "zookeeper.ssl.truststore.password")
    return StoreSettings("zookeeper.ssl.truststore", _type(config, "zookeeper.ssl.truststore.type", location), location, password)


def _type(config: KafkaConfig, key: str, location: str | None) -> str:
    """Return the type of a store. As in ZooKeeper's client, the file's name decides if it is not set."""
    named = config.optional_string(key)
    if named is None:
        ending = (location or "").lower()[-4:]
        return _TYPES_BY_ENDING.get(ending, JKS)
    if named.upper() not in (JKS, PKCS12, PEM):
        raise ConfigError(f"Invalid value {named!r} for {key}: must be JKS, PKCS12 or PEM")
    return named.upper()


def _use_key(context: ssl.SSLContext, material: KeyMaterial) -> None:
    """Load a key into a context, which reads files only: encrypted, with a password that nobody else knows."""
    password = machine.random_bytes(32).hex()
    pem = material.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    descriptor, path = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem + b"".join(each.public_bytes(Encoding.PEM) for each in material.chain))
        context.load_cert_chain(path, password=password)
    finally:
        os.unlink(path)


def _restrict(context: ssl.SSLContext, config: KafkaConfig) -> None:
    """Restrict a context to the configured protocol versions and cipher suites."""
    protocols = _list(config, "zookeeper.ssl.enabled.protocols") or [config.string("zookeeper.ssl.protocol")]
    versions = [_VERSIONS[each] for each in protocols if each in _VERSIONS]
    if len(versions) != len(protocols):
        raise ConfigError(
            f"Invalid value {','.join(protocols)!r} for zookeeper.ssl.enabled.protocols: must be some of {', '.join(_VERSIONS)}"
        )
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    suites = _list(config, "zookeeper.ssl.cipher.suites")
    older = [OPENSSL_NAMES.get(each, each) for each in suites if each not in TLS_1_3_SUITES]
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise ConfigError(
                f"Invalid value {','.join(suites)!r} for zookeeper.ssl.cipher.suites: unknown cipher suites"
            ) from None
