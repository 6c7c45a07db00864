"""The share partitions of a group, and how they change (ShareGroupStatePartitionMetadataValue).

| step | what happens |
|---|---|
| a member subscribes | the topic's partitions become initializing; the share coordinators are asked to initialize their states |
| they have done so | the partitions become initialized: members may be assigned them |
| they could not | the partitions are forgotten: the next heartbeat asks again |
| an administrator deletes offsets, or the group | the topics become deleting; the share coordinators are asked to do it |
| they have done so | the topics are forgotten |
| the topic is deleted | it is forgotten: each share coordinator deletes the states itself |
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from twisted_kafka.group_coordinator.state.consumer.consumer_group_member import NO_PARTITIONS, Partitions

_NONE: frozenset[int] = frozenset()


def union(first: Partitions, second: Partitions) -> Partitions:
    """Return the partitions of both."""
    return {topic_id: first.get(topic_id, _NONE) | second.get(topic_id, _NONE) for topic_id in {**first, **second}}


def difference(first: Partitions, second: Partitions) -> Partitions:
    """Return the partitions of the first that the second does not have."""
    left = {topic_id: indexes - second.get(topic_id, _NONE) for topic_id, indexes in first.items()}
    return {topic_id: indexes for topic_id, indexes in left.items() if indexes}


class SharePartitions(NamedTuple):
    """The partitions whose states the share coordinators keep for a group."""

    initializing: Partitions = NO_PARTITIONS
    initialized: Partitions = NO_PARTITIONS
    """Those that members may be assigned."""
    deleting: frozenset[bytes] = frozenset()
    """Topics whose states are being deleted."""
    names: Mapping[bytes, str] = {}
    """The names of all these topics."""

    def initialize(self, partitions: Partitions, names: Mapping[bytes, str]) -> "SharePartitions":
        """Return the group's partitions after it asks for these to be initialized."""
        return self._replace(
            initializing=union(self.initializing, partitions),
            deleting=self.deleting - partitions.keys(),
            names={**self.names, **{topic_id: names[topic_id] for topic_id in partitions}},
        )

    def confirm(self, partitions: Partitions) -> "SharePartitions":
        """Return the group's partitions after these were initialized."""
        return self._replace(
            initializing=difference(self.initializing, partitions), initialized=union(self.initialized, partitions)
        )

    def withdraw(self, partitions: Partitions) -> "SharePartitions":
        """Return the group's partitions after these could not be initialized."""
        return self._replace(initializing=difference(self.initializing, partitions))._tidy()

    def delete(self, topics: Collection[bytes]) -> "SharePartitions":
        """Return the partitions with the states of these topics marked for deletion."""
        initialized = {topic_id: indexes for topic_id, indexes in self.initialized.items() if topic_id not in topics}
        return self._replace(initialized=initialized, deleting=self.deleting | frozenset(topics))

    def delete_all(self, deleting: Collection[bytes]) -> "SharePartitions":
        """Return the partitions with all states marked for deletion; ``deleting`` are the topics that still exist."""
        topics = {*self.initializing, *self.initialized, *deleting}
        return self._replace(initializing=NO_PARTITIONS, initialized=NO_PARTITIONS, deleting=frozenset(topics))._tidy()

    def deleted(self, topics: Collection[bytes]) -> "SharePartitions":
        """Return the group's partitions after the states of these topics were deleted."""
        return self._replace(deleting=self.deleting.difference(topics))._tidy()

    def forget(self, topics: Collection[bytes]) -> "SharePartitions":
        """Return the group's partitions after these topics were deleted."""
        gone = dict.fromkeys(topics)
        return self._replace(
            initializing={topic_id: each for topic_id, each in self.initializing.items() if topic_id not in gone},
            initialized={topic_id: each for topic_id, each in self.initialized.items() if topic_id not in gone},
            deleting=self.deleting - gone.keys(),
        )._tidy()

    def topic_ids(self) -> set[bytes]:
        """Return the ids of all topics."""
        return {*self.initializing, *self.initialized, *self.deleting}

    def _tidy(self) -> "SharePartitions":
        return self._replace(names={topic_id: self.names[topic_id] for topic_id in self.topic_ids() if topic_id in self.names})
