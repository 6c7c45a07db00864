"""Real clients under a quota: each is held at it, and others do not notice."""

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients import steady
from tests.clients.counting import metrics_page
from tests.clients.flows import VALUE, command
from tests.support.clients.clients import JAVA_TOOLS, kafkajs_ready, read_confluent
from tests.support.clients.go_programs import go_program
from tests.support.clients.served import ServedBroker
from tests.support.ports import free_port
from tests.support.processes import start_tied
from twisted_kafka.protocol.messages.administration.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from twisted_kafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from twisted_kafka.tools.compare.talk import Talk

LIMIT = 1_000_000
"""In bytes per second. A record takes a hundredth of it."""
SECONDS = float(os.environ.get("QUOTA_SECONDS", "60"))
START_S = 30
ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]

FRANZ_GO = "franz-go"
CLIENTS = ["confluent", "kafka-python", "aiokafka", "kafkajs", "java", FRANZ_GO]


class Limited:
    """A broker with metrics, on which clients get quotas."""

    def __init__(self, start_broker: Callable[..., ServedBroker], *overrides: str) -> None:
        self.metrics_port = free_port()
        self.broker = start_broker(f"metrics.listener=127.0.0.1:{self.metrics_port}", *overrides)

    def limit(self, client_id: str, **quotas: float) -> None:
        """Set quotas of a client id, and remove those of None."""
        talk = Talk(self.broker.port, "quotas", b"admin")
        ops = [OpData(key=key, value=value) for key, value in quotas.items()]
        entry = AlterClientQuotasRequestEntryData(entity=[EntityData(entity_type="client-id", entity_name=client_id)], ops=ops)
        answer = talk.ask(AlterClientQuotasRequest(entries=[entry]), 1)
        assert answer.entries[0].error_code == 0
        talk.close()

    def create(self, topic: str) -> None:
        talk = Talk(self.broker.port, "topics", b"admin")
        deadline = time.monotonic() + START_S
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
        while talk.ask(request, 8).topics[0].error_code:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        talk.close()

    def counted(self, direction: str, topic: str) -> int:
        """Return the bytes that came into a topic, or went out."""
        pattern = rf'^kafka_server_brokertopicmetrics_bytes{direction}_total\{{topic="{topic}"\}} (\S+)$'
        found = re.search(pattern, metrics_page(self.metrics_port), re.MULTILINE)
        return int(float(found[1])) if found else 0

    def wait_for(self, direction: str, topic: str, size_bytes: int) -> None:
        deadline = time.monotonic() + START_S
        while self.counted(direction, topic) < size_bytes:
            assert time.monotonic() < deadline, f"only {self.counted(direction, topic)} bytes"
            time.sleep(0.02)

    def rate(self, direction: str, topic: str, seconds: float) -> float:
        """Return the bytes per second over the next seconds."""
        before, began = self.counted(direction, topic), time.monotonic()
        time.sleep(seconds)
        after, ended = self.counted(direction, topic), time.monotonic()
        return (after - before) / (ended - began)


@contextmanager
def flowing(client: str, what: str, broker: ServedBroker, topic: str, client_id: str) -> Iterator[Path]:
    """Have a client send or read; fail if it ends by itself. Yields the file of what it prints."""
    if client == "kafkajs" and not kafkajs_ready():
        pytest.skip("kafkajs cannot be installed")
    folder = broker.data.parent
    if client == FRANZ_GO:
        words = [go_program(folder, "flow"), broker.bootstrap, topic, client_id, what]
    else:
        words = command(client, what, broker.bootstrap, topic, client_id)
    output = folder / f"{client_id}.out"
    with output.open("wb") as file:
        process: subprocess.Popen[bytes] = start_tied(words, stdout=file, stderr=file, cwd=ROOT)
    try:
        yield output
        assert process.poll() is None, output.read_text()[-2000:]
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_producer_is_held_and_another_is_not(start_broker: Callable[..., ServedBroker]) -> None:
    """A short look at what the slow tests take a minute for."""
    limited = Limited(start_broker, "quota.window.num=2")
    limited.limit("held", producer_byte_rate=LIMIT)
    broker = limited.broker
    limited.create("held")
    limited.create("free")
    with flowing("confluent", "produce", broker, "held", "held"):
        limited.wait_for("in", "held", LIMIT)
        with flowing("confluent", "produce", broker, "free", "free"):
            limited.wait_for("in", "free", 10 * LIMIT)
        assert 0.2 * LIMIT < limited.rate("in", "held", 5) < 1.4 * LIMIT
        limited.limit("held", producer_byte_rate=1000 * LIMIT)
        limited.wait_for("in", "held", limited.counted("in", "held") + 20 * LIMIT)
    page = metrics_page(limited.metrics_port)
    assert re.search(r'^kafka_server_produce_throttle_time\{client_id="held"\} [1-9]', page, re.MULTILINE)
    assert re.search(r'^kafka_server_produce_throttle_time\{client_id="free"\} nan', page, re.MULTILINE | re.IGNORECASE)


@pytest.mark.slow
@pytest.mark.parametrize(("what", "direction"), [("produce", "in"), ("consume", "out")])
def test_what_franz_go_is_told(start_broker: Callable[..., ServedBroker], what: str, direction: str) -> None:
    """It is told to wait with a response, never instead of one, and goes on after it."""
    limited = Limited(start_broker, "quota.window.num=2")
    limited.create("t")
    if what == "consume":
        with flowing("confluent", "produce", limited.broker, "t", "writer"):
            limited.wait_for("in", "t", 10 * LIMIT)
    limited.limit("held", producer_byte_rate=LIMIT, consumer_byte_rate=LIMIT)
    with flowing(FRANZ_GO, what, limited.broker, "t", "held") as output:
        limited.wait_for(direction, "t", limited.counted(direction, "t") + 4 * LIMIT)
        told = output.read_text().split()[1::2]
    assert told
    assert all(0 < int(each) < 60_000 for each in told)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("client", CLIENTS)
def test_producers_are_held_within_five_percent(
    start_broker: Callable[..., ServedBroker], client: str, request: pytest.FixtureRequest
) -> None:
    if client == "java":
        request.getfixturevalue("java")
    limited = Limited(start_broker, "quota.window.num=2")
    limited.limit("held", producer_byte_rate=LIMIT)
    limited.create("held")
    with flowing(client, "produce", limited.broker, "held", "held"):
        limited.wait_for("in", "held", 3 * LIMIT)
        rate = limited.rate("in", "held", SECONDS)
    print(f"{client} produced {rate:,.0f} bytes per second")
    assert 0.95 * LIMIT < rate < 1.05 * LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_consumers_get_no_more_than_their_quota(
    start_broker: Callable[..., ServedBroker], client: str, request: pytest.FixtureRequest
) -> None:
    """They get less: a fetch that exceeds the quota is empty, as from Apache Kafka (docs/operations-settings.md)."""
    if client == "java":
        request.getfixturevalue("java")
    limited = Limited(start_broker)
    limited.create("stored")
    with flowing("confluent", "produce", limited.broker, "stored", "writer"):
        limited.wait_for("in", "stored", int(LIMIT * (SECONDS + 40)))
    client_id = "perf-consumer-client" if client == "java" else "held"  # the performance tool has a name of its own
    limited.limit(client_id, consumer_byte_rate=LIMIT)
    with flowing(client, "consume", limited.broker, "stored", client_id):
        limited.wait_for("out", "stored", 8 * LIMIT)
        rate = limited.rate("out", "stored", SECONDS)
    print(f"{client} consumed {rate:,.0f} bytes per second")
    assert 0.6 * LIMIT < rate < 1.05 * LIMIT


@pytest.mark.slow
def test_others_are_not_disturbed(start_broker: Callable[..., ServedBroker]) -> None:
    """While one client is held, no other has to wait, and all that they send arrives (how fast: benchmarks.quotas_others)."""
    limited = Limited(start_broker)
    broker = limited.broker
    limited.limit("held", producer_byte_rate=LIMIT)
    for topic in ("held", *steady.CLIENTS):
        limited.create(topic)
    with flowing("confluent", "produce", broker, "held", "held"):
        limited.wait_for("in", "held", 12 * LIMIT)  # it has used its burst
        commands = {client: steady.command(client, broker.bootstrap, client, SECONDS) for client in steady.CLIENTS}
        others = {client: start_tied(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) for client, command in commands.items()}
        seen = {
            client: steady.Seen(*json.loads(process.communicate(timeout=SECONDS + 90)[0])) for client, process in others.items()
        }
        page = metrics_page(limited.metrics_port)
    assert re.search(r'^kafka_server_produce_throttle_time\{client_id="held"\} [1-9]', page, re.MULTILINE)
    for client, saw in seen.items():
        print(client, saw)
        assert not saw.throttled_ms
        assert re.search(rf'^kafka_server_produce_throttle_time\{{client_id="{client}"\}} nan', page, re.MULTILINE | re.IGNORECASE)
        values = sorted(map(int, read_confluent(broker.bootstrap, client, saw.acknowledged)))
        assert values == list(range(saw.acknowledged))


CONFIGS = "kafka.admin.ConfigCommand"


@pytest.mark.slow
@pytest.mark.usefixtures("java")
@pytest.mark.parametrize("version", JAVA_TOOLS)
def test_kafka_configs(served: ServedBroker, version: str) -> None:
    """Quotas of users, clients, both, and addresses, by Apache Kafka's own tool."""

    def configs(*words: str) -> str:
        return JAVA_TOOLS[version](CONFIGS, "--bootstrap-server", served.bootstrap, *words)

    for entity, told in (
        (["--entity-type", "users", "--entity-name", "alice"], "user-principal 'alice'"),
        (["--entity-type", "users", "--entity-default"], "the default user-principal"),
        (["--entity-type", "clients", "--entity-name", "app"], "client-id 'app'"),
        (["--entity-type", "clients", "--entity-default"], "the default client-id"),
        (
            ["--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-name", "app"],
            "user-principal 'alice', client-id 'app'",
        ),
        (
            ["--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-default"],
            "the default user-principal, the default client-id",
        ),
    ):
        quotas = "producer_byte_rate=1024,consumer_byte_rate=2048,request_percentage=25,controller_mutation_rate=5"
        assert "Completed updating" in configs("--alter", "--add-config", quotas, *entity)
        shown = configs("--describe", *entity)
        assert f"Quota configs for {told} are " in shown
        for quota in ("producer_byte_rate=1024.0", "consumer_byte_rate=2048.0", "request_percentage=25.0", "mutation_rate=5.0"):
            assert quota in shown
        removed = "producer_byte_rate,consumer_byte_rate,request_percentage,controller_mutation_rate"
        assert "Completed updating" in configs("--alter", "--delete-config", removed, *entity)
        assert "1024" not in configs("--describe", *entity)
    address = ["--entity-type", "ips", "--entity-name", "127.9.9.9"]
    assert "Completed updating" in configs("--alter", "--add-config", "connection_creation_rate=7", *address)
    assert "connection_creation_rate=7.0" in configs("--describe", *address)


def test_quotas_apply_again_after_a_restart(start_broker: Callable[..., ServedBroker]) -> None:
    limited = Limited(start_broker)
    limited.limit("held", producer_byte_rate=1000)
    assert limited.broker.stop() == 0
    limited.broker.start()
    limited.create("kept")
    with flowing("confluent", "produce", limited.broker, "kept", "held"):
        limited.wait_for("in", "kept", len(VALUE))
        page = metrics_page(limited.metrics_port)
    assert re.search(r'^kafka_server_produce_throttle_time\{client_id="held"\} [1-9]', page, re.MULTILINE)
