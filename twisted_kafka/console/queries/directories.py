"""The log directories of brokers."""

from dataclasses import dataclass

from twisted_kafka.console.cluster.problems import CommandError, problem
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.protocol.messages.administration.log_dirs import DescribeLogDirsRequest


@dataclass(frozen=True, slots=True)
class Directory:
    """A log directory."""

    broker: int
    directory: str
    replicas: int
    size_bytes: int
    """Of the replicas in it."""
    total_bytes: int | None
    """Of its file system; None if the broker does not report it."""
    usable_bytes: int | None
    moving: int
    """Replicas that are being copied into it."""
    error: str
    """Empty if it works."""

    @property
    def used_share(self) -> float | None:
        """The used part of the file system, from 0 to 1."""
        if not self.total_bytes or self.usable_bytes is None:
            return None
        return 1 - self.usable_bytes / self.total_bytes


@dataclass(frozen=True, slots=True)
class Directories:
    """The log directories of all brokers that answer."""

    items: tuple[Directory, ...]
    problems: tuple[str, ...]
    """Why others are missing."""


def directories(session: Session, *, with_replicas: bool = True) -> Directories:
    """Return the directories. Without replicas, which cost much, their sizes are 0. Raises CommandError if no broker answers."""
    request = DescribeLogDirsRequest(topics=None if with_replicas else [])
    session.retrying(lambda: session.metadata([]))
    found: list[Directory] = []
    silent: list[CommandError] = []
    for node, response in session.ask_brokers(request, silent).items():
        for each in response.results:
            partitions = [partition for topic in each.topics for partition in topic.partitions]
            found.append(
                Directory(
                    node,
                    each.log_dir,
                    sum(not partition.is_future_key for partition in partitions),
                    sum(partition.partition_size for partition in partitions),
                    each.total_bytes if each.total_bytes >= 0 else None,
                    each.usable_bytes if each.usable_bytes >= 0 else None,
                    sum(partition.is_future_key for partition in partitions),
                    str(problem("", each.error_code)).lstrip(": ") if each.error_code else "",
                )
            )
    return Directories(tuple(found), tuple(map(str, silent)))
