"""What the control API answers when it cannot do what it is asked."""

from typing import Any


class ControlError(Exception):
    """An answer that is not 200: the status, and one line that says what was wrong and what was expected."""

    def __init__(self, status: int, text: str, **more: Any) -> None:
        """``more`` is in the answer, too, as ``seen`` of a wait is."""
        super().__init__(text)
        self.status = status
        self.more = more


def bad(text: str) -> ControlError:
    """Return the error for a request that is wrong."""
    return ControlError(400, text)
