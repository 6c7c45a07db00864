"""Kafka's DumpLogSegments and its complaints."""

import re

DUMP = "kafka.tools.DumpLogSegments"
COMPLAINTS = re.compile(
    r"isvalid: false|mismatch|out of order|non-consecutive|not found|exception|error|corrupt|invalid|could not|failed",
    re.IGNORECASE,
)


def complaints(told: str) -> list[str]:
    """What the tool says that is neither a batch nor a record."""
    lines = (line.split(" payload: ")[0].split(" key: ")[0] for line in told.splitlines())
    return [line for line in lines if COMPLAINTS.search(line.replace("isvalid: true", ""))]
