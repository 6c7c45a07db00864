"""The leader epochs of a log and their start offsets (KIP-101), in ``leader-epoch-checkpoint``."""

import bisect
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from twisted_kafka.log.checkpoints import MalformedCheckpointError, parse_number, read_entries, write_entries
from twisted_kafka.log.files import MAX_OFFSET, sync_file
from twisted_kafka.log.results import EpochEndOffset
from twisted_kafka.system import machine

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
MAX_EPOCH = 2**31 - 1
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1
_UNDEFINED = EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_OFFSET)


class EpochEntry(NamedTuple):
    """An epoch and its first offset."""

    epoch: int
    start_offset: int


class LeaderEpochCache:
    """The epochs of one log in ascending order. Changes need the log's lock, reads do not.

    Changes are written at once, but made durable only by ``sync``, when the records are flushed.
    """

    __slots__ = ("_entries", "_on_malformed", "_unsynced", "_writing", "_written", "is_damaged", "latest_epoch", "path")

    def __init__(self, directory: Path, on_malformed: Callable[[MalformedCheckpointError], None]) -> None:
        self.path = directory / LEADER_EPOCH_CHECKPOINT
        self._unsynced = False
        self._written: tuple[EpochEntry, ...] | None = None
        """The epochs in the file; None if unknown."""
        self._writing = machine.Lock()
        """Held to write the file: the log's lock is not held during a flush."""
        self.is_damaged = False
        """Whether ``load`` found a file without readable epochs."""
        self._on_malformed = on_malformed
        self._entries: tuple[EpochEntry, ...] = ()
        self.latest_epoch = UNDEFINED_EPOCH

    def load(self) -> None:
        """Read the file. A malformed one is reported and counts as empty: the caller rebuilds the epochs from the batches."""
        try:
            entries = sorted(read_entries(self.path, parse_epoch_entry))
            _check_ascending(self.path, entries)
            self.is_damaged = not entries and self.path.exists()
        except MalformedCheckpointError as error:
            self._on_malformed(error)
            entries = []
            self.is_damaged = True
        self._set(tuple(entries))
        self._written = None if self.is_damaged else self._entries

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """The epochs, oldest first."""
        return self._entries

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add ``epoch``, which begins at ``start_offset``, and remove conflicting entries. Raises OSError."""
        if epoch < 0 or start_offset < 0:
            return
        if self._entries and epoch == self.latest_epoch and start_offset >= self._entries[-1].start_offset:
            return
        kept = tuple([entry for entry in self._entries if entry.epoch < epoch and entry.start_offset < start_offset])
        self._replace((*kept, EpochEntry(epoch, start_offset)))

    def recovered(self, epoch: int, offset: int) -> None:
        """Note that recovery found a batch of ``epoch`` at ``offset``; raises OSError.

        Entries that contradict it are dropped: a power failure may have restored the file to its state before a truncation.
        """
        if epoch < 0 or self.epoch_for_offset(offset) == epoch:
            return
        before = [entry for entry in self._entries if entry.start_offset < offset and entry.epoch <= epoch]
        if not before or before[-1].epoch != epoch:
            before.append(EpochEntry(epoch, offset))
        after = [entry for entry in self._entries if entry.start_offset > offset and entry.epoch > epoch]
        self._replace((*before, *after))

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Return the largest known epoch up to ``epoch``, and its end offset (KIP-101, KIP-320)."""
        entries = self._entries
        if epoch == UNDEFINED_EPOCH or not entries:
            return _UNDEFINED
        if epoch == entries[-1].epoch:
            return EpochEndOffset(epoch, log_end_offset)
        above = bisect.bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        if above == len(entries):
            return _UNDEFINED
        found = entries[above - 1].epoch if above else epoch
        return EpochEndOffset(found, entries[above].start_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch of ``offset``; None if it is before the first known epoch."""
        at = bisect.bisect_right(self._entries, offset, key=lambda entry: entry.start_offset) - 1
        return self._entries[at].epoch if at >= 0 else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that begin at ``end_offset`` or later; raises OSError."""
        self._replace(self._before(end_offset))

    def opened(self, end_offset: int) -> None:
        """Remove the epochs that begin at the end of the opened log or later: no batch has them. Raises OSError.

        The file keeps an epoch that begins right at the end until the next change or flush. Most logs without records have one,
        and the leader assigns it again at once. After a crash before that, recovery finds the epoch of the batch that came there.
        """
        kept = self._before(end_offset)
        if len(kept) == len(self._entries) - 1 and self._entries[-1].start_offset == end_offset:
            self._set(kept)
            self._unsynced = True
        else:
            self._replace(kept)

    def _before(self, end_offset: int) -> tuple[EpochEntry, ...]:
        entries = self._entries
        if not entries or entries[-1].start_offset < end_offset:
            return entries
        return tuple([entry for entry in entries if entry.start_offset < end_offset])

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the epochs that end before ``start_offset``; the epoch of this offset begins there from now on. Raises OSError."""
        at = bisect.bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset) - 1
        if at > 0 or (at == 0 and self._entries[0].start_offset < start_offset):
            self._replace((EpochEntry(self._entries[at].epoch, start_offset), *self._entries[at + 1 :]))

    def clear(self) -> None:
        """Remove all epochs; raises OSError."""
        self._replace(())

    def rebuild(self, start_offsets: Mapping[int, int]) -> None:
        """Replace all epochs, oldest first, in a single write: a partial list would look complete. Raises OSError."""
        self._replace(tuple([EpochEntry(epoch, offset) for epoch, offset in start_offsets.items()]))

    def sync(self) -> bool:
        """Make the file's content durable, but not its name; returns whether anything was unsynced. Raises OSError."""
        if not self._unsynced:
            return False
        self._unsynced = False  # first: a write during the sync is not durable
        try:
            self._write()
            sync_file(self.path)
        except OSError:
            self._unsynced = True
            raise
        return True

    def _set(self, entries: tuple[EpochEntry, ...]) -> None:
        self._entries = entries
        self.latest_epoch = entries[-1].epoch if entries else UNDEFINED_EPOCH

    def _replace(self, entries: tuple[EpochEntry, ...]) -> None:
        if entries == self._entries == self._written:
            return
        self._set(entries)
        self._unsynced = True
        self._write()

    def _write(self) -> None:
        with self._writing:
            entries = self._entries
            if entries != self._written:
                self._written = None
                write_entries(self.path, [f"{entry.epoch} {entry.start_offset}" for entry in entries], sync=False)
                self._written = entries


def parse_epoch_entry(line: str) -> EpochEntry:
    """Parse a line of the file; raises ValueError."""
    epoch, start_offset = line.split()
    return EpochEntry(parse_number(epoch, MAX_EPOCH), parse_number(start_offset, MAX_OFFSET))


def _check_ascending(path: Path, entries: list[EpochEntry]) -> None:
    """Raise MalformedCheckpointError if an epoch does not begin after the one before it: a search would find the wrong one."""
    for one, following in pairwise(entries):
        if following.epoch == one.epoch or following.start_offset <= one.start_offset:
            raise MalformedCheckpointError(f"{path}: {following} cannot follow {one}")
