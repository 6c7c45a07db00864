"""A realm with what tests of GSSAPI need: a broker's principal, users, and clients that speak GSSAPI themselves."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import kdc
from tests.support.kdc import REALM, Kdc

LOGIN_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
SERVICE, OTHER_SERVICE = "kafka/localhost", "http/localhost"
USERS = ("alice", "bob", "admin/desk", "deep/er/name")
NO_LAYER = b"\x01\0\0\0"


class Realm(Kdc):
    """A KDC; all users' keys are in one keytab."""

    def start(self) -> None:
        super().start()
        self.broker_keytab = self.add(SERVICE)
        self.users_keytab = self.add(*USERS)
        self.add(OTHER_SERVICE)

    def jaas(self, principal: str = SERVICE, keytab: Path | None = None) -> str:
        """Return the JAAS configuration of a keytab's user, a broker's for example."""
        path = keytab or (self.broker_keytab if principal == SERVICE else self.users_keytab)
        return f'{LOGIN_MODULE} required useKeyTab=true storeKey=true keyTab="{path}" principal="{principal}@{REALM}";'

    def settings(self, listener: str) -> dict[str, str]:
        """Return the settings of a listener with GSSAPI."""
        return {
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            f"listener.name.{listener}.gssapi.sasl.jaas.config": self.jaas(),
        }


@contextmanager
def running_realm(folder: Path, **options: Any) -> Iterator[Realm]:
    """Run a realm that this process belongs to meanwhile."""
    lacking = kdc.missing()
    if lacking is not None:
        pytest.skip(lacking)
    realm = Realm(folder, **options)
    with pytest.MonkeyPatch.context() as patched:
        for name, text in realm.environment.items():
            patched.setenv(name, text)
        patched.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={realm.krb5_conf}")
        realm.start()
        try:
            yield realm
        finally:
            realm.stop()


class GssapiClient:
    """A client's side, step by step: ``first``, ``second`` if it wants a proof of the server, ``choose``."""

    def __init__(self, realm: Realm, user: str, service: str = "kafka@localhost", wants_proof: bool = True) -> None:
        import gssapi

        kerberos = gssapi.MechType.kerberos
        store: dict[str | bytes, str | bytes] = {
            "client_keytab": f"FILE:{realm.users_keytab}",
            "ccache": f"MEMORY:{realm.folder}-{user}",
        }
        name = gssapi.Name(user, gssapi.NameType.kerberos_principal)
        credential = gssapi.Credentials(usage="initiate", name=name, mechs=[kerberos], store=store)
        flags = int(gssapi.RequirementFlag.integrity)
        if wants_proof:
            flags |= gssapi.RequirementFlag.mutual_authentication
        target = gssapi.Name(service, gssapi.NameType.hostbased_service)
        self._context = gssapi.SecurityContext(name=target, creds=credential, usage="initiate", mech=kerberos, flags=flags)

    def first(self) -> bytes:
        """Return the token that establishes the context."""
        return bytes(self._context.step())

    def second(self, answer: bytes) -> bytes:
        """Check the server's proof, and return what asks for its offer."""
        assert not self._context.step(answer)
        assert self._context.complete
        return b""

    def offered(self, answer: bytes) -> bytes:
        """Return the layers that the server offers."""
        return bytes(self._context.unwrap(answer).message)

    def choose(self, layer: bytes = NO_LAYER, authorization_id: str = "") -> bytes:
        """Return the message that chooses a layer."""
        return bytes(self._context.wrap(layer + authorization_id.encode(), False).message)
