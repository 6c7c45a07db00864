"""Requests that stop short, go on too long, or are of a version or API that is not there: answered, or the connection closed."""

import struct

import pytest

from tests.oracle.error_cases import cases
from tests.oracle.expected_differences import NEWER
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from twisted_kafka.protocol.api import ApiKey
from twisted_kafka.protocol.headers import request_header_version
from twisted_kafka.tools.compare.talk import Talk

pytestmark = [pytest.mark.oracle, pytest.mark.slow]


def header(key: int, version: int, flexible: bool) -> bytes:
    return struct.pack(">hhih", key, version, 7, 1) + b"c" + b"\0" * flexible


def outcome(talk: Talk, frame: bytes) -> str:
    return "closed" if talk.exchange(frame) is None else "answered"


def differing(kafka: ApacheKafka, ours: ServedBroker, frames: dict[str, bytes]) -> list[str]:
    found = []
    talks = Talk(kafka.port, "frames"), Talk(ours.port, "frames")
    for name, frame in frames.items():
        theirs, own = (outcome(talk, frame) for talk in talks)
        if theirs != own:
            found.append(f"{name}: Kafka {theirs}, here {own}")
    for talk in talks:
        talk.close()
    return found


def test_bodies_that_end_too_early_or_too_late(kafka: ApacheKafka, ours: ServedBroker) -> None:
    frames = {}
    for key, version, body in cases():
        if key in NEWER or key > ApiKey.DESCRIBE_CLUSTER:
            continue
        if key == ApiKey.PRODUCE and body == cases_without_answer(version):
            continue
        head = header(key, version, request_header_version(key, version) == 2)
        frames[f"{key.title} v{version} cut"] = head + body[:-1]
        frames[f"{key.title} v{version} empty"] = head
        frames[f"{key.title} v{version} longer"] = head + body + b"\0\0\0"
        frames[f"{key.title} v{version} half a header"] = head[:9]
    assert differing(kafka, ours, frames) == []


def cases_without_answer(version: int) -> bytes:
    return next(body for key, at, body in cases() if key == ApiKey.PRODUCE and at == version)


def test_apis_and_versions_that_are_not_there(kafka: ApacheKafka, ours: ServedBroker) -> None:
    frames = {f"key {key} v0": header(key, 0, False) for key in (-1, 52, 55, 59, 62, 64, 70, 76, 93, 1000)}
    last = {key: version for key, version, _ in cases()}
    for key in last.keys() - NEWER.keys() - {ApiKey.API_VERSIONS}:
        for version in (-1, 50, 32767):
            frames[f"{ApiKey(key).title} v{version}"] = header(key, version, True) + b"\0" * 50
    frames["nothing"] = b""
    frames["one byte"] = b"\0"
    assert differing(kafka, ours, frames) == []
