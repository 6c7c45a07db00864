"""An operator's class that makes principals."""

import socket
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.security.sasl.sasl_stage import PLAIN_SETTINGS
from tests.support.certificates import Authority
from tests.support.security.sasl_wire import Wire
from twisted_kafka.broker.broker import Broker, StartError
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from twisted_kafka.security.principal_builder import AuthenticationContext, built

SEEN: list[AuthenticationContext] = []
BUILDER = f"{__name__}.Builder"


class Builder:
    """Puts clients into groups by listener, and refuses mallory."""

    def configure(self, configs: Mapping[str, str]) -> None:
        assert configs["principal.builder.class"] == BUILDER

    def build(self, context: AuthenticationContext) -> KafkaPrincipal:
        SEEN.append(context)
        if context.authorization_id == "bob":
            raise PermissionError("bob is not welcome")
        return KafkaPrincipal("Group", context.listener_name)


def port_of(broker: Broker, listener: str) -> int:
    return next(each.port for each in broker.listeners if each.listener_name == listener)


@pytest.mark.medium
def test_it_is_asked_on_each_kind_of_listener(tmp_path: Path) -> None:
    authority = Authority()
    authority.write_trust(tmp_path / "ca.pem")
    authority.issue("CN=broker", ["localhost"]).write_pem(tmp_path / "broker.pem")
    mine = authority.issue("CN=alice").write_pem(tmp_path / "alice.pem")
    settings = {
        **PLAIN_SETTINGS,
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,SSL://localhost:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,SSL:SSL",
        "principal.builder.class": BUILDER,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": tmp_path / "broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": tmp_path / "ca.pem",
        "ssl.client.auth": "required",
        "access.log.dir": tmp_path / "access",
    }
    with Broker(settings) as broker:
        SEEN.clear()
        assert Wire(port_of(broker, "PLAINTEXT")).send(SaslHandshakeRequest(), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
        Wire(port_of(broker, "SASL")).log_in(b"\0alice\0alice-secret")
        refused = Wire(port_of(broker, "SASL"))
        refused.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        answer = refused.send(SaslAuthenticateRequest(auth_bytes=b"\0bob\0bob-secret"), 2)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "welcome" not in answer.error_message
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        context.load_cert_chain(mine)
        wire = Wire(port_of(broker, "SSL"))
        wire.socket = context.wrap_socket(wire.socket, server_hostname="localhost")
        assert wire.send(SaslHandshakeRequest(), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
        wire.socket.shutdown(socket.SHUT_RDWR)
    plain, alice, bob, anonymous, named = SEEN
    assert plain == AuthenticationContext("PLAINTEXT", "PLAINTEXT", "127.0.0.1")
    assert alice == AuthenticationContext("SASL_PLAINTEXT", "SASL", "127.0.0.1", None, "PLAIN", "alice", False, "alice")
    assert bob.authorization_id == "bob"
    assert (anonymous.distinguished_name, named.distinguished_name) == (None, "CN=alice")
    written = "".join(path.read_text() for path in (tmp_path / "access").rglob("*.jsonl"))
    assert all(f'"Group:{name}"' in written for name in ("PLAINTEXT", "SSL"))


@pytest.mark.parametrize("name", ["no.such.Builder", "builtins.object", f"{__name__}.port_of"])
def test_one_that_cannot_be_made_refuses_the_start(name: str, tmp_path: Path) -> None:
    with pytest.raises(StartError, match=f"Invalid value '{name}' for principal.builder.class: must be a class"):
        Broker({"principal.builder.class": name}, data_dir=tmp_path).start()


def test_only_principals_count() -> None:
    class Wrong:
        def build(self, context: AuthenticationContext) -> str:
            return "User:admin"

    with pytest.raises(ValueError, match="made no KafkaPrincipal"):
        built(Wrong(), AuthenticationContext("PLAINTEXT", "L", "-"))
