import copy
from typing import Any

import pytest

from tests.server.apis.group_handlers import Handlers, codes, commit_request
from tests.support.replication_harness import topic_id
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.coordinators.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)


@pytest.mark.parametrize("version", range(1, 11))
def test_commit_in_every_version(version: Any) -> None:
    handlers = Handlers()
    assert codes(handlers.ask(commit_request({0: 5, 1: 6}, metadata="note"), version)) == {0: 0, 1: 0}
    first, second = handlers.bench.written()
    assert (first.key.group, first.key.topic, first.key.partition, first.value.offset) == ("g", "orders", 0, 5)
    assert (second.value.metadata, first.value_version) == ("note", 3)
    assert first.value.commit_timestamp == handlers.bench.clock.wall_ms()


def test_partitions_that_are_not_there_and_metadata_that_is_too_large() -> None:
    handlers = Handlers(offset_metadata_max_bytes=10)
    assert codes(handlers.ask(commit_request({0: 5, 4: 5}, metadata="x" * 11), 8)) == {0: 12, 4: 3}
    assert codes(handlers.ask(commit_request({0: 5}, metadata="x" * 10), 8)) == {0: 0}
    assert codes(handlers.ask(commit_request({0: 5}, topic="none"), 8)) == {0: 3}
    assert codes(handlers.ask(commit_request({0: 5}, metadata=None), 8)) == {0: 0}
    # the group's error goes before the metadata's, the partition's before both
    request = commit_request({0: 5, 4: 5}, metadata="x" * 11, generation_id_or_member_epoch=3, member_id="m")
    assert codes(handlers.ask(request, 8)) == {0: ErrorCode.UNKNOWN_MEMBER_ID, 4: 3}


def test_retention_and_time_of_the_old_versions() -> None:
    handlers = Handlers()
    now_ms = handlers.bench.clock.wall_ms()
    handlers.ask(commit_request({0: 5}, retention_time_ms=1000), 4)
    request = commit_request({1: 5})
    request.topics[0].partitions[0].commit_timestamp = 12345
    handlers.ask(request, 1)
    first, second = handlers.bench.written()
    assert (first.value_version, first.value.expire_timestamp) == (1, now_ms + 1000)
    assert (second.value_version, second.value.commit_timestamp) == (3, 12345)


def test_the_longest_retention_has_no_end() -> None:
    handlers = Handlers()
    longest_ms = (1 << 63) - 1
    assert codes(handlers.ask(commit_request({0: 5}, retention_time_ms=longest_ms), 4)) == {0: 0}
    (written,) = handlers.bench.written()
    assert written.value.expire_timestamp == longest_ms


def test_commit_waits_for_replicas() -> None:
    handlers = Handlers()
    handlers.bench.log.holds = True
    answer = handlers.ask(commit_request({0: 5}), 8)
    fetch = handlers.ask(fetch_request(8), 8)
    assert not answer.done()
    assert not fetch.done()
    handlers.bench.log.release()
    assert codes(answer.result(0)) == {0: 0}
    assert fetch.result(0).groups[0].topics[0].partitions[0].committed_offset == 5


def fetch_request(
    version: Any,
    group_id: str = "g",
    topic: str = "orders",
    indexes: tuple[int, ...] = (0, 1),
    all_topics: bool = False,
    **fields: Any,
) -> Any:
    if version < 8:
        topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=list(indexes))]
        return OffsetFetchRequest(group_id=group_id, topics=None if all_topics else topics, **fields)
    topics = [OffsetFetchRequestTopics(name=topic, topic_id=topic_id(topic), partition_indexes=list(indexes))]  # type: ignore[list-item]
    group = OffsetFetchRequestGroup(group_id=group_id, topics=None if all_topics else topics)  # type: ignore[arg-type]
    return OffsetFetchRequest(groups=[group], **fields)


def fetched(response: Any, version: Any) -> Any:
    """Return the group's error and (offset, epoch, metadata, error) by partition."""
    group = response if version < 8 else response.groups[0]
    return group.error_code, {
        partition.partition_index: (
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.metadata,
            partition.error_code,
        )
        for topic in group.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 11))
def test_fetch_in_every_version(version: Any) -> None:
    handlers = Handlers()
    request = commit_request({0: 5}, metadata="note")
    request.topics[0].partitions[0].committed_leader_epoch = 7
    handlers.ask(request, 9)
    epoch = 7 if version >= 5 else -1
    wanted = {0: (5, epoch, "note", 0), 1: (-1, -1, "", 0)}
    assert fetched(handlers.ask(fetch_request(version), version), version) == (0, wanted)
    if version >= 2:
        response = handlers.ask(fetch_request(version, all_topics=True), version)
        assert fetched(response, version) == (0, {0: wanted[0]})
        assert fetched(handlers.ask(fetch_request(version, "none", all_topics=True), version), version) == (0, {})


@pytest.mark.parametrize("version", [0, 1, 7, 8, 10])
def test_an_offset_is_fetched_once_however_often_a_request_names_it(version: Any) -> None:
    handlers = Handlers()
    request = fetch_request(version)
    topics = (request if version < 8 else request.groups[0]).topics
    topics[0].partition_indexes *= 3
    topics += copy.deepcopy(topics)
    response = handlers.ask(request, version)
    (topic,) = (response if version < 8 else response.groups[0]).topics
    assert [each.partition_index for each in topic.partitions] == [0, 1]


@pytest.mark.medium
@pytest.mark.parametrize("version", [1, 2, 7, 8])
def test_fetch_errors_of_the_group(version: Any) -> None:
    handlers = Handlers()
    handlers.bench.groups.runtime.on_leadership_change([], [(0, 0)])
    error, partitions = fetched(handlers.ask(fetch_request(version), version), version)
    if version < 2:
        assert (error, partitions) == (0, {0: (-1, -1, "", 16), 1: (-1, -1, "", 16)})
    else:
        assert (error, partitions) == (ErrorCode.NOT_COORDINATOR, {})


BY_ID = 10


def test_ids_that_are_unknown() -> None:
    handlers = Handlers()
    handlers.ask(commit_request({0: 5}), BY_ID)
    known, unknown = commit_request({0: 6, 9: 6}), commit_request({1: 7}, topic="gone")
    known.topics += unknown.topics
    response = handlers.ask(known, BY_ID)
    assert [(topic.name, topic.topic_id) for topic in response.topics] == [("", topic_id("orders")), ("", topic_id("gone"))]
    assert codes(response) == {0: 0, 9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 1: ErrorCode.UNKNOWN_TOPIC_ID}
    assert codes(handlers.ask(unknown, BY_ID)) == {1: ErrorCode.UNKNOWN_TOPIC_ID}
    unknown_group = commit_request({1: 7}, topic="gone", generation_id_or_member_epoch=3, member_id="m")
    assert codes(handlers.ask(unknown_group, BY_ID)) == {1: ErrorCode.UNKNOWN_TOPIC_ID}
    asked = fetch_request(BY_ID)
    asked.groups[0].topics += fetch_request(BY_ID, topic="gone", indexes=(3,)).groups[0].topics
    found = (6, -1, "", 0), (-1, -1, "", 0), (-1, -1, "", ErrorCode.UNKNOWN_TOPIC_ID)
    assert fetched(handlers.ask(asked, BY_ID), BY_ID) == (0, dict(zip((0, 1, 3), found, strict=True)))


def test_all_offsets_are_those_of_topics_that_exist() -> None:
    handlers = Handlers()
    handlers.metadata.topics["gone"] = 1
    for topic in ("orders", "gone"):
        handlers.ask(commit_request({0: 5}, topic=topic), BY_ID)
    (group,) = handlers.ask(fetch_request(BY_ID, all_topics=True), BY_ID).groups
    assert {(topic.name, topic.topic_id) for topic in group.topics} == {("", topic_id("orders")), ("", topic_id("gone"))}
    del handlers.metadata.topics["gone"]
    (group,) = handlers.ask(fetch_request(BY_ID, all_topics=True), BY_ID).groups
    assert [topic.topic_id for topic in group.topics] == [topic_id("orders")]


def test_fetch_several_groups() -> None:
    handlers = Handlers()
    for number in range(3):
        handlers.ask(commit_request({number: number}, group_id=f"g{number}"), 8)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=f"g{number}", topics=None) for number in (2, 0, 9, 2)])
    response = handlers.ask(request, 9)
    assert [group.group_id for group in response.groups] == ["g2", "g0", "g9"], "each once: a group may have many offsets"
    found = {
        group.group_id: [(one.partition_index, one.committed_offset) for topic in group.topics for one in topic.partitions]
        for group in response.groups
    }
    assert found == {"g2": [(2, 2)], "g0": [(0, 0)], "g9": []}


def test_delete() -> None:
    handlers = Handlers()
    handlers.ask(commit_request({0: 5, 1: 6}), 8)

    def delete(group_id: Any, *indexes: Any) -> Any:
        partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        request = OffsetDeleteRequest(group_id=group_id, topics=[OffsetDeleteRequestTopic(name="orders", partitions=partitions)])
        return handlers.ask(request, 0)

    assert delete("none", 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete("", 0).error_code == ErrorCode.INVALID_GROUP_ID
    response = delete("g", 0, 2, 9)
    assert (response.error_code, codes(response)) == (0, {0: 0, 2: 0, 9: 3})
    handlers.bench.log.holds = True
    answer = delete("g", 1)
    handlers.bench.log.release()
    assert codes(answer.result(0)) == {1: 0}
    assert handlers.bench.groups.list_groups((), ())[1] == []


def test_offsets_of_version_0_are_apart() -> None:
    handlers = Handlers(offset_metadata_max_bytes=10)
    assert codes(handlers.ask(commit_request({0: 5, 9: 5}, metadata="note"), 0)) == {0: 0, 9: 3}
    assert codes(handlers.ask(commit_request({1: 5}, metadata="x" * 11), 0)) == {1: 12}
    assert codes(handlers.ask(commit_request({0: 6}), 0)) == {0: 0}
    assert codes(handlers.ask(commit_request({0: 5}, group_id=""), 0)) == {0: -1}
    wanted = {0: (6, -1, "", 0), 1: (-1, -1, "", 3), 9: (-1, -1, "", 3)}
    assert fetched(handlers.ask(fetch_request(0, indexes=(0, 1, 9)), 0), 0) == (0, wanted)
    assert fetched(handlers.ask(fetch_request(0, group_id="", indexes=(0,)), 0), 0) == (0, {0: wanted[1]})
    assert not handlers.bench.written()
    assert fetched(handlers.ask(fetch_request(1), 1), 1)[1][0][0] == -1
    assert handlers.store.get("/consumers/g/offsets/orders/0")[0] == b"6"
