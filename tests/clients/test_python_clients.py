"""Each Python client writes, and each reads what every other wrote, alone and in a group."""

import pytest

from tests.support.budget import covering
from tests.support.clients.clients import READERS, SENDERS, new_group
from tests.support.clients.served import ServedBroker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
VALUES = [f"value {number} ".encode() * (number % 7 + 1) for number in range(500)]


def settings(sender: str, codec: str, acks: object = 1) -> dict[str, object]:
    if sender == "confluent-kafka":
        return {"compression.type": codec, "acks": acks}
    return {"compression_type": None if codec == "none" else codec, "acks": acks}


@pytest.mark.parametrize("sender", SENDERS)
def test_each_codec_of_each_client_is_read_by_all(served: ServedBroker, sender: str) -> None:
    topic = f"codecs.{sender}"
    for codec in CODECS:
        SENDERS[sender](served.bootstrap, topic, VALUES, **settings(sender, codec))
    for read in READERS.values():
        assert read(served.bootstrap, topic, len(VALUES) * len(CODECS)) == VALUES * len(CODECS)


@pytest.mark.parametrize("reader", READERS)
def test_group_reads_all_once_and_goes_on_after_a_break(served: ServedBroker, reader: str) -> None:
    topic, group = f"group.{reader}", new_group()
    SENDERS["confluent-kafka"](served.bootstrap, topic, VALUES)
    assert READERS[reader](served.bootstrap, topic, len(VALUES), group) == VALUES
    more = [b"more %d" % number for number in range(10)]
    SENDERS["confluent-kafka"](served.bootstrap, topic, more)
    assert READERS[reader](served.bootstrap, topic, len(more), group) == more


@pytest.mark.parametrize(("sender", "acks"), covering(SENDERS, [0, 1, "all"]))
def test_acks(served: ServedBroker, sender: str, acks: object) -> None:
    topic = f"acks.{sender}.{acks}"
    SENDERS["confluent-kafka"](served.bootstrap, topic, [b"first"])  # with acks=0 nobody would wait for the topic's creation
    extra = {} if acks == "all" else {"enable_idempotence": False}
    if sender == "confluent-kafka":
        extra = {}
    SENDERS[sender](served.bootstrap, topic, VALUES, **settings(sender, "none", acks), **extra)
    assert READERS["confluent-kafka"](served.bootstrap, topic, len(VALUES) + 1) == [b"first", *VALUES]


@pytest.mark.parametrize("sender", SENDERS)
def test_idempotent_producers(served: ServedBroker, sender: str) -> None:
    topic = f"idempotent.{sender}"
    idempotent = {"enable.idempotence": True} if sender == "confluent-kafka" else {"enable_idempotence": True, "acks": "all"}
    SENDERS[sender](served.bootstrap, topic, VALUES, **idempotent)
    assert READERS["kafka-python"](served.bootstrap, topic, len(VALUES)) == VALUES
