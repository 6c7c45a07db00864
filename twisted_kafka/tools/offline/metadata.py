"""``twisted-kafka metadata``: moves a stopped broker's metadata between the embedded store and ZooKeeper, through a file."""

import argparse
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from twisted_kafka.broker.registration.metadata_store import open_metadata_store
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.command_line import make_config
from twisted_kafka.log.directories.log_directory import LogDirectory, LogDirectoryError
from twisted_kafka.metadata.store import IMetadataStore
from twisted_kafka.metadata.tree import decode_tree, encode_tree, read_tree, write_tree
from twisted_kafka.system.files.names import open_descriptor
from twisted_kafka.timing.clock import SystemClock


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the actions (``commands.Command``)."""
    parser.description = (
        "Write the metadata of a stopped broker to a file, or read it from one: topics, configs, users, ACLs. "
        "With zookeeper.connect in the broker's settings, the metadata is in ZooKeeper, otherwise in the log directory. The file "
        "contains credentials; only its owner can read it."
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    for name, text, run in (
        ("export", "write the metadata to a new file", _export),
        ("import", "read the metadata from a file into an empty store", _import),
    ):
        action = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        action.add_argument("file", metavar="FILE", type=Path)
        action.add_argument("-c", "--config", help="the broker's settings, as for serve")
        action.add_argument("-d", "--data-dir", help="the broker's directory for all data, as for serve")
        action.set_defaults(run=run)


def _export(options: argparse.Namespace) -> int:
    with _store(options, must_exist=True) as store:
        count = 0
        descriptor = open_descriptor(options.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "w", encoding="utf-8", newline="\n") as file:
                for count, line in enumerate(encode_tree(read_tree(store))):  # noqa: B007 - the last one counts
                    file.write(line)
        except BaseException:
            options.file.unlink()
            raise
    print(f"{count} nodes are in {options.file}")
    return 0


def _import(options: argparse.Namespace) -> int:
    with open(options.file, encoding="utf-8", newline="\n") as file:
        nodes = list(decode_tree(file))
    with _store(options) as store:
        count = write_tree(store, nodes)
    print(f"{count} nodes are in the metadata store")
    return 0


def _store(options: argparse.Namespace, *, must_exist: bool = False) -> AbstractContextManager[IMetadataStore]:
    config = make_config({"config": options.config, "data-dir": options.data_dir, "listeners": None, "broker-id": None}, ())
    missing = [path for path in config.log_dirs if not Path(path).is_dir()]
    if must_exist and missing and not config.optional_string("zookeeper.connect"):
        raise LogDirectoryError(f"There is no directory {missing[0]}: name the broker's with --data-dir or --config")
    return stopped_brokers_store(config)


@contextmanager
def stopped_brokers_store(config: KafkaConfig) -> Iterator[IMetadataStore]:
    """Open the metadata store of a broker; raise LogDirectoryError if the broker runs."""
    directories = [LogDirectory(Path(path).absolute()) for path in config.log_dirs]
    try:
        for directory in directories:
            directory.acquire()
        store = open_metadata_store(config, directories, SystemClock(), threaded=False).store
        try:
            yield store
        finally:
            store.close()
    finally:
        for directory in directories:
            directory.release()
