"""Messages and record batches as a recording has them: readable, without secrets, and the same bytes when read again."""

import json
import resource
from pathlib import Path
from typing import Any

import pytest

from tests.support.cases import case
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.messages.administration.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
)
from twisted_kafka.protocol.messages.administration.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from twisted_kafka.protocol.messages.administration.tokens import CreateDelegationTokenResponse
from twisted_kafka.protocol.messages.coordinators.groups import HeartbeatRequest
from twisted_kafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest
from twisted_kafka.protocol.records.batch import batches
from twisted_kafka.protocol.records.builder import build_batch
from twisted_kafka.protocol.records.compression import Compression
from twisted_kafka.protocol.records.record import SimpleRecord, TimestampType
from twisted_kafka.recording.batches_form import read_batches, read_value, write_batches, write_value
from twisted_kafka.recording.message_form import HiddenError, read_message, write_message
from twisted_kafka.recording.recording import Exchange, Recording, RecordingError, read_recording
from twisted_kafka.timing.clock import ManualClock

RECORDS = [SimpleRecord(1000, b"key", "größer".encode()), SimpleRecord(1001, None, b"\xff\0", [("h", b"v"), ("none", None)])]


def through_json(form: Any) -> Any:
    return json.loads(json.dumps(form))


def test_values_are_text_where_they_are_text() -> None:
    for value, form in ((None, None), (b"", ""), ("ä\n".encode(), "ä\n"), (b"\xff", {"base64": "/w=="})):
        with case(value=value):
            assert write_value(value) == form
            assert read_value(form) == value
    with pytest.raises(ValueError, match="12 is no value"):
        read_value(12)


def test_batches_are_the_same_bytes_again() -> None:
    plain = build_batch(RECORDS)
    samples = {str(codec): build_batch(RECORDS, compression=codec, producer_id=7, producer_epoch=1) for codec in Compression}
    samples |= {f"magic {magic}": build_batch(RECORDS, magic=magic) for magic in (0, 1)}
    samples["append time"] = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=5)
    samples["transaction"] = build_batch(RECORDS, is_transactional=True, producer_id=7, producer_epoch=0, base_sequence=3)
    samples["two and a part"] = plain + samples["transaction"] + plain[:40]
    samples["a damaged one"] = plain[:-1] + b"?"
    samples["unknown compression"] = plain[:22] + b"\x07" + plain[23:]
    samples["none"] = b""
    for name, data in samples.items():
        with case(name):
            assert read_batches(through_json(write_batches(data))) == data


def test_a_plain_batch_is_read_by_people() -> None:
    (form,) = write_batches(build_batch(RECORDS))
    assert "bytes" not in form
    other = {"key": None, "value": {"base64": "/wA="}, "headers": [["h", "v"], ["none", None]]}
    assert form["records"] == [
        {"offsetDelta": 0, "timestamp": 1000, "key": "key", "value": "größer"},
        {"offsetDelta": 1, "timestamp": 1001, **other},
    ]


def test_a_compressed_batch_is_read_by_people_too() -> None:
    (form,) = write_batches(build_batch(RECORDS, compression=Compression.GZIP))
    assert form["compression"] == "gzip"
    assert form["records"][0]["value"] == "größer"


def test_a_producer_id_is_replaced() -> None:
    data = build_batch(RECORDS, compression=Compression.GZIP, producer_id=7, producer_epoch=0, base_sequence=0)
    (batch,) = batches(read_batches(write_batches(data), {7: 4_000}))
    assert (batch.producer_id, batch.is_valid()) == (4_000, True)


def test_secrets_are_not_written() -> None:
    config = AlterConfigsRequestAlterableConfig
    secrets: list[tuple[Message, int]] = [
        (SaslAuthenticateRequest(auth_bytes=b"\0me\0open sesame"), 2),
        (CreateDelegationTokenResponse(token_id="t", hmac=b"open sesame"), 3),
        (AlterUserScramCredentialsRequest(upsertions=[ScramCredentialUpsertion(name="me", salted_password=b"open sesame")]), 0),
    ]
    for name in ("listener.name.a.scram-sha-256.sasl.jaas.config", "ssl.keystore.password", "of.a.plugin"):
        resource = AlterConfigsRequestAlterConfigsResource(resource_type=4, configs=[config(name=name, value="open sesame")])
        secrets.append((AlterConfigsRequest(resources=[resource]), 1))
    for message, version in secrets:
        with case(message=message):
            form = through_json(write_message(message, version))
            assert "sesame" not in json.dumps(form)
            assert "hidden" in json.dumps(form)
            with pytest.raises(HiddenError, match="not in the recording"):
                read_message(type(message), form, version)


def test_settings_that_are_no_passwords_are_written() -> None:
    config = AlterConfigsRequestAlterableConfig(name="retention.ms", value="1000")
    request = AlterConfigsRequest(resources=[AlterConfigsRequestAlterConfigsResource(resource_type=2, configs=[config])])
    assert read_message(AlterConfigsRequest, through_json(write_message(request, 1)), 1) == request


def exchange(request: Message, version: int) -> Exchange:
    return Exchange(1, "me", ApiKey(request.KEY), version, request, None, 1.0, 0.5)


def test_a_request_is_read_as_it_was(tmp_path: Path) -> None:
    data = PartitionProduceData(index=0, records=build_batch(RECORDS))
    produce = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="orders", partition_data=[data])])
    with_tag = HeartbeatRequest(group_id="g", unknown_tagged_fields={9: b"new"})
    path = tmp_path / "shop.jsonl"
    with Recording(path, ManualClock(), broker="b:1") as recording:
        recording.add(exchange(produce, 9))
        recording.add(exchange(with_tag, 4))
    recording.add(exchange(produce, 9))  # after its end
    one, other = read_recording(path)
    assert one.request_message({}).encode(9) == produce.encode(9)
    assert (one.request_bytes, other.request_bytes) == (None, with_tag.encode(4))
    assert (one.number, one.title, one.client_id, one.answered_ms) == (2, "Produce v9", "me", 1.5)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_recording_has_a_largest_size(tmp_path: Path) -> None:
    with Recording(tmp_path / "a", ManualClock(), broker="b:1", max_bytes=600) as recording:
        for _ in range(10):
            recording.add(exchange(HeartbeatRequest(group_id="g"), 4))
    assert recording.written + recording.dropped == 10
    assert recording.dropped > 0
    assert len(list(read_recording(tmp_path / "a"))) == recording.written
    assert (tmp_path / "a").stat().st_size <= 600
    with pytest.raises(FileExistsError):
        Recording(tmp_path / "a", ManualClock(), broker="b:1", is_new=True)


def test_what_is_no_recording_is_told_by_line(tmp_path: Path) -> None:
    head = '{"twisted_kafka_recording": 1}\n'
    for text, why in (
        ("", "it is empty"),
        ("{}\n", "line 1: expected"),
        ("GET / HTTP/1.1\n", "line 1: Expecting value"),
        (head + "[]\n", "line 2: expected an object"),
        (head + '{"api": "Produce"}\n', "line 2 has no 'at_ms'"),
        (head + '{"api": "Brew", "request": {}}\n', "line 2: there is no API 'Brew'"),
    ):
        with case(text=text):
            (tmp_path / "x").write_text(text)
            with pytest.raises(RecordingError, match=f"x is no recording: {why}"):
                list(read_recording(tmp_path / "x"))


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "x"
    exchange = Exchange(1, "c" * 200, ApiKey.HEARTBEAT, 0, HeartbeatRequest(group_id="g"), None, 1.0, 1.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Recording(path, ManualClock(), broker="b") as recording:
        recording.add(exchange)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, hard))  # the kernel writes so much of a line
        try:
            for _ in range(2):
                with pytest.raises(OSError, match="File too large"):
                    recording.add(exchange)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert len(list(read_recording(path))) == 1
        recording.add(exchange)
    assert [line.number for line in read_recording(path)] == [2, 3]


@pytest.mark.parametrize("value", ["1e999", "[" * 100_000])
def test_a_line_with_an_unusual_value_is_told(tmp_path: Path, value: str) -> None:
    path = tmp_path / "x"
    Recording(path, ManualClock(), broker="b").close()
    with path.open("a") as file:
        file.write('{"at_ms":1,"took_ms":1,"connection":' + value + ',"client":"","api":"Heartbeat","version":0}\n')
    with pytest.raises(RecordingError, match="line 2"):
        list(read_recording(path))
