"""etc/prometheus-rules.yml: the alerts name metrics that a broker has, with labels that they have."""

import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest
from kafka import KafkaProducer

import twisted_kafka
from tests.support.certificates import Authority
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "etc" / "prometheus-rules.yml"
_SERIES = re.compile(r"\b(kafka_\w+)(?:\{([^}]*)\})?")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The metrics of a broker that has handled a Produce, and has a TLS listener."""
    address = f"127.0.0.1:{free_port()}"
    directory = tmp_path_factory.mktemp("access")
    settings = {
        "metrics.listener": address,
        "access.log.dir": directory,
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": Authority().issue("CN=broker", ["localhost"]).write_pem(directory / "key.pem"),
    }
    with twisted_kafka.Broker(settings) as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        producer.send("topic", b"value").get(timeout=30)
        producer.close()
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
    return text


def expressions() -> str:
    """Return the file without its comments and annotations."""
    lines = RULES.read_text().splitlines()
    return "\n".join(line for line in lines if not line.strip().startswith(("#", "summary:")))


def test_each_alert_names_metrics_and_labels_that_a_broker_has(page: str) -> None:
    wanted = _SERIES.findall(expressions())
    assert len(wanted) >= len(re.findall(r"- alert:", expressions())) - 1, "only KafkaDown is about no metric of the broker"
    for name, matchers in wanted:
        labels = re.findall(rf"^{name}(?:\{{(.*)\}})? ", page, re.MULTILINE)
        assert labels, f"a broker has no {name}"
        for label, operator, value in re.findall(r'(\w+)(=~|=)"([^"]*)"', matchers):
            assert any(f'{label}="' in each for each in labels), f"{name} has no label {label}"
            if operator == "=":
                assert any(f'{label}="{value}"' in each for each in labels), f"{name} has no {label}={value}"


def test_each_alert_is_explained() -> None:
    explained = (ROOT / "docs" / "operations-monitoring.md").read_text()
    assert [name for name in re.findall(r"- alert: (\w+)", RULES.read_text()) if f"`{name}`" not in explained] == []


@pytest.mark.parametrize(
    "arguments", [["check", "rules", str(RULES)], ["test", "rules", str(ROOT / "tests/data/metrics/alerts.yml")]]
)
def test_prometheus_accepts_the_rules_and_they_fire(arguments: list[str]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_the_page(page: str) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
