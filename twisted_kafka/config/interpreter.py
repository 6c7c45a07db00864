"""What the interpreter is like, where that decides on how work is spread."""

import sys
from typing import Final

HAS_INTERPRETER_LOCK: Final[bool] = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether one thread at a time runs Python: not so on a free-threaded build (PEP 703)."""
