"""Checks of a test's arguments, before a request is made of them."""

__tracebackhide__ = True


def check_text(what: str, value: object) -> None:
    """Raise TypeError, one line, unless a value is a text."""
    if not isinstance(value, str):
        raise TypeError(f"the {what} {value!r:.80} is of type {type(value).__name__}: expected a text")


def check_number(what: str, value: object) -> None:
    """Raise TypeError, one line, unless a value is a number."""
    if not isinstance(value, int | float):
        raise TypeError(f"the {what} {value!r:.80} is of type {type(value).__name__}: expected a number")


def check_whole(what: str, value: object) -> None:
    """Raise TypeError, one line, unless a value is a whole number."""
    if not isinstance(value, int):
        raise TypeError(f"the {what} {value!r:.80} is of type {type(value).__name__}: expected a whole number")
