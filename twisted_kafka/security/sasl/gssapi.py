"""SASL/GSSAPI, which is Kerberos (RFC 4752). (Kafka: SaslServerCallbackHandler; Java: GssKrb5Server.)

The client's tokens establish a context, in which it proves who it is. Then both sides wrap a message in the context: the server
offers security layers, of which this one has none, and the client chooses one and may add an authorization id.

Kerberos checks in the context that the ticket is for this broker's principal, that it has not expired, and that the token is no
replay. Sessions do not end with the ticket: Kafka's do not.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import gssapi
from gssapi import raw
from gssapi.raw.misc import GSSError
from twisted.logger import Logger
from zope.interface import implementer

from twisted_kafka.security.kerberos.keytab_login import reason
from twisted_kafka.security.sasl.interfaces import AuthorizeCallback, IAuthenticateCallbackHandler, SaslError, TransientSaslError
from twisted_kafka.security.sasl.jaas import JaasEntry

NO_LAYER: Final = 1
OFFER: Final = bytes((NO_LAYER, 0, 0, 0))
"""The layers offered, and the size of the largest message that a layer may wrap: none."""

TRANSIENT: Final = (33, 34)
"""A ticket that is not valid yet (clocks differ), and a replay, which a client's own repetition is too: it should try again."""

SHOWN_CHARACTERS: Final = 64
"""How much of an authorization id is logged."""

_ERRORS_OF_KERBEROS: Final = -1765328384 & 0xFFFFFFFF
"""MIT's codes begin with this one."""

_log = Logger()


class GssapiSaslServer:
    """One exchange (``ISaslServer``).

    It uses the raw calls of python-gssapi: accepting a context returns all that is asked of it here, and each property of a
    ``gssapi.SecurityContext`` asks the library for it again, which together takes as long as to accept it.
    """

    credential_expires_at_ms = None
    is_token_authenticated = False

    def __init__(self, credential: Any, handler: Any) -> None:
        """``credential`` accepts clients; ``handler`` is an ``IAuthenticateCallbackHandler`` for AuthorizeCallback."""
        self._handle = handler.handle
        self._credential = credential
        self._context: Any = None  # until the first token
        self._next: Callable[[bytes], bytes | None] = self._establish
        self._client = ""
        self.is_complete = False
        self.authorization_id = ""

    def evaluate(self, token: bytes) -> bytes | None:
        """Establish the context, offer the layers, take the choice; each step raises SaslError, after which no other follows."""
        step, self._next = self._next, _refuse
        try:
            return step(token)
        except GSSError as error:
            kind = TransientSaslError if error.min_code - _ERRORS_OF_KERBEROS in TRANSIENT else SaslError
            raise kind(reason(error)) from None

    def _establish(self, token: bytes) -> bytes | None:
        accepted: Any = raw.accept_sec_context(token, self._credential, self._context)
        self._context = accepted.context
        answer: bytes | None = accepted.token
        if accepted.more_steps:
            self._next = self._establish
            return answer or b""
        if accepted.mech != gssapi.MechType.kerberos or gssapi.RequirementFlag.anonymity in accepted.flags:
            raise SaslError("the client has not proved a name of Kerberos")
        self._client = raw.display_name(accepted.initiator_name, name_type=False).name.decode()
        if not answer:  # the client does not want a proof of the server, and sends nothing before the offer
            return self._offer(b"")
        self._next = self._offer
        return answer

    def _offer(self, token: bytes) -> bytes:
        if token:
            raise SaslError("the client sent something between its context and the offer of security layers")
        self._next = self._take_choice
        offer: bytes = raw.wrap(self._context, OFFER, confidential=False).message
        return offer

    def _take_choice(self, token: bytes) -> None:
        message: bytes = raw.unwrap(self._context, token).message
        if len(message) < len(OFFER) or message[0] != NO_LAYER:
            raise SaslError("the client chose a security layer that was not offered")
        # Java replaces bytes that are not UTF-8.
        callback = AuthorizeCallback(self._client, message[len(OFFER) :].decode("utf-8", "replace") or self._client)
        try:
            self._handle(callback)
        except Exception as error:
            _log.failure("The callback handler of GSSAPI failed")
            raise SaslError("the client could not be authorized") from error
        if callback.is_authorized is not True or not callback.authorized_id:
            shown = callback.authorization_id[:SHOWN_CHARACTERS]
            raise SaslError(f"{self._client} is not authorized to connect as {shown!r}")
        self.authorization_id = callback.authorized_id
        self.is_complete = True


def _refuse(token: bytes) -> bytes:
    raise SaslError("a message after the end of the exchange")


@implementer(IAuthenticateCallbackHandler)
class GssapiServerCallbackHandler:
    """Authorizes each authenticated client as its own principal; ignores the requested authorization id, as Kafka does."""

    def configure(self, configs: Mapping[str, str], mechanism: str, jaas_entries: Sequence[JaasEntry]) -> None:
        pass  # the entry's options are for the login

    def handle(self, callback: object) -> None:
        """Authorize a client."""
        if isinstance(callback, AuthorizeCallback):
            callback.is_authorized, callback.authorized_id = True, callback.authentication_id

    def close(self) -> None: ...
