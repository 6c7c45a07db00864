"""Keys that Apache Kafka does not have: the access log, metrics over HTTP, bounds of TLS handshakes."""

from twisted_kafka.config.keys.declare import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    READ_ONLY,
    STRING,
    Between,
    ConfigKey,
    EachOf,
    OneOf,
    at_least,
)

HIDEABLE = ("listener", "protocol", "connection", "principal", "client_id", "software", "software_version")
"""Fields of the access log that may be left out: those of the client and its connection."""
HASHABLE = ("connection", "principal", "client_id")

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
    ConfigKey("access.log.archive.format", STRING, "jsonl", OneOf(("jsonl", "zstd", "parquet")), LOW, READ_ONLY,
              "What a closed file becomes after a minute: jsonl leaves it, zstd compresses it, parquet makes columns of it."),
    ConfigKey("access.log.retention.hours", INT, 168, at_least(-1), MEDIUM, READ_ONLY,
              "A closed file is deleted at this age; -1: never."),
    ConfigKey("access.log.retention.bytes", LONG, -1, at_least(-1), MEDIUM, READ_ONLY,
              "The oldest closed files are deleted while all of them have more bytes than this; -1: no limit."),
    ConfigKey("access.log.sample.rate", DOUBLE, 1.0, Between(0.0001, 1.0), LOW, READ_ONLY,
              "Share of the requests that get a line, rounded to one in N; failed and slow ones always do."),
    ConfigKey("access.log.sample.slow.ms", INT, 100, at_least(0), LOW, READ_ONLY,
              "A request that took so long, not counting what fetches and joins wait for, gets a line in any case."),
    ConfigKey("access.log.fields.exclude", LIST, (), EachOf(HIDEABLE), LOW, READ_ONLY,
              "Fields that are left out of the lines."),
    ConfigKey("access.log.fields.hash", LIST, (), EachOf(HASHABLE), LOW, READ_ONLY,
              "Fields of which the lines have a keyed hash instead; of connection, the client's address."),
    ConfigKey("access.log.hash.key", PASSWORD, None, None, LOW, READ_ONLY,
              "Key of these hashes, the same on all brokers; unset: drawn at each start."),
    ConfigKey("access.log.topic.enable", BOOLEAN, False, None, MEDIUM, READ_ONLY,
              "Publish the lines to the topic __access_log as well."),
    ConfigKey("access.log.topic.num.partitions", INT, 1, at_least(1), LOW, READ_ONLY,
              "Partitions of that topic when it is created; a broker publishes to those that it leads."),
    ConfigKey("metrics.listener", STRING, None, None, MEDIUM, READ_ONLY,
              "Where Prometheus reads the metrics over HTTP: host:port, the page is /metrics; unset: nowhere."),
    ConfigKey("thread.placement.enable", BOOLEAN, True, None, LOW, READ_ONLY,
              "Network threads and request handlers share a CPU while requests are small (Linux; with the interpreter lock only)."),
    ConfigKey("network.busy.poll.us", INT, 100, Between(0, 10_000), LOW, READ_ONLY,
              "A network thread looks so long for requests before it sleeps, while some come within that time; 0: not at all."),
    ConfigKey("ssl.handshake.timeout.ms", INT, 10_000, at_least(1), LOW, READ_ONLY,
              "A connection to a TLS listener whose handshake takes longer is closed."),
    ConfigKey("ssl.handshake.max.pending", INT, 1_000, at_least(1), LOW, READ_ONLY,
              "How many TLS handshakes a network thread has under way; one more closes the connection that has taken longest."),
)
# fmt: on
