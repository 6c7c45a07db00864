"""The client's side of GSSAPI, for connections to other brokers."""

from typing import Any, Final

import gssapi
from gssapi.raw.misc import GSSError

from twisted_kafka.client.connections.sasl_exchange import SaslRefusedError
from twisted_kafka.security.kerberos.client_login import ClientLogin
from twisted_kafka.security.kerberos.keytab_login import GSSAPI, KerberosError, reason

NO_LAYER: Final = 1
CHOICE: Final = bytes((NO_LAYER, 0, 0, 0))


class GssapiSaslClient:
    """GSSAPI (``ISaslClient``): the server has to prove that it is the service, too."""

    mechanism = GSSAPI

    def __init__(self, login: ClientLogin, service_name: str, host: str) -> None:
        self._login = login
        self._service = f"{service_name}@{host}"
        self._context: Any = None
        self._first: bytes | None = None
        self.is_complete = False

    def prepare(self) -> None:
        """Get the tickets; raise KerberosError. It may take long: a KDC is asked."""
        kerberos, flags = gssapi.MechType.kerberos, gssapi.RequirementFlag
        credential = self._login.credential()
        try:
            name = gssapi.Name(self._service, gssapi.NameType.hostbased_service)
            wanted = flags.mutual_authentication | flags.integrity
            context = gssapi.SecurityContext(name=name, creds=credential, usage="initiate", mech=kerberos, flags=wanted)
            self._first = context.step()
        except GSSError as error:
            raise KerberosError(f"no ticket for {self._service}: {reason(error)}") from None
        self._context = context

    def evaluate(self, challenge: bytes) -> bytes:
        """Return the next token: the ticket, an empty one for the server's proof, the choice of no security layer."""
        token, self._first = self._first, None
        if token is not None:
            return token
        try:
            return self._answer(challenge)
        except GSSError as error:
            raise SaslRefusedError(f"it did not prove that it is {self._service}: {reason(error)}") from None

    def _answer(self, challenge: bytes) -> bytes:
        context = self._context
        if not context.complete:
            return context.step(challenge) or b""
        offer = context.unwrap(challenge).message
        if len(offer) < len(CHOICE) or not offer[0] & NO_LAYER:
            raise SaslRefusedError("it wants a security layer of SASL, which Kafka does not have")
        self.is_complete = True
        return bytes(context.wrap(CHOICE, False).message)
