"""Say how far a long run is, on standard error."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TERMINAL_INTERVAL_S, _FILE_INTERVAL_S = 0.5, 15.0
"""A terminal's line is overwritten often; a file, such as a cron job's mail, gets a line now and then."""
_QUIET_S = 2.0
"""A run that takes no longer says nothing."""


class Progress:
    """A context within which Spark's stages are told of; `is_wanted` false says nothing at all."""

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
            told = self._told()
            if told and time.monotonic() - self._started > _QUIET_S:
                sys.stderr.write(f"\r\033[K{told}" if self._is_terminal else f"{told}\n")
                sys.stderr.flush()

    def _told(self) -> str:
        stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None and stage.numTasks]
        if not known:
            return ""
        stage = max(known, key=lambda each: each.numTasks)
        done, whole = stage.numCompletedTasks, stage.numTasks
        return f"{done} of {whole} pieces, {done / whole:.0%}, {time.monotonic() - self._started:.0f} s"
