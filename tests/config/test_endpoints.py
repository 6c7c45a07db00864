import pytest

from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.endpoints import EndPoint
from twisted_kafka.config.errors import ConfigError

TWO = {"listeners": "PLAINTEXT://a:1,SSL://a:2"}
MECHANISM = "sasl.mechanism.inter.broker.protocol"


def _listeners(text: str, **settings: str) -> tuple[EndPoint, ...]:
    return KafkaConfig.from_properties({"listeners": text, "advertised.listeners": "PLAINTEXT://localhost:1", **settings}).listeners


def test_listeners_have_names_hosts_and_ports() -> None:
    assert _listeners("PLAINTEXT://:9092") == (EndPoint("", 9092, "PLAINTEXT", "PLAINTEXT"),)
    assert _listeners(" plaintext://0.0.0.0:0 , SSL://[::1]:9093") == (
        EndPoint("0.0.0.0", 0, "PLAINTEXT", "PLAINTEXT"),
        EndPoint("::1", 9093, "SSL", "SSL"),
    )


def test_the_metrics_listener_has_its_own_address() -> None:
    def listener(text: str) -> object:
        return KafkaConfig.from_properties({"metrics.listener": text}).metrics_listener

    assert listener("127.0.0.1:9404") == ("127.0.0.1", 9404)
    assert listener(":0") == ("", 0)
    assert listener("[::1]:9404") == ("::1", 9404)
    assert KafkaConfig.from_properties({}).metrics_listener is None
    for text in ("9404", "localhost", "localhost:65536", "http://localhost:1", "::1:9404"):
        with pytest.raises(ConfigError, match=r"metrics\.listener: must be host:port"):
            listener(text)


def test_names_map_to_protocols() -> None:
    config = KafkaConfig.from_properties(
        {
            "listeners": "INSIDE://localhost:1,OUTSIDE://localhost:2",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT, outside:SASL_SSL",
            "inter.broker.listener.name": "INSIDE",
        }
    )
    assert [end_point.security_protocol for end_point in config.listeners] == ["PLAINTEXT", "SASL_SSL"]
    assert config.inter_broker_listener_name == "INSIDE"
    assert [end_point.text for end_point in config.advertised_listeners] == ["INSIDE://localhost:1", "OUTSIDE://localhost:2"]


def test_an_empty_host_is_advertised_as_this_machine() -> None:
    (end_point,) = KafkaConfig.from_properties({}).advertised_listeners
    assert end_point.host not in ("", "0.0.0.0")


@pytest.mark.parametrize(
    ("listeners", "says"),
    [
        ("localhost:9092", "must be NAME://host:port"),
        ("PLAINTEXT://localhost", "must be NAME://host:port"),
        ("PLAINTEXT://localhost:70000", "must be NAME://host:port"),
        ("OTHER://localhost:1", "the name must be one of listener.security.protocol.map"),
        ("PLAINTEXT://a:1,PLAINTEXT://a:2", "a different name"),
        ("PLAINTEXT://a:1,SSL://a:1", "a different port"),
        ("", "at least one listener"),
        ("PLAINTEXT://0.0.0.0:9092", "a routable address, not 0.0.0.0: set advertised.listeners"),
    ],
)
def test_bad_listeners_are_refused(listeners: str, says: str) -> None:
    with pytest.raises(ConfigError, match="for listeners: ") as caught:
        KafkaConfig.from_properties({"listeners": listeners})
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"advertised.listeners": "SSL://a:1"}, "advertised.listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "advertised.listeners"),
        ({"inter.broker.listener.name": "SSL"}, "inter.broker.listener.name"),
        ({"control.plane.listener.name": "PLAINTEXT"}, "control.plane.listener.name"),
        ({"listener.security.protocol.map": "PLAINTEXT:NONE"}, "listener.security.protocol.map"),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "security.inter.broker.protocol",
        ),
        ({"security.inter.broker.protocol": "SASL_SSL"}, "security.inter.broker.protocol"),
        ({"listeners": "SSL://localhost:1", "zookeeper.connect": "a:1"}, "inter.broker.listener.name"),
        (TWO | {"advertised.listeners": "PLAINTEXT://a:1", "inter.broker.listener.name": "SSL"}, "inter.broker.listener.name"),
        (TWO | {"advertised.listeners": "PLAINTEXT://a:1", "control.plane.listener.name": "SSL"}, "control.plane.listener.name"),
    ],
)
def test_settings_that_name_listeners_must_match_them(settings: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError, match=f"for {key}: "):
        KafkaConfig.from_properties(settings)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize(
    ("mechanism", "key", "enabled", "says"),
    [
        ({}, "sasl.enabled.mechanisms", "PLAIN", "Invalid value 'GSSAPI' for"),
        ({MECHANISM: "PLAIN"}, "sasl.enabled.mechanisms", "SCRAM-SHA-256,SCRAM-SHA-512", ": SCRAM-SHA-256, SCRAM-SHA-512"),
        ({MECHANISM: "PLAIN"}, "listener.name.{}.sasl.enabled.mechanisms", "SCRAM-SHA-256", ": SCRAM-SHA-256"),
        ({MECHANISM: "PLAIN"}, "sasl.enabled.mechanisms", "", "it is empty"),
    ],
)
def test_brokers_log_in_at_each_other_with_a_mechanism_that_their_listener_has(
    protocol: str, mechanism: dict[str, str], key: str, enabled: str, says: str
) -> None:
    settings = {"listeners": f"{protocol}://a:1,PLAINTEXT://a:2", **mechanism, key.format(protocol.lower()): enabled}
    KafkaConfig.from_properties(settings)  # it is not the inter-broker listener
    settings["inter.broker.listener.name"] = protocol
    allowed = "must be one of sasl.enabled.mechanisms of the inter-broker listener"
    with pytest.raises(ConfigError, match=f"for {MECHANISM}: {allowed} {protocol}: ") as refused:
        KafkaConfig.from_properties(settings)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    KafkaConfig.from_properties(settings | {f"listener.name.{protocol.lower()}.sasl.enabled.mechanisms": "PLAIN,GSSAPI"})
