"""The checks of a request's head, which come before everything else, and the security headers of each response.

A page of another site may send requests to this console from the browser of somebody who can reach it. Such requests end here: by
the host's name (a foreign name that resolves to this machine is DNS rebinding), by the origin, and by what the browser says about
the request's source (Fetch Metadata). Forms also have a token (``users/sessions.py``).
"""

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

METHODS: Final = frozenset({"GET", "HEAD", "POST"})
MOST_URI_BYTES: Final = 32 * 1024
"""A schema's text may be in the address, as a field of a form."""
TOO_LONG: Final = "The form's fields, or the address, are longer than 32 KiB"

_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([A-Za-z0-9._-]+))(?::\d{1,5})?")
_TRUSTED_SITES: Final = frozenset({"same-origin", "none"})
"""Values of Sec-Fetch-Site: this console's own pages, and what the user has typed. A page at another port is same-site."""

_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types console",
    )
)

SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": _POLICY,
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
    # With "no-referrer" browsers would send the origin "null" with the console's own forms.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-dns-prefetch-control": "off",
    "x-frame-options": "DENY",
    "x-permitted-cross-domain-policies": "none",
}
"""Headers of each response (OWASP's list; docs/security.md)."""

STRICT_TRANSPORT: Final = ("strict-transport-security", "max-age=31536000")
"""Sent with TLS."""


class Refusal(NamedTuple):
    """Why a request is not served."""

    status: int
    why: str


class Guard:
    """Checks the heads of requests."""

    def __init__(self, hosts: Iterable[str], *, is_tls: bool) -> None:
        """``hosts`` are the names under which browsers may reach the console, besides localhost and addresses.

        No foreign page has an address as its host and is still reached at this machine, so all addresses are allowed.
        """
        self._hosts = frozenset({"localhost", *(host.lower().rstrip(".") for host in hosts if host)})
        self._scheme = "https" if is_tls else "http"

    def refusal(self, method: str, uri: str, values_of: Callable[[str], list[str]]) -> Refusal | None:
        """Return why a request is refused, None if it is not. ``values_of`` returns the values of a header."""
        if method not in METHODS:
            return Refusal(405, "Only GET, HEAD and POST are served")
        if len(uri) > MOST_URI_BYTES or not uri.startswith("/"):
            return Refusal(414, TOO_LONG) if uri.startswith("/") else Refusal(400, "Expected a path")
        hosts = values_of("host")
        if len(hosts) != 1 or not self._is_known(hosts[0]):
            return Refusal(421, "This host name is not the console's: name it in the setting console.hosts")
        return self._source_refusal(method, hosts[0], values_of)

    def _is_known(self, host: str) -> bool:
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match[1] or match[2]
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return match[1] is None and name.lower().rstrip(".") in self._hosts
        return True

    def _source_refusal(self, method: str, host: str, values_of: Callable[[str], list[str]]) -> Refusal | None:
        """Refuse requests of other sites' pages. A link there may lead here: that is a navigation, and shows them nothing."""
        origins, sites = values_of("origin"), values_of("sec-fetch-site")
        if any(origin.lower() != f"{self._scheme}://{host}".lower() for origin in origins):
            return Refusal(403, "The request comes from another origin")
        if any(site not in _TRUSTED_SITES for site in sites):
            way = values_of("sec-fetch-mode"), values_of("sec-fetch-dest")
            if method != "GET" or way != (["navigate"], ["document"]):
                return Refusal(403, "The request comes from a page of another site")
        if method == "POST" and not origins and sites != ["same-origin"]:
            return Refusal(403, "The header Origin is missing")
        return None
