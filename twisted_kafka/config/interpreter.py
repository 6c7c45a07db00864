"""Properties of the Python interpreter that determine how many threads are useful."""

import sys
from typing import Final

HAS_INTERPRETER_LOCK: Final[bool] = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether only one thread at a time executes Python code; false on a free-threaded build (PEP 703)."""
