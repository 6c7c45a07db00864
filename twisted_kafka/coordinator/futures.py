"""Chaining futures."""

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def then(future: "Future[Any]", convert: Callable[[Any], T]) -> "Future[T]":
    """Return a future of what ``convert`` makes of the result; failures are passed on."""
    answer: Future[T] = Future()

    def done(finished: "Future[Any]") -> None:
        try:
            answer.set_result(convert(finished.result()))
        except Exception as error:  # noqa: BLE001 handed on to whoever waits
            answer.set_exception(error)

    future.add_done_callback(done)
    return answer


def gather(values: "Sequence[T | Future[T]]", convert: "Callable[[list[T]], R]") -> "R | Future[R]":
    """Return what ``convert`` makes of all values: at once if they are all there, else a future."""
    waiting = [value for value in values if isinstance(value, Future)]
    if not waiting:
        return convert([value for value in values if not isinstance(value, Future)])
    answer: Future[R] = Future()
    finished = itertools.count(1)

    def done(_: "Future[T]") -> None:
        if next(finished) < len(waiting):  # one step of the counter is atomic: exactly one call is the last
            return
        try:
            answer.set_result(convert([value.result() if isinstance(value, Future) else value for value in values]))
        except Exception as error:  # noqa: BLE001 handed on to whoever waits
            answer.set_exception(error)

    for value in waiting:
        value.add_done_callback(done)
    return answer
