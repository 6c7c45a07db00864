"""Disks of brokers, each a file system of its own in a file, that can be full, stand still and be slow.

They are mounted from loop devices, which takes root's rights on Linux.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

SIZE_BYTES = 192 << 20
_BALLOON = "balloon"


class Disk:
    """A file system that is mounted at ``place``; its file is beside it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._image = place.with_name(f"{place.name}.img")

    def mount(self) -> None:
        """Make and mount it; skip the test where that cannot be."""
        if os.geteuid() != 0 or not all(map(shutil.which, ("mkfs.ext4", "fsfreeze", "mount"))):
            pytest.skip("needs root's rights, mkfs.ext4 and fsfreeze")
        self.place.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(SIZE_BYTES)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        if subprocess.run(["mount", "-o", "loop", str(self._image), str(self.place)], check=False).returncode:
            pytest.skip("needs to mount a loop device")
        shutil.rmtree(self.place / "lost+found")

    def unmount(self) -> None:
        """Nothing uses it any more."""
        _run("umount", "-l", str(self.place))
        self._image.unlink()

    def fill(self) -> None:
        """Leave no byte free."""
        with (self.place / _BALLOON).open("ab") as balloon:
            size = SIZE_BYTES
            while size >= 1:
                try:
                    os.posix_fallocate(balloon.fileno(), balloon.seek(0, os.SEEK_END), size)
                except OSError:
                    size //= 2

    def empty(self) -> None:
        """Give back what filled it."""
        (self.place / _BALLOON).unlink()

    def stand_still(self, seconds: float) -> None:
        """Let every write wait for so long."""
        self._freeze(f"{seconds}", 1, "0")

    def be_slow(self, seconds: float) -> None:
        """Let writes through in a small part of the time only."""
        self._freeze("0.4", int(seconds / 0.45), "0.05")

    def _freeze(self, frozen_s: str, times: int, between_s: str) -> None:
        # One program that outlives a test that is ended: a process that writes meanwhile cannot be killed.
        once = 'fsfreeze -f "$0"; sleep "$1"; fsfreeze -u "$0"; sleep "$2"'
        _run("sh", "-c", f"for each in $(seq {times}); do {once}; done", str(self.place), frozen_s, between_s)


@contextmanager
def mounted(places: Iterable[Path]) -> Iterator[dict[Path, Disk]]:
    """Disks at these places, by place; whoever uses them has to end before."""
    disks: dict[Path, Disk] = {}
    try:
        for place in places:
            disk = Disk(place)
            disk.mount()
            disks[place] = disk
        yield disks
    finally:
        for disk in disks.values():
            with suppress(subprocess.CalledProcessError):
                disk.unmount()


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
