"""Every byte that a broker writes or tells in a busy life, searched for the secrets that it was given.

It is started with wrong passwords, is used in every way that brings a secret, right and wrong, has parts that fail on secrets, is
sent broken requests, crashes, and comes back. The one place that may have something is the metadata store: SCRAM's keys, encrypted
settings, and what it cannot know to be a secret.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.clients.counting import metrics_page
from tests.support.budget import patient
from tests.support.certificates import Authority
from tests.support.clients.served import ServedBroker
from tests.support.ports import free_port
from tests.support.security.sasl_wire import Wire
from tests.support.security.scram_client import SALT, ScramClient
from tests.support.security.tokens import Issuer
from tests.support.security.tokens import message as bearer
from twisted_kafka.protocol.compiler.codec import Message
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.protocol.headers import encode_request_header
from twisted_kafka.protocol.messages.administration.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from twisted_kafka.protocol.messages.administration.scram import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from twisted_kafka.protocol.messages.administration.tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from twisted_kafka.protocol.messages.metadata import MetadataRequest
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from twisted_kafka.security.scram.formulas import SCRAM_SHA_256, SCRAM_SHA_512, salted_password

pytestmark = [pytest.mark.clients, pytest.mark.slow]

MODULES = "org.apache.kafka.common.security"
BROKER, BROKER_LOGGER = 4, 8
WAIT_S = patient(60)
UNKNOWN = "unknown setting later"
"""A setting of a plugin's: nobody but the plugin knows that it is a password. (Kafka stores it as it is, too.)"""


class Vault:
    """Makes secrets, and knows all that were made, by what they are for."""

    def __init__(self) -> None:
        self.secrets: dict[str, bytes] = {}

    def new(self, purpose: str) -> str:
        return self.keep(purpose, f"{secrets.token_hex(9)}-pw")

    def keep(self, purpose: str, secret: Any) -> Any:
        self.secrets[purpose] = secret if isinstance(secret, bytes) else str(secret).encode()
        return secret

    def found_in(self, content: bytes) -> list[str]:
        return sorted(purpose for purpose, secret in self.secrets.items() if any(form in content for form in forms(secret)))


def forms(secret: bytes) -> set[bytes]:
    """A secret as it is, as text of bytes, in hexadecimal, and within base64 at each of the three alignments."""
    found = {secret, repr(secret)[2:-1].encode(), secret.hex().encode(), secret.hex(":").encode()}
    for before in range(3):
        padded = b"\0" * before + secret
        whole = padded[: len(padded) // 3 * 3]
        found |= {encode(whole)[4 if before else 0 :] for encode in (b64encode, urlsafe_b64encode)}
    return found


def test_a_secret_is_found_in_any_form() -> None:
    vault = Vault()
    secret = vault.keep("one", b"\x00\xffs3cret password")
    for shown in (
        secret,
        repr(secret).encode(),
        b"<" + secret.hex().encode(),
        b64encode(b"ab" + secret),
        b64encode(b"abc" + secret),
    ):
        assert vault.found_in(b"before " + shown + b" after") == ["one"]
    assert vault.found_in(b"s3cret passwor") == []


class Life(NamedTuple):
    """What is left of a broker's life."""

    vault: Vault
    broker: ServedBroker
    told: dict[str, bytes]
    """What it told, by how."""


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    lived = Living(tmp_path_factory.mktemp("life"))
    try:
        lived.refuse_to_start()
        lived.start()
        lived.log_in()
        lived.tokens()
        lived.change_settings()
        lived.send_broken_requests()
        lived.describe()
        lived.crash()
        yield Life(lived.vault, lived.broker, lived.told)
    finally:
        lived.broker.kill()


class Living:
    """A broker, and everything that can be done to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vault = vault = Vault()
        self.told: dict[str, bytes] = {}
        self.metrics_port, self.sasl_port = free_port(), free_port()
        self.broker = ServedBroker(folder / "data")
        self.broker.listeners += f",SASL_PLAINTEXT://127.0.0.1:{self.sasl_port},SSL://127.0.0.1:{free_port()}"
        self.broker.environment = {"PYTHONFAULTHANDLER": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
        self.issuer = Issuer()
        (folder / "jwks.json").write_text(json.dumps(self.issuer.jwks))
        authority, key_password, self.store_password = Authority(), vault.new("key password"), vault.new("store password")
        identity = authority.issue("CN=broker,O=Tests", ["localhost"], is_rsa=True)
        identity.write_pem(folder / "broker.pem", key_password)
        authority.write_trust_pkcs12(folder / "trust.p12", self.store_password)
        numbers = identity.key.private_numbers()
        vault.keep("private key", numbers.d.to_bytes(256, "big")[:48])
        prefix = "listener.name.sasl_plaintext"
        self.settings = {
            "metrics.listener": f"127.0.0.1:{self.metrics_port}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": folder / "broker.pem",
            "ssl.key.password": key_password,
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": folder / "trust.p12",
            "ssl.truststore.password": self.store_password,
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            f"{prefix}.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required "
            f'username="broker" password="{vault.new("a broker")}" user_alice="{vault.new("alice")}";',
            "sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;"
            f" {MODULES}.oauthbearer.OAuthBearerLoginModule required;",
            f"{prefix}.scram-sha-512.sasl.server.callback.handler.class": "tests.clients.careless.Handler",
            "sasl.oauthbearer.jwks.endpoint.url": (folder / "jwks.json").as_uri(),
            "delegation.token.secret.key": vault.new("delegation tokens"),
            "password.encoder.secret": vault.new("password encoder"),
            "alter.config.policy.class.name": "tests.clients.careless.Policy",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
            "some.plugin.password": vault.new("unknown setting"),
            "connection.failed.authentication.delay.ms": 1,
        }

    def configure(self, **changes: object) -> None:
        path = self.folder / "server.properties"
        settings = self.settings | {key.replace("_", "."): value for key, value in changes.items()}
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.broker.options = ("--config", str(path))

    def refuse_to_start(self) -> None:
        """Start with what is wrong, once for each way."""
        jaas = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
        for key, value in (
            ("ssl.key.password", self.vault.new("wrong key password")),
            ("ssl.truststore.password", self.vault.new("wrong store password")),
            (jaas, f'{MODULES}.plain.PlainLoginModule required user_alice="{self.vault.new("unended JAAS")}"'),
            (jaas, f"{self.vault.new('password instead of JAAS')};"),
            (jaas, f"{MODULES}.plain.PlainLoginModule {self.vault.new('password instead of a flag')};"),
            ("ssl.keystore.key", self.vault.new("key in the settings")),
            ("num.io.threads", "many"),
        ):
            before, self.settings = self.settings, self.settings | {key: value}
            self.configure()
            done = subprocess.run(
                self.broker.command(),
                env={**os.environ, **self.broker.environment},
                cwd=self.folder,
                capture_output=True,
                timeout=WAIT_S,
                check=False,
            )
            self.settings = before
            assert done.returncode, f"it started with another {key}"
            self.told[f"a start refused for {key} {len(self.told)}"] = done.stdout + done.stderr
            assert key.encode() in done.stdout + done.stderr, done.stderr

    def start(self) -> None:
        """Start it for good, and have it log everything."""
        self.configure()
        self.broker.start()
        self.anybody = Wire(self.broker.port)
        loggers = self.anybody.send(
            DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=BROKER_LOGGER, resource_name=self.id)]), 4
        )
        names = [each.name for each in loggers.results[0].configs]
        changed = self.alter(dict.fromkeys(names, "TRACE"), kind=BROKER_LOGGER)
        assert changed == ErrorCode.NONE
        for mechanism in (SCRAM_SHA_256, SCRAM_SHA_512):
            for iterations in (4096, 1):
                user = f"bob{mechanism.number}"
                password = self.vault.new(f"{user} {iterations}")
                salted = self.vault.keep(
                    f"{user} {iterations} salted", salted_password(mechanism, password.encode(), SALT, iterations)
                )
                upsertion = ScramCredentialUpsertion(
                    name=user, mechanism=mechanism.number, iterations=iterations, salt=SALT, salted_password=salted
                )
                self.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)

    @property
    def id(self) -> str:
        return str(self.anybody.send(MetadataRequest(topics=[]), 1).brokers[0].node_id)

    def ask(self, request: Message, version: int) -> Any:
        """Send a request; keep what is told."""
        answer = self.anybody.send(request, version)
        self.told[f"{type(request).__name__} {len(self.told)}"] = b"" if answer is None else answer.encode(version)
        return answer

    def alter(self, configs: dict[str, str], kind: int = BROKER) -> int:
        changes = [IncrementalAlterConfigsRequestAlterableConfig(name=name, value=value) for name, value in configs.items()]
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=kind, resource_name=self.id, configs=changes)
        return int(self.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code)

    def log_in(self) -> None:
        """Log in with each mechanism, rightly and wrongly."""
        alice, right = b"\0alice\0", self.vault.secrets
        plain = [alice + right["alice"], right["alice"], b"\0\0" + right["alice"], alice + b"\0" + right["alice"] + b"\xff"]
        plain += [alice + self.vault.new("wrong password").encode()]
        token = self.vault.keep("bearer token", self.issuer.sign(sub="alice", iat=int(time.time()) - 1, exp=int(time.time()) + 600))
        old = self.vault.keep("expired bearer token", self.issuer.sign(sub="alice", iat=1, exp=2))
        other = self.vault.keep("bearer token of somebody else", Issuer().sign(sub="alice", iat=1, exp=2**40))
        bearers = [bearer(token), bearer(old), bearer(other), token.encode(), bearer(token)[:-9], bearer(token, "mallory")]
        for mechanism, tokens in (("PLAIN", plain), ("OAUTHBEARER", bearers), ("SCRAM-SHA-512", [plain[0]])):
            for said in tokens:
                self.told[f"{mechanism} {len(self.told)}"] = b"".join(self.say(mechanism, said))
        for user, password in (("bob1", right["bob1 4096"]), ("bob1", right["wrong password"]), ("bob2", right["bob2 4096"])):
            scram = ScramClient(user, password.decode(), SCRAM_SHA_256 if user == "bob1" else SCRAM_SHA_512)
            wire = Wire(self.sasl_port)
            wire.send(SaslHandshakeRequest(mechanism=scram.mechanism.name), 1)
            first = wire.send(SaslAuthenticateRequest(auth_bytes=scram.first()), 2)
            if first.auth_bytes:
                last = wire.send(SaslAuthenticateRequest(auth_bytes=scram.final(first.auth_bytes)), 2)
                self.told[f"scram {len(self.told)}"] = last.encode(2)

    def say(self, mechanism: str, token: bytes) -> Iterator[bytes]:
        """Send a token in a request, and as it is."""
        for version in (1, 0):
            wire = Wire(self.sasl_port)
            wire.send(SaslHandshakeRequest(mechanism=mechanism), version)
            data = SaslAuthenticateRequest(auth_bytes=token).encode(2)
            yield (wire.frame(encode_request_header(36, 2, 7, "wire") + data) if version else wire.frame(token)) or b""
            wire.socket.close()

    def tokens(self) -> None:
        """Make a delegation token, and do everything with it and with another secret."""
        alice = Wire(self.sasl_port)
        alice.log_in(b"\0alice\0" + self.vault.secrets["alice"])
        created = alice.send(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
        hmac = self.vault.keep("delegation token", bytes(created.hmac))
        self.vault.keep("delegation token as a password", b64encode(hmac))
        for secret in (hmac, self.vault.keep("no delegation token", secrets.token_bytes(64))):
            alice.send(RenewDelegationTokenRequest(hmac=secret, renew_period_ms=60_000), 2)
            scram = ScramClient(created.token_id, b64encode(secret).decode())
            scram.bare += ",tokenauth=true"
            wire = Wire(self.sasl_port)
            wire.send(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
            first = wire.send(SaslAuthenticateRequest(auth_bytes=scram.first()), 2)
            wire.send(SaslAuthenticateRequest(auth_bytes=scram.final(first.auth_bytes)), 2)
            self.told[f"metadata {len(self.told)}"] = repr(wire.send(MetadataRequest(topics=[]), 1)).encode()
        self.ask(DescribeDelegationTokenRequest(owners=None), 3)  # who asks has no token
        for secret in (self.vault.secrets["no delegation token"], hmac):
            alice.send(ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=-1), 2)

    def change_settings(self) -> None:
        """Change secrets at runtime: rightly, wrongly, past a policy that fails."""
        jaas = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
        module = f"{MODULES}.plain.PlainLoginModule required"
        changes = [
            {jaas: f'{module} user_alice="{self.vault.new("alice later")}";'},
            {jaas: f'{module} user_alice="{self.vault.new("unended JAAS later")}"'},
            {"listener.name.ssl.ssl.key.password": self.vault.new("wrong key password later")},
            {"ssl.truststore.password": self.vault.new("wrong store password later")},
            {"password.encoder.secret": self.vault.new("secret that cannot change")},
            {"listener.name.ssl.some.plugin.password": self.vault.new(UNKNOWN)},
            {"sasl.jaas.config": self.vault.new("no JAAS at all")},
        ]
        errors = [self.alter(change) for change in changes]
        assert all(errors), errors  # the policy fails on them all
        for change in changes:
            configs = [AlterConfigsRequestAlterableConfig(name=name, value=value) for name, value in change.items()]
            resource = AlterConfigsRequestAlterConfigsResource(resource_type=BROKER, resource_name=self.id, configs=configs)
            self.ask(AlterConfigsRequest(resources=[resource]), 2)
        self.restart(**{"alter.config.policy.class.name": ""})
        errors = [self.alter(change) for change in changes]
        assert errors[0] == ErrorCode.NONE
        assert all(errors[1:4]), errors
        self.restart()  # and with what is in the metadata store now

    def restart(self, **changes: object) -> None:
        assert self.broker.stop() == 0
        before, self.settings = self.settings, self.settings | changes
        self.configure()
        self.settings = before
        self.broker.start()
        self.anybody = Wire(self.broker.port)

    def send_broken_requests(self) -> None:
        """Send requests with secrets, each cut off somewhere or with a byte changed."""
        alice = self.vault.secrets["alice"]
        upsertion = ScramCredentialUpsertion(name="bob", mechanism=1, iterations=4096, salt=SALT, salted_password=alice)
        change = IncrementalAlterConfigsRequestAlterableConfig(name="ssl.key.password", value=alice.decode())
        resource = IncrementalAlterConfigsRequestAlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[change])
        requests: list[tuple[Message, int, int]] = [
            (SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + alice), 2, self.sasl_port),
            (AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0, self.broker.port),
            (IncrementalAlterConfigsRequest(resources=[resource]), 1, self.broker.port),
            (RenewDelegationTokenRequest(hmac=alice), 2, self.broker.port),
        ]
        for request, version, port in requests:
            body = request.encode(version)
            cut = [body[:end] for end in range(0, len(body), 3)]
            changed = [body[:at] + b"\xff" + body[at + 1 :] for at in range(0, len(body), 3)]
            for data in (*cut, *changed, body + alice):
                wire = Wire(port)
                if port == self.sasl_port:
                    wire.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
                answer = wire.frame(encode_request_header(request.KEY, version, 7, "wire") + data)
                self.told[f"broken {len(self.told)}"] = answer or b""
                wire.socket.close()

    def describe(self) -> None:
        """Ask for everything that it tells about itself."""
        resource = DescribeConfigsResource(resource_type=BROKER, resource_name=self.id)
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
        answer = self.ask(request, 4)
        assert any("jaas" in each.name for each in answer.results[0].configs)
        self.ask(DescribeUserScramCredentialsRequest(users=None), 0)
        self.told["metrics"] = metrics_page(self.metrics_port).encode()

    def crash(self) -> None:
        """Abort it with a dump of its threads, start it again, and stop it."""
        process = self.broker.process
        assert process is not None
        process.send_signal(signal.SIGABRT)
        process.wait(WAIT_S)
        self.broker.process = None
        self.broker.start()
        assert self.broker.stop() == 0


def test_no_secret_is_in_the_log(life: Life) -> None:
    text = life.broker.output.read_bytes()
    assert life.vault.found_in(text) == []
    for line in (
        b"Failed authentication",
        b"RuntimeError: the policy is broken",
        b"RuntimeError: the callback handler is broken",
        b"Fatal Python error: Aborted",
    ):
        assert line in text, line


def test_no_secret_is_in_what_the_broker_tells(life: Life) -> None:
    assert {what: found for what, content in life.told.items() if (found := life.vault.found_in(content))} == {}
    assert b"kafka_server" in life.told["metrics"]


def test_no_secret_is_in_the_access_log(life: Life) -> None:
    content = b"".join(path.read_bytes() for path in life.broker.access_dir.rglob("*") if path.is_file())
    assert life.vault.found_in(content) == []
    assert b"SaslAuthenticate" in content


def test_no_secret_is_in_the_data_directory_as_it_is(life: Life) -> None:
    files = {path: path.read_bytes() for path in life.broker.data.rglob("*") if path.is_file()}
    for path, content in files.items():
        assert life.vault.found_in(content) in ([], [UNKNOWN] if path.name.startswith("metadata.sqlite") else []), path
    assert any(b"stored_key=" in content and b"encrypted" in content.lower() for content in files.values())


@pytest.mark.slow
def test_no_secret_is_in_the_report(life: Life, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    command = [sys.executable, "-m", "twisted_kafka_spark", "report", str(life.broker.access_dir), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, timeout=patient(200), check=False)
    assert done.returncode == 0, done.stderr
    for content in (out.read_bytes(), out.with_suffix(".json").read_bytes(), done.stdout, done.stderr):
        assert life.vault.found_in(content) == []
    assert b"SaslAuthenticate" in out.with_suffix(".json").read_bytes()
