"""Compares the logs of a partition's replicas on disk, byte for byte."""

from pathlib import Path

from tests.cluster.cluster import WAIT_S, Cluster
from tests.cluster.history import Epochs
from tests.support.eventually import eventually
from twisted_kafka.log.batch_headers import batches_in

_BASE_OFFSET_BYTES, _LENGTH_BYTES = 8, 4
_HEAD_BYTES = _BASE_OFFSET_BYTES + _LENGTH_BYTES


def log_bytes(directory: Path) -> bytes:
    """Return a partition's batches, of all segments."""
    segments = sorted(directory.glob("*.log"))
    assert segments, f"{directory} has no log"
    return b"".join(segment.read_bytes() for segment in segments)


def producer_epochs(cluster: Cluster, topic: str) -> Epochs:
    """Return the producer epochs of a topic's records, as their leaders have them."""
    return {
        (partition, offset): batch.producer_epoch
        for partition, state in cluster.states(topic).items()
        for batch in batches_in(memoryview(log_bytes(cluster.brokers[state.leader].log_of(f"{topic}-{partition}"))))
        for offset in range(batch.base_offset, batch.last_offset + 1)
    }


def first_difference(one: bytes, other: bytes) -> str:
    """Say where two logs differ, for a failed test."""
    at = 0
    while at + _HEAD_BYTES <= len(one):
        size = _HEAD_BYTES + int.from_bytes(one[at + _BASE_OFFSET_BYTES : at + _HEAD_BYTES])
        if one[at : at + size] != other[at : at + size]:
            break
        at += size
    offset = int.from_bytes(one[at : at + _BASE_OFFSET_BYTES]) if at + _BASE_OFFSET_BYTES <= len(one) else None
    where = f"{len(one)} and {len(other)} bytes; the batch at {at}, offset {offset}"
    return f"{where}:\n{one[at : at + 80].hex()}\n{other[at : at + 80].hex()}"


def ensure_replicas_are_identical(cluster: Cluster, topic: str) -> None:
    """Have all replicas of a topic that nobody writes to be the same, once followers have fetched everything."""
    for partition, ids in cluster.replicas(topic).items():
        name = f"{topic}-{partition}"
        logs = _Logs({each: cluster.brokers[each].log_of(name) for each in ids})
        eventually(logs.are_identical, logs.difference, WAIT_S / 4, 0.5)


class _Logs:
    def __init__(self, directories: dict[int, Path]) -> None:
        self._directories = directories

    def are_identical(self) -> bool:
        return len({log_bytes(directory) for directory in self._directories.values()}) == 1

    def difference(self) -> str:
        (first, one), *others = ((each, log_bytes(directory)) for each, directory in self._directories.items())
        found = (f"on {first} and {each}: {first_difference(one, other)}" for each, other in others if other != one)
        return "\n".join([str(self._directories[first]), *found])
