"""Keys that Apache Kafka does not have: the access log, metrics over HTTP, limits of TLS handshakes and of SASL."""

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

EXCLUDABLE_FIELDS = (
    *("listener", "protocol", "connection", "principal", "client_id", "software", "software_version"),
    *("transactional_id", "group_id", "member_id"),
)
"""Fields of the access log that can be excluded: those about the client and its connection."""
HASHABLE_FIELDS = ("connection", "principal", "client_id", "transactional_id", "group_id", "member_id")

# A table with two lines per key: the declaration and the documentation. The formatter would break it up.
# fmt: off
KEYS: tuple[ConfigKey, ...] = (
    ConfigKey("access.log.enable", BOOLEAN, True, None, MEDIUM, READ_ONLY,
              "Write a line about every completed request, if access.log.dir is known."),
    ConfigKey("access.log.dir", STRING, None, None, MEDIUM, READ_ONLY,
              "Directory of the access log; unset: access/ in twistd's data directory, and no access log for an embedded broker."),
    ConfigKey("access.log.queue.size", INT, 100_000, at_least(1), LOW, READ_ONLY,
              "Maximum number of lines that wait to be written; further ones are dropped and counted."),
    ConfigKey("access.log.write.interval.ms", INT, 200, at_least(1), LOW, READ_ONLY,
              "Interval at which waiting lines are written to the file."),
    ConfigKey("access.log.roll.bytes", LONG, 268_435_456, at_least(1024), LOW, READ_ONLY,
              "Size at which the access log rolls to a new file."),
    ConfigKey("access.log.roll.ms", LONG, 300_000, at_least(1000), LOW, READ_ONLY,
              "Age at which the access log rolls to a new file; it also rolls at the end of each hour."),
    ConfigKey("access.log.max.topics", INT, 100, at_least(0), LOW, READ_ONLY,
              "Maximum number of topics in a line, and of other resources; the line has the number of omitted ones."),
    ConfigKey("access.log.max.partitions", INT, 20, at_least(0), LOW, READ_ONLY,
              "Maximum number of partition ids per topic in a line; the line has the number of all partitions."),
    ConfigKey("access.log.archive.format", STRING, "jsonl", OneOf(("jsonl", "zstd", "parquet")), LOW, READ_ONLY,
              "Format of closed files: jsonl as written, zstd compressed, or parquet; converted a minute after closing."),
    ConfigKey("access.log.retention.hours", INT, 168, at_least(-1), MEDIUM, READ_ONLY,
              "Age at which a closed file is deleted; -1: never."),
    ConfigKey("access.log.retention.bytes", LONG, -1, at_least(-1), MEDIUM, READ_ONLY,
              "The oldest closed files are deleted when all together exceed this size; -1: no limit."),
    ConfigKey("access.log.sample.rate", DOUBLE, 1.0, Between(0.0001, 1.0), LOW, READ_ONLY,
              "Fraction of the requests that get a line, rounded to one in N; failed and slow requests always get one."),
    ConfigKey("access.log.sample.slow.ms", INT, 100, at_least(0), LOW, READ_ONLY,
              "A request that takes this long always gets a line; time that fetches and joins wait by design does not count."),
    ConfigKey("access.log.fields.exclude", LIST, (), EachOf(EXCLUDABLE_FIELDS), LOW, READ_ONLY,
              "Fields that are excluded from the lines."),
    ConfigKey("access.log.fields.hash", LIST, (), EachOf(HASHABLE_FIELDS), LOW, READ_ONLY,
              "Fields that are replaced with a keyed hash; of connection, the client's address is."),
    ConfigKey("access.log.hash.key", PASSWORD, None, None, LOW, READ_ONLY,
              "Key of the hashes, which should be the same on all brokers; unset: random at each start."),
    ConfigKey("access.log.topic.enable", BOOLEAN, False, None, MEDIUM, READ_ONLY,
              "Also publish the lines to the topic __access_log."),
    ConfigKey("access.log.topic.num.partitions", INT, 1, at_least(1), LOW, READ_ONLY,
              "Partitions of that topic when it is created; a broker publishes to the partitions that it leads."),
    ConfigKey("metrics.listener", STRING, None, None, MEDIUM, READ_ONLY,
              "Address host:port at which Prometheus scrapes /metrics; unset: no HTTP listener for metrics."),
    ConfigKey("ssl.handshake.timeout.ms", INT, 10_000, at_least(1), LOW, READ_ONLY,
              "Timeout of TLS handshakes, after which the connection is closed."),
    ConfigKey("ssl.handshake.max.pending", INT, 1_000, at_least(1), LOW, READ_ONLY,
              "Maximum number of TLS handshakes in progress per network thread; a further one closes the oldest."),
    ConfigKey("sasl.server.authentication.timeout.ms", INT, 30_000, at_least(1), LOW, READ_ONLY,
              "Time from the connection to the end of its SASL authentication, after which it is closed."),
    ConfigKey("sasl.server.authentication.max.pending", INT, 1_000, at_least(1), LOW, READ_ONLY,
              "Maximum number of connections per network thread that have not authenticated; a further one closes the oldest."),
)
# fmt: on
