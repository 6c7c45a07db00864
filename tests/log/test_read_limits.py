"""A reader goes by the limits of one moment, whatever is appended while it reads."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.logs import NOW_MS, Bench, append, batch, data_of
from twisted_kafka.log import unified_log
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.log.unified_log import UnifiedLog
from twisted_kafka.log.validation.log_validator import AppendOrigin
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.builder import end_transaction_marker

pytestmark = pytest.mark.medium

PACKAGE = unified_log.__name__.rpartition(".")[0]
MOST_LINES = 400


def read_with(
    action: Callable[..., Any], between: Callable[..., Any], line: int
) -> tuple[list[Any], bool] | tuple[list[bytes], bool]:
    """Return what ``action`` returns; another thread runs ``between`` before the package's ``line``-th line of it.

    Also returns whether there were so many lines.
    """
    lines = 0

    def trace(frame: Any, event: Any, _argument: Any) -> Any:
        nonlocal lines
        if not frame.f_globals.get("__name__", "").startswith(PACKAGE):
            return None
        if event == "line":
            lines += 1
            if lines == line:
                # A daemon, joined for a moment only: it may wait for a lock that the reader holds.
                threads.append(threading.Thread(target=between, daemon=True))
                threads[0].start()
                threads[0].join(0.2)
        return trace

    threads: list[Any] = []
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = action()
    finally:
        sys.settrace(before)
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return result, bool(threads)


def append_in_transaction(log: UnifiedLog, value: bytes) -> None:
    records = batch(value, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.append_as_leader(records, 0, is_alone=True)


def committed(log: UnifiedLog, start: int) -> list[Any | bytes]:
    data = data_of(log.read(start, 1 << 20, FetchIsolation.TXN_COMMITTED).records)
    return [record.value for each in batches(data) for record in each.records()]


@pytest.mark.parametrize("is_located", [True, False], ids=["known-position", "unknown-position"])
def test_no_append_in_between_shows_a_reader_of_committed_data_an_open_transaction(tmp_path: Path, is_located: bool) -> None:
    for line in range(1, MOST_LINES):
        bench = Bench(tmp_path / f"topic-{line}")
        log = bench.open()
        append(log, b"plain")
        end = log.log_end_offset
        if not is_located:
            append(log, b"not replicated")
        log.update_high_watermark(end)
        seen, was_between = read_with(lambda log=log: committed(log, 0), lambda log=log: append_in_transaction(log, b"open"), line)
        assert b"open" not in seen, f"with the append before line {line} of the read"
        if not was_between:
            return
    pytest.fail(f"a read has more than {MOST_LINES} lines")


def test_no_commit_in_between_shows_a_reader_of_committed_data_what_was_begun_after_it(tmp_path: Path) -> None:
    for line in range(1, MOST_LINES):
        bench = Bench(tmp_path / f"topic-{line}")
        log = bench.open()
        append_in_transaction(log, b"first")

        def end_and_begin(log: Any = log) -> None:
            marker = end_transaction_marker(producer_id=7, producer_epoch=0, commit=True, coordinator_epoch=0, timestamp_ms=NOW_MS)
            log.append_as_leader(bytearray(marker), 0, AppendOrigin.COORDINATOR, is_alone=True)
            records = batch(b"second", producer_id=7, producer_epoch=0, base_sequence=1, is_transactional=True)
            log.append_as_leader(records, 0, is_alone=True)

        seen, was_between = read_with(lambda log=log: committed(log, 0), end_and_begin, line)
        assert b"second" not in seen, f"with the appends before line {line} of the read"
        if not was_between:
            return
    pytest.fail(f"a read has more than {MOST_LINES} lines")
