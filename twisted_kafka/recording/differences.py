"""Differences between two answers, without the fields that differ between any two brokers."""

from collections.abc import Iterator
from typing import Any, Final

from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.errors import ErrorCode

VOLATILE: Final = frozenset(
    {
        "throttleTimeMs",
        "host",
        "port",
        "rack",
        "clientHost",
        "clusterId",
        "nodeId",
        "leaderId",
        "controllerId",
        "errorMessage",
        "documentation",
        "partitionLeaderEpoch",
        "logAppendTimeMs",
        "logDir",
        "issueTimestampMs",
        "expiryTimestampMs",
        "maxTimestampMs",
        "transactionStartTimeMs",
        "commitTimestampMs",
        "sessionLifetimeMs",
        "finalizedFeaturesEpoch",
    }
)
"""Fields that are not compared because each broker has its own: addresses, times, ids of brokers, and texts."""

BROKER_LISTS: Final = frozenset({"replicaNodes", "isrNodes", "offlineReplicas", "eligibleLeaderReplicas", "lastKnownElr"})
"""Lists of brokers; only their lengths are compared."""

IDS: Final = {
    "memberId": "member",
    "leader": "member",
    "topicId": "topic",
    "producerId": "producer",
    "sessionId": "session",
    "tokenId": "token",
    "clientInstanceId": "client instance",
    "subscriptionId": "subscription",
}
"""Fields with ids that a broker assigns, and their kind. Each id in one answer must correspond to one id in the other."""

_NO_UUID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
_NO_ID: Final = {
    "member": "",
    "topic": _NO_UUID,
    "producer": -1,
    "session": 0,
    "token": "",
    "client instance": _NO_UUID,
    "subscription": 0,
}
"""The value that means "no id", by kind."""
_FETCHED: Final = frozenset({"highWatermark", "lastStableOffset", "logStartOffset", "abortedTransactions", "records"})
"""These fields of a Fetch depend on the time of the answer; records are compared by offset instead (``fetched_records``)."""
_NAMES: Final = ("topic", "name", "partitionIndex", "partition", "index", "partitionId", "apiKey", "groupId", "resourceName", "key")
"""Fields that name the items of a list, so that its order does not matter."""

Ids = dict[tuple[str, Any], Any]
"""The other broker's ids by kind and recorded id."""


class Comparison:
    """Compares answers, and learns which ids correspond."""

    def __init__(self) -> None:
        self.ids: Ids = {}

    def differences(self, recorded: dict[str, Any], found: dict[str, Any], *, is_fetch: bool = False) -> Iterator[str]:
        """Yield a line for each difference: ``topics[orders].errorCode: 0 was recorded, now 3``."""
        yield from self._compare(recorded, found, "", _FETCHED if is_fetch else frozenset())

    def _compare(self, recorded: Any, found: Any, path: str, left_out: frozenset[str]) -> Iterator[str]:
        if isinstance(recorded, dict) and isinstance(found, dict):
            if recorded.get("errorCode") != found.get("errorCode"):  # other differences follow from this one
                was, now = (_error_name(each.get("errorCode")) for each in (recorded, found))
                yield f"{f'{path}.errorCode'.lstrip('.')}: {was} was recorded, now {now}"
                return
            for name in [*recorded, *(name for name in found if name not in recorded)]:
                if name not in VOLATILE and name not in left_out:
                    yield from self._field(name, recorded.get(name), found.get(name), f"{path}.{name}".lstrip("."), left_out)
        elif isinstance(recorded, list) and isinstance(found, list):
            yield from self._lists(recorded, found, path, left_out)
        elif recorded != found:
            yield f"{path}: {_shown(recorded)} was recorded, now {_shown(found)}"

    def _field(self, name: str, recorded: Any, found: Any, path: str, left_out: frozenset[str]) -> Iterator[str]:
        kind = IDS.get(name)
        if kind is not None and isinstance(recorded, str | int) and _NO_ID[kind] not in (recorded, found) and found is not None:
            known = self.ids.setdefault((kind, recorded), found)
            if known != found:
                yield f"{path}: {_shown(recorded)} was recorded again, which was {_shown(known)}, now {_shown(found)}"
        elif name in BROKER_LISTS and isinstance(recorded, list) and isinstance(found, list):
            if len(recorded) != len(found):
                yield f"{path}: {len(recorded)} brokers were recorded, now {len(found)}"
        elif name == "brokers":
            return
        else:
            yield from self._compare(recorded, found, path, left_out)

    def _lists(self, recorded: list[Any], found: list[Any], path: str, left_out: frozenset[str]) -> Iterator[str]:
        name = _common_name(recorded, found)
        if name is None:
            if len(recorded) != len(found):
                yield f"{path}: {len(recorded)} items were recorded, now {len(found)}"
                return
            for at, (one, other) in enumerate(zip(recorded, found, strict=True)):
                yield from self._compare(one, other, f"{path}[{at}]", left_out)
            return
        ones, others = ({each[name]: each for each in items} for items in (recorded, found))
        for key, item in ones.items():
            where = f"{path}[{_api_name(key) if name == 'apiKey' else key}]"
            if key in others:
                yield from self._compare(item, others[key], where, left_out)
            elif not left_out:
                yield f"{where} was recorded, and is not there now"
        if not left_out:
            for key in others:
                if key not in ones:
                    yield f"{path}[{_api_name(key) if name == 'apiKey' else key}] is there now, and was not recorded"

    def translated(self, request: Any, name: str = "") -> Any:
        """Return a request with the other broker's ids in place of the recorded ones."""
        if isinstance(request, dict):
            return {field: self.translated(value, field) for field, value in request.items()}
        if isinstance(request, list):
            return [self.translated(each, name) for each in request]
        kind = IDS.get(name)
        return request if kind is None else self.ids.get((kind, request), request)

    @property
    def producer_ids(self) -> dict[int, int]:
        """The other broker's producer ids by recorded ones."""
        return {recorded: found for (kind, recorded), found in self.ids.items() if kind == "producer"}


def fetched_records(response: dict[str, Any]) -> Iterator[tuple[str, int, int, tuple[Any, ...]]]:
    """Yield topic (or its id), partition, offset and content of each record in a Fetch response."""
    for topic in response.get("responses", ()):
        name = topic.get("topic") or topic.get("topicId")
        for partition in topic["partitions"]:
            for batch in partition.get("records") or ():
                first = batch.get("baseOffset", 0)
                for record in batch.get("records", ()):
                    content = (_frozen(record["key"]), _frozen(record["value"]), _frozen(record.get("headers")))
                    yield name, partition["partitionIndex"], first + record["offsetDelta"], content


def _common_name(recorded: list[Any], found: list[Any]) -> str | None:
    """Return the field whose values name the items of both lists."""
    items = recorded + found
    if not items or not all(isinstance(each, dict) for each in items):
        return None
    for name in _NAMES:
        if all(isinstance(each.get(name), str | int) and each.get(name) != "" for each in items) and all(
            len({each[name] for each in some}) == len(some) for some in (recorded, found)
        ):
            return name
    return None


def _error_name(code: Any) -> str:
    return ErrorCode(code).name if code in ErrorCode.__members__.values() else str(code)


def _api_name(key: Any) -> str:
    return ApiKey(key).title if key in ApiKey.__members__.values() else str(key)


def _frozen(value: Any) -> Any:
    return repr(value) if isinstance(value, dict | list) else value


def _shown(value: Any, most: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."
