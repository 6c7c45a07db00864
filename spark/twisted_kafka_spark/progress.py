"""Print the progress of a long run on standard error."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TERMINAL_INTERVAL_S, _FILE_INTERVAL_S = 0.5, 15.0
"""On a terminal, a line is updated often; elsewhere, such as in the mail of a cron job, a line is printed now and then."""
_QUIET_S = 2.0
"""Shorter runs print nothing."""


class Progress:
    """A context manager that prints the progress of Spark's stages, unless `is_wanted` is false."""

    def __init__(self, spark: SparkSession, *, is_wanted: bool = True) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._is_terminal = sys.stderr.isatty()
        self._is_wanted = is_wanted
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        if self._is_wanted:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        if self._is_wanted:
            self._thread.join(_FILE_INTERVAL_S)
            if self._is_terminal:
                sys.stderr.write("\r\033[K")
                sys.stderr.flush()

    def _run(self) -> None:
        interval = _TERMINAL_INTERVAL_S if self._is_terminal else _FILE_INTERVAL_S
        while not self._over.wait(interval):
            message = self._message()
            if message and time.monotonic() - self._started > _QUIET_S:
                sys.stderr.write(f"\r\033[K{message}" if self._is_terminal else f"{message}\n")
                sys.stderr.flush()

    def _message(self) -> str:
        stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None and stage.numTasks]
        if not known:
            return ""
        stage = max(known, key=lambda each: each.numTasks)
        done, whole = stage.numCompletedTasks, stage.numTasks
        if not done and not stage.numActiveTasks:
            return f"waiting for an executor, {time.monotonic() - self._started:.0f} s: has the cluster free cores and memory?"
        return f"{done} of {whole} pieces, {done / whole:.0%}, {time.monotonic() - self._started:.0f} s"
