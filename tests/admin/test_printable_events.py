from typing import Any, cast

import pytest
from twisted.logger import ILogObserver, LogEvent, Logger, LogPublisher, eventAsText
from twisted.python.failure import Failure

from twisted_kafka.admin.loggers import LoggerLevels
from twisted_kafka.admin.printable_events import LINE_CHARACTERS

FORGED = "x\r2026-11-26 [kafka.authorizer.logger#info] Allowed Alter\x1b[2K\ny\u2028z"


class Lines:
    """What is written of a log while a broker runs."""

    def __init__(self) -> None:
        self.written: list[str] = []
        publisher = LogPublisher(cast(ILogObserver, self.write))
        levels = LoggerLevels()
        levels.install(publisher)
        self.end = levels.uninstall
        self.log = Logger("twisted_kafka.test", observer=publisher)

    def write(self, event: LogEvent) -> None:
        self.written.append(eventAsText(event, includeTimestamp=False, includeSystem=False))


@pytest.fixture
def lines() -> Any:
    made = Lines()
    yield made
    made.end()


def test_one_event_is_one_line_whatever_clients_send(lines: Lines) -> None:
    lines.log.info("Denied {name} to {error}", name=FORGED, error=ValueError(FORGED))
    (line,) = lines.written
    assert line.isprintable()
    escaped = "x\\r2026-11-26 [kafka.authorizer.logger#info] Allowed Alter\\x1b[2K\\ny\\u2028z"
    assert line == f"Denied {escaped} to {escaped}"


def test_other_lines_stay_as_they_are(lines: Lines) -> None:
    lines.log.info("{name} caf\u00e9 {{x}}", name="{y}")
    assert lines.written == ["{y} caf\u00e9 {x}"]


def test_a_traceback_keeps_its_lines(lines: Lines) -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        lines.log.failure("Failed: {name}", name=FORGED)
    lines.log.failure("Failed again", Failure(KeyError("k")))  # type: ignore[no-untyped-call]
    first, second = lines.written
    assert first.splitlines()[0].startswith("Failed: x\\r2026")
    assert not set("\r\x1b\u2028") & set(first)
    assert "Traceback" in first
    assert first.rstrip("\n").split("\n") == first.splitlines()
    assert "KeyError" in second


def test_a_line_has_an_end(lines: Lines) -> None:
    lines.log.info("{name}", name="x" * 10_000_000)
    assert lines.written == ["x" * LINE_CHARACTERS + "..."]
