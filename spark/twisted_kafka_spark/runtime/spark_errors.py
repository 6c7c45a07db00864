"""One-line messages of Spark's errors."""

from __future__ import annotations

import re

_PYTHON_ERROR = re.compile(r"[\w.]*(Error|Exception|Invalid|NotImplemented): ")


def first_line(error: BaseException) -> str:
    """Return the message of a Spark error without plans and stack traces; for an error in a Python process, Python's message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if _PYTHON_ERROR.match(line)]
    return next(iter([*raised[:1], *lines]), type(error).__name__)
