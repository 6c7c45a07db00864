"""Properties of the codec beyond the golden vectors."""

import io
import random
import tempfile
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.protocol import samples
from tests.support.budget import share_of
from twisted_kafka.protocol.compiler.codec import EncodeError, MalformedMessageError, Message, decoder_of, source_of
from twisted_kafka.protocol.compiler.schema import ListOf, StructType
from twisted_kafka.protocol.errors import UnsupportedVersionError
from twisted_kafka.protocol.messages.administration.configs import DescribeConfigsSynonym
from twisted_kafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest
from twisted_kafka.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.regions import FileRegion

VERSIONS = list(samples.every_version())


@pytest.mark.medium
def test_random_messages_of_every_version_round_trip() -> None:
    rng = random.Random(1)
    for cls, version in VERSIONS:
        for _ in range(share_of(20)):
            message = samples.make(cls, version, rng)
            data = message.encode(version)
            assert cls.decode(data, version) == message
            assert cls.decode(memoryview(data), version).encode(version) == data


@settings(max_examples=share_of(150), suppress_health_check=list(HealthCheck))
@given(st.sampled_from(VERSIONS), st.randoms(use_true_random=False))
def test_any_message_round_trips(which: tuple[type[Message], int], rng: random.Random) -> None:
    cls, version = which
    message = samples.make(cls, version, rng)
    data = message.encode(version)
    decoded, end = cls.decode_prefix(data + b"more", version)
    assert decoded == message
    assert end == len(data)


@pytest.mark.medium
def test_every_field_has_the_default_of_its_type() -> None:
    for cls, version in VERSIONS:
        empty: Any = cls()
        data = empty.encode(version)
        assert cls.decode(data, version) == empty, (cls, version)


def test_decoding_begins_at_an_offset_and_ignores_what_follows() -> None:
    data = HeartbeatRequest(group_id="g", generation_id=7, member_id="m").encode(4)
    message, end = HeartbeatRequest.decode_prefix(b"12345" + data + b"rest", 4, 5)
    assert (message.group_id, message.generation_id, message.member_id) == ("g", 7, "m")
    assert end == 5 + len(data)


def test_absent_fields_have_their_defaults() -> None:
    message = FetchRequest.decode(FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition()])]).encode(0), 0)
    assert message.session_epoch == -1
    assert message.max_bytes == 0x7FFFFFFF
    assert message.forgotten_topics_data == []
    assert message.replica_state is None
    assert message.topics[0].partitions[0].current_leader_epoch == -1


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_records_are_slices_of_the_frame(wrap: Any) -> None:
    request = ProduceRequest(
        acks=1, topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=1, records=b"batch")])]
    )
    frame = wrap(request.encode(8))
    records = ProduceRequest.decode(frame, 8).topic_data[0].partition_data[0].records
    assert type(records) is memoryview
    assert bytes(records) == b"batch"
    assert records.obj is (frame.obj if wrap is memoryview else frame)


def test_an_unknown_version_is_refused() -> None:
    for version in (-1, 5):
        with pytest.raises(UnsupportedVersionError, match="HeartbeatRequest supports versions 0 to 4"):
            HeartbeatRequest.decode(b"", version)
        with pytest.raises(UnsupportedVersionError):
            HeartbeatRequest().encode(version)


def test_a_non_default_value_of_a_field_that_the_version_lacks_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="HeartbeatRequest v2 does not support a non-default group_instance_id"):
        HeartbeatRequest(group_instance_id="i").encode(2)
    with pytest.raises(UnsupportedVersionError, match=r"topics\.partitions\.last_fetched_epoch"):
        FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(last_fetched_epoch=3)])]).encode(4)
    # rack_id is ignorable
    FetchRequest(rack_id="r").encode(4)


def test_tagged_fields_need_a_flexible_version() -> None:
    with pytest.raises(UnsupportedVersionError, match="no tagged fields"):
        HeartbeatRequest(unknown_tagged_fields={7: b"x"}).encode(3)


def test_null_in_a_non_nullable_field_is_refused() -> None:
    with pytest.raises(EncodeError, match="topics is null"):
        MetadataRequest(topics=None).encode(0)
    assert MetadataRequest.decode(MetadataRequest(topics=None).encode(1), 1).topics is None
    with pytest.raises(EncodeError, match=r"topics\.name is null"):
        MetadataRequest(topics=[MetadataRequestTopic(name=None)]).encode(9)


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(EncodeError):
        HeartbeatRequest(generation_id=2**31).encode(0)
    for version in (0, 4):
        with pytest.raises(EncodeError):
            HeartbeatRequest(group_id="x" * 40000).encode(version)


def test_a_tagged_struct_that_equals_its_default_is_not_written() -> None:
    def response(partition: PartitionData) -> bytes:
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])]).encode(12)

    assert response(PartitionData(diverging_epoch=EpochEndOffset())) == response(PartitionData())
    diverged = FetchResponse.decode(response(PartitionData(diverging_epoch=EpochEndOffset(epoch=3, end_offset=9))), 12)
    assert diverged.responses[0].partitions[0].diverging_epoch == EpochEndOffset(epoch=3, end_offset=9)


def test_file_regions_stay_regions() -> None:
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(b"0123456789")
        region = FileRegion(io.FileIO(file.fileno(), closefd=False), 2, 5)

        def response(records: Any) -> FetchResponse:
            partition = PartitionData(partition_index=1, records=records)
            return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])

        for version in (4, 12):
            expected = response(b"23456").encode(version)
            assert response(region).encode(version) == expected
            parts = response(region).encode_parts(version, b"head")
            assert [part for part in parts if isinstance(part, FileRegion)] == [region]
            assert b"".join(part.read() if isinstance(part, FileRegion) else part for part in parts) == b"head" + expected
            pieces = response([region.slice(0, 2), b"4", region.slice(3, 2)])
            assert pieces.encode(version) == expected
            assert sum(len(part) for part in pieces.encode_parts(version)) == len(expected)


def test_large_buffers_are_separate_parts() -> None:
    big = memoryview(bytes(100_000))
    partitions = [PartitionData(partition_index=n, records=big) for n in range(2)]
    parts = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)]).encode_parts(11)
    assert sum(part is big for part in parts) == 2
    assert len(parts) == 4


def test_generated_source_is_readable_and_appears_in_tracebacks() -> None:
    source = source_of(ApiVersionsRequest, 3)
    assert "def decode(data, pos, left):" in source
    assert "def encode(o0, out):" in source
    decoder_of(ApiVersionsRequest, 3)
    with pytest.raises(AttributeError) as caught:
        ApiVersionsRequest(client_software_name=5).encode(3)  # type: ignore[arg-type]
    assert ".encode()" in "".join(traceback.format_exception(caught.value))


def test_messages_compare_by_value_and_have_a_repr() -> None:
    first, second = HeartbeatRequest(group_id="g"), HeartbeatRequest(group_id="g")
    assert first == second
    assert first != HeartbeatRequest(group_id="h")
    assert first != HeartbeatRequest(group_id="g", unknown_tagged_fields={1: b""})
    assert "group_id='g'" in repr(first)
    with pytest.raises(TypeError):
        hash(first)
    with pytest.raises(TypeError):
        HeartbeatRequest(nothing=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        first.nothing = 1  # type: ignore[attr-defined]


SECRET_NAMES = ("auth_bytes", "hmac", "salt", "salted_password", "stored_key", "server_key", "request_data")
"""Fields whose name says that they are secrets, in whatever message."""


def test_the_repr_of_a_message_hides_its_secrets() -> None:
    hidden = []
    for struct in every_struct():
        for each in struct.FIELDS:
            assert each.secret or each.name not in SECRET_NAMES, f"{struct.__name__}.{each.name}"
            if each.secret:
                assert "s3cret" not in repr(struct(**{each.name: "s3cret"}))
                assert "hidden" not in repr(struct())
                hidden.append(f"{struct.__name__}.{each.name}")
    assert "AlterConfigsRequestAlterableConfig.value" in hidden
    assert "IncrementalAlterConfigsRequestAlterableConfig.value" in hidden
    assert "hidden" not in repr(DescribeConfigsSynonym(value="1000"))  # what the broker tells has no secrets


def every_struct() -> Iterator[StructType]:
    """All requests and responses, and the structs in them."""
    found: list[StructType] = sorted({cls for cls, _ in VERSIONS}, key=lambda cls: cls.__name__)
    while found:
        struct = found.pop()
        yield struct
        kinds = [each.type.element if isinstance(each.type, ListOf) else each.type for each in struct.FIELDS]
        found += [kind for kind in kinds if isinstance(kind, StructType)]


def test_lists_are_not_shared_between_messages() -> None:
    first = ApiVersionsResponse()
    first.api_keys.append(None)
    assert ApiVersionsResponse().api_keys == []


def test_the_error_names_message_version_and_position() -> None:
    with pytest.raises(MalformedMessageError, match=r"HeartbeatRequest v0.*group_id near byte 2"):
        HeartbeatRequest.decode(b"\x00\x50abc", 0)
    with pytest.raises(MalformedMessageError, match="HeartbeatRequest v0 is truncated"):
        HeartbeatRequest.decode(b"\x00\x01a\x00", 0)
