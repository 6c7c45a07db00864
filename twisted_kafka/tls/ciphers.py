"""Cipher suites and protocol versions, by Java's names (IANA's, used in Kafka's settings) and by OpenSSL's."""

from collections.abc import Sequence
from typing import Final

from OpenSSL import SSL

from twisted_kafka.config.errors import ConfigError

PROTOCOLS: Final = {
    "TLSv1": SSL.TLS1_VERSION,
    "TLSv1.1": SSL.TLS1_1_VERSION,
    "TLSv1.2": SSL.TLS1_2_VERSION,
    "TLSv1.3": SSL.TLS1_3_VERSION,
}
"""The versions that can be enabled, oldest first."""

_DISABLE_OPTIONS: Final = {
    "TLSv1": SSL.OP_NO_TLSv1,
    "TLSv1.1": SSL.OP_NO_TLSv1_1,
    "TLSv1.2": SSL.OP_NO_TLSv1_2,
    "TLSv1.3": SSL.OP_NO_TLSv1_3,
}

TLS_1_3_SUITES: Final = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_CCM_SHA256",
    "TLS_AES_128_CCM_8_SHA256",
)

_EXCHANGES: Final = {"ECDHE_ECDSA": "ECDHE-ECDSA-", "ECDHE_RSA": "ECDHE-RSA-", "DHE_RSA": "DHE-RSA-", "RSA": ""}
_CIPHERS: Final = {
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_256_CCM": "AES256-CCM",
    "AES_128_CCM": "AES128-CCM",
    "AES_256_CCM_8": "AES256-CCM8",
    "AES_128_CCM_8": "AES128-CCM8",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA": "AES128-SHA",
}

OPENSSL_NAMES: Final = {
    f"TLS_{exchange}_WITH_{cipher}": prefix + name for exchange, prefix in _EXCHANGES.items() for cipher, name in _CIPHERS.items()
}
"""OpenSSL's name of each cipher suite of TLS 1.2 and older, by Java's name."""

_JAVA_NAMES: Final = {name: java for java, name in OPENSSL_NAMES.items()}


def java_cipher_name(name: str) -> str:
    """Return Java's name of a cipher suite, or OpenSSL's if Java has none. TLS 1.3 suites have the same names in both."""
    return _JAVA_NAMES.get(name, name)


def configure(context: SSL.Context, protocols: Sequence[str], suites: Sequence[str]) -> None:
    """Restrict a context to these protocol versions and, if any are given, these cipher suites; raises ConfigError."""
    unknown = [name for name in protocols if name not in PROTOCOLS]
    if unknown or not protocols:
        allowed = ", ".join(PROTOCOLS)
        raise ConfigError(f"Invalid value {','.join(protocols)!r} for ssl.enabled.protocols: must be some of {allowed}")
    enabled = [name for name in PROTOCOLS if name in protocols]
    if suites:
        enabled = _configure_suites(context, enabled, suites)
    context.set_min_proto_version(PROTOCOLS[enabled[0]])
    context.set_max_proto_version(PROTOCOLS[enabled[-1]])
    for name, option in _DISABLE_OPTIONS.items():
        if name not in enabled:
            context.set_options(option)


def _configure_suites(context: SSL.Context, enabled: list[str], suites: Sequence[str]) -> list[str]:
    """Set the cipher suites; return the protocol versions that have at least one of them."""
    newer = [name for name in suites if name in TLS_1_3_SUITES]
    older = [OPENSSL_NAMES.get(name, name) for name in suites if name not in TLS_1_3_SUITES]
    known = set(_possible_ciphers())
    for java, name in zip([s for s in suites if s not in TLS_1_3_SUITES], older, strict=True):
        if name not in known:
            raise ConfigError(f"Invalid value {java!r} for ssl.cipher.suites: unknown or weak cipher suite")
    if newer:
        context.set_tls13_ciphersuites(":".join(newer).encode())
    if older:
        context.set_cipher_list(":".join(older).encode())
    left = [name for name in enabled if (newer if name == "TLSv1.3" else older)]
    if not left:
        allowed = f"one for ssl.enabled.protocols, {','.join(enabled)}"
        raise ConfigError(f"Invalid value {','.join(suites)!r} for ssl.cipher.suites: must have {allowed}")
    return left


def _possible_ciphers() -> list[str]:
    """Return all ciphers that encrypt and authenticate the broker with its certificate, and that Java does not disable."""
    context = SSL.Context(SSL.TLS_METHOD)
    context.set_cipher_list(b"ALL:!aNULL:!eNULL:!PSK:!SRP:!RC4:!DES:!3DES:!MD5:@SECLEVEL=0")
    return SSL.Connection(context).get_cipher_list()
