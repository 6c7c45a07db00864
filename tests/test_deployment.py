"""The files that deploy a broker: image, systemd unit, and what git and Docker leave out."""

import json
import re
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import twisted_kafka
from tests.support.budget import patient
from tests.support.ports import free_port
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.command_line import settings_in

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
OUTPUTS = (
    "certificates/ca.key", "client.properties", "demo-report.html", "demo-report.json", "kafka-cluster/broker-1/server.properties",
    "kafka-data/log/meta.properties", "orders.jsonl", "report.html", "report.json", "store.jks", "store.p12", "kafka.keytab",
)  # fmt: skip
"""What the commands in the documents write into a clone. Some of it is secret."""


def test_git_ignores_what_commands_write() -> None:
    command = ["git", "-C", str(ROOT), "check-ignore", "--no-index", *OUTPUTS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patient(60), check=False)
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
    assert subprocess.run(command, capture_output=True, timeout=patient(30), check=False).returncode != 0
    with twisted_kafka.Broker({"metrics.listener": f"127.0.0.1:{port}"}):
        assert subprocess.run(command, capture_output=True, timeout=patient(30), check=False).returncode == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_unit_is_hardened() -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=25", str(ROOT / "etc" / "kafka.service")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patient(60), check=False)
    if "unrecognized option" in done.stderr:
        pytest.skip("needs systemd 250")
    assert done.returncode == 0, done.stdout[-300:]


def manifests() -> list[dict[str, Any]]:
    yaml = YAML(typ="safe")
    return list(yaml.load_all((ROOT / "etc" / "kubernetes" / "kafka.yaml").read_text()))


def test_the_manifests_select_the_pod_of_one_broker() -> None:
    kinds = {each["kind"]: each for each in manifests()}
    assert set(kinds) == {"Service", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy"}
    labels = kinds["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert kinds["Service"]["spec"]["selector"] == labels
    for kind, path in (("StatefulSet", "selector"), ("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
        assert kinds[kind]["spec"][path] == {"matchLabels": labels}
    stateful = kinds["StatefulSet"]["spec"]
    assert (stateful["replicas"], stateful["serviceName"]) == (1, kinds["Service"]["metadata"]["name"])


def test_the_pod_runs_what_the_image_has() -> None:
    (pod,) = [each["spec"]["template"]["spec"] for each in manifests() if each["kind"] == "StatefulSet"]
    (container,) = pod["containers"]
    user = re.search(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    assert user
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]) == tuple(map(int, user.groups()))
    assert re.search(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)[1] in [each["mountPath"] for each in container["volumeMounts"]]
    exposed = re.search(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE)[1].split()
    assert [str(each["containerPort"]) for each in container["ports"]] == exposed
    config = KafkaConfig.from_properties(settings_in({each["name"]: each["value"] for each in container["env"]}))
    assert config.warnings == ()
    assert config.broker_id == 1


def test_the_pod_is_valid_for_kubernetes() -> None:
    validator = pytest.importorskip("kubernetes_validate")  # 70 MB of schemas, in no extra
    for each in manifests():
        validator.validate(each, "1.34", strict=True)
