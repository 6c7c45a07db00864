"""Keeps the last words of killed threads out of the logs."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from twisted.logger import globalLogPublisher

from twisted_kafka.system.threads import UNCAUGHT_ERRORS


@contextmanager
def silence() -> Iterator[None]:
    """Log nothing, and count no uncaught error, while a process dies: what its threads report then is that they die."""
    publisher: Any = globalLogPublisher
    observers, publisher._observers = publisher._observers, []
    disabled, count = logging.root.manager.disable, UNCAUGHT_ERRORS.count
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        publisher._observers = observers
        logging.disable(disabled)
        UNCAUGHT_ERRORS.count = count
