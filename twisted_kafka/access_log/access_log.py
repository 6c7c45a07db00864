"""AccessLog: what the network layer tells of each request, turned into a line and queued for the writer."""

from collections.abc import Callable, Sequence
from pathlib import Path

from zope.interface import classImplements

from twisted_kafka.access_log.archive import PARQUET, Archive
from twisted_kafka.access_log.privacy import FieldPolicy
from twisted_kafka.access_log.record import LineMaker
from twisted_kafka.access_log.rotation import LogFiles
from twisted_kafka.access_log.sampling import Sampler
from twisted_kafka.access_log.writer import AccessLogWriter
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.config.errors import ConfigError
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.requests.request import Request
from twisted_kafka.network.requests.request_observer import IRequestObserver
from twisted_kafka.timing.clock import IClock


class AccessLog:
    """Writes one line about every request that is over; keys `access.log.*`."""

    def __init__(self, writer: AccessLogWriter, lines: LineMaker, archive: Archive, sampler: Sampler | None = None) -> None:
        self.writer = writer
        self._line = lines.line
        self._archive = archive
        self._sampler = sampler
        if sampler is not None:
            self._weight = sampler.weight

    def request_completed(self, request: Request) -> None:
        """Queue the request's line, or count it as dropped when too many wait.

        The line is made here and now: a thread of its own for that would take the interpreter from those who serve requests for
        longer (docs/adr/0018).
        """
        if self._sampler is None:
            self.writer.add(self._line(request))
            return
        weight = self._weight(request)
        if weight:
            self.writer.add(self._line(request, weight))
        else:
            self.writer.pass_over()

    def publish_to(self, publish: Callable[[Sequence[str]], int]) -> None:
        """Have the writer hand its lines to `publish` too, which returns how many it could not take."""
        self.writer.publish = publish

    def start(self) -> None:
        """Begin to write; raise ConfigError where no file can be written."""
        try:
            self.writer.start()
        except OSError as error:
            raise ConfigError(f"Cannot use access.log.dir: {error.strerror}: {error.filename}") from error
        self._archive.start()

    def stop(self) -> None:
        """Write what waits and close the file."""
        self.writer.stop()
        self._archive.stop()


classImplements(AccessLog, IRequestObserver)


def make_access_log(config: KafkaConfig, node_id: int, clock: IClock, metrics: MetricsRegistry) -> AccessLog | None:
    """Make the access log that the configuration asks for; None when access.log.enable is false or access.log.dir not set.

    Raises ConfigError for a setting that cannot be kept.
    """
    directory = config.optional_string("access.log.dir")
    if not config.boolean("access.log.enable") or not directory:
        return None
    files = LogFiles(
        Path(directory), node_id, roll_bytes=config.long("access.log.roll.bytes"), roll_ms=config.long("access.log.roll.ms")
    )
    writer = AccessLogWriter(
        files,
        clock,
        metrics,
        queue_size=config.int("access.log.queue.size"),
        write_interval_ms=config.int("access.log.write.interval.ms"),
    )
    policy = FieldPolicy(
        config.list("access.log.fields.exclude"),
        config.list("access.log.fields.hash"),
        config.optional_string("access.log.hash.key"),
    )
    lines = LineMaker(node_id, clock, config.int("access.log.max.topics"), policy)
    return AccessLog(writer, lines, _archive(config, Path(directory), node_id, clock), _sampler(config))


def _archive(config: KafkaConfig, directory: Path, node_id: int, clock: IClock) -> Archive:
    form = config.string("access.log.archive.format")
    if form == PARQUET:
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise ConfigError("access.log.archive.format=parquet needs pyarrow: pip install 'twisted_kafka[parquet]'") from None
    return Archive(
        directory,
        node_id,
        clock,
        form=form,
        retention_hours=config.int("access.log.retention.hours"),
        retention_bytes=config.long("access.log.retention.bytes"),
    )


def _sampler(config: KafkaConfig) -> Sampler | None:
    one_in = round(1 / config.double("access.log.sample.rate"))
    return Sampler(one_in, config.int("access.log.sample.slow.ms")) if one_in > 1 else None
