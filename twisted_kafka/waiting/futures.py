"""Chaining of ``concurrent.futures``, which handlers return for delayed responses (docs/architecture.md)."""

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar, overload

T = TypeVar("T")
R = TypeVar("R")
E = TypeVar("E", bound=Exception)


def completed(result: R) -> "Future[R]":
    """Return a future that has its result already."""
    future: Future[R] = Future()
    future.set_result(result)
    return future


def forward(future: "Future[R]", answer: "Future[R]") -> None:
    """Complete ``answer`` as ``future`` completes."""

    def finish(last: "Future[R]") -> None:
        error = last.exception()
        if error is None:
            answer.set_result(last.result())
        else:
            answer.set_exception(error)

    future.add_done_callback(finish)


def then(future: "Future[R]", convert: Callable[[R], T]) -> "Future[T]":
    """Return a future of ``convert(result)``. Exceptions are propagated."""
    answer: Future[T] = Future()

    def done(finished: "Future[R]") -> None:
        try:
            answer.set_result(convert(finished.result()))
        except Exception as error:  # noqa: BLE001 set on the future
            answer.set_exception(error)

    future.add_done_callback(done)
    return answer


def recover(future: "Future[R]", expected: type[E], convert: Callable[[E], R]) -> "Future[R]":
    """Return a future of the result, or of ``convert(error)`` if the future fails with an ``expected`` error."""
    answer: Future[R] = Future()

    def done(finished: "Future[R]") -> None:
        try:
            answer.set_result(finished.result())
        except expected as error:
            answer.set_result(convert(error))
        except Exception as error:  # noqa: BLE001 set on the future
            answer.set_exception(error)

    future.add_done_callback(done)
    return answer


def when_done(value: "R | Future[R]", convert: Callable[[R], T]) -> "T | Future[T]":
    """Return ``convert(value)``, or a future of it if ``value`` is a future."""
    return then(value, convert) if isinstance(value, Future) else convert(value)


@overload
def and_then(value: "Future[R]", continuation: "Callable[[R], T | Future[T]]") -> "Future[T]": ...


@overload
def and_then(value: "R | Future[R]", continuation: "Callable[[R], T | Future[T]]") -> "T | Future[T]": ...


def and_then(value: "R | Future[R]", continuation: "Callable[[R], T | Future[T]]") -> "T | Future[T]":
    """Return ``continuation(value)``, or a future of its result if ``value`` is a future. Exceptions are propagated."""
    if not isinstance(value, Future):
        return continuation(value)
    answer: Future[T] = Future()

    def done(finished: "Future[R]") -> None:
        try:
            following = continuation(finished.result())
            if isinstance(following, Future):
                forward(following, answer)
            else:
                answer.set_result(following)
        except Exception as error:  # noqa: BLE001 set on the future
            answer.set_exception(error)

    value.add_done_callback(done)
    return answer


def gather(values: "Sequence[T | Future[T]]", convert: "Callable[[list[T]], R]") -> "R | Future[R]":
    """Return ``convert`` of all values, or a future of it if some values are futures."""
    waiting = [value for value in values if isinstance(value, Future)]
    if not waiting:
        return convert([value for value in values if not isinstance(value, Future)])
    answer: Future[R] = Future()
    finished = itertools.count(1)

    def done(_: "Future[T]") -> None:
        if next(finished) < len(waiting):  # next() is atomic: exactly one call is the last
            return
        try:
            answer.set_result(convert([value.result() if isinstance(value, Future) else value for value in values]))
        except Exception as error:  # noqa: BLE001 set on the future
            answer.set_exception(error)

    for value in waiting:
        value.add_done_callback(done)
    return answer
