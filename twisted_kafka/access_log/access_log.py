"""AccessLog: what the network layer tells of each request, turned into a line and queued for the writer."""

from pathlib import Path

from zope.interface import implementer

from twisted_kafka.access_log.record import LineMaker
from twisted_kafka.access_log.rotation import LogFiles
from twisted_kafka.access_log.writer import AccessLogWriter
from twisted_kafka.config.broker_config import KafkaConfig
from twisted_kafka.metrics.registry import MetricsRegistry
from twisted_kafka.network.interfaces import IRequestObserver
from twisted_kafka.network.request import Request
from twisted_kafka.timing.clock import IClock


@implementer(IRequestObserver)
class AccessLog:
    """Writes one line about every request that is over; keys `access.log.*`."""

    def __init__(self, writer: AccessLogWriter, lines: LineMaker) -> None:
        self.writer = writer
        self._line = lines.line

    def request_completed(self, request: Request) -> None:
        """Queue the request's line, or count it as dropped when too many wait."""
        writer = self.writer
        if writer.has_room:
            writer.append(self._line(request))
        else:
            writer.drop()

    def start(self) -> None:
        """Begin to write."""
        self.writer.start()

    def stop(self) -> None:
        """Write what waits and close the file."""
        self.writer.stop()


def make_access_log(config: KafkaConfig, node_id: int, clock: IClock, metrics: MetricsRegistry) -> AccessLog | None:
    """Make the access log that the configuration asks for; None when access.log.enable is false or access.log.dir not set."""
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
    return AccessLog(writer, LineMaker(node_id, clock, config.int("access.log.max.topics")))
