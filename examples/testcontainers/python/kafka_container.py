"""A broker in a container for tests, with testcontainers-python (pip install testcontainers) and the image of the Dockerfile.

    with KafkaContainer() as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

Tests in Python need no container: docs/testing.md.
"""

import socket
from typing import Any

from testcontainers.core.container import DockerContainer
from testcontainers.core.waiting_utils import wait_for_logs

PORT = 9092
START_S = 30.0


class KafkaContainer(DockerContainer):
    """A broker that listens on a free port of this machine. Settings are by Kafka's names."""

    def __init__(self, image: str = "twisted-kafka", settings: dict[str, object] | None = None, **kwargs: Any) -> None:
        super().__init__(image, **kwargs)
        # The broker sends its address to clients, so the port is chosen before it starts.
        with socket.socket() as free:
            free.bind(("", 0))
            self._port = free.getsockname()[1]
        self.with_bind_ports(PORT, self._port)
        for key, value in (settings or {}).items():
            name = key.replace("_", "__").replace("-", "___").replace(".", "_").upper()
            self.with_env(f"KAFKA_{name}", str(value))

    @property
    def bootstrap_servers(self) -> str:
        """The `bootstrap.servers` of clients."""
        return f"{self.get_container_host_ip()}:{self._port}"

    def start(self) -> "KafkaContainer":
        """Start, and wait until the broker listens."""
        self.with_env("KAFKA_ADVERTISED_LISTENERS", f"PLAINTEXT://{self.get_container_host_ip()}:{self._port}")
        super().start()
        wait_for_logs(self, "listens on", timeout=START_S)
        return self
