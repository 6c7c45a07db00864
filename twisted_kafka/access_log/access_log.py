"""The access log as an observer of requests: formats a line for each and queues it for the writer."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

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
from twisted_kafka.network.requests.request_context import GroupNote, ShareCounts, TopicNote, TransactionNote
from twisted_kafka.system.installation import install_command
from twisted_kafka.timing.clock import IClock


class AccessLog:
    """Writes one line per completed request, per transaction that ends without one, and per member of a share group that loses
    records without one; keys ``access.log.*``."""

    def __init__(self, writer: AccessLogWriter, lines: LineMaker, archive: Archive, sampler: Sampler | None = None) -> None:
        self.writer = writer
        self._lines = lines
        self._archive = archive
        self._sampler = sampler

    def request_completed(self, request: Request) -> None:
        """Queue the request's line, or count it as dropped if the queue is full.

        The line is formatted on the calling thread: formatting on another thread would take the interpreter lock from request
        threads for longer (docs/adr/0018).
        """
        if self._sampler is None:
            self.writer.add(self._lines.line(request))
            return
        weight = self._sampler.weight(request)
        if weight:
            self.writer.add(self._lines.line(request, weight))
        else:
            self.writer.count_sampled_out()

    def transaction_ended(self, transaction: TransactionNote, topics: Sequence[TopicNote]) -> None:
        """Queue the line of a transaction's end that no request's line has, such as a timeout. May be called on any thread."""
        self.writer.add(self._lines.own_line(transaction, topics))

    def records_lost(self, group: GroupNote, topics: Sequence[TopicNote], shares: Mapping[str, ShareCounts]) -> None:
        """Queue the line of records that a share group's member has lost without a request. May be called on any thread."""
        self.writer.add(self._lines.share_line(group, topics, shares))

    def publish_to(self, publish: Callable[[Sequence[str]], int]) -> None:
        """Pass written lines to ``publish`` too, which returns how many it could not append."""
        self.writer.publish = publish

    def start(self) -> None:
        """Start writing; raises ConfigError if the directory is not writable."""
        try:
            self.writer.start()
        except OSError as error:
            raise ConfigError(f"Cannot use access.log.dir: {error.strerror}: {error.filename}") from error
        self._archive.start()

    def stop(self) -> None:
        """Write the queued lines and close the file."""
        self.writer.stop()
        self._archive.stop()


def make_access_log(config: KafkaConfig, node_id: int, clock: IClock, metrics: MetricsRegistry) -> AccessLog | None:
    """Make the configured access log; None if ``access.log.enable`` is false or ``access.log.dir`` is not set.

    Raises ConfigError if a setting needs a package that is not installed.
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
        queue_bytes=config.long("access.log.queue.bytes"),
        write_interval_ms=config.int("access.log.write.interval.ms"),
    )
    policy = FieldPolicy(
        config.list("access.log.fields.exclude"),
        config.list("access.log.fields.hash"),
        config.optional_string("access.log.hash.key"),
    )
    lines = LineMaker(node_id, clock, config.int("access.log.max.topics"), config.int("access.log.max.partitions"), policy)
    return AccessLog(writer, lines, _archive(config, Path(directory), node_id, clock), _sampler(config))


def _archive(config: KafkaConfig, directory: Path, node_id: int, clock: IClock) -> Archive:
    form = config.string("access.log.archive.format")
    if form == PARQUET:
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise ConfigError(f"access.log.archive.format=parquet needs pyarrow: {install_command('parquet')}") from None
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
