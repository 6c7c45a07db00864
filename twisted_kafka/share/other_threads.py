"""Threads for work that a request begins and must not do itself."""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from twisted_kafka.system import machine
from twisted_kafka.timing.timer import Timer

K = TypeVar("K", bound=Hashable)


class OtherThreads(NamedTuple):
    """Run functions on threads that may read from logs and append: ``timer`` after a delay, ``later`` at once."""

    timer: Timer
    later: Callable[[Callable[[], None]], None]


class OneByOne(Generic[K]):
    """Calls a function on another thread, for each key one call at a time.

    If a call is asked for while another one for its key runs, it comes after that one.
    """

    __slots__ = ("_act", "_asked", "_later", "_lock")

    def __init__(self, act: Callable[[K], object], later: Callable[[Callable[[], None]], object]) -> None:
        """``later`` runs a function on another thread."""
        self._act = act
        self._later = later
        self._lock = machine.Lock()
        self._asked: dict[K, bool] = {}
        """The keys whose calls run or wait, and whether they were asked for again since."""

    def ask(self, key: K) -> None:
        """Let the function be called for a key, after this. Any thread may ask."""
        with self._lock:
            is_under_way = key in self._asked
            self._asked[key] = is_under_way
        if not is_under_way:
            self._later(partial(self._run, key))

    def _run(self, key: K) -> None:
        with self._lock:
            self._asked[key] = False
        try:
            self._act(key)
        finally:
            with self._lock:
                is_asked_again = self._asked[key]
                if not is_asked_again:
                    del self._asked[key]
            if is_asked_again:
                self._later(partial(self._run, key))
