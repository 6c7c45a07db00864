"""Chaining ``concurrent.futures``: an answer that comes later is such a future (docs/architecture.md)."""

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def then(future: "Future[R]", convert: Callable[[R], T]) -> "Future[T]":
    """Return a future of what ``convert`` makes of the result; failures are passed on."""
    answer: Future[T] = Future()

    def done(finished: "Future[R]") -> None:
        try:
            answer.set_result(convert(finished.result()))
        except Exception as error:  # noqa: BLE001 the future carries it to the caller
            answer.set_exception(error)

    future.add_done_callback(done)
    return answer


def when_done(value: "R | Future[R]", convert: Callable[[R], T]) -> "T | Future[T]":
    """Return ``convert(value)``: at once, or where ``value`` is a future, as another one."""
    return then(value, convert) if isinstance(value, Future) else convert(value)


def and_then(future: "Future[R]", go_on: "Callable[[R], Future[T]]") -> "Future[T]":
    """Return a future of the result of the future that ``go_on`` returns for this one's; failures are passed on."""
    answer: Future[T] = Future()

    def finish(last: "Future[T]") -> None:
        error = last.exception()
        if error is None:
            answer.set_result(last.result())
        else:
            answer.set_exception(error)

    def done(finished: "Future[R]") -> None:
        try:
            go_on(finished.result()).add_done_callback(finish)
        except Exception as error:  # noqa: BLE001 the future carries it to the caller
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
        except Exception as error:  # noqa: BLE001 the future carries it to the caller
            answer.set_exception(error)

    for value in waiting:
        value.add_done_callback(done)
    return answer
