"""Leader epochs against a model: the epoch of each record of a log that leaders and followers append to, cut and delete from."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twisted_kafka.log.leader_epoch import LeaderEpochCache

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2), st.integers(0, 3)),
        st.tuples(st.just("truncate"), st.integers(0, 12), st.just(0)),
        st.tuples(st.just("delete"), st.integers(0, 12), st.just(0)),
        st.tuples(st.just("restart"), st.just(0), st.just(0)),
    ),
    max_size=12,
)


def opened(directory: Path) -> LeaderEpochCache:
    cache = LeaderEpochCache(directory, pytest.fail)  # type: ignore[arg-type]
    cache.load()
    return cache


class Model:
    """What is known of each offset from ``start`` on, and of an epoch that has no records yet."""

    def __init__(self) -> None:
        self.start = 0
        self.epochs: list[int] = []
        self.empty: int | None = None

    @property
    def end(self) -> int:
        return self.start + len(self.epochs)

    def known(self) -> dict[int, int]:
        """The first offset of each epoch."""
        first: dict[int, int] = {}
        for offset, epoch in enumerate(self.epochs, self.start):
            first.setdefault(epoch, offset)
        if self.empty is not None:
            first.setdefault(self.empty, self.end)
        return first

    def end_of(self, epoch: int) -> tuple[int, int]:
        """KIP-101: the largest epoch up to the one asked for, and where the next one begins."""
        first = self.known()
        if not first or epoch < 0 or epoch > max(first):
            return -1, -1
        if epoch == max(first):
            return epoch, self.end
        later = min(offset for each, offset in first.items() if each > epoch)
        return max((each for each in first if each <= epoch), default=epoch), later


@given(steps)
def test_epochs_follow_the_log(changes: list[tuple[str, int, int]]) -> None:
    with TemporaryDirectory() as name:
        cache, model, latest = opened(Path(name)), Model(), 0
        for what, first, second in changes:
            if what == "append":
                latest += first
                cache.assign(latest, model.end)
                model.epochs += [latest] * second
                model.empty = latest
            elif what == "truncate":
                cut = max(model.start, min(first, model.end))
                if cut < model.end:
                    cache.truncate_from_end(cut)
                    del model.epochs[cut - model.start :]
                    model.empty = None
            elif what == "delete":
                cut = max(model.start, min(first, model.end))
                cache.truncate_from_start(cut)
                if cut > model.start and model.empty is None and cut == model.end:
                    model.empty = model.epochs[-1]  # the last epoch is known, for the leader goes on in it
                del model.epochs[: cut - model.start]
                model.start = cut
            else:
                cache = opened(Path(name))
            assert {each.epoch: each.start_offset for each in cache.entries} == model.known()
            assert cache.latest_epoch == max(model.known(), default=-1)
            for offset in range(model.start, model.end):
                assert cache.epoch_for_offset(offset) == model.epochs[offset - model.start]
            assert cache.epoch_for_offset(model.start - 1) is None
            for epoch in range(-1, latest + 2):
                assert cache.end_offset_for(epoch, model.end) == model.end_of(epoch)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.data())
def test_recovery_finds_the_epochs_of_the_batches_whatever_the_file_says(epochs: list[int], data: st.DataObject) -> None:
    """A power failure may leave the file as it was before any change, and the batches say what holds."""
    epochs.sort()
    stale = data.draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=4))
    with TemporaryDirectory() as name:
        cache = opened(Path(name))
        for epoch, offset in stale:
            cache.assign(epoch, offset)
        for offset, epoch in enumerate(epochs):
            cache.recovered(epoch, offset)
        cache.truncate_from_end(len(epochs))
        for each in (cache, opened(Path(name))):
            assert [each.epoch_for_offset(offset) for offset in range(len(epochs))] == epochs
            starts = [entry.start_offset for entry in each.entries]
            assert starts == sorted(set(starts))
            assert [entry.epoch for entry in each.entries] == sorted({entry.epoch for entry in each.entries})


def test_what_is_no_epoch_is_not_noted(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    cache.assign(-1, 0)
    cache.assign(0, -1)
    cache.recovered(-1, 0)
    assert (cache.entries, cache.path.exists(), cache.latest_epoch) == ((), False, -1)
    cache.assign(0, 0)
    assert cache.entries == ((0, 0),)
    cache.recovered(-1, 5)
    assert cache.entries == ((0, 0),)


def test_nothing_is_written_where_nothing_changes(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    cache.assign(1, 5)
    cache.assign(2, 8)
    cache.sync()
    inode = cache.path.stat().st_ino
    cache.assign(2, 8)
    cache.assign(2, 9)
    cache.recovered(1, 6)
    cache.truncate_from_end(9)
    cache.truncate_from_start(5)
    cache.truncate_from_start(3)
    assert cache.path.stat().st_ino == inode
    assert not cache.sync(), "there is nothing to make durable"
    cache.truncate_from_end(8)
    assert cache.entries == ((1, 5),)
    assert cache.sync()


def test_all_epochs_are_replaced_at_once(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    cache.assign(9, 1)
    cache.rebuild({1: 3, 4: 7})
    assert (opened(tmp_path).entries, cache.latest_epoch) == (((1, 3), (4, 7)), 4)
    assert cache.sync()
    cache.clear()
    assert (opened(tmp_path).entries, cache.latest_epoch) == ((), -1)
    assert cache.sync()


@pytest.mark.parametrize(
    ("text", "is_damaged"),
    [
        ("0\n0\n", True),
        ("", True),
        ("nonsense", True),
        ("0\n2\n1 9\n3 7\n", True),
        ("0\n2\n3 7\n3 9\n", True),
        ("0\n1\n-3 7\n", True),
        ("0\n1\n3 7\n", False),
    ],
)
def test_a_file_without_readable_epochs_is_damaged(tmp_path: Path, text: str, is_damaged: bool) -> None:
    """The caller reads them from the batches then."""
    reported: list[object] = []
    (tmp_path / "leader-epoch-checkpoint").write_text(text)
    cache = LeaderEpochCache(tmp_path, reported.append)
    cache.load()
    assert (cache.is_damaged, bool(reported)) == (is_damaged, text not in ("", "0\n0\n", "0\n1\n3 7\n"))
    assert cache.entries == (() if is_damaged else ((3, 7),))
    missing = LeaderEpochCache(tmp_path / "elsewhere", reported.append)
    missing.load()
    assert not missing.is_damaged


def test_a_write_that_fails_is_made_good_by_the_next_sync(tmp_path: Path) -> None:
    cache = opened(tmp_path)
    blocked = tmp_path / "leader-epoch-checkpoint.tmp"
    blocked.mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        cache.assign(1, 5)
    assert cache.entries == ((1, 5),)
    with pytest.raises(OSError, match="Is a directory"):
        cache.sync()
    blocked.rmdir()
    assert cache.sync()
    assert opened(tmp_path).entries == ((1, 5),)
