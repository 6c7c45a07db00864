"""The ``ssl.*`` settings of one listener, without settings that only apply to Java. Their repr contains no secrets."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.system.files.file_io import read_bounded
from twisted_kafka.tls.ciphers import PROTOCOLS

JKS: Final = "JKS"
PKCS12: Final = "PKCS12"
PEM: Final = "PEM"

MAX_STORE_BYTES: Final = 16 * 1024 * 1024
"""A larger file is no store."""

_PROTOCOL_FAMILIES: Final = ("TLS", *PROTOCOLS)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """A key store or trust store: a file, PEM in the settings themselves, or none.

    ``prefix`` is the prefix of its config keys, for messages; ``inline`` has the certificates, ``inline_key`` a key store's key.
    """

    prefix: str
    type: str
    location: str | None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    inline: str | None = field(default=None, repr=False)
    inline_key: str | None = field(default=None, repr=False)

    @property
    def is_set(self) -> bool:
        """Whether a store is configured."""
        return bool(self.location or self.inline)

    def state(self) -> tuple[object, ...]:
        """Return a value that changes when the file is replaced or modified; raises ConfigError if it is missing."""
        if not self.location:
            return ()
        try:
            found = Path(self.location).stat()
        except OSError as error:
            raise self._unreadable(error) from None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def read(self) -> bytes:
        """Return the file's contents; raises ConfigError."""
        try:
            return read_bounded(Path(self.location or ""), MAX_STORE_BYTES, may_wait=False)
        except OSError as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: OSError) -> ConfigError:
        text = f"Cannot read {self.prefix}.location {self.location}: {error.strerror}"
        if isinstance(error, FileNotFoundError):
            text += "; twisted-kafka certificates DIR makes certificates for a first try"
        return ConfigError(text)


@dataclass(frozen=True, slots=True)
class SslSettings:
    """The TLS settings of one listener."""

    listener_name: str
    key_store: StoreSettings
    trust_store: StoreSettings
    client_auth: str
    protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    identification: str

    @classmethod
    def of_listener(cls, config: KafkaConfig, listener_name: str) -> "SslSettings":
        """Read a listener's settings, ``listener.name.<name>.ssl.*`` before ``ssl.*``; raises ConfigError if they contradict."""

        def text(key: str) -> str | None:
            value = config.for_listener(listener_name, key)
            return value if isinstance(value, str) and value else None

        def names(key: str) -> tuple[str, ...]:
            value = config.for_listener(listener_name, key)
            return tuple(filter(None, value)) if isinstance(value, tuple) else ()

        protocol = text("ssl.protocol") or "TLSv1.3"
        if protocol not in _PROTOCOL_FAMILIES:
            raise ConfigError(f"Invalid value {protocol!r} for ssl.protocol: must be one of {', '.join(_PROTOCOL_FAMILIES)}")
        if text("ssl.engine.factory.class") is not None:
            raise ConfigError("Invalid value for ssl.engine.factory.class: this broker loads no Java classes; remove it")
        key_store = StoreSettings(
            "ssl.keystore",
            _store_type(text("ssl.keystore.type"), "ssl.keystore.type"),
            text("ssl.keystore.location"),
            text("ssl.keystore.password"),
            text("ssl.key.password"),
            text("ssl.keystore.certificate.chain"),
            text("ssl.keystore.key"),
        )
        trust_store = StoreSettings(
            "ssl.truststore",
            _store_type(text("ssl.truststore.type"), "ssl.truststore.type"),
            text("ssl.truststore.location"),
            text("ssl.truststore.password"),
            inline=text("ssl.truststore.certificates"),
        )
        _check(key_store, trust_store)
        return cls(
            listener_name,
            key_store,
            trust_store,
            _client_auth(config, listener_name) or "none",
            names("ssl.enabled.protocols") or (protocol if protocol != "TLS" else "TLSv1.3",),
            names("ssl.cipher.suites"),
            _identification(text("ssl.endpoint.identification.algorithm")),
        )

    def state(self) -> tuple[object, ...]:
        """Return a value that changes when one of the files does; raises ConfigError."""
        return *self.key_store.state(), *self.trust_store.state()


def _client_auth(config: KafkaConfig, listener_name: str) -> str | None:
    """Return whether clients need certificates. Those of SASL_SSL only if the listener itself says so (KIP-684)."""
    own = config.prefixed(f"listener.name.{listener_name.lower()}.ssl.client.auth")
    uses_sasl = config.security_protocol_map.get(listener_name) == "SASL_SSL"
    value = own if uses_sasl else config.for_listener(listener_name, "ssl.client.auth")
    return value if isinstance(value, str) else None


def _store_type(text: str | None, key: str) -> str:
    kind = (text or JKS).upper()
    if kind not in (JKS, PKCS12, PEM):
        raise ConfigError(
            f"Invalid value {text!r} for {key}: must be JKS, PKCS12 or PEM; convert other stores with "
            f"keytool -importkeystore -srcstoretype {text} -deststoretype PKCS12"
        )
    return kind


def _identification(text: str | None) -> str:
    algorithm = (text or "").lower()
    if algorithm not in ("https", ""):
        raise ConfigError(f"Invalid value {text!r} for ssl.endpoint.identification.algorithm: must be https, or empty for none")
    return algorithm


def _check(key_store: StoreSettings, trust_store: StoreSettings) -> None:
    # As in Kafka's DefaultSslEngineFactory, contradictory settings are rejected.
    for store, key in ((key_store, "ssl.keystore.certificate.chain"), (trust_store, "ssl.truststore.certificates")):
        if store.inline and store.type != PEM:
            raise ConfigError(f"Invalid value {store.type!r} for {store.prefix}.type: must be PEM when {key} is set")
        if store.inline and store.location:
            raise ConfigError(f"Invalid value {store.location!r} for {store.prefix}.location: must not be set together with {key}")
        if store.type == PEM and store.password is not None:
            instead = "; the private key's is ssl.key.password" if store is key_store else ""
            raise ConfigError(f"Invalid value for {store.prefix}.password: PEM stores have no password{instead}")
    if bool(key_store.inline) != bool(key_store.inline_key):
        raise ConfigError("ssl.keystore.certificate.chain and ssl.keystore.key must be set together")
    if key_store.type == JKS and key_store.location and key_store.password is None:
        raise ConfigError("ssl.keystore.password must be set: a JKS key store has one")
