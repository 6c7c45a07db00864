"""Where this broker's answers differ from Apache Kafka 3.9's on purpose; docs/compatibility.md explains each.

A pattern is matched against ``scenario vN: step path``; what it names may differ, anything else is a failure.
"""

import re

EXPECTED: dict[str, str] = {}
"""Why, by pattern."""


def reason(where: str) -> str | None:
    """Return why a difference at this place is expected, or None."""
    return next((why for pattern, why in EXPECTED.items() if re.search(pattern, where)), None)
