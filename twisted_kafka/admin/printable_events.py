"""Keeps what clients send from forging lines of the log, or from controlling the terminal of its reader."""

from typing import Any, Final

from twisted.logger import ILogObserver, LogEvent, formatEvent
from zope.interface import implementer

from twisted_kafka.system.client_text import printable

LINE_CHARACTERS: Final = 65_536
"""So much of a line is written."""


@implementer(ILogObserver)
class PrintableEvents:
    """Passes events on with control characters escaped in their text, so that each is one line, and in their tracebacks."""

    def __init__(self, observer: ILogObserver) -> None:
        self._observer = observer

    def __call__(self, event: LogEvent) -> None:
        """Pass an event on."""
        text = formatEvent(event)
        if len(text) > LINE_CHARACTERS or not text.isprintable():
            cut = "..." if len(text) > LINE_CHARACTERS else ""
            event = {**event, "log_format": "{log_text}", "log_text": printable(text[:LINE_CHARACTERS]) + cut}
        failure = event.get("log_failure")
        if failure is not None:
            event = {**event, "log_failure": _PrintableFailure(failure)}
        self._observer(event)


class _PrintableFailure:
    """A Failure whose traceback has no control characters but its line ends."""

    def __init__(self, failure: Any) -> None:
        self._failure = failure

    def __getattr__(self, name: str) -> Any:
        return getattr(self._failure, name)

    def getTraceback(self, *arguments: Any, **options: Any) -> str:
        text: str = self._failure.getTraceback(*arguments, **options)
        return "\n".join(map(printable, text.split("\n")))
