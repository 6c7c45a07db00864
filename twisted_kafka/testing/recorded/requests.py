"""The record of clients' requests to a broker under test, with the broker's answers.

assert broker.requests.of("Produce").where(acks=-1, topic="orders").count() == 3
"""

import difflib
import re
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from twisted_kafka.protocol.api import ApiKey, request_class
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.testing.recorded.selections import OUTCOMES, BaseRequest, BaseRequests, BaseSelection
from twisted_kafka.testing.recorded.subjects import Partition

__tracebackhide__ = True

_API_NAMES: Final = {key.title: key for key in ApiKey}


def api_key(name: str) -> ApiKey:
    """Return the key of an API by Kafka's name. Raises ValueError; its one line suggests a similar name."""
    key = _API_NAMES.get(name)
    if key is None:
        near = difflib.get_close_matches(name, _API_NAMES, 1, 0.5)
        raise ValueError(f"there is no API {name!r}" + (f": did you mean {near[0]!r}?" if near else ": names are like 'Produce'"))
    return key


def api_name(key: int) -> str:
    """Return Kafka's name of an API; an unknown key gets a name, too."""
    try:
        return ApiKey(key).title
    except ValueError:
        return f"API key {key}"


@dataclass(frozen=True, eq=False)
class RecordedRequest(BaseRequest):
    """One request and how it was answered. Do not change its messages."""

    api: str
    """Kafka's name: ``Produce``."""
    version: int
    client_id: str | None
    principal: str
    """``User:ANONYMOUS``."""
    connection: str
    node: int
    """The id of the broker that answered it."""
    fields: Message | None
    """The request with its fields, in the spelling of ``where``: ``fields.acks``, ``fields.topic_data[0].name``.

    None if it could not be read."""
    partitions: tuple[Partition, ...]
    groups: tuple[str, ...]
    response: Message | None
    """The broker's answer, like ``fields``, even if a fault kept it from the client; None if there was no answer."""
    error: str | None
    """The first error of the response, by Kafka's name; None if there is no error."""
    outcome: str
    """``answered``, ``no response``, ``dropped`` (not handled), ``lost``, ``half``, ``corrupt`` or ``closed``."""
    fault: str | None
    """The rule that changed the outcome."""
    arrived_ms: float
    """Since the broker was made, or its cluster, by its clock."""
    answered_ms: float
    size_bytes: int

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics in the request, in order."""
        return tuple(dict.fromkeys(topic for topic, _ in self.partitions))

    @override
    def __repr__(self) -> str:
        return f"<{' '.join(str(self).split())}>"

    @override
    def __str__(self) -> str:
        about = [f"{topic}-{index}" if index is not None else topic for topic, index in self.partitions[:4]]
        about += ["..."] if len(self.partitions) > 4 else []
        about += [f"group {group}" for group in self.groups]
        result = self.error or self.outcome
        return (
            f"{self.arrived_ms:9.1f} ms  {self.api} v{self.version} from {self.client_id or '-'}"
            f"{'  ' + ' '.join(about) if about else ''}  -> {result} in {self.answered_ms - self.arrived_ms:.1f} ms"
            f"{f'  (fault: {self.fault})' if self.fault else ''}"
        )

    @override
    def matches(self, name: str, value: object) -> bool:
        """Whether a property, or a field of the request, has this value."""
        if name == "topic":
            return value in self.topics
        if name == "partition":
            return any(index == value for _, index in self.partitions)
        if name == "group":
            return value in self.groups
        if name in _PROPERTIES:
            return bool(getattr(self, name) == value)
        return self.fields is not None and hasattr(self.fields, name) and bool(getattr(self.fields, name) == value)


_PROPERTIES: Final = ("api", "version", "client_id", "principal", "connection", "node", "error", "outcome", "fault")
_SUBJECTS: Final = ("topic", "partition", "group")
_OF_BROKER: Final = re.compile(r"broker-(\d+)-")
"""Begins the client ids of brokers."""


def sender_of(client_id: str | None) -> int | None:
    """Return the id of the broker with this client id; None for clients."""
    found = _OF_BROKER.match(client_id or "")
    return None if found is None else int(found[1])


class Selection(BaseSelection[RecordedRequest]):
    """Some of the recorded requests, oldest first. A selection is live: it also includes matching requests that arrive later."""

    def of(self, api: str) -> "Selection":
        """Return the requests of one API, by Kafka's name. Raises ValueError for an unknown name."""
        self._check_api(api)
        return self._narrowed(api, self._wanted)

    def where(self, **wanted: object) -> "Selection":
        """Return the requests with these values of properties, ``topic``, ``partition``, ``group`` or fields, by name.

        Raises ValueError for a field that the API's requests, or all requests, do not have, and for an unknown error or outcome.
        """
        for name, value in wanted.items():
            self._check(name, value)
        return self._narrowed(self._api, {**self._wanted, **wanted})

    @override
    def _narrowed(self, api: str | None, wanted: dict[str, object]) -> "Selection":
        return Selection(self._store, api, wanted)

    @override
    def _check_api(self, api: str) -> None:
        api_key(api)

    @override
    def _check(self, name: str, value: object) -> None:
        if name == "api" and isinstance(value, str):
            api_key(value)
        if name == "error" and isinstance(value, str) and value not in ErrorCode.__members__:
            raise ValueError(f"there is no error {value!r}: names are like 'NOT_LEADER_OR_FOLLOWER'")
        if name == "outcome" and value is not None and value not in OUTCOMES:
            raise ValueError(f"there is no outcome {value!r}, only {', '.join(OUTCOMES)}")
        if name in _PROPERTIES or name in _SUBJECTS:
            return
        if self._api is None:
            if not any(field.name == name for key in ApiKey for field in request_class(key).FIELDS):
                near = difflib.get_close_matches(name, (*_PROPERTIES, *_SUBJECTS), 1)
                advice = f": did you mean {near[0]!r}?" if near else f", only {', '.join((*_PROPERTIES, *_SUBJECTS))} and fields"
                raise ValueError(f"requests have no {name!r}{advice}")
            return
        names = [field.name for field in request_class(api_key(self._api)).FIELDS]
        if name not in names:
            raise ValueError(f"{self._api} requests have no field {name!r}, only {', '.join(names)}")


class Requests(BaseRequests[RecordedRequest], Selection):
    """All answered requests, oldest first. Any thread may use it."""

    def __init__(self, parent: "Requests | None" = None) -> None:
        """``parent``, a cluster's, gets the requests of clients, too, but not those of other brokers."""
        super().__init__()
        self._parent = parent

    @override
    def add(self, request: RecordedRequest) -> None:
        super().add(request)
        if self._parent is not None and sender_of(request.client_id) is None:
            self._parent.add(request)
