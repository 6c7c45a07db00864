"""``twisted-kafka cluster`` as a developer meets it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.budget import patient
from tests.support.clients.clients import described, read_confluent
from tests.support.eventually import eventually
from tests.support.processes import start_tied
from tests.support.zookeeper import needs_zookeeper
from twisted_kafka.system.start_up import CLUSTER_COMMAND
from twisted_kafka.tools.cluster.options import Options
from twisted_kafka.tools.cluster.plan import plan_brokers
from twisted_kafka.tools.cluster.zookeeper_server import ZooKeeperNotFoundError, find_zookeeper

pytestmark = [pytest.mark.long, pytest.mark.clients]

BROKERS = 3
COMMAND = [str(Path(sys.executable).with_name("twisted-kafka")), "cluster"]
READY = re.compile(r"Ready: bootstrap\.servers=(\S+)")
PID = re.compile(r"pid (\d+)")
WAIT_S = patient(60)


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@contextmanager
def running(directory: Path, *options: str) -> Iterator[tuple["subprocess.Popen[bytes]", str, list[int]]]:
    """A cluster that is ready: its process, its addresses, and the pids of its processes."""
    log = directory / "cluster.out"
    command = [*COMMAND, str(BROKERS), "--port", "0", "--zookeeper-port", "0", *options]
    with log.open("wb") as output:
        process = start_tied(command, cwd=directory, stdout=output, stderr=output)
    try:

        def ready() -> "re.Match[str] | None":
            assert process.poll() is None, log.read_text()
            return READY.search(log.read_text())

        addresses = eventually(ready, log.read_text, WAIT_S, 0.05)[1]
        yield process, addresses, [int(pid) for pid in PID.findall(log.read_text())]
    finally:
        process.kill()
        process.wait()


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.slow
def test_it_serves_from_all_brokers_and_ctrl_c_ends_everything(tmp_path: Path) -> None:
    needs_zookeeper()
    with running(tmp_path) as (process, addresses, pids):
        assert len(addresses.split(",")) == BROKERS
        assert len(pids) == BROKERS + 1
        admin = AdminClient({"bootstrap.servers": addresses})
        admin.create_topics([NewTopic("topic", 3)], operation_timeout=30)["topic"].result(60)
        assert {len(partition.replicas) for partition in described(admin, "topic").values()} == {BROKERS}
        producer = Producer({"bootstrap.servers": addresses})
        for number in range(30):
            producer.produce("topic", b"%d" % number, partition=number % 3)
        assert producer.flush(60) == 0
        for each in addresses.split(","):
            assert sorted(map(int, read_confluent(each, "topic", 30))) == list(range(30))
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 0
        assert all(is_gone(pid) for pid in pids)
    assert {path.name for path in (tmp_path / "kafka-cluster").iterdir()} == {"zookeeper", "broker-1", "broker-2", "broker-3"}


def test_nothing_is_left_when_it_is_killed(tmp_path: Path) -> None:
    needs_zookeeper()
    with running(tmp_path) as (process, _, pids):
        process.kill()
        process.wait()
        eventually(lambda: all(is_gone(pid) for pid in pids), lambda: pids)


def run(directory: Path, *options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *options],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def is_refused(status: object, errors: str, told: str) -> bool:
    return status == 1 and errors.startswith("twisted-kafka cluster: ") and told in errors and errors.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["three"], "the number of brokers must be from 1 to 100, not three"),
        (["3", "--port", "65534"], "option --port is out of range: 65534"),
        (["--override", "num.partitions=0"], "num.partitions"),
        (["--zookeeper", ""], "option --zookeeper must not be empty"),
    ],
    ids=str,
)
def test_a_bad_option_is_one_line_and_status_1(
    options: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [CLUSTER_COMMAND])
    with pytest.raises(SystemExit) as ended:
        Options().parseOptions(options)
    assert is_refused(ended.value.code, capfd.readouterr().err, told)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["0"], "the number of brokers must be from 1 to 100, not 0"),
        (["--zookeeper-home", "/nonexistent"], "/nonexistent has no zookeeper-VERSION.jar"),
    ],
    ids=str,
)
def test_the_program_ends_with_that_line(options: list[str], told: str, tmp_path: Path) -> None:
    done = run(tmp_path, *options)
    assert is_refused(done.returncode, done.stderr, told)


def test_a_machine_without_java_is_told_what_to_do(tmp_path: Path) -> None:
    done = run(tmp_path, "--port", "0", PATH=str(tmp_path))
    assert done.returncode == 1
    assert "ZooKeeper needs Java" in done.stderr
    assert "--zookeeper HOST:PORT" in done.stderr


def test_a_zookeeper_is_looked_for_where_it_is_named_then_in_debians_place_then_in_mavens(tmp_path: Path) -> None:
    home, debian, maven = tmp_path / "zookeeper-3.9", tmp_path / "debian.jar", tmp_path / "maven"
    with pytest.raises(ZooKeeperNotFoundError, match="no ZooKeeper was found: install Debian's packages"):
        find_zookeeper(None, debian=debian, maven=maven)
    jars = [touch(maven / f"org/apache/zookeeper/zookeeper/{name}/zookeeper-{name}.jar") for name in ("3.8.10", "3.8.4", "3.9.0")]
    jute = touch(maven / "org/apache/zookeeper/zookeeper-jute/3.8.10/zookeeper-jute-3.8.10.jar")
    touch(maven / "org/apache/zookeeper/zookeeper-jute/3.8.4/zookeeper-jute-3.8.4.jar")
    with pytest.raises(ZooKeeperNotFoundError):  # it needs others beside itself
        find_zookeeper(None, debian=debian, maven=maven)
    others = [
        touch(maven / "org/slf4j/slf4j-api/1.7.36/slf4j-api-1.7.36.jar"),
        touch(maven / "io/dropwizard/metrics/metrics-core/4.1.12.1/metrics-core-4.1.12.1.jar"),
        touch(maven / "org/xerial/snappy/snappy-java/1.1.10.5/snappy-java-1.1.10.5.jar"),
    ]
    found = find_zookeeper(None, debian=debian, maven=maven)
    assert found.class_path.split(":") == [str(jar) for jar in (jars[0], jute, *others)]  # 3.9.0 lacks its jute
    assert find_zookeeper(None, debian=touch(debian), maven=maven).class_path == str(debian)
    own = touch(home / "lib" / "zookeeper-3.9.3.jar")
    assert find_zookeeper(home, debian=debian, maven=maven).class_path == str(own)


def test_brokers_get_settings_of_their_own_and_common_ones(tmp_path: Path) -> None:
    common = {"num.partitions": "5", "min.insync.replicas": "1", "broker.id": "9", "listeners": "PLAINTEXT://:1"}
    plans = plan_brokers([1000, 1001], tmp_path, "localhost:2181/x", common)
    assert [plan.address for plan in plans] == ["127.0.0.1:1000", "127.0.0.1:1001"]
    assert [plan.properties["broker.id"] for plan in plans] == ["1", "2"]
    assert plans[1].properties["listeners"] == "PLAINTEXT://127.0.0.1:1001"
    assert len({plan.properties["log.dirs"] for plan in plans}) == 2
    for plan in plans:
        assert plan.properties["num.partitions"] == "5"
        assert plan.properties["min.insync.replicas"] == "1"
        assert plan.properties["offsets.topic.replication.factor"] == "2"
        assert plan.properties["zookeeper.connect"] == "localhost:2181/x"


def test_without_linux_a_process_looks_whether_its_parent_lives(tmp_path: Path) -> None:
    # The parent prints the pid of the tied program's child, and is killed.
    tied = Path(__file__).parents[2] / "twisted_kafka" / "tools" / "cluster" / "tied.py"
    child = tmp_path / "child"
    command = f"[str(os.getpid()), 'sh', '-c', 'echo $$ > {child}.new; mv {child}.new {child}; exec sleep 300']"
    program = f"""
import os, runpy, subprocess, sys
main = runpy.run_path({str(tied)!r}, run_name="tied")["main"]
words = {command}
if os.fork() == 0:
    os._exit(main(words, platform="darwin"))
os.wait()
"""
    parent = start_tied([sys.executable, "-c", program])
    pid = int(eventually(lambda: child.exists() and child.read_text()))
    assert not is_gone(pid)
    parent.kill()
    parent.wait()
    eventually(lambda: is_gone(pid))
