"""Apache Kafka as plain processes to be asked the same questions: 3.9 or another version, with ZooKeeper or alone in KRaft mode."""

import signal
import subprocess
import time
from pathlib import Path

from tests.support.budget import patient
from tests.support.clients.clients import PROGRAMS, java_class_path, java_library, old_java_class_path
from tests.support.clients.served import answers, lists_brokers
from tests.support.ports import free_port
from tests.support.processes import start_tied

START_TIMEOUT_S = patient(90)
STOP_TIMEOUT_S = patient(30)
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class ApacheKafka:
    """One broker (id 1) and its ZooKeeper (with ``kraft``: its controller) below ``directory``; for tests that may take a while."""

    def __init__(self, directory: Path, *, kraft: bool = False, version: str | None = None, **settings: object) -> None:
        self.directory = directory
        self._version = version
        self.port = free_port()
        self.log4j = PROGRAMS / "java" / "log4j.properties"
        self._kraft = kraft
        self._zookeeper_port = free_port()  # or the controller's
        self._processes: list[subprocess.Popen[bytes]] = []
        self._settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": directory / "data",
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "log.retention.check.interval.ms": 3_600_000,
        }
        self._settings |= self._kraft_settings() if kraft else self._zookeeper_settings()
        self._settings |= settings

    def _zookeeper_settings(self) -> dict[str, object]:
        return {"broker.id": 1, "zookeeper.connect": f"127.0.0.1:{self._zookeeper_port}"}

    def _kraft_settings(self) -> dict[str, object]:
        controller = f"127.0.0.1:{self._zookeeper_port}"
        return {
            "node.id": 1,
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
        }

    def change(self, **settings: object) -> None:
        """Have other settings from the next start on."""
        self._settings |= settings

    @property
    def settings(self) -> dict[str, object]:
        """What its server.properties says."""
        return dict(self._settings)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def broker_pid(self) -> int:
        return self._processes[-1].pid

    @property
    def zookeeper(self) -> str:
        return f"127.0.0.1:{self._zookeeper_port}"

    def start(self) -> None:
        """Start both and wait until the broker knows of itself; raises AssertionError with the log's end when it does not come."""
        if not self._kraft:
            self.start_zookeeper()
        self.start_broker()

    def start_broker(self) -> None:
        """Start the broker alone."""
        self.directory.mkdir(parents=True, exist_ok=True)
        server = self.directory / "server.properties"
        server.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        if self._kraft:
            format_storage = self._run(
                "kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", CLUSTER_ID, "-c", str(server)
            )
            assert format_storage.wait(START_TIMEOUT_S) == 0
            self._processes.remove(format_storage)
        broker = self._run("kafka.Kafka", str(server))
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (answers(self.port) and lists_brokers(self.port)):
            if broker.poll() is not None or time.monotonic() > deadline:
                log = (self.directory / "kafka.Kafka.log").read_text()
                raise AssertionError(f"Apache Kafka did not start:\n{log[-3000:]}")
            time.sleep(0.1)

    def start_zookeeper(self) -> None:
        """Start ZooKeeper alone."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "zookeeper").mkdir(exist_ok=True)
        zookeeper = self.directory / "zookeeper.properties"
        zookeeper.write_text(
            f"dataDir={self.directory / 'zookeeper'}\nclientPort={self._zookeeper_port}\nclientPortAddress=127.0.0.1\n"
            "maxClientCnxns=0\nadmin.enableServer=false\n"
        )
        self._run("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(zookeeper))

    def kill_broker(self) -> None:
        """Kill the broker alone."""
        broker = self._processes.pop()
        broker.kill()
        broker.wait()

    def stop_broker(self) -> None:
        """Stop the broker alone."""
        broker = self._processes.pop()
        broker.send_signal(signal.SIGTERM)
        broker.wait(STOP_TIMEOUT_S)

    def stop(self) -> None:
        """Stop the broker, then ZooKeeper."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def kill(self) -> None:
        """End both at once: nobody needs their data any more, and a clean stop takes seconds."""
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes.clear()

    def _run(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        logging = f"-Dlog4j.configuration=file:{self.log4j}"
        java = ["java", "-Xmx512M", logging, f"-Dkafka.logs.dir={self.directory}", *_class_path_of(self._version)]
        command = [*java, main, *arguments]
        with (self.directory / f"{main}.log").open("ab") as output:
            process = start_tied(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=self.directory)
        self._processes.append(process)
        return process


def _class_path_of(version: str | None) -> list[str]:
    """Return Java's options for this version of Kafka."""
    if version is None:
        path, options = java_class_path(), []
    elif version.startswith("0."):
        # It takes the Java version apart, and expects 1.x.
        path, options = old_java_class_path(version), ["-Djava.specification.version=1.8"]
    else:
        path, options = java_library("kafka_2.13", version), []
    assert path is not None
    return [*options, "-cp", path]
