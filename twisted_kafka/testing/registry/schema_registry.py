"""A schema registry under test.

with Broker() as kafka, SchemaRegistry(kafka) as registry:
    ...  # clients use registry.url
    assert registry.subjects() == ["orders-value"]
"""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from typing_extensions import override

from twisted_kafka.schema_registry.formats import check_installed
from twisted_kafka.schema_registry.registry import EVERYWHERE, LATEST, PRESENT, Filter, Registration, Registry
from twisted_kafka.schema_registry.stored import AVRO, Reference, StoredSchema
from twisted_kafka.testing.arguments import check_text, check_whole
from twisted_kafka.testing.clock import Clock
from twisted_kafka.testing.kafka import Kafka
from twisted_kafka.testing.registry.listener import Listener
from twisted_kafka.testing.registry.requests import RegistryRequests
from twisted_kafka.testing.registry.rules import RegistryFaults, RegistryRule
from twisted_kafka.testing.registry.topic_log import TopicLog

__tracebackhide__ = True

TOPIC: Final = "_schemas"


class SchemaRegistry:
    """Serves Confluent's REST API for a broker or a cluster under test, and keeps the schemas in its topic ``_schemas``.

    The methods need no client. They are not in ``requests``, and no fault applies to them. They raise RegistryError, with
    Confluent's ``code`` and one line.
    """

    def __init__(
        self,
        kafka: Kafka,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        topic: str = TOPIC,
        rules: Iterable[RegistryRule | Mapping[str, Any]] = (),
    ) -> None:
        """``rules`` are in force from the start. Port 0 is a free port.

        Raises ValueError for an invalid rule, and ImportError, one line, without the extra ``schema-registry``.
        """
        check_installed()
        if not isinstance(kafka, Kafka):
            raise TypeError(f"{kafka!r:.80} is of type {type(kafka).__name__}: expected a Broker or a Cluster")
        self.kafka = kafka
        self.faults = RegistryFaults()
        """The rules for requests to the registry."""
        self.requests = RegistryRequests()
        """The clients' requests, oldest first."""
        self.topic = topic
        """The topic with the schemas."""
        for rule in rules:
            self.faults.add(rule)
        self._rules = [fault.rule for fault in self.faults]
        self._host = host
        self._port = port
        self._log = TopicLog(kafka, topic)
        self._registry = Registry(self._log)
        self._listener: Listener | None = None
        self._url = ""

    # Life

    @property
    def clock(self) -> Clock:
        """The broker's clock."""
        return self.kafka.clock

    @property
    def url(self) -> str:
        """The address for clients (``schema.registry.url``); it stays after a stop. Raises RuntimeError before the start."""
        if not self._url:
            raise RuntimeError("the schema registry does not run: start() it, or use it inside its with block")
        return self._url

    @property
    def is_running(self) -> bool:
        """Whether it serves."""
        return self._listener is not None

    def start(self) -> None:
        """Read the topic, and serve, at the same address as before a stop. Raises BrokerError, and OSError, one line."""
        if self._listener is not None:
            raise RuntimeError("the schema registry runs already: a with block and the fixture start it")
        self._log.create()
        listener = Listener(self._registry, self.faults, self.requests, self.clock, self._host, self._port)
        listener.start()
        self._listener, self._port, self._url = listener, listener.port, listener.url
        self.requests.open()

    def stop(self) -> None:
        """Close the port and all connections. The schemas stay in the topic. Harmless when it does not run."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.stop()
        self.requests.close()

    def restart(self) -> None:
        """Stop and start: clients connect again to the same address, and find the same schemas."""
        self.stop()
        self.start()

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """Be stopped for a ``with`` block: clients get no connection."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def clear_state(self) -> None:
        """Forget requests, and return to the rules of the start. The schemas stay."""
        self.faults.clear()
        self.requests.clear()
        for rule in self._rules:
            self.faults.add(rule)

    def close(self) -> None:
        """Stop, and remove the rules. A ``with`` block ends with it."""
        self.faults.clear()
        self.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    @override
    def __reduce__(self) -> NoReturn:
        """Raise TypeError: a registry stays in its process."""
        raise TypeError("a SchemaRegistry cannot be copied or sent to another process: send its url")

    @override
    def __repr__(self) -> str:
        return f"<SchemaRegistry {self._url or 'not started'}{'' if self.is_running or not self._url else ', stopped'}>"

    # Schemas

    def register(
        self,
        subject: str,
        schema: str | Mapping[str, Any] | list[Any],
        schema_type: str = AVRO,
        *,
        references: Iterable[tuple[str, str, int]] = (),
        normalize: bool = False,
    ) -> int:
        """Register a schema; return its id. ``schema`` is a text, or JSON as Python has it.

        ``references`` are a name, a subject and a version each.
        """
        check_text("subject", subject)
        check_text("schema type", schema_type)
        if not isinstance(schema, str | Mapping | list):
            raise TypeError(
                f"the schema {schema!r:.80} is of type {type(schema).__name__}: expected a text, or JSON as Python has it"
            )
        text = schema if isinstance(schema, str) else json.dumps(schema)
        wanted = Registration(text, schema_type, tuple(map(_reference, references)))
        with self._registry:
            return self._registry.register(subject, wanted, normalize=normalize).schema_id

    def subjects(self, *, deleted: bool = False) -> list[str]:
        """Return the sorted names of the subjects; with ``deleted``, also of softly deleted ones."""
        with self._registry:
            return self._registry.subjects(EVERYWHERE, Filter(deleted=deleted))

    def versions(self, subject: str) -> list[int]:
        """Return the numbers of a subject's versions."""
        check_text("subject", subject)
        with self._registry:
            return [each.version for each in self._registry.versions(subject, PRESENT)]

    def version(self, subject: str, version: int | str = LATEST) -> StoredSchema:
        """Return a version of a subject: its ``schema``, ``schema_type``, ``schema_id``, ``references``."""
        check_text("subject", subject)
        with self._registry:
            return self._registry.version(subject, str(version))

    def schema(self, schema_id: int) -> StoredSchema:
        """Return the schema with an id, as records begin with it."""
        check_whole("schema_id", schema_id)
        with self._registry:
            return self._registry.with_id(schema_id, None)[0]

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the compatibility level of a subject, or of all: NONE, BACKWARD, FORWARD or FULL, or one of them with _TRANSITIVE."""
        check_text("level", level)
        with self._registry:
            self._registry.set_config(subject, {"compatibility": level})

    def set_mode(self, mode: str, subject: str | None = None, *, force: bool = False) -> None:
        """Set the mode of a subject, or of all: READWRITE, READONLY or IMPORT."""
        check_text("mode", mode)
        with self._registry:
            self._registry.set_mode(subject, mode, force=force)

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Delete a subject's versions, softly unless ``permanent``; return their numbers."""
        check_text("subject", subject)
        with self._registry:
            return self._registry.delete_subject(subject, permanent=permanent)

    def told(self, count: int = 20) -> str:
        """Return the last requests of clients, a line each."""
        return self.requests.told(count)


def _reference(given: tuple[str, str, int]) -> Reference:
    try:
        name, subject, version = given
    except (TypeError, ValueError):
        text = f"the reference {given!r:.80}: expected a name, a subject and a version, as in ('line.json', 'line', 1)"
        raise TypeError(text) from None
    check_text("name of a reference", name)
    check_text("subject of a reference", subject)
    check_whole("version of a reference", version)
    return Reference(name, subject, version)
