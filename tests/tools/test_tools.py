"""``twisted-kafka dump-log`` and ``verify`` on log directories that Apache Kafka wrote, whole and damaged."""

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.logs import KAFKA_LOGS
from twisted_kafka.log.directories.log_directory import LogDirectory
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.record import SimpleRecord
from twisted_kafka.tools.main import EXIT_USAGE, main
from twisted_kafka.tools.offline.inspection import EXIT_FOUND
from twisted_kafka.tools.offline.log_files import items


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    """A copy of a directory that Kafka stopped in order."""
    copy = tmp_path / "log"
    shutil.copytree(KAFKA_LOGS / "clean", copy, copy_function=shutil.copyfile)
    (copy / ".kafka_cleanshutdown").touch()
    (copy / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=abc\n")
    return copy


def expected(name: str, file: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (KAFKA_LOGS / name / file).read_text().splitlines()]


def dumped(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert main(["dump-log", "--json", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_segment_that_a_running_broker_cuts_is_read_to_its_end(tmp_path: Path) -> None:
    """Mapped into memory, it would end this process with SIGBUS."""
    path = tmp_path / "00000000000000000000.log"
    batch = build_batch([SimpleRecord(0, None, b"v" * 5000)])
    path.write_bytes(batch * 3)
    found = items(path, with_records=False)
    assert next(found)["position"] == 0
    os.truncate(path, len(batch))
    assert list(found) == []
    found = items(path, with_records=False)
    next(found)
    os.truncate(path, 10)
    assert list(found) == []


@pytest.mark.parametrize("name", ["stdin", "stdout", "stderr"])
def test_a_command_whose_standard_stream_is_closed_works(name: str, clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = clean.glob("__consumer_offsets-2/*.log")
    monkeypatch.setattr(sys, name, None)
    assert main(["dump-log", str(path), str(clean / "missing")]) == EXIT_USAGE
    getattr(sys, name).close()


@pytest.mark.medium
def test_output_whose_reader_has_gone_is_no_error(clean: Path) -> None:
    (path,) = clean.glob("__consumer_offsets-2/*.log")
    command = [sys.executable, "-m", "twisted_kafka.tools.main", "dump-log", "--records", *[str(path)] * 300]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_an_interrupted_command_has_the_status_of_shells(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("twisted_kafka.tools.offline.inspection._verify", interrupted)
    assert main(["verify", str(clean)]) == 130


def damaged_batch() -> bytes:
    data = bytearray(build_batch([SimpleRecord(0, None, b"value")]))
    data[-2] ^= 1
    return bytes(data)


@pytest.mark.medium
@pytest.mark.parametrize("name", ["clean", "killed"])
def test_indexes_are_read_to_their_entries(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    seen = 0
    for entry in expected(name, "expected-index.jsonl"):
        path = KAFKA_LOGS / name / str(entry["file"])
        if path.suffix not in (".index", ".timeindex") or not path.exists():
            continue
        first, second = ("offset", "position") if path.suffix == ".index" else ("timestamp_ms", "offset")
        found = [[item[first], item[second]] for item in dumped(capsys, str(path))]
        assert found == entry["entries"], path
        seen += 1
    assert seen > 3


def test_batches_records_and_what_groups_keep(capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = (KAFKA_LOGS / "clean" / "__consumer_offsets-2").glob("*.log")
    found = dumped(capsys, "--records", str(path))
    batches = [item for item in found if item["kind"] == "batch"]
    records = [item for item in found if item["kind"] == "record"]
    assert [item["is_valid"] for item in batches] == [True] * len(batches)
    assert sum(int(str(item["count"])) for item in batches) == len(records)
    assert {"GroupMetadataKey", "OffsetCommitKey"} <= {item.get("is") for item in records}
    assert "COMMIT" in {item.get("marker") for item in records}


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("00000000000000000010.index", struct.pack(">IIII", 5, 100, 4, 200), "must be in order"),
        ("00000000000000000010.index", struct.pack(">IIIII", 5, 100, 6, 200, 7), "4 bytes at the end"),
        ("00000000000000000010.timeindex", struct.pack(">qIqI", 5, 1, 4, 2), "must be in order"),
        ("00000000000000000010.timeindex", struct.pack(">qIqI", 5, 2, 6, 1), "must be in order"),
        ("00000000000000000010.log", damaged_batch(), '"is_valid":false'),
    ],
)
def test_what_cannot_be_in_a_file_is_an_error(
    name: str, data: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(data)
    assert main(["dump-log", "--json", str(tmp_path / name)]) == 1
    assert said in capsys.readouterr().out


def test_a_file_without_an_offset_in_its_name_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.index").write_bytes(b"")
    assert main(["dump-log", str(tmp_path / "x.index")]) == 2
    assert "is not named after the base offset" in capsys.readouterr().err


def test_every_file_of_a_directory_can_be_shown_to_people(capsys: pytest.CaptureFixture[str]) -> None:
    files = [path for path in (KAFKA_LOGS / "clean").rglob("*") if path.is_file() and path.suffix not in (".jsonl", "")]
    files += (KAFKA_LOGS / "clean").rglob("*-checkpoint")
    assert {path.suffix for path in files} >= {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    assert main(["dump-log", "--records", *map(str, files)]) == 0
    text = capsys.readouterr().out
    for kind in (
        "batch",
        "record",
        "index entry",
        "time index entry",
        "aborted transaction",
        "producer",
        "leader epoch",
        "checkpoint",
    ):
        assert kind in text
    assert "partition metadata topic_id" in text


def verified(capsys: pytest.CaptureFixture[str], directory: Path, *options: str) -> tuple[int, list[dict[str, str]]]:
    status = main(["verify", "--json", *options, str(directory)])
    return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_directory_of_kafkas_is_in_order(clean: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verified(capsys, clean) == (0, [])
    assert main(["verify", str(clean.parent)]) == 0
    assert capsys.readouterr().out == "0 errors\n"


def test_after_a_crash_there_are_notes_and_no_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "killed"
    shutil.copytree(KAFKA_LOGS / "killed", copy, copy_function=shutil.copyfile)
    last = sorted(copy.glob("*/*.log"))[-1]
    last.write_bytes(last.read_bytes() + b"\0\0\0torn")
    status, findings = verified(capsys, copy)
    assert status == 0
    assert {finding["severity"] for finding in findings} == {"note"}
    assert any("recovery truncates it" in finding["what"] for finding in findings)


def change(path: Path, at: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[at : at + len(data)] = data
    path.write_bytes(whole)


def flip_value(directory: Path) -> Path:
    path = sorted((directory / "retained-0").glob("*.log"))[0]
    change(path, 70, bytes([path.read_bytes()[70] ^ 1]))
    return path


def cut_log(directory: Path) -> Path:
    path = sorted((directory / "segmented-0").glob("*.log"))[0]
    path.write_bytes(path.read_bytes()[:-5])
    return path


def shift_index(directory: Path) -> Path:
    path = next(each for each in sorted((directory / "segmented-0").glob("*.index")) if each.stat().st_size)
    change(path, 4, struct.pack(">I", 7))
    return path


def early_time_index(directory: Path) -> Path:
    path = next(each for each in sorted((directory / "segmented-0").glob("*.timeindex")) if each.stat().st_size)
    change(path, 0, struct.pack(">q", 1))
    return path


def epochs_backwards(directory: Path) -> Path:
    path = directory / "retained-0" / "leader-epoch-checkpoint"
    path.write_text("0\n2\n5 0\n3 10\n")
    return path


def snapshot_garbled(directory: Path) -> Path:
    path = next(iter(sorted(directory.glob("*/*.snapshot"))))
    path.write_bytes(b"nonsense")
    return path


def high_watermark_beyond(directory: Path) -> Path:
    path = directory / "replication-offset-checkpoint"
    path.write_text("0\n1\nretained 0 999999\n")
    return path


@pytest.mark.parametrize(
    "damage", [flip_value, cut_log, shift_index, early_time_index, epochs_backwards, snapshot_garbled, high_watermark_beyond]
)
def test_damage_is_found_and_named(damage: object, clean: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = damage(clean)  # type: ignore[operator]
    status, findings = verified(capsys, clean)
    assert status == EXIT_FOUND
    assert str(path) in {finding["path"] for finding in findings if finding["severity"] == "error"}


def test_many_findings_of_one_file_are_counted(clean: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sorted((clean / "retained-0").glob("*.index"))[0]
    path.write_bytes(struct.pack(">II", 1, 1) * 30)
    findings = [each["what"] for each in verified(capsys, clean)[1] if each["path"] == str(path)]
    assert len(findings) == 11
    assert "more findings" in findings[-1]


def test_a_broker_that_runs_is_left_alone(clean: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broker = LogDirectory(clean)
    broker.acquire()
    try:
        assert main(["verify", str(clean)]) == EXIT_USAGE
        assert "in use" in capsys.readouterr().err
    finally:
        broker.release()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dump-log", "/nowhere/0.log"], "No such file"),
        (["dump-log", __file__], "not a known file of a log directory"),
        (["verify", "/nowhere"], "is not a directory"),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == EXIT_USAGE
    text = capsys.readouterr().err
    assert said in text
    assert text.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dump-log", "nofile"], "nofile: No such file or directory"),
        (["replay", "nofile", "127.0.0.1:1"], "nofile: No such file or directory"),
        (["metadata", "import", "nofile"], "nofile: No such file or directory"),
        (["record", "there", "--to", "127.0.0.1:1"], "there exists already: name a new file"),
    ],
)
def test_a_file_that_is_missing_or_in_the_way(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").touch()
    assert main(arguments) == EXIT_USAGE
    assert capsys.readouterr().err == f"twisted-kafka: {said}\n"
