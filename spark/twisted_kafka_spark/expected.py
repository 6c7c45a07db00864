"""Errors that are not failures: they direct a client to its next step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted_kafka_spark.thresholds import EXPECTED_ERRORS, PROBING_ERRORS, RETRY_ERRORS

if TYPE_CHECKING:
    import pyarrow.compute as pc

_ANYWHERE = EXPECTED_ERRORS | RETRY_ERRORS


def is_expected(api: str, error: str | None) -> bool:
    """Return whether a request with this error did not fail: the error is part of a protocol, or asks the client to try again."""
    return error in _ANYWHERE or (api, error) in PROBING_ERRORS


def expected_rows() -> pc.Expression:
    """Return the same rule as a condition on the columns `api` and `error`."""
    import pyarrow.compute as pc

    found = pc.field("error").isin(sorted(_ANYWHERE))
    for api, error in sorted(PROBING_ERRORS):
        found |= (pc.field("api") == api) & (pc.field("error") == error)
    return found
