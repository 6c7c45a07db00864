"""OpenSSL contexts for listeners and for clients, and readable messages for OpenSSL's errors."""

import hashlib
from contextlib import suppress
from typing import Any, Final

from OpenSSL import SSL, crypto

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.system.client_text import bounded_text
from twisted_kafka.tls.certificate_expiry import expired, name_of
from twisted_kafka.tls.ciphers import configure
from twisted_kafka.tls.distinguished_name import java_name
from twisted_kafka.tls.ssl_settings import SslSettings
from twisted_kafka.tls.stores import KeyMaterial, load_key_store, load_trust_store

SESSION_S: Final = 300
"""How long a client may resume its session, which skips the expensive part of the handshake. A new context accepts no old ones."""

HANDSHAKE_STEPS_MAX: Final = 20

_PARTIAL_WRITE: Final = 1
"""SSL_MODE_ENABLE_PARTIAL_WRITE, which pyOpenSSL sets. With it SSL_write returns after each record, which takes 50 % more CPU."""

_VERIFY_MODES: Final = {
    "none": SSL.VERIFY_NONE,
    "requested": SSL.VERIFY_PEER,
    "required": SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT,
}

# The error codes of X509_verify_cert that operators are likely to see.
_VERIFY_ERRORS: Final = {
    2: "its issuer is unknown",
    7: "its signature is invalid",
    9: "it is not valid yet",
    10: "it has expired",
    18: "it is self-signed and not trusted",
    19: "its root certificate is self-signed and not trusted",
    20: "its issuer is not trusted",
    21: "its issuer is not trusted",
    23: "it was revoked",
    24: "its issuer is not a certificate authority",
    26: "it is not valid for this purpose",
    66: "its key is too weak",
    68: "its signature digest is too weak",
}

_HINTS: Final = {
    "no shared cipher": "both sides have no cipher suite in common",
    "unsupported protocol": "the peer supports only TLS versions that ssl.enabled.protocols excludes",
    "peer did not return a certificate": "the client sent no certificate, but ssl.client.auth is required",
    "tlsv1 alert unknown ca": "the peer does not trust this broker's certificate",
    "ssl/tls alert unknown ca": "the peer does not trust this broker's certificate",
    "ssl/tls alert certificate unknown": "the peer rejected this broker's certificate",
    "ssl/tls alert bad certificate": "the peer rejected this broker's certificate",
    "ssl/tls alert certificate expired": "the peer considers this broker's certificate expired",
    "tlsv1 alert protocol version": "the peer supports none of the TLS versions in ssl.enabled.protocols",
    "tlsv13 alert certificate required": "the peer requires a certificate, but there is no key store",
    "wrong version number": "the peer does not speak TLS",
    "packet length too long": "the peer does not speak TLS",
}


class Identity:
    """The TLS identity of one listener: its settings, its key and certificates, and the context made from them."""

    __slots__ = ("key_material", "server", "settings", "state", "trusted")

    def __init__(self, settings: SslSettings, now_ms: int) -> None:
        """Load the stores and make the context; raises ConfigError, also if a certificate of the key has expired by ``now_ms``."""
        self.settings = settings
        self.state = settings.state()
        if not settings.key_store.is_set:
            raise ConfigError(f"ssl.keystore.location or ssl.keystore.key must be set for listener {settings.listener_name}")
        self.key_material = load_key_store(settings.key_store)
        _ensure_valid(settings, self.key_material, now_ms)
        self.trusted = load_trust_store(settings.trust_store) if settings.trust_store.is_set else None
        self.server = _context(settings, self.key_material, self.trusted, is_server=True)


def _ensure_valid(settings: SslSettings, material: KeyMaterial, now_ms: int) -> None:
    """Raise ConfigError if a certificate has expired: nobody would connect."""
    old = expired(material.chain, now_ms)
    if old is not None:
        store = settings.key_store
        where = f"ssl.keystore.location {store.location}" if store.location else "ssl.keystore.certificate.chain"
        raise ConfigError(
            f"The certificate {name_of(old)} of {where} has expired: it was valid until {old.not_valid_after_utc.isoformat()} "
            f"(listener {settings.listener_name})"
        )


def client_context(settings: SslSettings) -> SSL.Context:
    """Make the context for connections to other brokers, where the key store is optional; raises ConfigError."""
    key_material = load_key_store(settings.key_store) if settings.key_store.is_set else None
    trusted = load_trust_store(settings.trust_store) if settings.trust_store.is_set else None
    return _context(settings, key_material, trusted, is_server=False)


def _context(settings: SslSettings, material: KeyMaterial | None, trusted: Any, *, is_server: bool) -> SSL.Context:
    context = SSL.Context(SSL.TLS_SERVER_METHOD if is_server else SSL.TLS_CLIENT_METHOD)
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)  # an idle connection holds no 16 KiB buffers
    if is_server:
        context.clear_mode(_PARTIAL_WRITE)
    context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE)
    configure(context, settings.protocols, settings.cipher_suites)
    try:
        if material is not None:
            context.use_certificate(material.chain[0])
            for certificate in material.chain[1:]:
                context.add_extra_chain_cert(certificate)
            context.use_privatekey(material.key)
        if trusted is None:
            context.set_default_verify_paths()
        else:
            _trust(context, trusted, is_server=is_server)
    except (SSL.Error, crypto.Error) as error:
        raise ConfigError(f"OpenSSL rejects the TLS settings of listener {settings.listener_name}: {reason_of(error)}") from None
    if is_server:
        context.set_session_id(hashlib.sha256(settings.listener_name.encode()).digest())
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)  # sessions are resumed by tickets, which clients keep
        context.set_timeout(SESSION_S)
        mode = _VERIFY_MODES[settings.client_auth]
    else:
        mode = SSL.VERIFY_PEER
    context.set_verify(mode, _record_failure)
    return context


def _trust(context: SSL.Context, trusted: Any, *, is_server: bool) -> None:
    store = context.get_cert_store()
    assert store is not None
    # As in Java, every certificate of a trust store is a trust anchor, even if it is not self-signed.
    store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
    for certificate in trusted:
        store.add_cert(crypto.X509.from_cryptography(certificate))
        if is_server:
            context.add_client_ca(certificate)


def _record_failure(connection: SSL.Connection, certificate: crypto.X509, number: int, depth: int, ok: int) -> bool:
    if not ok:
        why = _VERIFY_ERRORS.get(number, f"OpenSSL's error {number}")
        try:
            subject = bounded_text(java_name(certificate.to_cryptography().subject.public_bytes()))
        except Exception:  # noqa: BLE001 of anybody's certificate; cryptography's errors have no common class
            subject = "with an unreadable name"
        connection.set_app_data(f"the certificate {subject!r} is rejected: {why}")
    return bool(ok)


def is_end_of_file(error: SSL.Error) -> bool:
    """Return whether the peer closed the connection without close_notify.

    pyOpenSSL usually raises SysCallError then, but not if OpenSSL's error queue contains a failed write of another connection.
    """
    entries = error.args[0] if error.args else ()
    return isinstance(entries, list) and any(entry[-1] == "unexpected eof while reading" for entry in entries)


def openssl_reason(error: Exception) -> str:
    """Return OpenSSL's own text for an error, empty if it has none."""
    entries = error.args[0] if error.args else ()
    reasons = [entry[-1] for entry in entries if isinstance(entry, tuple) and entry[-1]] if isinstance(entries, list) else []
    return str(reasons[0]) if reasons else ""


def reason_of(error: Exception, connection: SSL.Connection | None = None) -> str:
    """Return a short message for an OpenSSL error. A rejected certificate is named."""
    recorded = connection.get_app_data() if connection is not None else None
    if isinstance(recorded, str):
        return recorded
    if isinstance(error, SSL.SysCallError):
        return "the peer closed the connection"
    text = openssl_reason(error)
    if not text:
        return str(error) or type(error).__name__
    hint = _HINTS.get(text)
    return f"{text}: {hint}" if hint else text


def verify_together(client: SSL.Context, server: SSL.Context) -> None:
    """Raise ConfigError unless a client with one context can connect to a server with the other. (Kafka: SslEngineValidator.)"""
    sides = (SSL.Connection(client), SSL.Connection(server))
    sides[0].set_connect_state()
    sides[1].set_accept_state()
    done = [False, False]
    for _ in range(HANDSHAKE_STEPS_MAX):
        for number, side in enumerate(sides):
            try:
                side.do_handshake()
                done[number] = True
            except SSL.WantReadError:
                pass
            except SSL.Error as error:
                raise ConfigError(f"The trust store does not accept the key store: {reason_of(error, side)}") from None
            _pump(side, sides[1 - number])
        if all(done):
            return
    raise ConfigError("The trust store does not accept the key store: the handshake does not end")


def _pump(source: SSL.Connection, target: SSL.Connection) -> None:
    with suppress(SSL.WantReadError):
        while True:
            target.bio_write(source.bio_read(65536))
