"""The mechanisms of one listener, with their credentials, and the sessions that they begin."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from twisted.logger import Logger

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.network.connection.pending_authentications import AuthenticationLimits
from twisted_kafka.network.requests.authenticator import IAuthenticator
from twisted_kafka.network.requests.kafka_principal import USER, KafkaPrincipal
from twisted_kafka.network.requests.request_context import ConnectionInfo
from twisted_kafka.security.principal_builder import AuthenticationContext, built
from twisted_kafka.security.sasl.authenticator import SaslServerAuthenticator
from twisted_kafka.security.sasl.interfaces import ISaslServer, SaslError
from twisted_kafka.security.sasl.jaas import JaasEntry
from twisted_kafka.security.sasl.listener_settings import (
    JAAS,
    class_name,
    custom_handler,
    ensure_login_module,
    find_setting,
    jaas_entries,
)
from twisted_kafka.security.sasl.mechanisms import MECHANISMS, HandlerOrder, Login, MechanismKind, SaslResources

ENABLED: Final = "sasl.enabled.mechanisms"
MAX_REAUTHENTICATION: Final = "connections.max.reauth.ms"

_log = Logger()


class Mechanism:
    """An enabled mechanism."""

    __slots__ = ("_login", "handler", "max_reauthentication_ms", "name")

    def __init__(self, name: str, handler: Any, max_reauthentication_ms: int, login: Login) -> None:
        self.name = name
        self.handler = handler
        self.max_reauthentication_ms = max_reauthentication_ms
        """``connections.max.reauth.ms``; 0: sessions end with their credential only."""
        self._login = login

    def make_server(self) -> ISaslServer:
        """Return the server of a new exchange."""
        return self._login.make_server(self.handler)

    def principal_name(self, authorization_id: str) -> str:
        """Return the name of the principal of an authorization id; raise ValueError if it has none."""
        return self._login.principal_name(authorization_id)


class SaslListener:
    """One listener. Its mechanisms may change while it runs. An exchange keeps the mechanisms that it began with."""

    def __init__(self, config: KafkaConfig, listener_name: str, resources: SaslResources, principals: Any = None) -> None:
        """``principals`` is the operator's ``IKafkaPrincipalBuilder``, if there is one. Raises ConfigError."""
        self._principals = principals
        self.clock = resources.clock
        self.failed_attempts = resources.failed_attempts
        max_receive_bytes = config.for_listener(listener_name, "sasl.server.max.receive.size")
        assert isinstance(max_receive_bytes, int)
        self.max_receive_bytes = max_receive_bytes
        self.limits = AuthenticationLimits(
            config.int("sasl.server.authentication.timeout.ms") / 1000,
            config.int("sasl.server.authentication.max.pending"),
            self.max_receive_bytes,
        )
        self._listener_name = listener_name
        self._resources = resources
        self.mechanisms: Mapping[str, Mechanism] = self._made(config)
        """By name."""
        self._config = config.copy()

    def authenticator(self, connection: ConnectionInfo) -> IAuthenticator:
        """Return the authentication of a new connection (``IListenerAuthentication.authenticator``)."""
        return SaslServerAuthenticator(self, connection)

    def validate_reconfiguration(self, config: KafkaConfig) -> None:
        """Raise ConfigError if ``reconfigure`` would fail; change nothing."""
        if self._is_changed(config):
            _close(self._made(config))

    def reconfigure(self, config: KafkaConfig) -> None:
        """Use other settings for exchanges that begin from now on. If it raises ConfigError, nothing has changed."""
        if self._is_changed(config):
            before, self.mechanisms = self.mechanisms, self._made(config)
            self._config = config.copy()
            _close(before)

    def _is_changed(self, config: KafkaConfig) -> bool:
        return any("sasl." in key or key.endswith(MAX_REAUTHENTICATION) for key in self._config.changed_keys(config))

    def close(self) -> None:
        """Close the callback handlers."""
        _close(self.mechanisms)

    def principal_of(self, server: ISaslServer, mechanism: Mechanism, connection: ConnectionInfo) -> KafkaPrincipal:
        """Return the principal of a client that has authenticated itself.

        Raises SaslError if its name stands for none, ValueError if the operator's class fails.
        """
        name: str | None = None
        try:
            name = mechanism.principal_name(server.authorization_id)
        except ValueError as error:
            if self._principals is None:
                raise SaslError(str(error)) from None
        if self._principals is None:  # Kafka: DefaultKafkaPrincipalBuilder
            return KafkaPrincipal(USER, name or "", server.is_token_authenticated)
        context = AuthenticationContext(
            connection.security_protocol,
            connection.listener_name,
            connection.client_address,
            mechanism=mechanism.name,
            authorization_id=server.authorization_id,
            principal_name=name,
            is_token_authenticated=server.is_token_authenticated,
        )
        return built(self._principals, context)._replace(token_authenticated=server.is_token_authenticated)

    def _made(self, config: KafkaConfig) -> dict[str, Mechanism]:
        enabled = config.for_listener(self._listener_name, ENABLED)
        names = tuple(filter(None, enabled)) if isinstance(enabled, tuple) else ()
        if not names:
            raise ConfigError(f"Invalid value '' for {ENABLED}: listener {self._listener_name} must have a mechanism")
        made: dict[str, Mechanism] = {}
        try:
            for name in names:
                made[name] = self._mechanism(config, name)
        except BaseException:
            _close(made)
            raise
        return made

    def _mechanism(self, config: KafkaConfig, name: str) -> Mechanism:
        kind = MECHANISMS.get(name)
        if kind is None:
            key = f"listener.name.{self._listener_name.lower()}.{ENABLED}"
            key = ENABLED if config.prefixed(key) is None else key
            raise ConfigError(f"Invalid value {name!r} in {key}: must be one of {', '.join(MECHANISMS)}")
        entries = jaas_entries(config, self._listener_name, name)
        handler = custom_handler(config, self._listener_name, name, entries, kind.known_handlers)
        order = self._order(config, name)
        if handler is None:
            handler = self._own_handler(config, name, kind, order, entries)
        try:
            login = kind.log_in(order, entries)
        except ConfigError:
            handler.close()
            raise
        max_ms = find_setting(config, self._listener_name, name, MAX_REAUTHENTICATION).value
        assert isinstance(max_ms, int)
        return Mechanism(name, handler, max_ms, login)

    def _own_handler(
        self, config: KafkaConfig, name: str, kind: MechanismKind, order: HandlerOrder, entries: Sequence[JaasEntry]
    ) -> Any:
        ensure_login_module(config, self._listener_name, name, kind.login_module, entries)
        handler = kind.make_handler(order)
        try:
            handler.configure(dict(config.originals), name, entries)
        except ValueError as error:
            handler.close()
            raise ConfigError(f"Invalid value for {order.find(JAAS).key}: {error}") from None
        return handler

    def _order(self, config: KafkaConfig, name: str) -> HandlerOrder:
        listener_name = self._listener_name
        handler_class = class_name(config, listener_name, name)
        return HandlerOrder(
            self._resources, listener_name, handler_class, lambda key: find_setting(config, listener_name, name, key)
        )


def _close(mechanisms: Mapping[str, Mechanism]) -> None:
    for mechanism in mechanisms.values():
        try:
            mechanism.handler.close()
        except Exception:  # noqa: BLE001 the others have to be closed too
            _log.failure("The callback handler of {name} did not close cleanly", name=mechanism.name)
