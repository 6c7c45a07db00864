"""Where the responses go whose network thread has ended.

In a module of its own because mypyc cannot compile a subclass of ``deque``: the instance is never initialised, and crashes.
"""

from collections import deque
from typing import TYPE_CHECKING

from twisted_kafka.network.requests.request import Request, ThrottleMark

if TYPE_CHECKING:
    from twisted_kafka.network.processor_loop import ProcessorLoop


class LateResponses(deque[Request | ThrottleMark]):
    """The queue of a processor whose thread has ended: what is appended is set aside at once, on the thread that appends it."""

    __slots__ = ("_loop",)

    def __init__(self, loop: "ProcessorLoop") -> None:
        super().__init__()
        self._loop = loop

    def append(self, response: Request | ThrottleMark) -> None:
        """Be done with it: its connection has gone."""
        self._loop.set_aside(response, self._loop.now_ns())
