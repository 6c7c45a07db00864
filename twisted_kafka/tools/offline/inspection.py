"""``twisted-kafka dump-log`` and ``twisted-kafka verify``: inspect the files of a broker without starting one."""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

from twisted_kafka.coordinator.coordinator_record import UnknownRecordKindError, decode_record
from twisted_kafka.group_coordinator.state.group_kinds import GROUP_RECORD_KINDS
from twisted_kafka.log.directories.log_directory import LogDirectory
from twisted_kafka.log.files import parse_partition_directory
from twisted_kafka.protocol.compiler.codec import MalformedMessageError
from twisted_kafka.protocol.json_form import to_json
from twisted_kafka.protocol.records.record import Record
from twisted_kafka.protocol.topic_partition import GROUP_METADATA_TOPIC
from twisted_kafka.tools.offline.log_files import DescribeRecord, Item, items
from twisted_kafka.tools.offline.verify import verify
from twisted_kafka.tools.offline.verify_partition import ERROR

EXIT_FOUND = 1
"""Exit status for errors in the files."""


def add_dump(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``dump-log`` (``commands.Command``)."""
    parser.description = (
        "Print the contents of files of a log directory: segments (.log), indexes (.index, .timeindex, .txnindex), "
        "producer snapshots (.snapshot), checkpoints, partition.metadata and meta.properties. The broker may be running."
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--records", action="store_true", help="also print the records, and decode those of __consumer_offsets")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.set_defaults(run=_dump)


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``verify`` (``commands.Command``)."""
    parser.description = (
        "Check log directories of a stopped broker: every batch, record, index and checkpoint. Nothing is modified. "
        "The exit status is 1 if there are errors. The next start of the broker repairs everything reported as a note."
    )
    parser.add_argument("directories", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--headers-only", action="store_true", help="do not decompress and parse the records (faster)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.set_defaults(run=_verify)


def _dump(options: argparse.Namespace) -> int:
    status = 0
    for path in options.files:
        path.stat()  # a file that does not exist is reported as such, whatever its name
        if not options.json and len(options.files) > 1:
            print(f"{path}:")
        for item in items(path, with_records=options.records, describe=_describer(path)):
            if item["kind"] == "error" or item.get("is_valid") is False:
                status = EXIT_FOUND
            _print(item | ({"file": str(path)} if options.json else {}), as_json=options.json)
    return status


def _verify(options: argparse.Namespace) -> int:
    errors = 0
    for given in options.directories:
        for path in _log_directories(given):
            held = LogDirectory(path)
            held.acquire()
            try:
                for finding in verify(path, with_records=not options.headers_only):
                    errors += finding.severity == ERROR
                    if options.json:
                        _print({**finding._asdict(), "path": str(finding.path)}, as_json=True)
                    else:
                        print(f"{finding.severity}: {finding.path}: {finding.what}")
            finally:
                held.release()
    if not options.json:
        print(f"{errors} errors" if errors != 1 else "1 error")
    return EXIT_FOUND if errors else 0


def _log_directories(given: Path) -> Iterable[Path]:
    """Return the directory, or its subdirectory ``log`` if it is a data directory (``--data-dir``)."""
    if not given.is_dir():
        raise ValueError(f"{given} is not a directory")
    inside = given / "log"
    return [inside] if not (given / "meta.properties").exists() and (inside / "meta.properties").exists() else [given]


def _print(item: Item, *, as_json: bool) -> None:
    if as_json:
        print(_json(item))
    else:
        indent = "  | " if item["kind"] == "record" else ""
        words = " ".join(f"{name}: {_shown(value)}" for name, value in item.items() if name != "kind")
        print(f"{indent}{item['kind']} {words}")


def _shown(value: object) -> str:
    return _json(value) if isinstance(value, dict | list) else str(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _describer(path: Path) -> DescribeRecord | None:
    try:
        partition = parse_partition_directory(path.absolute().parent.name)
    except ValueError:
        return None
    return _describe_group_record if partition.topic == GROUP_METADATA_TOPIC else None


def _describe_group_record(record: Record) -> Item:
    try:
        decoded = decode_record(GROUP_RECORD_KINDS, record.key, record.value)
    except (UnknownRecordKindError, MalformedMessageError) as error:
        return {"not_read": str(error)}
    value = None if decoded.value is None else to_json(decoded.value, decoded.value_version)
    return {"is": type(decoded.key).__name__, "key": to_json(decoded.key, 0), "value": value}
