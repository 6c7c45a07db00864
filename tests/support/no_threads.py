"""A system that has no thread to give: a container with a limit of processes, for example."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn
from unittest.mock import patch

from twisted_kafka.system import machine


def _refuse(_: object) -> NoReturn:
    raise RuntimeError("can't start new thread")


@contextmanager
def no_threads() -> Iterator[None]:
    """Let no thread start in a block."""
    with patch.object(machine.Thread, "start", _refuse):
        yield
