"""Findings about security: addresses from which logins fail over and over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from twisted_kafka_spark import thresholds as limits
from twisted_kafka_spark.findings.finding import Finding, from_us, quoted

if TYPE_CHECKING:
    from twisted_kafka_spark.views import Row, Tables


def failed_logins(tables: Tables) -> Iterator[Finding]:
    """Find addresses whose clients fail to log in: wrong passwords, or somebody who guesses them."""
    by_address: dict[str | None, list[Row]] = defaultdict(list)
    for row in tables["failed_login"]:
        by_address[row["note"]].append(row)
    for address, rows in by_address.items():
        attempts = sum(row["requests"] for row in rows)
        if attempts < limits.FAILED_LOGINS_FLOOR:
            continue
        first, last = min(row["first_us"] for row in rows), max(row["last_us"] for row in rows)
        yield Finding(
            "failed-logins",
            f"{attempts:,} logins from {address or 'an unknown address'} failed",
            {
                "address": address,
                "attempts": attempts,
                "errors": ", ".join(sorted({row["error"] for row in rows})),
                "listeners": ", ".join(sorted({row["listener"] or "-" for row in rows})),
            },
            f"connection LIKE {quoted(f'%-{address}:%')}" if address else "",
            "Correct its credentials, or block the address: connection.failed.authentication.delay.ms only slows guessing down.",
            first=from_us(first),
            last=from_us(last),
            weight=attempts,
        )


SECURITY_DETECTORS = (failed_logins,)
