"""SharePartitionKey: a partition as one share group sees it."""

import base64
from typing import NamedTuple


class SharePartitionKey(NamedTuple):
    """A group and a partition of a topic id (Kafka: SharePartitionKey)."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The key by which the share coordinator is found: ``group:topicId:partition``."""
        return coordinator_key(self.group_id, self.topic_id, self.partition)


def coordinator_key(group_id: str, topic_id: bytes, partition: int) -> str:
    """Return the key of a share partition, with the topic id as Kafka prints it."""
    return f"{group_id}:{base64.urlsafe_b64encode(topic_id).rstrip(b'=').decode()}:{partition}"


def is_coordinator_key(key: str) -> bool:
    """Return whether a key has the form of a share partition's; the group id may have colons itself, but must not be empty."""
    group_id, _, rest = key.rpartition(":")[0].rpartition(":")
    partition = key.rpartition(":")[2]
    try:
        topic_id = base64.urlsafe_b64decode(rest + "==")
        return bool(group_id) and len(topic_id) == _UUID_BYTES and partition.isascii() and int(partition) is not None
    except ValueError:
        return False


_UUID_BYTES = 16
