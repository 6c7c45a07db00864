"""Answering a future from the thread that completes an operation."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")
Response = TypeVar("Response")


def resolve(future: "Future[Response]", respond: Callable[[Result], Response], result: Result) -> None:
    """Give the future ``respond(result)``, or what that raised: whoever waits gets an answer in any case."""
    try:
        response = respond(result)
    except Exception as error:  # noqa: BLE001 it is handed on, and answered and logged by who waits
        future.set_exception(error)
    else:
        future.set_result(response)


def identity(result: Result) -> Result:
    """Respond with the result itself."""
    return result
