"""Whether the brokers of a world keep Kafka's promises."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

from twisted_kafka.protocol.topic_partition import INTERNAL_TOPICS, TopicPartition
from twisted_kafka.world.checking.broken import Broken
from twisted_kafka.world.checking.history import History
from twisted_kafka.world.checking.produced import Acknowledged
from twisted_kafka.world.checking.replicas import Header, Replica, Replicas

SHOWN: Final = 10
"""Most broken promises in a message."""
NO_PRODUCER: Final = -1
_FIRST_SEQUENCE: Final = 0
_SEQUENCES: Final = 2**31


class BrokenPromiseError(AssertionError):
    """A broker has not done what Kafka promises. The message names the record, the partition and the seed."""

    def __init__(self, seed: int, broken: Collection[Broken]) -> None:
        self.broken = list(broken)
        lines = "".join(f"\n  {each}" for each in self.broken[:SHOWN])
        super().__init__(f"{len(self.broken)} broken promises in the world of seed {seed}:{lines}")


class Checks:
    """The checks of one world. Each raises BrokenPromiseError; ``all`` makes all but one.

    They look at all in-sync replicas of running brokers, and at every answer of a broker so far. A check reads the logs, so with
    ``world.always`` give it a longer interval than the default.
    """

    def __init__(
        self, seed: int, history: History, look: Callable[[], Replicas], properties: Mapping[str, object], brokers: int
    ) -> None:
        """``look`` reads the present replicas; ``properties`` are the brokers', and ``brokers`` is their number."""
        self._brokers = brokers
        self.loses_power = False
        """Whether a broker may have lost writes that it had not synced."""
        self._seed = seed
        self._history = history
        self._look = look
        self._properties = properties

    def _assert(self, broken: Iterable[Broken]) -> None:
        found = list(broken)
        if found:
            raise BrokenPromiseError(self._seed, found)

    def all(self) -> None:
        """Check everything but ``offsets_never_go_back``, which is the programs' own affair."""
        replicas = self._look()
        self._assert(
            [
                *self._lost(replicas),
                *self._sequences(replicas),
                *self._transactions(replicas),
                *self._history.broken,
            ]
        )

    # Records

    def no_acknowledged_record_is_lost(self) -> None:
        """Check that each record that was acknowledged with ``acks=all`` is in each in-sync replica, as it was sent."""
        self._assert(self._lost(self._look()))

    def _lost(self, replicas: Replicas) -> Iterator[Broken]:
        if not self._promises_durability():
            return
        for each in self._history.produced.batches:
            if each.partition.topic in self._history.deleted:
                continue
            for broker, replica in replicas.of(each.partition).items():
                why = self._why_missing(each, replica)
                if why is not None:
                    yield Broken(why[0], f"{each.text}, {why[1]} kafka-{broker}")

    def _promises_durability(self) -> bool:
        unclean = str(self._properties.get("unclean.leader.election.enable", "false")).lower() == "true"
        # A record is on the disks of several brokers soon, but on none at once: Kafka relies on its copies.
        copies = int(str(self._properties.get("min.insync.replicas", 2)))
        return not unclean and not (self.loses_power and min(copies, self._brokers) < 2)

    def _may_shrink(self, topic: str) -> bool:
        shrinks = topic in self._history.shrinking
        return shrinks or any(name.startswith(("log.retention.", "log.cleanup.")) for name in self._properties)

    def _why_missing(self, sent: Acknowledged, replica: Replica) -> tuple[str, str] | None:
        found = replica.at(sent.base_offset)
        topic = sent.partition.topic
        if found is None:
            return None if self._may_shrink(topic) else ("lost", "is not in the log of")
        if topic in self._history.rewritten or self._may_shrink(topic) or self._rewrites():
            return None
        is_same = found.base_offset == sent.base_offset and found.records == sent.records and found.crc == sent.crc
        return None if is_same else ("changed", "is another record in the log of")

    def _rewrites(self) -> bool:
        return any(name in self._properties for name in ("compression.type", "log.message.timestamp.type"))

    # Producers

    def order_is_kept(self) -> None:
        """Check that the batches of each idempotent producer are in each log in the order of their sequence numbers, once."""
        self._assert(self._sequences(self._look()))

    no_record_is_duplicated = order_is_kept

    def _sequences(self, replicas: Replicas) -> Iterator[Broken]:
        for partition in replicas.partitions():
            if partition.topic not in INTERNAL_TOPICS and not self._may_shrink(partition.topic):
                for broker, replica in replicas.of(partition).items():
                    yield from _sequence_errors(partition, broker, replica.batches)

    # Transactions

    def transactions_are_atomic(self) -> None:
        """Check that all records of a transaction have the same outcome, and the one of the answer to its producer.

        Records whose marker is not written yet are no error.
        """
        self._assert(self._transactions(self._look()))

    def _transactions(self, replicas: Replicas) -> Iterator[Broken]:
        for transaction in self._history.produced.transactions:
            seen: dict[bool, Acknowledged] = {}
            for each in transaction.batches:
                for replica in replicas.of(each.partition).values():
                    if each.partition.topic in self._history.deleted or replica.at(each.base_offset) is None:
                        continue
                    outcome = replica.outcome_after(each.base_offset, transaction.producer_id)
                    if outcome is not None:
                        seen[outcome] = each
            told = transaction.committed
            if told is not None and (not told) in seen:
                wrong = "aborted" if told else "committed"
                yield Broken("half", f"{seen[not told].text} is {wrong}, unlike its transaction of {transaction.name}")
            elif len(seen) == 2:
                yield Broken(
                    "half", f"of a transaction of {transaction.name}, {seen[True].text} is committed, {seen[False].text} not"
                )

    # Groups

    def assignments_are_exclusive(self) -> None:
        """Check that no partition had two members of a group at a time."""
        self._assert(each for each in self._history.broken if each.promise == "shared")

    def finished_records_stay_finished(self) -> None:
        """Check that no record was delivered to a share group again after a member's accept or reject was confirmed."""
        self._assert(each for each in self._history.broken if each.promise == "redelivered")

    def committed_offsets_are_kept(self) -> None:
        """Check that each OffsetFetch returned what the group had committed."""
        self._assert(each for each in self._history.broken if each.promise == "forgotten")

    def offsets_never_go_back(self) -> None:
        """Check that no program committed an offset below one that was committed before, as a zombie does."""
        self._assert(self._history.offsets.went_back)


def _sequence_errors(partition: TopicPartition, broker: int, headers: Iterable[Header]) -> Iterator[Broken]:
    following: dict[tuple[int, int], int] = {}
    offset = -1
    for each in headers:
        where = f"{partition} offset {each.base_offset} on kafka-{broker}"
        if each.base_offset <= offset:
            yield Broken("reordered", f"{where} comes after offset {offset}")
        offset = each.last_offset
        if each.is_control or each.producer_id == NO_PRODUCER or each.base_sequence < _FIRST_SEQUENCE:
            continue
        producer = each.producer_id, each.producer_epoch
        expected = following.get(producer)
        if expected is not None and each.base_sequence != expected:
            distance = (each.base_sequence - expected) % _SEQUENCES
            promise = "duplicate" if distance > _SEQUENCES // 2 else "reordered"
            whose = f"producer {each.producer_id} in epoch {each.producer_epoch}"
            yield Broken(promise, f"{where} has sequence {each.base_sequence} of {whose}, after {expected - 1}")
        following[producer] = (each.base_sequence + each.last_offset - each.base_offset + 1) % _SEQUENCES
