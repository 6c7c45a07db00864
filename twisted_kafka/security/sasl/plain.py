"""SASL/PLAIN: one message with user name and password. (Kafka: PlainSaslServer, PlainServerCallbackHandler.)"""

import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Final

from twisted.logger import Logger
from zope.interface import implementer

from twisted_kafka.protocol.errors import SaslAuthenticationError
from twisted_kafka.security.sasl.interfaces import IAuthenticateCallbackHandler, PlainAuthenticateCallback
from twisted_kafka.security.sasl.jaas import JaasEntry

LOGIN_MODULE: Final = "PlainLoginModule"
_USER_PREFIX: Final = "user_"
_PARTS: Final = 3

_log = Logger()


class PlainSaslServer:
    """One exchange (``ISaslServer``)."""

    __slots__ = ("_handle", "authorization_id", "is_complete")

    credential_expires_at_ms = None
    is_token_authenticated = False

    def __init__(self, handler: Any) -> None:
        """``handler`` is an ``IAuthenticateCallbackHandler`` for PlainAuthenticateCallback."""
        self._handle = handler.handle
        self.is_complete = False
        self.authorization_id = ""

    def evaluate(self, token: bytes) -> bytes:
        """Check ``authorization id NUL user NUL password`` (RFC 4616); return an empty token."""
        # Java replaces bytes that are not UTF-8, which no name or password can have either.
        parts = token.decode("utf-8", "replace").split("\0")
        if len(parts) != _PARTS:
            raise SaslAuthenticationError(f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {len(parts)}")
        authorization_id, username, password = parts
        if not username:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        callback = PlainAuthenticateCallback(username, password)
        try:
            self._handle(callback)
        except Exception as error:
            _log.failure("The callback handler of PLAIN failed")
            raise SaslAuthenticationError("Authentication failed: credentials for user could not be verified") from error
        if callback.is_authenticated is not True:
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != username:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.authorization_id = username
        self.is_complete = True
        return b""


@implementer(IAuthenticateCallbackHandler)
class PlainServerCallbackHandler:
    """Compares passwords with the options ``user_<name>`` of the JAAS entry, in constant time."""

    def __init__(self) -> None:
        self._passwords: dict[str, bytes] = {}

    def configure(self, configs: Mapping[str, str], mechanism: str, jaas_entries: Sequence[JaasEntry]) -> None:
        """Take the users of PLAIN's login module."""
        self._passwords = {
            name.removeprefix(_USER_PREFIX): password.encode("utf-8", "surrogatepass")
            for entry in jaas_entries
            if entry.module_name == LOGIN_MODULE
            for name, password in entry.options.items()
            if name.startswith(_USER_PREFIX)
        }

    def handle(self, callback: object) -> None:
        """Check a PlainAuthenticateCallback."""
        assert isinstance(callback, PlainAuthenticateCallback), callback
        given = callback.password.encode("utf-8", "surrogatepass")
        expected = self._passwords.get(callback.username)
        # The time must not say either whether the user exists: an unknown one's password is compared too.
        is_equal = hmac.compare_digest(given, given if expected is None else expected)
        callback.is_authenticated = expected is not None and is_equal

    def close(self) -> None:
        pass  # exchanges that have begun may still go on
