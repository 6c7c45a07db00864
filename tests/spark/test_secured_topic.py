"""A topic of a broker with TLS, SCRAM and ACLs, reported on and followed with a file of client properties."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from tests.spark.access_lines import line, topic
from tests.spark.connector import connector
from tests.support.clients.secured import PASSWORDS, client_settings, secured_broker
from tests.support.clients.served import ServedBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
TIMEOUT_S = 1200
TOPIC = "made"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    """A broker with 40 lines in a topic."""
    import confluent_kafka
    from confluent_kafka.admin import AdminClient, NewTopic

    served = secured_broker(tmp_path_factory.mktemp("secured"))
    try:
        admin = AdminClient(client_settings(served, "admin"))
        admin.create_topics([NewTopic(TOPIC, 2, 1), NewTopic("findings", 1, 1)])[TOPIC].result(TIMEOUT_S)
        producer = confluent_kafka.Producer(client_settings(served, "admin"))
        for at in range(40):
            producer.produce(TOPIC, line("Fetch" if at % 4 else "Produce", at, sequence=at, topics=[topic("orders", 3)]).rstrip())
        assert producer.flush(TIMEOUT_S) == 0
        yield served
    finally:
        served.kill()


def run(broker: ServedBroker, directory: Path, *arguments: str, password: str) -> subprocess.CompletedProcess[str]:
    """Run a command on the topic as the administrator."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    config = directory / "client.properties"
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={module} required \\\n  username="admin" password="{password}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={broker.data.parent / 'certificates' / 'ca.pem'}\n"
        # A wrong password is an error at once; without this, Spark waits for a minute until its request is over.
        "default.api.timeout.ms=20000\nrequest.timeout.ms=10000\n"
    )
    source = ["--bootstrap-servers", broker.bootstrap, "--topic", TOPIC, "--command-config", str(config), "--jars", connector()]
    command = [sys.executable, "-m", "twisted_kafka_spark", arguments[0], "--master", "local[2]", *source, *arguments[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def test_a_topic_behind_tls_and_scram_is_reported_and_followed(broker: ServedBroker, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    for choice, requests in (((), 40), (("--filter", "api = 'Produce'"), 10)):
        done = run(broker, tmp_path, "report", "--quiet", "--out", str(page), *choice, password=PASSWORDS["admin"])
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(page.with_suffix(".json").read_text())["total"]["requests"] == requests
    rolled = tmp_path / "rolled"
    options = ("--out", str(rolled), "--once", "--findings-topic", "findings", "--verbose")
    done = run(broker, tmp_path, "follow", *options, password=PASSWORDS["admin"])
    assert done.returncode == 0, done.stderr[-3000:]
    assert PASSWORDS["admin"] not in done.stdout + done.stderr
    merge = ["report", "--merge", str(rolled), "--quiet", "--out", str(page)]
    subprocess.run([sys.executable, "-m", "twisted_kafka_spark", *merge], check=True, timeout=TIMEOUT_S)
    assert json.loads(page.with_suffix(".json").read_text())["total"]["requests"] == 40


def test_a_wrong_password_or_topic_is_told_in_one_line(broker: ServedBroker, tmp_path: Path) -> None:
    out = ("--quiet", "--out", str(tmp_path / "report.html"))
    done = run(broker, tmp_path, "report", *out, password="not-the-secret")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "check the credentials" in done.stderr
    other = run(broker, tmp_path, "report", *out, "--topic", "gone", password=PASSWORDS["admin"])
    assert (other.returncode, other.stderr.count("\n")) == (1, 1)
    assert other.stderr.endswith(": check --topic\n")
    assert "not-the-secret" not in done.stdout + done.stderr
