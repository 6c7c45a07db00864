"""Random operations on a log against a list: whatever happens, the log holds what the list holds."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.budget import share_of
from tests.support.logs import NOW_MS, Bench, batch, contents, data_of
from twisted_kafka.log.results import FetchIsolation
from twisted_kafka.protocol.records.batch import batches

pytestmark = pytest.mark.medium

MOST_BATCHES = 40


class LogMachine(RuleBasedStateMachine):
    """``self.records`` is the model: (offset, value, timestamp) of everything from the log start on."""

    @initialize(segment_bytes=st.sampled_from([300, 1000, 5000]), interval=st.sampled_from([0, 100, 4096]))
    def make(self, segment_bytes, interval):
        self.holder = tempfile.TemporaryDirectory()
        self.bench = Bench(Path(self.holder.name) / "topic-0", segment_bytes=segment_bytes, index_interval_bytes=interval)
        self.log = self.bench.open()
        self.records = []
        self.batches = []
        self.start = self.end = self.high_watermark = 0
        self.serial = 0

    def teardown(self):
        if hasattr(self, "holder"):
            self.holder.cleanup()

    def _new(self, count, timestamps):
        found = []
        for number in range(count):
            self.serial += 1
            found.append((self.end + number, b"%d" % self.serial, NOW_MS + timestamps + number))
        return found

    @rule(count=st.integers(1, 4), time=st.integers(0, 50), as_follower=st.booleans(), gap=st.integers(0, 3))
    def append(self, count, time, as_follower, gap):
        if as_follower:
            self.end += gap
        new = self._new(count, time)
        values = [value for _, value, _ in new]
        if as_follower:
            self.log.append_as_follower(batch(*values, timestamp_ms=NOW_MS + time, base_offset=self.end, partition_leader_epoch=0))
        else:
            assert self.log.append_as_leader(batch(*values, timestamp_ms=NOW_MS + time), 0).first_offset == self.end
        self.batches.append((self.end, self.end + count))
        self.records += new
        self.end += count

    @rule()
    def roll(self):
        self.log.roll()

    @rule()
    def flush(self):
        self.bench.scheduler.run_due()
        self.log.flush()

    @rule(data=st.data())
    def truncate(self, data):
        wanted = offset = data.draw(st.integers(self.start, self.end))
        if offset <= self.log.segments.first.base_offset and offset < self.end:
            self.start = offset
        if offset < self.end:
            offset = min([base for base, end in self.batches if base < offset < end], default=offset)
            self.log.truncate_to(wanted)
            self.batches = [pair for pair in self.batches if pair[1] <= offset]
            self.records = [record for record in self.records if record[0] < offset]
            self.end = offset
            self.start = min(self.start, offset)
            self.high_watermark = min(self.high_watermark, offset)
            self.high_watermark = max(self.high_watermark, self.start)

    @rule(data=st.data())
    def raise_high_watermark(self, data):
        ends = [end for _, end in self.batches if end > self.high_watermark]
        self.high_watermark = data.draw(st.sampled_from([self.high_watermark, *ends]))
        self.log.update_high_watermark(self.high_watermark)

    @rule(data=st.data(), clean_up=st.booleans())
    def delete_records(self, data, clean_up):
        self.start = data.draw(st.integers(self.start, self.high_watermark))
        self.log.increment_log_start_offset(self.start)
        if clean_up:
            self.log.delete_old_segments()
            self.start = self.log.log_start_offset
        self.records = [record for record in self.records if record[0] >= self.start]

    @rule(torn=st.integers(0, 60))
    def crash(self, torn):
        """The process dies; what a torn last write left behind is junk after the last batch."""
        with open(self.log.segments.active.path, "ab") as file:
            file.write(os.urandom(torn))
        self._reopened(self.bench.open(recovery_point=self.log.recovery_point, log_start_offset=self.start))

    @rule()
    def restart(self):
        self._reopened(self.bench.reopen_clean(self.log))

    def _reopened(self, log):
        # A gap that truncation left at the end is not on disk.
        last = max([offset for offset, _, _ in self.records], default=None)
        assert log.log_end_offset <= self.end
        if last is not None:
            assert log.log_end_offset > last
        self.log = log
        self.end = log.log_end_offset
        self.start = log.log_start_offset
        log.update_high_watermark(min(self.high_watermark, self.end))
        self.high_watermark = log.high_watermark

    @invariant()
    def the_log_holds_what_the_model_holds(self):
        if not hasattr(self, "log"):
            return
        log = self.log
        if self.high_watermark < log.high_watermark <= self.end:
            # A read that looks up the position of a high watermark in a gap at the end moves it to the end, as in Kafka. There may
            # have been an append since.
            assert not any(self.high_watermark <= at < log.high_watermark for at, _, _ in self.records)
            self.high_watermark = log.high_watermark
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (self.start, self.end, self.high_watermark)
        assert contents(log) == [(offset, value) for offset, value, _ in self.records]
        self.check_visible(self.start)

    @rule(data=st.data())
    def read_anywhere(self, data):
        offset = data.draw(st.integers(self.start, self.end))
        assert contents(self.log, offset) == [(at, value) for at, value, _ in self.records if at >= offset]
        self.check_visible(offset)

    def check_visible(self, offset):
        visible = self.log.read(offset, 1 << 20, FetchIsolation.HIGH_WATERMARK)
        # One read gives the records of one segment.
        seen = [
            (each.offset, each.value)
            for found in batches(data_of(visible.records))
            for each in found.records()
            if each.offset >= offset
        ]
        expected = [(at, value) for at, value, _ in self.records if offset <= at < self.high_watermark]
        assert seen == expected[: len(seen)]
        assert bool(seen) == bool(expected)

    @rule(time=st.integers(-1, 60))
    def find_by_time(self, time):
        found = self.log.offset_for_timestamp(NOW_MS + time)
        wanted = next(((stamp, offset) for offset, _, stamp in self.records if stamp >= NOW_MS + time), None)
        assert (found and found[:2]) == wanted


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=share_of(60),
    stateful_step_count=MOST_BATCHES,
    suppress_health_check=list(HealthCheck),
)
