"""What an error of Spark says, in one line."""

from __future__ import annotations

import re

_PYTHON_ERROR = re.compile(r"[\w.]*(Error|Exception|Invalid|NotImplemented): ")


def first_line(error: BaseException) -> str:
    """Return what an error of Spark says, without its plans and stack traces; of one in a Python process, what Python said."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    raised = [line for line in lines if _PYTHON_ERROR.match(line)]
    return next(iter([*raised[:1], *lines]), type(error).__name__)
