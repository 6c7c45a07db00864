"""etc/prometheus-rules.yml: the alerts name metrics that a broker has, with labels that they have."""

import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from prometheus_client.parser import text_string_to_metric_families

import twisted_kafka
from tests.support.certificates import Authority
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "etc" / "prometheus-rules.yml"
_SERIES = re.compile(r"\b(kafka_\w+)(?:\{([^}]*)\})?")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The metrics of a broker that has handled a Produce and an OffsetCommit, and has a TLS listener."""
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
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="billing", enable_auto_commit=False)
        consumer.assign([TopicPartition("topic", 0)])
        consumer.commit({TopicPartition("topic", 0): OffsetAndMetadata(0, "", -1)})
        consumer.close()
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
            text: str = answer.read().decode()
    return text


def complaints(page: str) -> list[str]:
    """Return what `promtool check metrics` would say about the names of a page (Prometheus' conventions)."""
    found = []
    for family in text_string_to_metric_families(page):
        words = family.name.split("_")
        is_counter = family.type == "counter"
        found += [f"{family.name} has no help text"] if not family.documentation else []
        found += [f"{family.name} is no counter, but ends in _total"] if words[-1] == "total" and not is_counter else []
        found += [f"{family.name} is a {family.type}"] if words[-1] in ("count", "sum", "bucket") and not is_counter else []
        found += [f"{family.name} has a unit that is no base unit"] if {"ms", "ns", "us", "milliseconds", "kb"} & set(words) else []
        found += [f"{family.name} has capital letters"] if family.name != family.name.lower() else []
        names = {sample.name for sample in family.samples}
        found += [f"{family.name} is a counter without _total"] if is_counter and names != {f"{family.name}_total"} else []
    return found


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


def test_the_names_follow_the_conventions_of_prometheus(page: str) -> None:
    assert complaints(page) == []
    wrong = "# HELP a_ms x\n# TYPE a_ms gauge\na_ms 1\n# TYPE b_total gauge\nb_total 1\n# TYPE C_count gauge\nC_count 1\n"
    assert len(complaints(wrong)) == 6


def test_a_small_brokers_page_is_small_and_has_the_lag_of_groups(page: str) -> None:
    assert len(page) < 100_000
    assert 'kafka_consumergroup_lag{consumergroup="billing",partition="0",topic="topic"} 1.0\n' in page
    assert '{partition="7",topic="__consumer_offsets"}' not in page, "it has no records"
