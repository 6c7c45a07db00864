"""The metrics of both brokers, by the same names: Apache Kafka's over JMX, this broker's from its page for Prometheus."""

import re
import subprocess
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.budget import patient
from tests.support.clients.clients import java_class_path

JAVA_TIMEOUT_S = patient(30)
PAGE_TIMEOUT_S = patient(10)
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")

Labels = tuple[tuple[str, str], ...]


def labels_of(tags: dict[str, str]) -> Labels:
    """Return labels as Prometheus has them."""
    return tuple(sorted((name.lower(), value) for name, value in tags.items()))


class KafkaMetrics:
    """Asks a running Apache Kafka for its MBeans."""

    def __init__(self, pid: int) -> None:
        program = Path(__file__).parent / "java" / "Metrics.java"
        class_path = java_class_path()
        assert class_path is not None
        command = ["java", "-cp", class_path, str(program), str(pid)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self._process.communicate(timeout=JAVA_TIMEOUT_S)

    def read(self, name: str, attribute: str = "Count") -> dict[Labels, float]:
        """Return an attribute of the request metrics with this name, by their other tags."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"kafka.network:type=RequestMetrics,name={name},*\t{attribute}\n")
        self._process.stdin.flush()
        found = {}
        while line := self._process.stdout.readline().rstrip("\n"):
            bean, _, value = line.partition("\t")
            tags = dict(tag.split("=", 1) for tag in bean.partition(":")[2].split(","))
            del tags["type"], tags["name"]
            found[labels_of(tags)] = float(value)
        assert self._process.poll() is None, "the program that asks for Kafka's metrics has ended"
        return found


class OurMetrics:
    """Reads the page at ``metrics.listener``."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/metrics"

    def read(self, name: str, attribute: str = "Count") -> dict[Labels, float]:
        """As ``KafkaMetrics.read``; of a histogram, ``Count`` only."""
        bare = _NOT_IN_NAMES.sub("_", name.lower().removesuffix("persec"))
        family = f"kafka_network_requestmetrics_{bare}_{'total' if name.endswith('PerSec') else 'count'}"
        assert attribute == "Count"
        found = {}
        with urllib.request.urlopen(self._url, timeout=PAGE_TIMEOUT_S) as page:
            for line in page.read().decode().splitlines():
                sample = _SAMPLE.match(line)
                if sample and sample[1] == family:
                    found[labels_of(dict(_LABEL.findall(sample[2] or "")))] = float(sample[3])
        return found


def grown(before: dict[Labels, float], after: dict[Labels, float]) -> dict[Labels, int]:
    """Return by how much each metric grew, those that did not left out."""
    changes = {labels: int(value - before.get(labels, 0)) for labels, value in after.items()}
    return {labels: change for labels, change in changes.items() if change}
