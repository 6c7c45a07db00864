"""etc/prometheus-rules.yml: the alerts name metrics that a broker has, with labels that they have."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.metrics.metrics_page import SERIES, unknown_series

pytestmark = pytest.mark.medium

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "etc" / "prometheus-rules.yml"


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
    wanted = SERIES.findall(expressions())
    assert len(wanted) >= len(re.findall(r"- alert:", expressions())) - 1, "only KafkaDown is about no metric of the broker"
    assert unknown_series(expressions(), page) == []


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
