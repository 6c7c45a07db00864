"""The client's side of the mechanisms, for connections to other brokers. The settings are those of the inter-broker listener.

The login modules have Kafka's options: ``username`` and ``password`` for PLAIN and SCRAM. OAUTHBEARER takes its token from a file
(``sasl.oauthbearer.token.endpoint.url=file:///path``), or makes an unsecured one (``unsecuredLoginStringClaim_sub``). GSSAPI logs
in at the KDC with the keytab.
"""

import hmac
import itertools
import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from twisted_kafka.client.connections.sasl_exchange import ISaslClient, SaslRefusedError
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.security.kerberos.client_login import ClientLogin, RenewalSettings
from twisted_kafka.security.kerberos.keytab_login import (
    GSSAPI,
    SERVICE_NAME,
    KerberosError,
    KeytabLogin,
    acceptor,
    initiator,
    keytab_login,
)
from twisted_kafka.security.sasl.jaas import options_of
from twisted_kafka.security.sasl.listener_settings import JAAS, ensure_login_module, find_setting, jaas_entries
from twisted_kafka.security.sasl.mechanisms import MECHANISMS, OAUTHBEARER, PLAIN, ensure_gssapi
from twisted_kafka.security.scram.formulas import (
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    ScramMechanism,
    client_key,
    client_proof,
    salted_password,
    server_key,
    signature,
)
from twisted_kafka.security.scram.messages import sasl_name
from twisted_kafka.system import machine
from twisted_kafka.system.files.file_io import read_bounded
from twisted_kafka.timing.clock import IClock

MECHANISM_KEY: Final = "sasl.mechanism.inter.broker.protocol"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
MAX_ITERATIONS: Final = 100_000
"""A server that wants more is refused: it would keep this broker busy."""

_NONCE_BYTES: Final = 24
_CLAIM: Final = "unsecuredLoginStringClaim_"
_LIFETIME_S: Final = 3600
_MAX_TOKEN_BYTES: Final = 64 * 1024
_CACHE: Final = "twisted-kafka"
_caches = itertools.count()


class PlainSaslClient:
    """PLAIN (``ISaslClient``)."""

    mechanism = PLAIN

    def __init__(self, username: str, password: str) -> None:
        self._token = f"\0{username}\0{password}".encode()
        self.is_complete = False

    def evaluate(self, challenge: bytes) -> bytes:
        """Return user name and password."""
        self.is_complete = True
        return self._token


class OAuthBearerSaslClient:
    """OAUTHBEARER (``ISaslClient``)."""

    mechanism = OAUTHBEARER

    def __init__(self, token: str) -> None:
        self._token = token
        self._is_sent = False
        self.is_complete = False

    def evaluate(self, challenge: bytes) -> bytes | None:
        """Return the token; acknowledge that it was refused."""
        if self._is_sent:
            if not challenge:
                self.is_complete = True
                return None
            return b"\x01"
        self._is_sent = True
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()


class ScramSaslClient:
    """SCRAM (``ISaslClient``): the server has to prove that it knows the credential, too."""

    def __init__(self, mechanism: ScramMechanism, username: str, password: str, nonce: str | None = None) -> None:
        self.mechanism = mechanism.name
        self.is_complete = False
        self._mechanism = mechanism
        self._password = password.encode()
        self._nonce = nonce or machine.random_text(_NONCE_BYTES)
        self._bare = f"n={sasl_name(username)},r={self._nonce}"
        self._expected: bytes | None = None
        self._step = 0

    def evaluate(self, challenge: bytes) -> bytes | None:
        """Return the next message."""
        self._step += 1
        if self._step == 1:
            return f"n,,{self._bare}".encode()
        if self._step == 2:
            return self._final(challenge)
        if self._expected is None or not hmac.compare_digest(challenge, self._expected):
            raise SaslRefusedError("it did not prove that it knows this broker's credential")
        self.is_complete = True
        return None

    def _final(self, challenge: bytes) -> bytes:
        try:
            first = challenge.decode()
            fields = dict(part.partition("=")[::2] for part in first.split(","))
            nonce, salt, iterations = fields["r"], b64decode(fields["s"], validate=True), int(fields["i"])
        except (KeyError, ValueError):
            raise SaslRefusedError("it sent no valid first message of SCRAM") from None
        if not nonce.startswith(self._nonce) or nonce == self._nonce or not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise SaslRefusedError("its first message of SCRAM has a wrong nonce or number of iterations")
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        without_proof = f"c=biws,r={nonce}"
        auth_message = f"{self._bare},{first},{without_proof}".encode()
        proof = client_proof(self._mechanism, client_key(self._mechanism, salted), auth_message)
        self._expected = b"v=" + b64encode(signature(self._mechanism, server_key(self._mechanism, salted), auth_message))
        return f"{without_proof},p={b64encode(proof).decode()}".encode()


class InterBrokerClients:
    """Makes the clients of exchanges with other brokers (``ISaslClients``)."""

    def __init__(self, config: KafkaConfig, listener_name: str, clock: IClock) -> None:
        self._config = config
        self._listener_name = listener_name
        self._clock = clock
        self._login: tuple[tuple[KeytabLogin, RenewalSettings], ClientLogin] | None = None

    def validate(self) -> None:
        """Raise ConfigError if the settings are of no use. A KDC is not asked."""
        self.client_for("localhost")

    def client_for(self, host: str) -> ISaslClient:
        """Return the client of an exchange with a broker on this host; raise ConfigError."""
        config, listener_name = self._config, self._listener_name
        name = str(config.for_listener(listener_name, MECHANISM_KEY))
        if name not in MECHANISMS:
            raise ConfigError(f"Invalid value {name!r} for {MECHANISM_KEY}: must be one of {', '.join(MECHANISMS)}")
        entries = jaas_entries(config, listener_name, name)
        module = MECHANISMS[name].login_module
        ensure_login_module(config, listener_name, name, module, entries)
        key = find_setting(config, listener_name, name, JAAS).key
        options = options_of(entries, module)
        if name == GSSAPI:
            return self._kerberos(options, key, host)
        if name == OAUTHBEARER:
            return OAuthBearerSaslClient(_token(config, listener_name, options, self._clock, key))
        if not options.get("username") or not options.get("password"):
            raise ConfigError(f"Invalid value for {key}: {module} must have username and password for connections to other brokers")
        if name == PLAIN:
            return PlainSaslClient(options["username"], options["password"])
        (mechanism,) = (each for each in SCRAM_MECHANISMS if each.name == name)
        return ScramSaslClient(mechanism, options["username"], options["password"])

    def _kerberos(self, options: Mapping[str, str], key: str, host: str) -> ISaslClient:
        ensure_gssapi(self._listener_name)
        from twisted_kafka.security.sasl.gssapi_client import GssapiSaslClient

        def value(key: str) -> Any:
            return find_setting(self._config, self._listener_name, GSSAPI, key).value

        keytab = keytab_login(options, key, value(SERVICE_NAME), accepts=False)
        renewal = RenewalSettings(
            value("sasl.kerberos.ticket.renew.window.factor"),
            value("sasl.kerberos.ticket.renew.jitter"),
            value("sasl.kerberos.min.time.before.relogin"),
        )
        if self._login is None or self._login[0] != (keytab, renewal):
            try:
                acceptor(keytab)  # whether the keytab has the principal's key
            except KerberosError as error:
                raise ConfigError(
                    f"Invalid value for {key}: {keytab.principal} cannot log in with {keytab.keytab} ({error})"
                ) from None
            cache = f"{_CACHE}-{next(_caches)}"
            login = ClientLogin(lambda: initiator(keytab, cache), renewal, self._clock, machine.chance.random)
            self._login = (keytab, renewal), login
        return GssapiSaslClient(self._login[1], keytab.service_name, host)


def _token(config: KafkaConfig, listener_name: str, options: Mapping[str, str], clock: IClock, key: str) -> str:
    url = find_setting(config, listener_name, OAUTHBEARER, TOKEN_URL)
    if url.value:
        parts = urlsplit(str(url.value))
        if parts.scheme != "file":
            raise ConfigError(f"Invalid value {url.value!r} for {url.key}: between brokers it must be the address of a file")
        try:
            return read_bounded(Path(unquote(parts.path)), _MAX_TOKEN_BYTES, may_wait=False).decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"Invalid value {url.value!r} for {url.key}: the token cannot be read ({error})") from None
    claims: dict[str, object] = {name.removeprefix(_CLAIM): text for name, text in options.items() if name.startswith(_CLAIM)}
    if "sub" not in claims:
        raise ConfigError(f"Invalid value for {key}: it must have {_CLAIM}sub, or {TOKEN_URL} must be set")
    now_s = clock.wall_ms() // 1000
    claims |= {"iat": now_s, "exp": now_s + _LIFETIME_S}
    header, payload = (urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in ({"alg": "none"}, claims))
    return f"{header}.{payload}."
