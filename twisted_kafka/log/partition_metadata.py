"""``partition.metadata``: the id of the topic that a partition directory belongs to."""

from pathlib import Path

from twisted_kafka.log.files import write_atomically
from twisted_kafka.protocol.compiler.types import NO_UUID, uuid_from_text, uuid_text
from twisted_kafka.system.files.file_io import read_whole

PARTITION_METADATA = "partition.metadata"
_VERSION = "0"


def read_topic_id(directory: Path) -> bytes | None:
    """Return the topic's id, or None if the file is missing or empty.

    Raises OSError, and ValueError if the file does not have version 0 and an id.
    """
    path = directory / PARTITION_METADATA
    try:
        text = read_whole(path).decode()
    except FileNotFoundError:
        return None
    if not text.strip("\0 \n"):
        return None
    fields = dict([line.split(": ", 1) for line in text.splitlines() if ": " in line])
    if fields.get("version") != _VERSION or "topic_id" not in fields:
        raise ValueError(f"{path} must have version: {_VERSION} and topic_id")
    topic_id = uuid_from_text(fields["topic_id"])
    return None if topic_id == NO_UUID else topic_id


def write_topic_id(directory: Path, topic_id: bytes) -> None:
    """Write the topic's id; raises OSError."""
    text = f"version: {_VERSION}\ntopic_id: {uuid_text(topic_id)}"
    write_atomically(directory / PARTITION_METADATA, text.encode(), sync=False)
