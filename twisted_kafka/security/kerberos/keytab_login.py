"""This broker's identity for Kerberos: the login module's options, and the credentials from its keytab.

(Kafka: KerberosLogin and Java's ``Krb5LoginModule``.) ``useKeyTab=true``, ``keyTab``, ``principal`` and, for listeners,
``storeKey=true`` are required.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from twisted_kafka.config.errors import ConfigError

LOGIN_MODULE: Final = "Krb5LoginModule"
GSSAPI: Final = "GSSAPI"
SERVICE_NAME: Final = "sasl.kerberos.service.name"

_TRUE: Final = "true"


class KerberosError(Exception):
    """Kerberos has refused, or could not be asked; the text says why in one line."""


class KeytabLogin(NamedTuple):
    """A principal, where its keys are, and the service that it belongs to."""

    principal: str
    keytab: str
    """A path."""
    service_name: str
    """The first component of the names of all brokers' principals."""


def keytab_login(options: Mapping[str, str], key: str, service_name: str | None, *, accepts: bool) -> KeytabLogin:
    """Return the login that the options of the module describe; raise ConfigError, which names ``key``, the key of the options.

    ``service_name`` is the value of ``sasl.kerberos.service.name``. With ``accepts`` the login is for clients that connect.
    """
    needed = ["useKeyTab", *(["storeKey"] if accepts else [])]
    why = next((f"it must have {name}=true" for name in needed if options.get(name, "").lower() != _TRUE), None)
    if options.get("useTicketCache", "").lower() == _TRUE:
        why = "useTicketCache is not supported, a broker needs a keytab"
    if not accepts and options.get("isInitiator", _TRUE).lower() != _TRUE:
        why = "with isInitiator=false this broker does not log in at others"
    if why is None and not options.get("keyTab"):
        why = "it must have keyTab, the path of a keytab"
    if why is None and options.get("principal", "*") in ("", "*"):
        why = "it must have the principal of this broker"
    if why is not None:
        raise ConfigError(f"Invalid value for {key}: {LOGIN_MODULE}: {why}")
    return KeytabLogin(options["principal"], options["keyTab"], _service_name(options, key, service_name))


def _service_name(options: Mapping[str, str], key: str, configured: str | None) -> str:
    in_entry = options.get("serviceName")
    if in_entry and configured and in_entry != configured:
        raise ConfigError(f"Invalid value {configured!r} for {SERVICE_NAME}: must equal serviceName in {key}, {in_entry!r}")
    found = in_entry or configured
    if not found:
        raise ConfigError(f"{SERVICE_NAME} must be set for {GSSAPI}, or serviceName in {key}")
    return found


def acceptor(login: KeytabLogin) -> Any:
    """Return the credential that clients are accepted with; raise KerberosError, also if the keytab has no key of the principal.

    No KDC is asked. The keytab is read again for each client, so that it may be replaced.
    """
    return _credential(login, "accept", {"keytab": f"FILE:{login.keytab}"})


def initiator(login: KeytabLogin, cache: str) -> Any:
    """Log in at the KDC, which may take long, and return the credential; raise KerberosError.

    ``cache`` names the ticket's place in memory. A ticket that is there is replaced when half its time is over.
    """
    return _credential(login, "initiate", {"client_keytab": f"FILE:{login.keytab}", "ccache": f"MEMORY:{cache}"})


def default_realm() -> str:
    """Return the default realm of names; empty if Kerberos has no default."""
    import gssapi
    from gssapi.raw.misc import GSSError

    try:
        name = gssapi.Name("nobody", gssapi.NameType.kerberos_principal).canonicalize(gssapi.MechType.kerberos)
    except GSSError:
        return ""
    return str(name).rpartition("@")[2]


def reason(error: Any) -> str:
    """Return the reason of a GSSError in one line: that of Kerberos, otherwise that of GSSAPI."""
    is_major = not error.min_code
    texts = error.get_all_statuses(error.maj_code if is_major else error.min_code, is_major)
    return " ".join("; ".join(texts).split())


def _credential(login: KeytabLogin, usage: str, store: dict[str | bytes, str | bytes]) -> Any:
    import gssapi
    from gssapi.raw.misc import GSSError

    try:
        name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(usage=usage, name=name, mechs=[gssapi.MechType.kerberos], store=store)
    except GSSError as error:
        raise KerberosError(reason(error)) from None
