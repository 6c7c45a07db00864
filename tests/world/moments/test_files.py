"""A copy of a directory takes its place, and open files lead there."""

import os
from pathlib import Path

from twisted_kafka.world.moments.files import SavedFiles, copy_tree


def test_open_files_lead_to_the_restored_ones(tmp_path: Path) -> None:
    directory = tmp_path / "world"
    (directory / "log").mkdir(parents=True)
    (directory / "log" / "0.log").write_text("before")
    (directory / "gone").write_text("nameless")
    os.link(directory / "log" / "0.log", directory / "link")
    with (directory / "log" / "0.log").open("r+") as file, (directory / "gone").open("r+") as gone:
        file.seek(3)
        (directory / "gone").unlink()
        inode = os.fstat(file.fileno()).st_ino
        saved = SavedFiles(directory, tmp_path / "moments" / "1")
        os.pwrite(file.fileno(), b"AFTER", 0)
        os.pwrite(gone.fileno(), b"AFTER", 0)
        directory.rename(tmp_path / "other")
        inodes = saved.restore()
        assert inodes[inode] == os.fstat(file.fileno()).st_ino == (directory / "link").stat().st_ino
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 3
        assert os.pread(gone.fileno(), 100, 0) == b"nameless"
        os.pwrite(file.fileno(), b"B", 0)
    assert (directory / "link").read_text() == "Before"
    assert sorted(path.name for path in directory.iterdir()) == ["link", "log"]
    assert (tmp_path / "other" / "link").read_text() == "AFTERe"
    saved.remove()
    assert not (tmp_path / "moments").exists()


def test_a_tree_is_copied_with_its_links(tmp_path: Path) -> None:
    (tmp_path / "one" / "folder").mkdir(parents=True)
    (tmp_path / "one" / "folder" / "file").write_text("text")
    (tmp_path / "one" / "symbolic").symlink_to("folder/file")
    inodes = copy_tree(tmp_path / "one", tmp_path / "two")
    assert (tmp_path / "two" / "symbolic").read_text() == "text"
    for name in ("", "folder", "folder/file"):
        assert inodes[(tmp_path / "one" / name).stat().st_ino] == (tmp_path / "two" / name).stat().st_ino
