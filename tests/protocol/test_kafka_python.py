"""kafka-python as an oracle: it decodes what the codec encodes, and encodes it to the same bytes."""

import importlib
import random
from typing import Any

import pytest

from tests.protocol import samples
from twisted_kafka.protocol.api import find_message
from twisted_kafka.protocol.compiler.layout import untagged

pytestmark = pytest.mark.medium

MESSAGES = [
    ("producer", "ProduceRequest"),
    ("producer", "ProduceResponse"),
    ("producer", "InitProducerIdRequest"),
    ("producer", "EndTxnResponse"),
    ("consumer", "FetchRequest"),
    ("consumer", "JoinGroupResponse"),
    ("consumer", "SyncGroupRequest"),
    ("consumer", "OffsetCommitRequest"),
    ("consumer", "OffsetFetchResponse"),
    ("metadata", "MetadataRequest"),
    ("metadata", "FindCoordinatorResponse"),
    ("metadata", "ApiVersionsRequest"),
    ("admin", "CreateTopicsRequest"),
    ("admin", "DescribeConfigsResponse"),
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("module", "name"), MESSAGES)
def test_kafka_python_agrees(module: str, name: str) -> None:
    theirs: Any = getattr(importlib.import_module(f"kafka.protocol.{module}"), name)
    ours = find_message(name)
    rng = random.Random(name)
    compared = 0
    for version in range(max(ours.VERSIONS[0], theirs.min_version), min(ours.VERSIONS[1], theirs.max_version) + 1):
        for _ in range(5):
            message = samples.make(ours, version, rng, unknown_tags=0)
            data = message.encode(version)
            decoded = theirs.decode(data, version=version)
            for each in untagged(ours, version):
                value = getattr(message, each.name)
                if isinstance(value, (int, str)):
                    assert getattr(decoded, each.name) == value
            decoded._header = None  # its decode() leaves out what its encode() reads
            assert bytes(decoded.encode(version=version)) == data
            compared += 1
    assert compared
