"""Errors of the control API."""

from typing import Any


class ControlError(Exception):
    """An answer that is not 200: its status, and one line with the fault and the expected input."""

    def __init__(self, status: int, text: str, **more: Any) -> None:
        """``more`` are further fields of the answer, such as ``seen`` of a wait."""
        super().__init__(text)
        self.status = status
        self.more = more


def bad(text: str) -> ControlError:
    """Return the error for an invalid request."""
    return ControlError(400, text)
