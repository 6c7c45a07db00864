"""The log of decisions, ``kafka.authorizer.logger``: denials at INFO, permissions at DEBUG.

A request may ask for very many resources with few bytes each. Its first denial of an operation on a type of resource has a line of
its own. Further denials share lines that list the resources' names, so the log grows by a small multiple of the request's size.
"""

import re
from collections.abc import Mapping
from typing import Final

from constantly import NamedConstant  # type: ignore[import-untyped]
from twisted.logger import Logger, LogLevel

from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.security.authorizer.acl_types import AclOperation, PatternType, ResourceType
from twisted_kafka.system.client_text import bounded_text

NAMESPACE: Final = "kafka.authorizer.logger"

LINE_CHARACTERS: Final = 8192
"""A line ends after the name that reaches this number of characters."""

_DENIED: Final = "Denied {operation} on {resource} to {principal} at {host}, asked by {api}"
_ALLOWED: Final = "Allowed {operation} on {resource} to {principal} at {host}, asked by {api}"
_PLAIN: Final = re.compile(r"[\w.\-]+")


class AuditLog:
    """Writes decisions. Making an event costs more than a decision, so the level is checked first."""

    def __init__(self) -> None:
        self.logs_allowed = False
        """Whether permissions are logged, too."""
        self._log = Logger(NAMESPACE)

    def set_level(self, level: NamedConstant) -> None:
        """Take the logger's new level."""
        self.logs_allowed = level <= LogLevel.debug

    def allowed(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
        """Write a permission."""
        self._log.debug(_ALLOWED, **_who(context), **_what(operation, resource_type, bounded_text(name)))

    def denied(self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
        """Write a denial, or keep it for the end of the request's handling."""
        denials = context.denials
        if denials is None:
            denials = context.denials = Denials(self._log, _who(context))
        denials.add(operation, resource_type, name)


class Denials:
    """The denials of a request, each once."""

    def __init__(self, log: Logger, who: Mapping[str, str]) -> None:
        self._log = log
        self._who = who
        self._names: dict[tuple[AclOperation, ResourceType], dict[str, bool]] = {}  # whether it was written

    def add(self, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
        """Write the first name of an operation and type; keep the others."""
        names = self._names.get((operation, resource_type))
        if names is None:
            self._names[operation, resource_type] = {name: True}
            self._write(operation, resource_type, bounded_text(name))
        else:
            names.setdefault(name, False)

    def end(self) -> None:
        """Write the names that were kept."""
        for (operation, resource_type), names in self._names.items():
            shown: list[str] = []
            characters = 0
            for name in [name for name, is_written in names.items() if not is_written]:
                names[name] = True
                text = bounded_text(name)
                shown.append(text if _PLAIN.fullmatch(text) else repr(text))
                characters += len(shown[-1]) + 2
                if characters >= LINE_CHARACTERS:
                    self._write(operation, resource_type, ", ".join(shown))
                    shown, characters = [], 0
            if shown:
                self._write(operation, resource_type, ", ".join(shown))

    def _write(self, operation: AclOperation, resource_type: ResourceType, names: str) -> None:
        self._log.info(_DENIED, **self._who, **_what(operation, resource_type, names))


def _who(context: RequestContext) -> dict[str, str]:
    return {"principal": str(context.principal), "host": context.client_address, "api": ApiKey(context.api_key).title}


def _what(operation: AclOperation, resource_type: ResourceType, names: str) -> dict[str, str]:
    return {"operation": operation.title, "resource": f"{resource_type.title}:{PatternType.LITERAL.name}:{names}"}
