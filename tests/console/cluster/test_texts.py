import pytest

from twisted_kafka.console.cluster.texts import finds_api


@pytest.mark.parametrize(
    ("searched", "api", "is_found"),
    [
        ("", "Fetch", True),
        ("Produce", "Produce", True),
        ("produce", "Produce", True),
        ("Produce", "InitProducerId", False),
        ("Fetch", "OffsetFetch", False),
        ("produc", "InitProducerId", True),
        ("sasl", "SaslHandshake", True),
        ("topics", "Fetch", False),
    ],
)
def test_the_whole_name_of_an_api_finds_it_alone(searched: str, api: str, is_found: bool) -> None:
    assert finds_api(searched, api) is is_found
