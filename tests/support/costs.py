"""Names the tests that take too long for ``make test-unit``, as a hint at the end of its report."""

import os
from collections.abc import Generator
from typing import Any

import pytest

DEAR_S = 0.2
"""Processor time, with that of ended child processes. Most tests take some milliseconds."""
MOST_SHOWN = 20


class Costs:
    """Measures each test, with what it sets up. Its report carries the time from a worker."""

    def __init__(self) -> None:
        self._began_s = 0.0
        self._dear: list[tuple[float, str]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._began_s = _used_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
        report = yield
        if call.when == "teardown":
            report.cost_s = _used_s() - self._began_s
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        cost_s = getattr(report, "cost_s", 0.0)
        if cost_s > DEAR_S:
            self._dear.append((cost_s, report.nodeid))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._dear:
            terminalreporter.section(f"more than {DEAR_S} s of a processor: make it cheaper, or mark it medium")
            for cost_s, name in sorted(self._dear, reverse=True)[:MOST_SHOWN]:
                terminalreporter.line(f"{cost_s:.1f} s  {name}")


def _used_s() -> float:
    return sum(os.times()[:4])
