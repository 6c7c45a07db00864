"""Waits of tests: they block a thread, so that an event loop gets them through ``aio``."""

import contextvars
import functools
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

from typing_extensions import override

from twisted_kafka.system import machine

__tracebackhide__ = True

LOOK_S: Final = 0.05
"""The interval of a wait's checks, besides the one after each request: a group also changes when time passes."""
WAIT_S: Final = 30.0
"""How long a wait may last without another limit. It ends as soon as its condition holds, so that only a failure takes so long. A
busy machine may need seconds for what takes milliseconds."""

_cancelled: contextvars.ContextVar[machine.Event | None] = contextvars.ContextVar("cancelled", default=None)


def check_may_block(what: str) -> None:
    """Raise RuntimeError, one line with advice, if this thread runs an asyncio loop: the application may need the loop."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:
        return
    name, _, rest = what.rpartition(".")
    raise RuntimeError(f"{what}() would block the running event loop: use `await {name}.aio.{rest}(...)`")


def is_cancelled() -> bool:
    """Whether the task that waits for this thread was cancelled."""
    cancelled = _cancelled.get()
    return cancelled is not None and cancelled.is_set()


class Aio:
    """The waits of an object, to ``await`` in an asyncio loop: ``await kafka.aio.wait_for_commit("g", "orders", 0, 3)``.

    Each ``wait_for...`` method takes the same arguments and raises the same errors. It runs on a thread of the loop's executor,
    which ends soon after the task is cancelled.
    """

    def __init__(self, waiting: object) -> None:
        self._waiting = waiting

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if not name.startswith("wait_for"):
            raise AttributeError(f"aio has only the waits, wait_for..., not {name!r}: call it without aio")
        return functools.partial(_run, getattr(self._waiting, name))

    @override
    def __repr__(self) -> str:
        return f"<the waits of {self._waiting!r}>"

    @override
    def __dir__(self) -> list[str]:
        return [name for name in dir(self._waiting) if name.startswith("wait_for")]


async def _run(wait: Callable[..., Any], *args: Any, **named: Any) -> Any:
    import asyncio  # which takes a while, and a program without it needs no waits

    cancelled = machine.Event()
    token = _cancelled.set(cancelled)
    try:
        return await asyncio.to_thread(wait, *args, **named)  # which copies the context
    except asyncio.CancelledError:
        cancelled.set()
        raise
    finally:
        _cancelled.reset(token)
