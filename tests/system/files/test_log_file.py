"""The log file while another program rotates it, as logrotate does."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import Logger, LogPublisher

from twisted_kafka.system.files.log_file import LogFile, log_file_observer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kafka.log"


def test_a_renamed_file_is_left_and_a_new_one_is_begun(path: Path) -> None:
    log = LogFile(path)
    log.write("one\n")
    path.rename(path.with_suffix(".1"))
    log.write("two\n")
    assert (path.with_suffix(".1").read_text(), path.read_text()) == ("one\n", "two\n")


def test_logrotate_may_make_the_new_file_itself(path: Path) -> None:
    log = LogFile(path)
    log.write("one\n")
    path.rename(path.with_suffix(".1"))
    path.write_text("")
    path.chmod(0o640)
    log.write("two\n")
    assert path.read_text() == "two\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_copied_and_truncated_file_has_no_hole(path: Path) -> None:
    log = LogFile(path)
    log.write("one\n" * 1000)
    os.truncate(path, 0)
    log.write("two\n")
    assert path.read_bytes() == b"two\n"


def test_a_deleted_file_is_made_again_and_an_old_one_goes_on(path: Path) -> None:
    path.write_text("before\n")
    log = LogFile(path)
    log.write("one\n")
    assert path.read_text() == "before\none\n"
    path.unlink()
    log.write("two\n")
    assert path.read_text() == "two\n"


def test_a_directory_that_is_gone_does_not_stop_the_log(path: Path) -> None:
    path.parent.joinpath("logs").mkdir()
    inside = path.parent / "logs" / "kafka.log"
    log = LogFile(inside)
    inside.parent.rename(path.parent / "moved")
    log.write("one\n")
    assert (path.parent / "moved" / "kafka.log").read_text() == "one\n"
    inside.parent.mkdir()
    log.write("two\n")
    assert inside.read_text() == "two\n"


def test_half_a_character_is_written_as_an_escape(path: Path) -> None:
    LogFile(path).write("\udc80\n")
    assert path.read_text() == "\\udc80\n"


def test_events_have_the_form_of_twisted_and_its_signal_ends_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before: Any = signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    try:
        Logger(observer=LogPublisher(log_file_observer(path)), namespace="a").info("hello {name}", name="you")
        os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert path.read_text().endswith(" [a#info] hello you\n")
