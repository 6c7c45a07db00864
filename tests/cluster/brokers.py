"""A broker of a cluster as a process of its own: ours, or Apache Kafka's 3.9 in ZooKeeper mode, with the same settings."""

import os
import signal
import subprocess
import time
from enum import Enum
from pathlib import Path

from tests.support.budget import patient
from tests.support.clients.clients import java_class_path, java_machine
from tests.support.clients.served import BROKER_PYTHON, STOP_TIMEOUT_S, answers, cpu_s
from tests.support.ports import free_port
from tests.support.processes import start_tied

START_LIMIT_S = patient(240)
START_CPU_S = 60
_START_TIMEOUT_S = 60
_HEAP = "-Xmx256M"


class Kind(Enum):
    """Whose broker."""

    OURS = "twisted_kafka"
    APACHE = "Apache Kafka"


class BrokerProcess:
    """One broker below ``directory``; its listener for clients is on ``port``, that for the other brokers on ``internal_port``."""

    def __init__(self, kind: Kind, broker_id: int, directory: Path) -> None:
        self.kind = kind
        self.id = broker_id
        self.directory = directory
        self.port = free_port()
        self.internal_port = free_port()
        self.settings: dict[str, object] = {}
        self.more_settings: dict[str, object] = {}
        """What this broker has in addition."""
        self.java_options: list[str] = []
        """Of Apache Kafka's; a later one counts."""
        self.environment: dict[str, str] = {}
        """What its process has in addition to this one's."""
        self.log_dirs = [directory / "log"]
        self.output = directory / "output"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_dir(self) -> Path:
        """Its only one, or its first."""
        return self.log_dirs[0]

    def log_of(self, partition: str) -> Path:
        """Return the directory of a replica, named such as ``topic-0``."""
        return next((path for path in (each / partition for each in self.log_dirs) if path.exists()), self.log_dir / partition)

    @property
    def pid(self) -> int | None:
        """The process's id, None if it does not run."""
        return None if self._process is None else self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started, and has not ended."""
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start it and do not wait."""
        properties = self.write_settings()
        command = self._ours(properties) if self.kind is Kind.OURS else self._apaches(properties)
        with self.output.open("ab") as output:
            self._process = start_tied(
                command,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd=self.directory,
                env={**os.environ, **self.environment},
            )

    def write_settings(self) -> Path:
        """Write its properties file, and return that."""
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in (self.settings | self.more_settings).items()))
        return properties

    def wait_until_it_answers(self) -> None:
        """Raise AssertionError with the end of its output if it ends, or has had time enough."""
        began = time.monotonic()
        while not answers(self.port):
            waited_s = time.monotonic() - began
            is_late = waited_s > _START_TIMEOUT_S and (waited_s > START_LIMIT_S or cpu_s(self.pid or 0) > START_CPU_S)
            assert self.is_running, f"broker {self.id} ended:\n{self.tail()}"
            assert not is_late, f"broker {self.id} did not start:\n{self.tail()}"
            time.sleep(0.05)

    def start(self) -> None:
        """Start it and wait until it answers clients."""
        self.launch()
        self.wait_until_it_answers()

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def wait_until_it_ends(self, wait_s: float) -> int:
        """Return the exit status of a process that ends by itself."""
        assert self._process is not None
        try:
            return self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"broker {self.id} did not end:\n{self.tail()}") from None

    def stop(self) -> int:
        """Have it stop as on SIGTERM; return its exit status."""
        assert self._process is not None
        self.signal(signal.SIGTERM)
        try:
            return self._process.wait(2 * STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"broker {self.id} did not stop:\n{self.tail()}") from None
        finally:
            self.kill()

    def tail(self, count: int = 4000) -> str:
        """Return the end of what it printed."""
        return self.output.read_text(errors="replace")[-count:] if self.output.exists() else ""

    def _ours(self, properties: Path) -> list[str]:
        twistd = str(Path(BROKER_PYTHON).with_name("twistd"))
        return [twistd, "--pidfile=", "-n", "kafka", "--config", str(properties)]

    def _apaches(self, properties: Path) -> list[str]:
        class_path = java_class_path()
        assert class_path is not None
        command = java_machine(class_path)
        command[1:1] = ["-XX:+UseSerialGC", "-Xshare:auto", f"-Dkafka.logs.dir={self.directory}"]
        heap = command.index("-Xmx512M")
        command[heap : heap + 1] = [_HEAP, *self.java_options]
        if os.environ.get("KAFKA_LOG4J"):  # for looking into a failure
            command.insert(1, f"-Dlog4j.configuration=file:{os.environ['KAFKA_LOG4J']}")
        return [*command, "kafka.Kafka", str(properties)]
