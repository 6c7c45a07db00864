"""Many cases of one rule in one test, each of which names itself when it fails."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def case(*names: object, **values: object) -> Iterator[None]:
    """Add what the case is to whatever is raised within."""
    try:
        yield
    except BaseException as error:
        error.add_note("in the case of " + ", ".join([*map(repr, names), *(f"{name}={value!r}" for name, value in values.items())]))
        raise
