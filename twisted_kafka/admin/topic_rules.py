"""Validates topic names, and assigns replicas to brokers (Kafka: ``Topic``, ``AdminUtils``)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from twisted_kafka.protocol.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidTopicError,
)

MAX_NAME_LENGTH: Final = 249
CLUSTER_TOPIC: Final = "__cluster_metadata"

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def name_error(name: str) -> str | None:
    """Return why a topic name is invalid; None if it is valid."""
    if not name:
        return "The topic name is invalid: it is empty, and the empty string is not allowed"
    if name in (".", ".."):
        return f"The topic name is invalid: {name!r} is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"The topic name is invalid: its length {len(name)} is longer than {MAX_NAME_LENGTH}, which is the max allowed"
    if _LEGAL.fullmatch(name) is None:
        return f"The topic name is invalid: {name!r} has characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def ensure_valid_name(name: str) -> None:
    """Raise InvalidTopicError for an invalid topic name."""
    error = name_error(name)
    if error is not None:
        raise InvalidTopicError(error)


def assign_replicas(
    brokers: Iterable[int],
    partitions: int,
    replication_factor: int,
    *,
    start_index: int,
    shift: int,
    first_partition: int = 0,
) -> dict[int, list[int]]:
    """Assign replicas to brokers: leaders round-robin, followers with a shift that grows by one in each round.

    ``start_index`` and ``shift`` are random for new topics. Raises InvalidPartitionsError and InvalidReplicationFactorError.
    """
    ids = sorted(brokers)
    if partitions <= 0:
        raise InvalidPartitionsError(f"The number of partitions must be larger than 0, not {partitions}")
    if replication_factor <= 0:
        raise InvalidReplicationFactorError(f"The replication factor must be larger than 0, not {replication_factor}")
    if replication_factor > len(ids):
        raise InvalidReplicationFactorError(f"Replication factor: {replication_factor} larger than available brokers: {len(ids)}.")
    count = len(ids)
    assigned: dict[int, list[int]] = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start_index) % count
        followers = [(first + 1 + (shift + each) % (count - 1)) % count for each in range(replication_factor - 1)]
        assigned[partition] = [ids[first], *(ids[each] for each in followers)]
    return assigned


def ensure_valid_assignment(assignment: Mapping[int, Sequence[int]]) -> None:
    """Raise InvalidReplicaAssignmentError unless partitions are numbered from 0 and pass ``ensure_valid_replicas``."""
    if sorted(assignment) != list(range(len(assignment))):
        raise InvalidReplicaAssignmentError(
            "The partitions of a replica assignment must be numbered from 0 without a gap, a consecutive 0-based sequence"
        )
    ensure_valid_replicas(assignment.values())


def ensure_known_brokers(lists: Iterable[Sequence[int]], brokers: Iterable[int]) -> None:
    """Raise InvalidReplicaAssignmentError for a list with an unknown broker."""
    unknown = sorted({broker for replicas in lists for broker in replicas} - set(brokers))
    if unknown:
        raise InvalidReplicaAssignmentError(f"Unknown brokers in replica assignment: {', '.join(map(str, unknown))}")


def ensure_some_brokers(lists: Iterable[Sequence[int]]) -> None:
    """Raise InvalidReplicaAssignmentError for an empty list."""
    if not all(lists):
        raise InvalidReplicaAssignmentError("The replica assignment of a partition is empty, a replication factor of 0")


def ensure_valid_replicas(lists: Iterable[Sequence[int]]) -> None:
    """Raise InvalidReplicaAssignmentError unless all lists have the same length and no duplicates."""
    sizes = set()
    for replicas in lists:
        if len(set(replicas)) != len(replicas):
            raise InvalidReplicaAssignmentError(f"Duplicate brokers are not allowed in a replica assignment: {list(replicas)}")
        sizes.add(len(replicas))
    if len(sizes) > 1:
        raise InvalidReplicaAssignmentError("Inconsistent replication factor: all partitions must have the same number of replicas")
