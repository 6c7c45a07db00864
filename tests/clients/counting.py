"""What a served broker counted, by its metrics page and by its access log."""

import json
import re
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.eventually import WAIT_S

SETTLED_S = 1.2
"""Longer than a fetch waits and than lines wait to be written: when the counts stand still for so long, nothing is under way."""

_REQUESTS = re.compile(r'^kafka_network_requestmetrics_requests_total\{request="(\w+)",version="\d+"\} (\S+)$', re.MULTILINE)

COUNTED_AS_FETCH = ("FetchConsumer", "FetchFollower")
"""Further names of Fetch requests, which are counted under both."""


def metrics_page(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WAIT_S) as answer:
        return answer.read().decode()


def request_counts(port: int) -> Counter[str]:
    """Return how many requests of each API the broker has counted since it started."""
    counts: Counter[str] = Counter()
    for api, count in _REQUESTS.findall(metrics_page(port)):
        if api not in COUNTED_AS_FETCH:
            counts[api] += int(float(count))
    return counts


def settled_request_counts(port: int) -> Counter[str]:
    """Return the counts when all clients are gone and their last requests are over."""
    counts = request_counts(port)
    for _ in range(20):
        time.sleep(SETTLED_S)
        before, counts = counts, request_counts(port)
        if counts == before:
            return counts
    raise AssertionError("requests kept coming")


def access_lines(directory: Path) -> list[dict[Any, Any]]:
    """Return every line of the closed files; fail on one that is not whole."""
    return [json.loads(line) for path in sorted(directory.rglob("node-*.jsonl")) for line in path.read_bytes().splitlines()]
