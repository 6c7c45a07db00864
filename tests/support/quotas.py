"""Quota managers on a clock, a timer and configs that the test moves."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.support.fake import Fake
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.requests.kafka_principal import KafkaPrincipal
from twisted_kafka.network.requests.request_context import ConnectionInfo, RequestContext
from twisted_kafka.quota.quota_managers import QuotaManagers
from twisted_kafka.timing.clock import ManualClock
from twisted_kafka.timing.scheduler import ManualScheduler
from twisted_kafka.timing.timer import Timer


class Configs(Fake):
    """A metadata store's configs, in a dictionary."""

    def __init__(self, nodes: dict[str, dict[str, str]] | None = None) -> None:
        self.nodes = dict(nodes or {})
        self.reads = 0
        """How many configs were read by ``each``."""
        self._listeners: dict[str, Callable[[str, dict[str, str]], None]] = {}

    def config(self, entity_path: str) -> dict[str, str]:
        return dict(self.nodes.get(entity_path, {}))

    def each(self, entity_paths: Iterable[str]) -> Iterator[dict[str, str]]:
        for path in entity_paths:
            self.reads += 1
            yield self.config(path)

    def names(self, entity_type: str) -> list[str]:
        prefix = entity_type + "/"
        return sorted({path[len(prefix) :].split("/")[0] for path in self.nodes if path.startswith(prefix)})

    def change(self, entity_path: str, alter: Callable[[dict[str, str]], dict[str, str] | None]) -> None:
        config = alter(self.config(entity_path))
        if config is not None:
            self.write(entity_path, config)

    def write(self, entity_path: str, config: dict[str, str]) -> None:
        self.nodes[entity_path] = config
        kind, _, name = entity_path.partition("/")
        if kind in self._listeners:
            self._listeners[kind](name, config)

    def add_listener(self, entity_type: str, listener: Callable[[str, dict[str, str]], None]) -> None:
        self._listeners[entity_type] = listener


class Quotas:
    """The quotas of a broker."""

    def __init__(self, nodes: dict[str, dict[str, str]] | None = None, **properties: Any) -> None:
        self.clock = ManualClock()
        self.timer = Timer(self.clock)
        self.scheduler = ManualScheduler(self.clock)
        self.metrics = MetricsRegistry(self.clock)
        self.configs = Configs(nodes)
        given = {key.replace("_", "."): str(value) for key, value in properties.items()}
        self.managers = QuotaManagers(KafkaConfig.embedded(given), self.clock, self.metrics, self.timer)
        self.observed = 0
        self.managers.start(self.configs, self.scheduler, self._observe)

    def _observe(self) -> None:
        self.observed += 1

    def advance_ms(self, ms: int) -> None:
        """Move the clock in steps, so that what is due on the way happens in time."""
        for _ in range(ms):
            self.clock.advance_ms(1)
            self.timer.expire_due()
        self.scheduler.run_due()

    def measured(self, type_: str, name: str) -> dict[str, Any]:
        """The values of a metric by user and client id."""
        return {
            " ".join(f"{key}:{value}" for key, value in metric.tags): instrument.value
            for metric, instrument in self.metrics.items()
            if (metric.type, metric.name) == (type_, name)
        }


def no_quotas() -> QuotaManagers:
    return Quotas().managers


def request_of(user: str = "ANONYMOUS", client_id: str | None = "app", api_key: int = 0, version: int = 9) -> RequestContext:
    """The context of a client's request."""
    connection = ConnectionInfo("c", "L", "PLAINTEXT", "-")
    connection.principal = KafkaPrincipal("User", user)
    return RequestContext(api_key, version, 1, client_id, connection)
