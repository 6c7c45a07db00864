"""A follower's progress, which its leader knows from its fetches."""

from typing import Final

from twisted_kafka.replication.partition.fetch_watch import FetchWatch

UNKNOWN_OFFSET: Final = -1
UNKNOWN_BROKER_EPOCH: Final = -1


class Replica:
    """A follower's state at the leader (Kafka: ``Replica``). Changed under the partition's lock; times are wall milliseconds.

    ``last_caught_up_ms`` is the last time at which the follower had everything that the leader had when the follower asked: the
    follower is out of sync once that is more than ``replica.lag.time.max.ms`` ago.
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
        "watch",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.last_fetch_ms = 0
        self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
        self.last_caught_up_ms = 0
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.watch: FetchWatch | None = None
        """The watch of the follower's session. Its later fetches do not ask for this partition while it does not change."""

    def says_nothing_new(self, fetch_offset: int, log_start_offset: int, broker_epoch: int, watch: FetchWatch | None) -> bool:
        """Return whether a fetch has the same offsets, epoch and watch as the last one."""
        return (
            fetch_offset == self.log_end_offset
            and log_start_offset == self.log_start_offset
            and broker_epoch == self.broker_epoch
            and watch is self.watch
        )

    def fetched_again(self, now_ms: int, leader_end_offset: int) -> None:
        """Record a fetch that says nothing new; only the times change, so it needs no lock."""
        self._note_time(self.log_end_offset, now_ms, leader_end_offset)

    def fetched(
        self,
        fetch_offset: int,
        log_start_offset: int,
        now_ms: int,
        leader_end_offset: int,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
    ) -> None:
        """Record a fetch: the follower has everything before ``fetch_offset``."""
        self._note_time(fetch_offset, now_ms, leader_end_offset)
        self.log_start_offset = log_start_offset
        self.log_end_offset = fetch_offset
        self.broker_epoch = broker_epoch

    def _note_time(self, fetch_offset: int, now_ms: int, leader_end_offset: int) -> None:
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            # It has everything that the leader had at its previous fetch.
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.last_fetch_leader_end_offset = leader_end_offset
        self.last_fetch_ms = now_ms

    def reset(self, now_ms: int, leader_end_offset: int, *, in_sync: bool, is_new_leader: bool) -> None:
        """Begin a leader epoch. An in-sync replica has ``replica.lag.time.max.ms`` from now on to fetch."""
        if is_new_leader:
            self.watch = None
            self.log_end_offset = UNKNOWN_OFFSET
            self.log_start_offset = UNKNOWN_OFFSET
            self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
            self.last_fetch_ms = 0
            self.broker_epoch = UNKNOWN_BROKER_EPOCH
        else:
            self.last_fetch_leader_end_offset = leader_end_offset
            self.last_fetch_ms = now_ms if in_sync else 0
        self.last_caught_up_ms = now_ms if in_sync else 0

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Return whether it has everything, or had within ``max_lag_ms``."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= max_lag_ms
