"""What tests of replicated partitions share."""

from pathlib import Path

FAST = {"replica_lag_time_max_ms": 3_000, "replica_fetch_backoff_ms": 200}


def content(directory: Path, broker_id: int, topic: str = "orders", partition: int = 0) -> bytes:
    where = directory / str(broker_id) / "log" / f"{topic}-{partition}"
    return b"".join(path.read_bytes() for path in sorted(where.glob("*.log")))
