"""The files that deploy a broker: image, systemd unit, and what git and Docker leave out."""

import json
import re
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

import twisted_kafka
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
OUTPUTS = (
    "certificates/ca.key", "client.properties", "demo-report.html", "demo-report.json", "kafka-cluster/broker-1/server.properties",
    "kafka-data/log/meta.properties", "orders.jsonl", "report.html", "report.json", "store.jks", "store.p12", "kafka.keytab",
)  # fmt: skip
"""What the commands in the documents write into a clone. Some of it is secret."""


def test_git_ignores_what_commands_write() -> None:
    command = ["git", "-C", str(ROOT), "check-ignore", "--no-index", *OUTPUTS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == list(OUTPUTS)


def test_an_image_does_not_get_what_commands_write() -> None:
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line]
    for output in OUTPUTS:
        assert any(fnmatch(output, each.removeprefix("**/")) or output.startswith(f"{each}/") for each in patterns), output


def test_the_image_runs_as_a_number_with_a_plug_in_cache() -> None:
    before, user, _ = DOCKERFILE.partition("\nUSER ")
    assert "twistd --help" in before
    assert re.match(r"\d+:\d+\n", DOCKERFILE[len(before) + len(user) :])


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_images_health_check_needs_a_broker() -> None:
    command = json.loads(re.search(r"HEALTHCHECK .*?\\\n *CMD (\[.*\])", DOCKERFILE)[1])
    assert command[0] != "pypy3", "starting it costs half a second of CPU every ten seconds"
    port = free_port()
    command[-1] = command[-1].replace("9404", str(port))
    assert subprocess.run(command, capture_output=True, timeout=30, check=False).returncode != 0
    with twisted_kafka.Broker({"metrics.listener": f"127.0.0.1:{port}"}):
        assert subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_hardened() -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=25", str(ROOT / "etc" / "kafka.service")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("needs systemd 250")
    assert done.returncode == 0, done.stdout[-300:]
