"""Keys that Apache Kafka does not have: the access log, metrics over HTTP, bounds of TLS handshakes."""

from twisted_kafka.config.keys.declare import BOOLEAN, INT, LONG, LOW, MEDIUM, READ_ONLY, STRING, ConfigKey, at_least

# A key takes two lines, the second says what it does: a table, which the formatter would pull apart.
# fmt: off
KEYS: tuple[ConfigKey, ...] = (
    ConfigKey("access.log.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
              "Write one line about every request that was answered, once access.log.dir says where."),
    ConfigKey("access.log.dir", STRING, None, None, MEDIUM, READ_ONLY,
              "Where the access log is written; unset: access/ in twistd's data directory, and nowhere for an embedded broker."),
    ConfigKey("access.log.queue.size", INT, 100_000, at_least(1), LOW, READ_ONLY,
              "How many lines may wait to be written; further ones are dropped and counted."),
    ConfigKey("access.log.write.interval.ms", INT, 200, at_least(1), LOW, READ_ONLY,
              "How often waiting lines are written to the file."),
    ConfigKey("access.log.roll.bytes", LONG, 268_435_456, at_least(1024), LOW, READ_ONLY,
              "A file is closed and a new one begun at this size."),
    ConfigKey("access.log.roll.ms", LONG, 300_000, at_least(1000), LOW, READ_ONLY,
              "A file is closed at this age, so that it can be read; it is at the end of the hour in any case."),
    ConfigKey("access.log.max.topics", INT, 100, at_least(0), LOW, READ_ONLY,
              "How many topics one line may list; the line tells how many it left out."),
    ConfigKey("metrics.listener", STRING, None, None, MEDIUM, READ_ONLY,
              "Where Prometheus reads the metrics over HTTP: host:port, the page is /metrics; unset: nowhere."),
    ConfigKey("ssl.handshake.timeout.ms", INT, 10_000, at_least(1), LOW, READ_ONLY,
              "A connection to a TLS listener whose handshake takes longer is closed."),
    ConfigKey("ssl.handshake.max.pending", INT, 1_000, at_least(1), LOW, READ_ONLY,
              "How many TLS handshakes a network thread has under way; one more closes the connection that has taken longest."),
)
# fmt: on
