"""Addresses that users write."""

import pytest

from twisted_kafka.client.connections.addresses import is_address, parse_address


def test_host_and_port_are_found() -> None:
    assert parse_address("kafka-1:9092") == ("kafka-1", 9092)
    assert parse_address("[::1]:9092") == ("::1", 9092)
    assert parse_address("kafka-1:0", 0) == ("kafka-1", 0)


@pytest.mark.parametrize("text", ["", "kafka-1", ":9092", "kafka-1:", "kafka-1:x", "kafka-1:0", "kafka-1:65536", "kafka-1:-1"])
def test_other_texts_are_no_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address: expected HOST:PORT"):
        parse_address(text)


def test_names_are_no_ip_addresses() -> None:
    assert [is_address(each) for each in ("127.0.0.1", "::1", "localhost", "")] == [True, True, False, False]
