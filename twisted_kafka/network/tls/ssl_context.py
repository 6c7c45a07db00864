"""OpenSSL contexts of listeners and of connections that this side opens, and what OpenSSL's errors mean to an operator."""

import hashlib
from contextlib import suppress
from typing import Any, Final

from OpenSSL import SSL, crypto

from twisted_kafka.config.errors import ConfigError
from twisted_kafka.network.tls.ciphers import configure
from twisted_kafka.network.tls.distinguished_name import java_name
from twisted_kafka.network.tls.ssl_settings import SslSettings
from twisted_kafka.network.tls.stores import KeyMaterial, load_key_store, load_trust_store

SESSION_S: Final = 300
"""A client may resume its session, which saves the costly part of the handshake, for so long; a new context forgets all."""

HANDSHAKE_STEPS_MAX: Final = 20

_PARTIAL_WRITE: Final = 1
"""SSL_MODE_ENABLE_PARTIAL_WRITE: pyOpenSSL sets it, and SSL_write returns after each record then: half as much CPU again."""

_VERIFY_MODES: Final = {
    "none": SSL.VERIFY_NONE,
    "requested": SSL.VERIFY_PEER,
    "required": SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT,
}

# X509_verify_cert's numbers that operators meet.
_VERIFY_ERRORS: Final = {
    2: "its issuer is not known",
    7: "its signature is wrong",
    9: "it is not valid yet",
    10: "it has expired",
    18: "it is self-signed and not trusted",
    19: "its root is self-signed and not trusted",
    20: "its issuer is not trusted",
    21: "its issuer is not trusted",
    23: "it was revoked",
    24: "its issuer is no certificate authority",
    26: "it is not meant for this use",
    66: "its key is too weak",
    68: "its signature's digest is too weak",
}

_HINTS: Final = {
    "no shared cipher": "the other side offers no cipher suite of ours",
    "unsupported protocol": "the other side speaks only TLS versions that ssl.enabled.protocols leaves out",
    "peer did not return a certificate": "the client showed no certificate, and ssl.client.auth is required",
    "tlsv1 alert unknown ca": "the other side does not trust this broker's certificate",
    "ssl/tls alert unknown ca": "the other side does not trust this broker's certificate",
    "ssl/tls alert certificate unknown": "the other side refused this broker's certificate",
    "ssl/tls alert bad certificate": "the other side refused this broker's certificate",
    "ssl/tls alert certificate expired": "the other side finds this broker's certificate expired",
    "tlsv1 alert protocol version": "the other side speaks other TLS versions than ssl.enabled.protocols",
    "tlsv13 alert certificate required": "the other side wants a certificate, and there is no key store",
    "wrong version number": "the other side does not speak TLS",
    "packet length too long": "the other side does not speak TLS",
}


class Identity:
    """What was loaded for one listener: its settings, its key and certificates, the context made of them."""

    __slots__ = ("key_material", "server", "settings", "state")

    def __init__(self, settings: SslSettings) -> None:
        """Load the stores and make the context; raises ConfigError."""
        self.settings = settings
        self.state = settings.state()
        if not settings.key_store.is_set:
            raise ConfigError(f"ssl.keystore.location or ssl.keystore.key must be set for listener {settings.listener_name}")
        self.key_material = load_key_store(settings.key_store)
        trusted = load_trust_store(settings.trust_store) if settings.trust_store.is_set else None
        self.server = _context(settings, self.key_material, trusted, is_server=True)


def client_context(settings: SslSettings) -> SSL.Context:
    """Make the context of connections that this side opens, which may have no key store; raises ConfigError."""
    key_material = load_key_store(settings.key_store) if settings.key_store.is_set else None
    trusted = load_trust_store(settings.trust_store) if settings.trust_store.is_set else None
    return _context(settings, key_material, trusted, is_server=False)


def _context(settings: SslSettings, material: KeyMaterial | None, trusted: Any, *, is_server: bool) -> SSL.Context:
    context = SSL.Context(SSL.TLS_SERVER_METHOD if is_server else SSL.TLS_CLIENT_METHOD)
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)  # an idle connection keeps no buffers of 16 KiB
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
            context.check_privatekey()
        if trusted is None:
            context.set_default_verify_paths()
        else:
            _trust(context, trusted, is_server=is_server)
    except (SSL.Error, crypto.Error) as error:
        raise ConfigError(f"The TLS settings of listener {settings.listener_name} are refused: {reason_of(error)}") from None
    if is_server:
        context.set_session_id(hashlib.sha256(settings.listener_name.encode()).digest())
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)  # clients keep their session as a ticket
        context.set_timeout(SESSION_S)
        mode = _VERIFY_MODES[settings.client_auth]
    else:
        mode = SSL.VERIFY_PEER
    # A callback costs something at each call, so there is one only where certificates are looked at.
    context.set_verify(mode, _note_verification if mode != SSL.VERIFY_NONE else None)
    return context


def _trust(context: SSL.Context, trusted: Any, *, is_server: bool) -> None:
    store = context.get_cert_store()
    assert store is not None
    # For Java every certificate of a trust store is an anchor, one that is not self-signed too.
    store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
    for certificate in trusted:
        store.add_cert(crypto.X509.from_cryptography(certificate))
        if is_server:
            context.add_client_ca(certificate)


def _note_verification(connection: SSL.Connection, certificate: crypto.X509, number: int, depth: int, ok: int) -> bool:
    if not ok:
        why = _VERIFY_ERRORS.get(number, f"OpenSSL's error {number}")
        try:
            subject = java_name(certificate.to_cryptography().subject.public_bytes())
        except ValueError:
            subject = "whose name cannot be read"
        connection.set_app_data(f"the certificate {subject!r} is refused: {why}")
    return bool(ok)


def is_end_of_file(error: SSL.Error) -> bool:
    """Tell whether the other side has gone without a goodbye.

    pyOpenSSL raises SysCallError for that, but not when OpenSSL remembers a failed write of another connection of this thread.
    """
    entries = error.args[0] if error.args else ()
    return isinstance(entries, list) and any(entry[-1] == "unexpected eof while reading" for entry in entries)


def reason_of(error: Exception, connection: SSL.Connection | None = None) -> str:
    """Say in a few words why OpenSSL gave up, with what was noted of the other side's certificate."""
    noted = connection.get_app_data() if connection is not None else None
    if isinstance(noted, str):
        return noted
    if isinstance(error, SSL.SysCallError):
        return "the other side closed the connection"
    entries = error.args[0] if error.args else ()
    reasons = [entry[-1] for entry in entries if isinstance(entry, tuple) and entry[-1]] if isinstance(entries, list) else []
    if not reasons:
        return str(error) or type(error).__name__
    text = str(reasons[0])
    hint = _HINTS.get(text)
    return f"{text}: {hint}" if hint else text


def verify_together(client: SSL.Context, server: SSL.Context) -> None:
    """Raise ConfigError unless a client of the one context can connect to a server of the other. (Kafka: SslEngineValidator.)"""
    sides = (SSL.Connection(client), SSL.Connection(server))
    sides[0].set_connect_state()
    sides[1].set_accept_state()
    done = [False, False]
    for _ in range(HANDSHAKE_STEPS_MAX):
        for number, side in enumerate(sides):
            try:
                side.do_handshake()
                done[number] = True
                # The server's refusal of a TLS 1.3 client comes after the client's handshake.
                side.recv(1)
            except SSL.WantReadError:
                pass
            except SSL.Error as error:
                raise ConfigError(f"The key store does not go with the trust store: {reason_of(error, side)}") from None
            _pump(side, sides[1 - number])
        if all(done):
            return
    raise ConfigError("The key store does not go with the trust store: the handshake does not end")


def _pump(source: SSL.Connection, target: SSL.Connection) -> None:
    with suppress(SSL.WantReadError):
        while True:
            target.bio_write(source.bio_read(65536))
