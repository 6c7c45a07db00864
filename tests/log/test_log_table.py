from typing import Any

import pytest

from twisted_kafka.log.directories.log_directories import LogTable
from twisted_kafka.protocol.topic_partition import TopicPartition


def test_the_logs_of_a_topic() -> None:
    table: Any = LogTable()
    logs: Any = {TopicPartition(topic, number): f"{topic}-{number}" for topic in "ab" for number in range(3)}
    for partition, log in logs.items():
        table[partition] = log
    assert table == logs
    table[TopicPartition("a", 1)] = logs["a", 1]
    assert table.of_topic("a") == ["a-0", "a-1", "a-2"]
    del table[TopicPartition("a", 0)]
    assert table.take(TopicPartition("a", 2)) == "a-2"
    assert table.take(TopicPartition("a", 2)) is None
    assert (table.of_topic("a"), table.of_topic("b"), table.of_topic("c")) == (["a-1"], ["b-0", "b-1", "b-2"], [])
    del table[TopicPartition("a", 1)]
    assert (table.of_topic("a"), len(table)) == ([], 3)
    with pytest.raises(KeyError):
        del table[TopicPartition("a", 1)]
