"""The settings of SASL listeners: which are refused, with the key's name, and what may change while the listener runs."""

import pytest

from tests.security.sasl.sasl_stage import ALICE, BOB, PLAIN_MODULE, SaslStage
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.protocol.errors import ErrorCode

KEY = "listener.name.sasl.plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({KEY: ""}, f"{KEY} must be set: sasl.enabled.mechanisms enables PLAIN for listener SASL"),
        ({KEY: f'{PLAIN_MODULE} required user_alice="s3cret"'}, f"Invalid value for {KEY}: the entry of a login module must end"),
        ({KEY: "x.ScramLoginModule required;"}, f"Invalid value for {KEY}: it must have an entry of PlainLoginModule"),
        (
            {"sasl.enabled.mechanisms": "PLAIN,CRAM-MD5"},
            "Invalid value 'CRAM-MD5' in sasl.enabled.mechanisms: must be one of PLAIN",
        ),
        ({"listener.name.sasl.sasl.enabled.mechanisms": "X"}, "'X' in listener.name.sasl.sasl.enabled.mechanisms: must be one of"),
        ({"sasl.enabled.mechanisms": ""}, "Invalid value '' for sasl.enabled.mechanisms: listener SASL must have a mechanism"),
        (
            {"listener.name.sasl.plain.sasl.server.callback.handler.class": "no.such.Handler"},
            "'no.such.Handler' for listener.name.sasl.plain.sasl.server.callback.handler.class: must be a class",
        ),
        ({"sasl.server.callback.handler.class": "builtins.object"}, "it has no method configure, handle, close"),
    ],
)
def test_bad_settings_are_refused_in_one_line_with_the_key(changed: dict[str, str | None], why: str) -> None:
    with pytest.raises(ConfigError) as raised:
        SaslStage(changed)
    text = str(raised.value)
    assert why in text
    assert "\n" not in text
    assert "s3cret" not in text


@pytest.mark.parametrize("key", [KEY, "plain.sasl.jaas.config", "listener.name.sasl.sasl.jaas.config", "sasl.jaas.config"])
def test_each_place_of_the_jaas_configuration_is_read(key: str) -> None:
    settings: dict[str, str | None] = {KEY: None, key: f'other.Module optional; {PLAIN_MODULE} required user_carol="c";'}
    client = SaslStage(settings).connect()
    client.log_in(b"\0carol\0c")
    assert client.principal == "User:carol"


def test_new_settings_are_for_exchanges_that_begin_later() -> None:
    stage = SaslStage({"connections.max.reauth.ms": "10000"})
    known, begun = stage.connect(), stage.connect()
    known.log_in(ALICE)
    begun.handshake()
    changed = KafkaConfig.embedded({**stage.config.originals, KEY: f'{PLAIN_MODULE} required user_bob="bob-secret";'})
    stage.listener.validate_reconfiguration(changed)
    stage.listener.reconfigure(changed)
    assert known.heartbeat().error_code == 0
    stage.connect().log_in(BOB)
    known.handshake()
    assert known.authenticate(ALICE) is None  # alice's password is gone: she cannot go on
    stranger = stage.connect()
    stranger.handshake()
    assert stranger.authenticate(ALICE) is None


def test_bad_new_settings_change_nothing() -> None:
    stage = SaslStage()
    bad = KafkaConfig.embedded({**stage.config.originals, KEY: "nonsense"})
    for change in (stage.listener.validate_reconfiguration, stage.listener.reconfigure):
        with pytest.raises(ConfigError):
            change(bad)
    assert stage.connect().log_in(ALICE).error_code == ErrorCode.NONE
