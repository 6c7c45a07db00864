"""Lines of an access log with known values."""

import datetime
import json
from typing import Any

PHASES = {"request_queue_us": 10, "local_us": 20, "remote_us": 30, "throttle_us": 0, "response_queue_us": 5, "send_us": 15}


def line(api: str, minute: int, **changes: object) -> str:
    fields: dict[str, object] = {
        "v": 1,
        "time": f"2026-11-21T08:{minute:02}:30.250Z",
        "node": 1,
        "listener": "PLAINTEXT",
        "protocol": "PLAINTEXT",
        "connection": "127.0.0.1:9092-127.0.0.1:40000-0",
        "principal": "User:ANONYMOUS",
        "client_id": "app",
        "software": "librdkafka",
        "software_version": "2.0.2",
        "api": api,
        "api_key": 0,
        "version": 7,
        "correlation_id": 1,
        "request_bytes": 100,
        "response_bytes": 50,
        **PHASES,
        "total_us": sum(PHASES.values()),
        "error": None,
        "topics": [],
    }
    return json.dumps(fields | changes, separators=(",", ":")) + "\n"  # as the broker writes them


def own_line(minute: int, **changes: object) -> str:
    """Return the line of a transaction that ended without a request."""
    fields: dict[str, object] = {
        "v": 1,
        "time": f"2026-11-21T08:{minute:02}:30.250Z",
        "node": 1,
        "topics": [topic("orders", 0)],
        "transaction": {"id": "tx", "outcome": "timed-out", "duration_ms": 60_000},
    }
    return json.dumps(fields | changes, separators=(",", ":")) + "\n"


def in_transaction(
    api: str, transactional_id: str | None, at_ms: int, outcome: str = "", duration_ms: int = 0, **changes: Any
) -> str:
    """Return the line of a request about a transaction, so many milliseconds after 08:00."""
    named: dict[str, Any] = {"id": transactional_id} if transactional_id is not None else {}
    if outcome:
        named |= {"outcome": outcome, "duration_ms": duration_ms}
    if api == "InitProducerId":
        named["timeout_ms"] = 60_000
    fields = {"time": moment(at_ms), "transaction": named} | changes
    return own_line(0, **fields) if outcome in ("timed-out", "stuck") else line(api, 0, **fields)


def moment(at_ms: int) -> str:
    """Return the time so many milliseconds after 08:00."""
    at = datetime.datetime(2026, 11, 21, 8) + datetime.timedelta(milliseconds=at_ms)
    return at.isoformat(timespec="milliseconds") + "Z"


def topic(name: str, records: int, error: str | None = None) -> dict[str, Any]:
    return {"topic": name, "partitions": 1, "records": records, "bytes": records * 10, "error": error}
