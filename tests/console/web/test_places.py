import pytest

from twisted_kafka.console.queries.records.messages import cursor_of
from twisted_kafka.console.web import places
from twisted_kafka.console.web.guard import MOST_URI_BYTES
from twisted_kafka.console.web.places import Places
from twisted_kafka.protocol.topic_partition import TopicPartition

MANY = cursor_of({TopicPartition("t", index): 10**9 + index for index in range(10_000)})


def test_a_short_place_is_in_the_address_itself() -> None:
    assert Places().named("0:5,1:7") == "0:5,1:7"
    assert Places().cursor("0:5,1:7") == "0:5,1:7"


def test_a_long_place_has_a_name_that_fits() -> None:
    kept = Places()
    name = kept.named(MANY)
    assert len(name) < MOST_URI_BYTES / 100
    assert kept.named(MANY) == name != kept.named(MANY + ",10000:1")
    assert kept.cursor(name) == MANY


@pytest.mark.medium
def test_places_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "MOST_BYTES", 1_000_000)
    kept = Places()
    first = kept.named(MANY)
    for number in range(100):
        kept.named(f"{MANY},10000:{number}")
    with pytest.raises(ValueError, match="begin again"):
        kept.cursor(first)
    with pytest.raises(ValueError, match="begin again"):
        kept.cursor("~0123")
