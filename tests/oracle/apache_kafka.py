"""Apache Kafka 3.9 in ZooKeeper mode, run as plain processes to be asked the same questions."""

import signal
import subprocess
import time
from pathlib import Path

from tests.clients.clients import HERE, java_class_path
from tests.clients.served import answers, free_port

START_TIMEOUT_S = 90
STOP_TIMEOUT_S = 30


class ApacheKafka:
    """One broker (id 1) and its ZooKeeper below ``directory``; only for tests that may take a while."""

    def __init__(self, directory: Path, **settings: object) -> None:
        self.directory = directory
        self.port = free_port()
        self._zookeeper_port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._settings = {
            "broker.id": 1,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "zookeeper.connect": f"127.0.0.1:{self._zookeeper_port}",
            "log.dirs": directory / "data",
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "log.retention.check.interval.ms": 3_600_000,
        } | settings

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def broker_pid(self) -> int:
        return self._processes[-1].pid

    def start(self) -> None:
        """Start both and wait for the broker's first answer; raises AssertionError with the log's end when it does not come."""
        (self.directory / "zookeeper").mkdir(parents=True)
        zookeeper = self.directory / "zookeeper.properties"
        zookeeper.write_text(
            f"dataDir={self.directory / 'zookeeper'}\nclientPort={self._zookeeper_port}\nclientPortAddress=127.0.0.1\n"
            "maxClientCnxns=0\nadmin.enableServer=false\n"
        )
        server = self.directory / "server.properties"
        server.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        self._run("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(zookeeper))
        broker = self._run("kafka.Kafka", str(server))
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(self.port):
            if broker.poll() is not None or time.monotonic() > deadline:
                log = (self.directory / "kafka.Kafka.log").read_text()
                raise AssertionError(f"Apache Kafka did not start:\n{log[-3000:]}")
            time.sleep(0.1)

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

    def _run(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        class_path = java_class_path()
        assert class_path is not None
        logging = f"-Dlog4j.configuration=file:{HERE / 'java' / 'log4j.properties'}"
        command = ["java", "-Xmx512M", logging, f"-Dkafka.logs.dir={self.directory}", "-cp", class_path, main, *arguments]
        with (self.directory / f"{main}.log").open("ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=self.directory)
        self._processes.append(process)
        return process
