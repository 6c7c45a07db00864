"""The registry of APIs: each handler method declares the API that it answers, and the registry collects them.

    class GroupApis:
        @api(HeartbeatRequest, HeartbeatResponse, versions=(0, 4))
        def heartbeat(self, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse: ...

    registry = ApiRegistry([GroupApis(...), ...])

Dispatch, the ApiVersions response and the documentation's table of APIs all use the registry; there is no second list.

A handler returns one of these, or a future of it:

| type | returned by |
|---|---|
| `Message`, the response | most handlers |
| `ReadyResponse` | ApiVersions, Metadata, Fetch, Produce of one batch: it encodes itself, and may be shared by requests |
| `Measured` | Fetch, while quotas are enabled: the bytes of its response count |
| `Limited` | CreateTopics, CreatePartitions, DeleteTopics, while quotas are enabled |
| `Outcome` | Produce with acks=0; SaslAuthenticate (`AuthenticationStep`) |
| `Later` | Produce and OffsetCommit: a future, and the request without its unneeded parts |
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from copy import copy
from functools import update_wrapper
from types import MethodType
from typing import Any, ClassVar, Concatenate, Final, Generic, NamedTuple, ParamSpec, Protocol, Self, TypeVar, overload

from typing_extensions import override

from twisted_kafka.network.requests.request_context import RequestContext
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.regions import Buffer, Part
from twisted_kafka.server.error_counts import error_places


class Outcome:
    """Returned by a handler if there is no response to send."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    @override
    def __repr__(self) -> str:
        return self._name


NO_RESPONSE = Outcome("NO_RESPONSE")
"""No response is sent, and the connection stays open (a produce with acks=0)."""

CLOSE_CONNECTION = Outcome("CLOSE_CONNECTION")
"""No response is sent, and the connection is closed (a failed produce with acks=0)."""


class AuthenticationStep(Outcome):
    """Returned by a handler whose response ends an authentication, well or badly."""

    __slots__ = ("kind", "response")

    def __init__(self, response: Message, kind: int) -> None:
        """``kind`` is AUTHENTICATED or AUTHENTICATION_FAILED."""
        super().__init__("AUTHENTICATION_STEP")
        self.response = response
        self.kind = kind


class ReadyResponse:
    """A response that is not a message: it encodes itself, and its handler has already noted its errors."""

    __slots__ = ()

    def throttled(self, throttle_time_ms: int) -> "Response":
        """Return the same response with a throttle time; this one may be shared, and is not changed."""
        raise NotImplementedError

    def encode_parts(self, version: int, prefix: bytes = b"") -> list[Part]:
        """Return ``prefix`` followed by the response, as parts to send in order."""
        raise NotImplementedError


class FrozenResponse(ReadyResponse):
    """A response shared by many requests: encoded once per version, never changed."""

    __slots__ = ("_bodies", "error_counts", "response")

    def __init__(self, response: Message, error_counts: Mapping[int, int] | None = None) -> None:
        """``error_counts`` is for the handler, which sets it in each request's context (`RequestContext.error_counts`)."""
        self.response = response
        self.error_counts = error_counts
        self._bodies: dict[int, bytes] = {}

    @override
    def encode_parts(self, version: int, prefix: bytes = b"") -> list[Part]:
        """Return ``prefix`` and the response as one part."""
        body = self._bodies.get(version)
        if body is None:
            body = self._bodies[version] = self.response.encode(version)
        return [prefix + body]

    @override
    def throttled(self, throttle_time_ms: int) -> "Response":
        """Return the response with a throttle time, not shared."""
        return FrozenResponse(with_throttle_time(self.response, throttle_time_ms))


class EncodedResponse(ReadyResponse):
    """A response shared by many requests of one version. Only its bytes are kept: its objects take ten times as much."""

    __slots__ = ("_response_class", "_version", "body", "error_counts")

    def __init__(self, response: Message, version: int, error_counts: Mapping[int, int] | None) -> None:
        """``error_counts`` is for the handler, which sets it in each request's context (`RequestContext.error_counts`)."""
        self._response_class = type(response)
        self._version = version
        self.body = response.encode(version)
        self.error_counts = error_counts

    @override
    def encode_parts(self, version: int, prefix: bytes = b"") -> list[Part]:
        """Return ``prefix`` and the response as one part."""
        return [prefix + self.body]

    @override
    def throttled(self, throttle_time_ms: int) -> "Response":
        """Return the response with a throttle time, not shared."""
        return with_throttle_time(self._response_class.decode(self.body, self._version), throttle_time_ms)


def with_throttle_time(response: Message, throttle_time_ms: int) -> Message:
    """Return a copy of a response with a throttle time, if it has the field."""
    if not hasattr(response, "throttle_time_ms"):
        return response
    throttled = copy(response)
    throttled.throttle_time_ms = throttle_time_ms
    return throttled


class Later(NamedTuple):
    """Returned by a direct handler whose answer comes later, so that the frame with its records need not be kept until then."""

    answer: "Future[Any]"
    request: Message
    """The request without its records, to build an error response if ``answer`` fails."""


class Measured:
    """A result whose bytes a quota counts. The throttler then sends ``answer()``, or ``throttled()`` if the quota is exceeded."""

    __slots__ = ()

    keeps_data: ClassVar[bool] = False
    """Whether a response with a throttle time has the data, too, so that its bytes count."""

    def size_bytes(self) -> int:
        """Return the bytes that count."""
        raise NotImplementedError

    def answer(self) -> "Response":
        """Return the response."""
        raise NotImplementedError

    def throttled(self, throttle_time_ms: int) -> "Response":
        """Return the response to send if the client has to wait ``throttle_time_ms``."""
        raise NotImplementedError


class ILimited(Protocol):
    """The quota of a request's changes, which says how long the client has to wait after them."""

    def throttle_ms(self) -> int:
        """Return how long the client has to wait from now on."""


class Limited(NamedTuple):
    """A response, and the quota in which the changes of its request count."""

    response: "Response"
    quota: ILimited


Response = Message | ReadyResponse
Result = Response | Measured | Limited | Future[Any] | Outcome
Handler = Callable[[RequestContext, Any], Result]
DirectHandler = Callable[[RequestContext, Buffer, int], Result | Later | None]


class Together(NamedTuple):
    """How requests of one API are handled together."""

    read: Callable[[RequestContext, Buffer, int], tuple[Hashable, Any] | None]
    """Reads the undecoded frame. Returns the key of its bundle and its content; None if it is handled alone."""
    handle: Callable[[Any, Sequence[Any]], Sequence[Any]]
    """Handles the contents with one key. Returns a result for each."""
    answer: Callable[[RequestContext, Any, Any], Result | Later]
    """Returns the answer to one request, given its content and its result."""


_NO_VERSIONS = (0, -1)

_S = TypeVar("_S")
_P = ParamSpec("_P")
_R = TypeVar("_R")
_F = TypeVar("_F", bound=Callable[..., Any])


class ApiMethod(Generic[_S, _P, _R]):
    """A method that handles an API: what ``@api`` makes of it. Its decorators add other ways to handle the same requests.

        @api(ProduceRequest, ProduceResponse, versions=(0, 12))
        def produce(self, context: RequestContext, request: ProduceRequest) -> Answer: ...

        @produce.undecoded
        def produce_one(self, context: RequestContext, frame: Buffer, offset: int) -> Answer | None: ...

    On an object of its class it is the plain method.
    """

    def __init__(
        self,
        function: Callable[Concatenate[_S, _P], _R],
        request_class: type[Message],
        response_class: type[Message],
        versions: tuple[int, int],
    ) -> None:
        self.function: Final = function
        self.request_class: Final = request_class
        self.response_class: Final = response_class
        self.versions: Final = versions
        self._undecoded: Callable[..., Any] | None = None
        self._together: dict[str, Callable[..., Any]] = {}
        update_wrapper(self, function)

    def __call__(self, instance: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call it as a function, with the object as first argument."""
        return self.function(instance, *args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: object = None) -> Self: ...
    @overload
    def __get__(self, instance: _S, owner: object = None) -> Callable[_P, _R]: ...
    def __get__(self, instance: _S | None, owner: object = None) -> "Self | Callable[_P, _R]":
        return self if instance is None else MethodType(self.function, instance)

    def undecoded(self, method: _F) -> _F:
        """Try this method first, with the undecoded frame (``Api.direct``)."""
        self._undecoded = method
        return method

    def read_together(self, method: _F) -> _F:
        """Read one of several requests that may be handled together (``Together.read``)."""
        self._together["read"] = method
        return method

    def handle_together(self, method: _F) -> _F:
        """Handle several requests together (``Together.handle``)."""
        self._together["handle"] = method
        return method

    def answer_together(self, method: _F) -> _F:
        """Answer one of several requests that were handled together (``Together.answer``)."""
        self._together["answer"] = method
        return method

    def api_of(self, family: _S) -> "Api":
        """Return the API as this object handles it. Raises TypeError if a method for handling requests together is missing."""
        found = Api(self.request_class, self.response_class, self.versions, MethodType(self.function, family))
        if self._undecoded is not None:
            found.direct = MethodType(self._undecoded, family)
        if self._together:
            found.together = Together(**{name: MethodType(method, family) for name, method in self._together.items()})
        return found


_BY_FAMILY: dict[type, list[ApiMethod[Any, Any, Any]]] = {}


class Api:
    """An API, as declared by its handler."""

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
        "together",
    )

    def __init__(
        self, request_class: type[Message], response_class: type[Message], versions: tuple[int, int], handler: Handler
    ) -> None:
        self.direct: DirectHandler | None = None
        """Handles the undecoded frame, whose body begins at an offset; None if it cannot, then ``handler`` is called."""
        self.together: Together | None = None
        self.key = request_class.KEY
        self.name = ApiKey(self.key).title
        self.request_class = request_class
        self.response_class = response_class
        self.min_version, self.max_version = versions
        self.handler = handler
        self.error_places = error_places(response_class)

    def narrow(self, versions: tuple[int, int]) -> bool:
        """Serve no versions outside of ``versions``, first and last; return whether any version is left."""
        self.min_version, self.max_version = max(self.min_version, versions[0]), min(self.max_version, versions[1])
        return self.min_version <= self.max_version

    def serves(self, version: int) -> bool:
        """Whether this version is supported."""
        return self.min_version <= version <= self.max_version


def api(
    request_class: type[Message], response_class: type[Message], *, versions: tuple[int, int]
) -> Callable[[Callable[Concatenate[_S, _P], _R]], ApiMethod[_S, _P, _R]]:
    """Declare that a method handles ``request_class`` in ``versions``, given as first and last version."""
    if request_class.KEY != response_class.KEY:
        raise TypeError(f"{response_class.__name__} is not the response of {request_class.__name__}")
    low, high = request_class.VERSIONS
    if not low <= versions[0] <= versions[1] <= high:
        raise ValueError(f"{request_class.__name__} has versions {low} to {high}, not {versions}")

    def declare(function: Callable[Concatenate[_S, _P], _R]) -> ApiMethod[_S, _P, _R]:
        return ApiMethod(function, request_class, response_class, versions)

    return declare


class ApiRegistry:
    """The APIs of the given families, by key."""

    def __init__(
        self,
        families: Iterable[object],
        only: Mapping[int, tuple[int, int]] | None = None,
        *,
        tells_supported: bool = True,
    ) -> None:
        """``only``: serve no other APIs and versions than these, by key.

        ``tells_supported``: answer ApiVersions of a version that is too new with the supported versions (KIP-511).
        """
        self.tells_supported = tells_supported
        self.apis: dict[int, Api] = {}
        for family in families:
            for method in _methods_of(type(family)):
                found = method.api_of(family)
                if found.key in self.apis:
                    raise ValueError(f"{found.name} has two handlers")
                if only is None or found.narrow(only.get(found.key, _NO_VERSIONS)):
                    self.apis[found.key] = found

    @property
    def supported(self) -> dict[int, tuple[int, int]]:
        """First and last version by API key, in order of the keys."""
        return {key: (self.apis[key].min_version, self.apis[key].max_version) for key in sorted(self.apis)}


def _methods_of(family: type) -> list[ApiMethod[Any, Any, Any]]:
    """Return the methods that handle APIs, in order of their names; cached."""
    if family not in _BY_FAMILY:
        methods = [getattr(family, name) for name in dir(family)]
        _BY_FAMILY[family] = [method for method in methods if isinstance(method, ApiMethod)]
    return _BY_FAMILY[family]
