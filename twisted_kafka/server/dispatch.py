"""Which method answers which API: declared at the method, collected from the families, used for everything.

    class GroupApis:
        @api(HeartbeatRequest, HeartbeatResponse, versions=(0, 4))
        def heartbeat(self, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse: ...

    registry = ApiRegistry([GroupApis(...), ...])

The registry answers dispatch, ApiVersions and the documentation's table: there is no second list.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.codec import Message
from twisted_kafka.protocol.regions import Buffer, Part
from twisted_kafka.server.error_counts import error_places


class Outcome:
    """What a handler returns when there is no response to send."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


NO_RESPONSE = Outcome("NO_RESPONSE")
"""The request gets no answer, its connection goes on (a produce with acks=0)."""

CLOSE_CONNECTION = Outcome("CLOSE_CONNECTION")
"""The connection is closed instead (a produce with acks=0 that failed)."""


class ReadyResponse:
    """A response that is no message: it knows its bytes, and has no error that its handler has not noted."""

    __slots__ = ()

    def encode_parts(self, version: int, prefix: bytes = b"") -> list[Part]:
        """Return ``prefix`` and the response, as parts to send one after the other."""
        raise NotImplementedError


class FrozenResponse(ReadyResponse):
    """A response that is the same for everybody: encoded once for each version, and never changed again."""

    __slots__ = ("_bodies", "error_counts", "response")

    def __init__(self, response: Message, error_counts: Mapping[int, int] | None = None) -> None:
        """``error_counts`` is for its handler, to note it (`RequestContext.error_counts`)."""
        self.response = response
        self.error_counts = error_counts
        self._bodies: dict[int, bytes] = {}

    def encode_parts(self, version: int, prefix: bytes = b"") -> list[Part]:
        """Return ``prefix`` and the response as one part."""
        body = self._bodies.get(version)
        if body is None:
            body = self._bodies[version] = self.response.encode(version)
        return [prefix + body]


Response = Message | ReadyResponse
Result = Response | Future[Any] | Outcome
Handler = Callable[[RequestContext, Any], Result]
DirectHandler = Callable[[RequestContext, Buffer, int], Result | None]

_F = TypeVar("_F", bound=Callable[..., Any])

_DECLARATIONS: dict[Callable[..., Any], tuple[type[Message], type[Message], tuple[int, int], str | None]] = {}
"""By the method as it stands in its class; a method of a compiled class would take no attribute."""


class Api:
    """An API as its handler declares it."""

    __slots__ = (
        "direct",
        "error_places",
        "handler",
        "key",
        "max_version",
        "min_version",
        "name",
        "request_class",
        "response_class",
    )

    def __init__(
        self, request_class: type[Message], response_class: type[Message], versions: tuple[int, int], handler: Handler
    ) -> None:
        self.direct: DirectHandler | None = None
        """Answers the frame whose body begins at an offset, or returns None and has done nothing: then ``handler`` is called."""
        self.key = request_class.KEY
        self.name = ApiKey(self.key).title
        self.request_class = request_class
        self.response_class = response_class
        self.min_version, self.max_version = versions
        self.handler = handler
        self.error_places = error_places(response_class)

    def serves(self, version: int) -> bool:
        """Whether this version is answered."""
        return self.min_version <= version <= self.max_version


def api(
    request_class: type[Message], response_class: type[Message], *, versions: tuple[int, int], direct: str | None = None
) -> Callable[[_F], _F]:
    """Declare that a method answers ``request_class``, from the first to the last of ``versions``.

    ``direct`` names another method of the family, which is asked first (``Api.direct``).
    """
    if request_class.KEY != response_class.KEY:
        raise TypeError(f"{response_class.__name__} does not answer {request_class.__name__}")
    low, high = request_class.VERSIONS
    if not low <= versions[0] <= versions[1] <= high:
        raise ValueError(f"{request_class.__name__} has the versions {low} to {high}, not {versions}")

    def declare(method: _F) -> _F:
        _DECLARATIONS[method] = (request_class, response_class, versions, direct)
        return method

    return declare


class ApiRegistry:
    """The APIs of some families, by key."""

    def __init__(self, families: Iterable[object]) -> None:
        self.apis: dict[int, Api] = {}
        for family in families:
            for found in _declared(family):
                if found.key in self.apis:
                    raise ValueError(f"{found.name} is answered twice")
                self.apis[found.key] = found

    @property
    def supported(self) -> dict[int, tuple[int, int]]:
        """First and last version by key, in the order of the keys."""
        return {key: (self.apis[key].min_version, self.apis[key].max_version) for key in sorted(self.apis)}


def _declared(family: object) -> Iterator[Api]:
    for name in dir(type(family)):
        method = getattr(type(family), name)
        declaration = _DECLARATIONS.get(method) if callable(method) else None
        if declaration is not None:
            request_class, response_class, versions, direct = declaration
            found = Api(request_class, response_class, versions, getattr(family, name))
            if direct is not None:
                found.direct = getattr(family, direct)
            yield found
