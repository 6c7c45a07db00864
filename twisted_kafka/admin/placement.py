"""Chooses the brokers of new partitions' replicas, and checks what clients choose (Kafka: ``AdminUtils``)."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from twisted_kafka.metadata.cache import MetadataCache
from twisted_kafka.protocol.errors import InvalidPartitionsError, InvalidReplicaAssignmentError, InvalidReplicationFactorError
from twisted_kafka.system import machine


class ReplicaPlacement:
    """Spreads replicas over the brokers of the cluster that take new ones."""

    def __init__(
        self,
        metadata: MetadataCache,
        randrange: Callable[[int], int] | None = None,
        is_cordoned: Callable[[], bool] = lambda: False,
    ) -> None:
        """``is_cordoned`` returns whether this broker's log directories take no new replicas; other brokers' are unknown."""
        self._metadata = metadata
        self._randrange = randrange if randrange is not None else machine.chance.randrange
        self._is_cordoned = is_cordoned

    def of_topic(self, partitions: int, replication_factor: int) -> dict[int, list[int]]:
        """Return the brokers of each partition of a new topic, from random ones on; raises as ``assign_replicas`` does."""
        brokers = self._brokers()
        count = max(1, len(brokers))
        start, shift = self._randrange(count), self._randrange(count)
        return assign_replicas(brokers, partitions, replication_factor, start_index=start, shift=shift)

    def of_more(self, first: Sequence[int], before: int, added: int) -> dict[int, list[int]]:
        """Return the brokers of each partition that is added to ``before`` ones, as if the topic had been made with all of them.

        ``first`` are the brokers of partition 0.
        """
        brokers = sorted(self._brokers())
        start = brokers.index(first[0]) if first[0] in brokers else 0
        return assign_replicas(brokers, added, len(first), start_index=start, shift=start, first_partition=before)

    def _brokers(self) -> list[int]:
        brokers: Iterable[int] = self._metadata.snapshot.brokers
        own_id = self._metadata.broker_id if self._is_cordoned() else None
        return [each for each in brokers if each != own_id]


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
