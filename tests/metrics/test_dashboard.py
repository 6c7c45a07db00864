"""etc/grafana/: the dashboard names metrics and labels that a broker has, and the compose file mounts it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.metrics.metrics_page import unknown_series

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "etc" / "grafana"
ONLY_WITH_FOLLOWERS = {"kafka_network_requestmetrics_remotetimems_sum", "kafka_network_requestmetrics_remotetimems_count"}
"""A Produce waits for nobody in a cluster of one broker."""
DASHBOARD = json.loads((FOLDER / "twisted-kafka.json").read_text())


def panels() -> list[dict[str, Any]]:
    return [each for each in DASHBOARD["panels"] if each["type"] != "row"]


def expressions() -> list[str]:
    variables = [each["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    return [target["expr"] for panel in panels() for target in panel["targets"]] + variables


@pytest.mark.medium
def test_each_panel_names_metrics_and_labels_that_a_broker_has(page: str) -> None:
    assert len(expressions()) >= 40
    unknown = set(unknown_series("\n".join(expressions()), page)) - ONLY_WITH_FOLLOWERS
    assert unknown == set()
    assert unknown_series('kafka_log_log_size{topic="none"} + kafka_nothing{a="b"} + kafka_log_log_size{colour="x"}', page) == [
        "kafka_log_log_size: topic=none",
        "kafka_nothing",
        "kafka_log_log_size: label colour",
    ]


@pytest.mark.medium
def test_what_is_grouped_by_is_a_label(page: str) -> None:
    for expression in expressions():
        for labels, name in re.findall(r"by \(([^)]*)\) \((?:rate\()?(\w+)", expression):
            series = "".join(re.findall(rf"^{name}(\{{.*\}})", page, re.MULTILINE))
            assert all(each == "instance" or f'{each}="' in series for each in labels.split(", ")), (labels, name)


def test_panels_have_a_title_a_description_and_a_place_of_their_own() -> None:
    places = []
    for panel in panels():
        assert panel["title"]
        assert panel["description"].endswith(".")
        place = panel["gridPos"]
        places += [(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])]
        assert place["x"] + place["w"] <= 24
    assert len(places) == len(set(places))
    assert len({each["id"] for each in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_compose_file_has_it() -> None:
    text = (ROOT / "etc" / "docker" / "compose.yaml").read_text()
    for source in re.findall(r"- (\.\./grafana/[\w.-]+):", text):
        assert (ROOT / "etc" / "docker" / source).is_file(), source
    assert "twisted-kafka.json:/var/lib/grafana/dashboards/" in text
    assert "path: /var/lib/grafana/dashboards" in (FOLDER / "provisioning.yml").read_text()
