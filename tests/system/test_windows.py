"""The broker on a Python that lacks what CPython on Windows lacks, under Windows' rules for files (``tests/support/windows``)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.budget import patient

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("tests/log/test_unified_log.py", "tests/log/test_log_truncation.py", "tests/log/test_future_logs.py")
LEFT_OUT = {
    "they replace pread, pwrite, rename or the sync of a directory, which Windows does not have": (
        "tests/log/test_bad_blocks.py",
        "tests/log/test_checkpoints.py",
        "tests/log/test_full_disk.py",
        "tests/log/test_interference.py",
        "tests/log/test_power_loss.py",
        "tests/testing/test_snapshot.py",
        "tests/log/test_append_each.py::test_a_disk_that_takes_a_part_and_then_is_full_keeps_none",
        "tests/log/test_append_each.py::test_a_failing_disk_fails_all_of_them",
        "tests/log/test_append_each.py::test_a_sequence_that_was_not_written_is_still_expected",
        "tests/log/test_cleaner.py::test_a_full_disk_leaves_the_log_as_it_was",
        "tests/log/test_cleaner.py::test_a_record_goes_only_when_the_one_that_replaces_it_is_on_disk",
        "tests/log/test_cleaner.py::test_a_start_that_completes_a_replacement_may_die_itself",
        "tests/log/test_cleaner.py::test_a_start_that_undoes_a_replacement_may_die_itself",
        "tests/log/test_cleaner.py::test_merged_segments_are_replaced_by_one_or_not_at_all",
        "tests/log/test_cleaner.py::test_nothing_is_lost_wherever_the_cleaner_dies",
        "tests/log/test_cleaner_manager.py::test_a_failed_disk_takes_the_directory_offline",
        "tests/log/test_cleaner_manager.py::test_a_full_disk_is_no_failed_disk",
        "tests/log/test_cleaner_manager.py::test_no_cleaning_begins_while_retention_is_at_work",
        "tests/log/test_failed_directories.py::test_a_failed_directory_goes_offline_and_the_others_serve",
        "tests/log/test_failed_directories.py::test_a_log_that_cannot_be_renamed_is_not_deleted_and_its_directory_fails",
        "tests/log/test_failed_directories.py::test_logs_of_a_directory_that_fails_are_forgotten_and_the_others_stay",
        "tests/log/test_failed_directories.py::test_a_move_to_a_directory_that_fails_is_over_and_the_log_is_cleaned_again",
        "tests/log/test_failed_directories.py::test_retention_goes_on_when_it_fails_in_one_log",
        "tests/log/test_future_logs.py::test_a_replacement_needs_both_logs_and_a_disk",
        "tests/log/test_index_files.py::test_one_more_aborted_transaction_costs_what_the_first_one_did",
        "tests/log/test_leader_epochs.py::test_a_write_that_fails_is_made_good_by_the_next_sync",
        "tests/log/test_log_manager.py::test_a_file_system_is_written_to_disk",
        "tests/log/test_timestamps.py::test_a_large_batch_that_the_index_points_at_is_read_at_once",
        "tests/log/test_unified_log.py::test_a_failing_disk_is_told_and_leaves_the_log_as_it_was",
        "tests/log/test_unified_log.py::test_a_flush_syncs_the_directory_for_new_names_only",
    ),
    "a reader there gets bytes, and no region of a file": (
        "tests/log/test_cleaner.py::test_readers_of_replaced_segments_go_on",
        "tests/log/test_producer_state.py::test_followers_take_the_state_over",
        "tests/log/test_open_segments.py::test_a_response_that_is_sent_keeps_its_file",
        "tests/log/test_unified_log.py::test_a_region_outlives_its_segment",
    ),
    "two logs of one process have the same file open": (
        "tests/log/test_future_logs.py::test_of_several_copies_only_those_that_must_start_anew",
        "tests/log/test_log_truncation.py::test_transactions_whose_end_is_cut_off_are_not_aborted",
        "tests/log/test_recovery.py::test_a_tail_torn_at_any_byte_is_cut_at_the_batch",
        "tests/log/test_recovery.py::test_the_log_start_is_that_of_the_checkpoint_unless_the_first_segment_begins_later",
        "tests/log/test_unified_log.py::test_a_segment_that_is_deleted_under_a_reader",
    ),
    "an exception that is handled keeps the file open: segments of Kafka before 0.9 cannot be split": (
        "tests/log/test_overflow.py::test_every_record_is_in_a_segment_that_it_fits",
        "tests/log/test_overflow.py::test_what_follows_a_damaged_batch_goes_as_in_any_recovery",
        "tests/log/test_overflow.py::test_what_is_torn_is_cut_before_the_splitting",
    ),
    "Hypothesis looks at the time with functions of Linux": (
        "tests/log/test_log_model.py",
        "tests/log/test_stable_offsets.py::TestTransactions",
        "tests/log/test_timestamps.py::test_the_first_record_that_is_not_older_is_found",
    ),
}
"""Tests that do not run there, with the reasons."""
TWICE = """
import os, sys
import twisted_kafka.testing
from twisted_kafka import Broker
from kafka import KafkaProducer

assert sys.platform == "win32" and not hasattr(os, "geteuid")
settings = {"log.flush.interval.messages": 1, "access.log.dir": sys.argv[1] + "/access", "log.segment.bytes": 2000}
for expected in (0, 50):
    with Broker(settings, data_dir=sys.argv[1] + "/data") as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        sent = [producer.send("topic", b"value" * 50) for _ in range(50)]
        assert [each.get(timeout=30).offset for each in sent] == list(range(expected, expected + 50))
        producer.close()
with twisted_kafka.testing.Broker() as broker:
    broker.create_topic("a")
    broker.produce("a", [b"1"])
    broker.delete_topic("a")
    broker.create_topic("a")
    assert not broker.records("a")
print("started twice")
"""


def run(*command: str, folder: Path, timeout_s: float) -> "subprocess.CompletedProcess[str]":
    """Run Python under the rules, with a folder for temporary files that no other broker uses."""
    path = os.pathsep.join([str(ROOT / "tests" / "support" / "windows"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder)}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
    )


def run_tests(*paths: str, folder: Path, timeout_s: float) -> None:
    # The plug-ins take part in each test, and look for the platform's own libraries.
    options = ["-q", "-p", "no:hypothesispytest", "-p", "no:xdist", "-p", "no:cacheprovider"]
    options += ["-m", "not slow and not oracle and not long"]
    options += [f"--deselect={each}" for reason in LEFT_OUT.values() for each in reason if "::" in each]
    options += [f"--ignore={each}" for reason in LEFT_OUT.values() for each in reason if "::" not in each]
    done = run("-m", "pytest", *options, *paths, folder=folder, timeout_s=timeout_s)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


@pytest.mark.slow
def test_a_broker_starts_again_in_its_directory(tmp_path: Path) -> None:
    done = run("-c", TWICE, str(tmp_path), folder=tmp_path, timeout_s=patient(60))
    assert "started twice" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["cluster", "3"], "twisted-kafka cluster: Windows cannot tie processes to each other"),
        (
            ["serve", "--override", "zookeeper.connect=localhost:2181"],
            "zookeeper.connect does not work on Windows: remove the line",
        ),
    ],
)
def test_a_feature_that_cannot_work_is_rejected_in_one_line(tmp_path: Path, command: list[str], said: str) -> None:
    done = run("-m", "twisted_kafka.tools.main", *command, folder=tmp_path, timeout_s=patient(60))
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_log_follows_the_rules(tmp_path: Path) -> None:
    run_tests(*QUICK, folder=tmp_path, timeout_s=patient(100))


@pytest.mark.slow
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("suite", ["tests/log", "tests/testing"])
def test_a_suite_passes(suite: str, tmp_path: Path) -> None:
    run_tests(suite, folder=tmp_path, timeout_s=patient(900))
