"""Python classes that settings name, where Apache Kafka's name Java classes."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from twisted.python.reflect import namedAny

from twisted_kafka.config.errors import ConfigError


def instance_of(name: str, key: str, methods: Iterable[str], configure: Callable[[Any], object] | None = None) -> Any:
    """Return an instance of the class ``package.module.Class`` that ``key`` names, after a call of ``configure`` on it, if given.

    An object that is not a class with ``methods`` is not called. Raises ConfigError if there is no such class, or if it cannot be
    made or configured.
    """
    try:
        found = namedAny(name)  # type: ignore[no-untyped-call]
        if not isinstance(found, type):
            raise TypeError("it is not a class")
        missing = [method for method in methods if not callable(getattr(found, method, None))]
        if missing:
            raise TypeError(f"it has no method {', '.join(missing)}")
        if inspect.isabstract(found):
            raise TypeError("it is abstract")
        made = found()
        if configure is not None:
            configure(made)
    except Exception as error:
        raise unusable(name, key, error) from error
    return made


def unusable(name: str, key: str, error: Exception) -> ConfigError:
    """Return the error that says why a class is of no use."""
    return ConfigError(f"Invalid value {name!r} for {key}: must be a class that can be instantiated ({error})")
