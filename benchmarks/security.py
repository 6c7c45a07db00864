"""What security costs this broker and Apache Kafka, each relative to its own rate without.

    python -m benchmarks.security [--no-kafka] [--only logins|requests] [--seconds 3] [--rounds 3] [--warm-up 5]

Logins: new connections per second that send one request, without authentication and with each mechanism (GSSAPI if there is a KDC,
which is asked for one ticket only). Requests: with 8 connections and one request in flight each, without anything; with quotas that
nobody reaches; with an authorizer and no ACLs; with 10,000 ACLs; each on a broker of its own, in turn. Prints rates, the broker's
processor time for each, and their ratios to the first line's. TLS has a program of its own, `benchmarks.tls`.
"""

import argparse
import contextlib
import functools
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.acls import AUTHORIZER, create
from benchmarks.scratch import scratch
from benchmarks.tls import API_VERSIONS, Connection, frame, measured
from tests.support import kdc
from tests.support.clients.clients import java_class_path
from tests.support.clients.served import BROKER_PYTHON, ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.oracle.talk import Talk
from tests.support.ports import free_port
from tests.support.security.kerberos_realm import GssapiClient, Realm, running_realm
from tests.support.security.scram_client import ScramClient
from twisted_kafka.protocol.messages.administration.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from twisted_kafka.protocol.messages.administration.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from twisted_kafka.protocol.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest
from twisted_kafka.security.scram import formulas
from twisted_kafka.security.scram.formulas import SCRAM_MECHANISMS

sys.path.insert(0, str(Path(__file__).resolve().parent / "beside"))

import frames
from bench import Broker as Loaded
from bench import compile_tools

MODULES = "org.apache.kafka.common.security"
USER, PASSWORD, SALT = "alice", "alice-secret", b"benchmark-salt"
GSSAPI = "GSSAPI"
MECHANISMS = ("PLAIN", *(mechanism.name for mechanism in SCRAM_MECHANISMS), *([GSSAPI] if kdc.missing() is None else []))
UNREACHED = 1e12
ACLS = 10_000
NOTHING, QUOTAS, NO_ACLS, MANY_ACLS = "nothing", "quotas", "an authorizer, no ACLs", f"{ACLS:,} ACLs"
CONNECTIONS = 8
"""Each with one request in flight."""


class Started(NamedTuple):
    """A broker of the benchmark."""

    name: str
    pid: int
    port: int
    sasl_port: int


def settings(plain: str, sasl_port: int, realm: Realm | None) -> dict[str, object]:
    prefix = "listener.name.sasl_plaintext"
    return {
        **({} if realm is None else realm.settings("sasl_plaintext")),
        "listeners": f"{plain},SASL_PLAINTEXT://127.0.0.1:{sasl_port}",
        "sasl.enabled.mechanisms": ",".join(each for each in MECHANISMS if each != GSSAPI or realm is not None),
        f"{prefix}.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
        **{
            f"{prefix}.{mechanism.name.lower()}.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;"
            for mechanism in SCRAM_MECHANISMS
        },
    }


@contextlib.contextmanager
def brokers(options: argparse.Namespace, folder: Path, realm: Realm | None = None, **more: object) -> Iterator[list[Started]]:
    """Start the brokers. With a realm they have GSSAPI."""
    folder.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        ours, port = ServedBroker(folder / "ours", *options.override), free_port()
        chosen = settings(ours.listeners, port, realm) | more
        ours.listeners = str(chosen.pop("listeners"))
        ours.overrides += tuple(f"{key}={value}" for key, value in chosen.items())
        stack.callback(ours.kill)
        ours.start()
        assert ours.process is not None
        started = [Started("twisted_kafka", ours.process.pid, ours.port, port)]
        if options.kafka:
            kafka, port = ApacheKafka(folder / "kafka"), free_port()
            kafka.change(**settings(f"PLAINTEXT://127.0.0.1:{kafka.port}", port, realm), **more)
            stack.callback(kafka.kill)
            kafka.start()
            started.append(Started("Apache Kafka 3.9", kafka.broker_pid, kafka.port, port))
        yield started


# Logins


def make_user(port: int) -> None:
    upsertions = [
        ScramCredentialUpsertion(
            name=USER,
            mechanism=mechanism.number,
            iterations=formulas.MIN_ITERATIONS,
            salt=SALT,
            salted_password=formulas.salted_password(mechanism, PASSWORD.encode(), SALT, formulas.MIN_ITERATIONS),
        )
        for mechanism in SCRAM_MECHANISMS
    ]
    talk = Talk(port, "security")
    answer = talk.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions), 0, note=False)
    assert not any(each.error_code for each in answer.results), answer
    talk.close()


class Login:
    """Logs in on one connection after the other."""

    def __init__(self, port: int, mechanism: str, realm: Realm | None) -> None:
        self._port = port
        self._realm = realm
        self._handshake = frame(SaslHandshakeRequest(mechanism=mechanism), 1)
        self._mechanism = mechanism

    def __call__(self) -> float:
        connection = Connection(self._port, None)
        connection.ask(self._handshake)
        if self._mechanism == "PLAIN":
            self._send(connection, f"\0{USER}\0{PASSWORD}".encode())
        elif self._mechanism == GSSAPI:
            assert self._realm is not None
            gssapi = GssapiClient(self._realm, USER)
            gssapi.offered(self._send(connection, gssapi.second(self._send(connection, gssapi.first()))))
            self._send(connection, gssapi.choose())
        else:
            mechanism = next(each for each in SCRAM_MECHANISMS if each.name == self._mechanism)
            client = ScramClient(USER, PASSWORD, mechanism)
            final = self._send(connection, client.final(self._send(connection, client.first())))
            assert client.is_server(final)
        connection.ask(API_VERSIONS)
        connection.close()
        return 1

    def _send(self, connection: Connection, token: bytes) -> bytes:
        answer = SaslAuthenticateResponse.decode(connection.answer(frame(SaslAuthenticateRequest(auth_bytes=token), 1)), 1, 4)
        assert not answer.error_code, answer.error_message
        return bytes(answer.auth_bytes)


def plain_connection(port: int) -> float:
    connection = Connection(port, None)
    connection.ask(API_VERSIONS)
    connection.close()
    return 1


def logins(options: argparse.Namespace, folder: Path) -> None:
    # The client would spend most of the time on what it knows already.
    formulas_of_client = sys.modules[ScramClient.__module__]
    formulas_of_client.salted_password = functools.cache(formulas.salted_password)  # type: ignore[attr-defined]
    with contextlib.ExitStack() as stack:
        realm = stack.enter_context(running_realm(folder.parent / "realm")) if GSSAPI in MECHANISMS else None
        started = stack.enter_context(brokers(options, folder, realm))
        for broker in started:
            make_user(broker.port)
            print(broker.name)
            steps: list[tuple[str, Callable[[], float]]] = [
                ("a connection without", functools.partial(plain_connection, broker.port)),
                *((mechanism, Login(broker.sasl_port, mechanism, realm)) for mechanism in MECHANISMS),
            ]
            first = 0.0
            for name, step in steps:
                rate, cpu_us = measured(broker.pid, options.seconds, step)
                first = first or rate
                print(f"    {name:24}{rate:8.0f}/s {cpu_us:8.0f} us of broker CPU  {rate / first:5.2f}", flush=True)


# Requests


def give_quotas(port: int) -> None:
    entity = [EntityData(entity_type="user", entity_name=None)]
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
    ops = [OpData(key=key, value=UNREACHED, remove=False) for key in keys]
    talk = Talk(port, "security")
    answer = talk.ask(
        AlterClientQuotasRequest(entries=[AlterClientQuotasRequestEntryData(entity=entity, ops=ops)], validate_only=False),
        0,
        note=False,
    )
    assert not any(each.error_code for each in answer.entries), answer
    talk.close()


class Compared(NamedTuple):
    """A broker under load."""

    setting: str
    broker: Started
    load: Loaded
    frames: dict[str, bytes]

    def measure(self, name: str, seconds: float) -> tuple[float, float]:
        """Return the requests per second, and the broker's processor time for each in microseconds."""
        path = self.load.file(name, self.frames[name])
        result: Any = self.load.measure("kload", self.broker.port, CONNECTIONS, 1, seconds, path)
        return result["req/s"], result["cpu_broker"] / result["req"] * 1e6


def compared(setting: str, broker: Started, tools: Path) -> Compared:
    topic = setting.replace(" ", "-").replace(",", "")
    if setting == QUOTAS:
        give_quotas(broker.port)
    elif setting == MANY_ACLS:
        create(broker.port, ACLS, [topic, f"{topic}-data", f"{topic}-p"])
    load = Loaded(broker.name, f"127.0.0.1:{broker.port}", [broker.pid], tools)
    return Compared(setting, broker, load, frames.prepare("127.0.0.1", broker.port, topic))


def requests(options: argparse.Namespace, folder: Path) -> None:
    """Have every setting on a broker of its own, all at once, and measure them in turn: a JVM becomes faster for half a minute."""
    tools = compile_tools(folder / "tools")
    settings: list[tuple[str, dict[str, str]]] = [(NOTHING, {}), (QUOTAS, {}), (NO_ACLS, AUTHORIZER), (MANY_ACLS, AUTHORIZER)]
    with contextlib.ExitStack() as stack:
        all_of_them: list[Compared] = []
        for number, (setting, more) in enumerate(settings):
            started = stack.enter_context(brokers(options, folder / str(number), None, **more))
            all_of_them += [compared(setting, broker, tools) for broker in started]
        for name in options.frames.split(","):
            measured_of: dict[tuple[str, str], list[tuple[float, float]]] = {}
            for each in all_of_them:
                each.measure(name, options.warm_up)
            for _ in range(options.rounds):
                for each in all_of_them:
                    measured_of.setdefault((each.broker.name, each.setting), []).append(each.measure(name, options.seconds))
            show(name, measured_of)


def show(name: str, measured_of: dict[tuple[str, str], list[tuple[float, float]]]) -> None:
    """Print medians, and their ratios to those of the same broker without anything."""
    for (broker, setting), results in measured_of.items():
        rate, cpu_us = (statistics.median(each) for each in zip(*results, strict=True))
        first_rate, first_us = (statistics.median(each) for each in zip(*measured_of[broker, NOTHING], strict=True))
        print(
            f"    {name:16}{broker:18}{setting:26}{rate:8.0f}/s {rate / first_rate:5.2f} "
            f"{cpu_us:8.1f} us of broker CPU {cpu_us / first_us:5.2f}",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.security", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--warm-up", type=float, default=5, metavar="SECONDS")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--frames", default="produce_1x100,fetch_empty,heartbeat")
    parser.add_argument("--only", choices=("logins", "requests"))
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="a setting of this broker")
    parser.add_argument("--kafka", action=argparse.BooleanOptionalAction, default=None)
    options = parser.parse_args()
    if options.kafka is None:
        options.kafka = java_class_path() is not None
    print(f"this broker runs on {BROKER_PYTHON}")
    with scratch() as directory:
        for name, part in (("logins", logins), ("requests", requests)):
            if options.only in (None, name):
                part(options, directory / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
