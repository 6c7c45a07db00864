"""The consumer embedded protocol: what members of classic groups subscribe with, and what they are assigned."""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twisted_kafka.group_coordinator.subscription import (
    LAST_VERSION,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    subscribed_topics,
    version_of,
)
from twisted_kafka.protocol.messages.coordinators.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)

names = st.text("abc\u00e9", max_size=4)


def encoded(topics: list[str], version: int) -> bytes:
    owned = [ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=[0, 2]) for topic in topics]
    message = ConsumerProtocolSubscription(topics=topics, owned_partitions=owned if version >= 1 else [])
    return struct.pack(">h", version) + message.encode(version)


@pytest.mark.medium
@given(st.lists(names, max_size=5), st.integers(0, LAST_VERSION))
def test_the_topics_of_a_subscription_of_any_version(topics: list[str], version: int) -> None:
    metadata = encoded(topics, version)
    assert subscribed_topics(metadata) == frozenset(topics)
    assert decode_subscription(metadata).topics == topics
    assert version_of(metadata) == version
    newer = struct.pack(">h", 0x00FF) + encoded(topics, LAST_VERSION)[2:] + b"and more"
    assert subscribed_topics(newer) == frozenset(topics)
    assert version_of(newer) == LAST_VERSION


@given(st.lists(names.filter(bool), min_size=1, max_size=4), st.data())
def test_a_subscription_that_is_cut_is_none(topics: list[str], data: st.DataObject) -> None:
    whole = encoded(topics, 0)
    end_of_topics = 6 + sum(2 + len(topic.encode()) for topic in topics)
    cut = data.draw(st.integers(0, end_of_topics - 1))
    with pytest.raises(ValueError, match="subscription"):
        subscribed_topics(whole[:cut])
    assert subscribed_topics(whole[:end_of_topics]) == frozenset(topics)


@pytest.mark.parametrize(
    "metadata",
    [
        struct.pack(">hi", -1, 0),
        struct.pack(">hi", 0, -1),
        struct.pack(">hi", 0, 2**31 - 1),
        struct.pack(">hih", 0, 1, -1),
        struct.pack(">hih", 0, 1, 1),
        struct.pack(">hih", 0, 1, 1) + b"\xff",
    ],
)
def test_what_is_no_subscription(metadata: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        subscribed_topics(metadata)


@pytest.mark.parametrize("data", [b"", b"\0", b"\x80\0", b"\xff\xff\0\0"])
def test_what_has_no_version(data: bytes) -> None:
    assert version_of(b"\0\1") == 1
    with pytest.raises(ValueError, match="version"):
        version_of(data)
    with pytest.raises(ValueError, match="version"):
        decode_subscription(data)


@given(st.dictionaries(names, st.frozensets(st.integers(0, 99)), max_size=4), st.integers(0, LAST_VERSION))
def test_an_assignment_is_read_as_it_was_written(partitions: dict[str, frozenset[int]], version: int) -> None:
    data = encode_assignment(partitions, version)
    assert version_of(data) == version
    assigned = decode_assignment(data).assigned_partitions
    assert [(each.topic, each.partitions) for each in assigned] == [(key, sorted(each)) for key, each in sorted(partitions.items())]
    assert decode_assignment(b"").assigned_partitions == []


@pytest.mark.parametrize("read", [subscribed_topics, decode_subscription])
def test_a_subscription_may_have_a_limited_number_of_topics(read: Callable[[bytes], object]) -> None:
    def metadata(count: int) -> bytes:
        topics = b"".join(b"\0\4%04x" % number for number in range(count))
        return b"\0\0" + count.to_bytes(4, "big") + topics + b"\xff\xff\xff\xff"

    read(metadata(10_000))
    with pytest.raises(ValueError, match=r"100000|elements"):
        read(metadata(100_001))
