import pytest

from twisted_kafka.network.requests.kafka_principal import ANONYMOUS, KafkaPrincipal


@pytest.mark.parametrize(
    ("text", "principal"),
    [
        ("User:alice", KafkaPrincipal("User", "alice")),
        ("User:CN=a:b,O=c", KafkaPrincipal("User", "CN=a:b,O=c")),
        ("Group:", KafkaPrincipal("Group", "")),
        ("User:ANONYMOUS", ANONYMOUS),
    ],
)
def test_a_principal_is_a_type_and_a_name(text: str, principal: KafkaPrincipal) -> None:
    assert KafkaPrincipal.parse(text) == principal
    assert str(principal) == text


@pytest.mark.parametrize("text", ["", "alice"])
def test_a_principal_without_a_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="type:name"):
        KafkaPrincipal.parse(text)
