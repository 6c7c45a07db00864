"""Why a program cannot listen at an address, for the person who started it."""

import errno


def why_not_bound(error: OSError) -> str:
    """Return why a port cannot be had, and what to do if another program has it."""
    advice = "; stop what listens there, or take another port (0: a free one)" if error.errno == errno.EADDRINUSE else ""
    return f"{error.strerror or error}{advice}"
