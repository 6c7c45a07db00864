"""The names under which the requests of an API count in the metrics."""

from collections.abc import Callable, Collection, Mapping, Sequence

from twisted_kafka.protocol.api import LAST_DEPRECATED_VERSIONS, ApiKey
from twisted_kafka.protocol.errors import ErrorCode


class RequestMetricNames:
    """Metric names by the codes of the protocol."""

    __slots__ = ("_api_name", "_special", "converting", "error_name", "last_deprecated")

    def __init__(
        self,
        api_name: Callable[[int], str],
        error_name: Callable[[int], str],
        special: Mapping[int, Sequence[tuple[bool | None, str]]] | None = None,
        last_deprecated: Callable[[int], int] = lambda _: -1,
        converting: Collection[int] = (),
    ) -> None:
        """``special`` has the names of APIs whose requests do not all count under one name.

        ``last_deprecated`` returns the last deprecated version of an API, -1 for none; ``converting`` are the APIs that convert
        records.
        """
        self._api_name = api_name
        self.error_name = error_name
        self._special = special or {}
        self.last_deprecated = last_deprecated
        self.converting = converting

    def of(self, api_key: int) -> Sequence[tuple[bool | None, str]]:
        """Return the names of an API, each with the requests that count: special ones (True), the others (False), or all (None)."""
        return self._special.get(api_key) or ((None, self._api_name(api_key)),)


def _api_name(api_key: int) -> str:
    return ApiKey(api_key).title


def _error_name(code: int) -> str:
    return ErrorCode(code).name


def _last_deprecated(api_key: int) -> int:
    return LAST_DEPRECATED_VERSIONS.get(ApiKey(api_key), -1)


KAFKA_NAMES = RequestMetricNames(
    _api_name,
    _error_name,
    {
        ApiKey.FETCH: ((None, "Fetch"), (True, "FetchFollower"), (False, "FetchConsumer")),
        ApiKey.ADD_PARTITIONS_TO_TXN: ((True, "AddPartitionsToTxnVerification"), (False, "AddPartitionsToTxn")),
    },
    _last_deprecated,
    (ApiKey.PRODUCE, ApiKey.FETCH),
)
"""Kafka's names."""
