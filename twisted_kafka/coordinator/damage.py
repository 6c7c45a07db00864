"""The handling of an unreadable batch of an internal topic: its partition is not available, or the batch is skipped."""

from typing import Final

from twisted.logger import Logger

from twisted_kafka.protocol.errors import CorruptRecordError
from twisted_kafka.protocol.topic_partition import TopicPartition

SKIP_KEY: Final = "coordinator.load.skip.damaged.batches"
"""The broker's key; see "A damaged partition of groups or transactions" in docs/operations-storage.md."""

_log = Logger()


class DamagedBatchError(CorruptRecordError):
    """A partition of groups or transactions has a batch that cannot be read; the text names it and the remedy."""


class DamagePolicy:
    """Whether damaged batches are skipped."""

    def __init__(self, skips: bool) -> None:
        self.skips = skips

    def found(self, partition: TopicPartition, offset: int, error: Exception) -> None:
        """Log the damage at ``offset`` if it is skipped. Raises DamagedBatchError otherwise."""
        what = f"The batch of {partition} at offset {offset} is damaged ({error!r})"
        if not self.skips:
            raise DamagedBatchError(
                f"{what}. If another replica has it, stop this broker, delete its copy of the partition and start it again. "
                f"If not, {SKIP_KEY}=true loads the rest of the partition, without this batch."
            ) from error
        _log.error("{what}; skipping it, because {key} is true", what=what, key=SKIP_KEY)


REFUSE_DAMAGE: Final = DamagePolicy(skips=False)
