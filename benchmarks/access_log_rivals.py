"""What other programs do with the same access log: the sources of the programs that `access_log_report` runs beside the report.

`PART` is what one asks of a log: requests, errors, bytes and p99 by minute, API and client, and bytes by topic.
`TABLES` are the cells of a report, each kind by the same keys (`cells/kinds.py`), without what comes after them.
"""

from twisted_kafka_spark.cells.histogram import COARSE, GROWTH
from twisted_kafka_spark.cells.kinds import CLIENT, SOFTWARE, TIMES
from twisted_kafka_spark.cells.security import PLAIN_PROTOCOLS
from twisted_kafka_spark.records.kafka_names import WAITS_BY_DESIGN
from twisted_kafka_spark.thresholds import STORM_APIS

_COLUMNS = {
    **dict.fromkeys(("time", "api", "error", "listener", "protocol", "connection", *CLIENT, *SOFTWARE), "VARCHAR"),
    **dict.fromkeys(("node", "version", "request_bytes", "response_bytes", *TIMES), "BIGINT"),
    "topics": "STRUCT(topic VARCHAR, partitions INT, records BIGINT, bytes BIGINT, error VARCHAR)[]",
}
_OF_PART = ("time", "api", "client_id", "error", "request_bytes", "response_bytes", "total_us", "topics")
_DUCKDB = """
import duckdb, sys
log, form = sys.argv[1:3]
columns = COLUMNS
source = f"read_parquet('{log}/*/*/*.parquet')" if form == "parquet" else (
    f"read_json('{log}/*/*/*.jsonl', format='newline_delimited', columns={columns})")
c = duckdb.connect()
c.execute(f"CREATE TABLE log AS SELECT CHOSEN FROM {source}")
for query in QUERIES:
    c.execute(query).fetchall()
"""


def _duckdb(columns: tuple[str, ...], more: str, queries: list[str]) -> str:
    declared = repr({name: _COLUMNS[name] for name in columns})
    chosen = ", ".join(["time[:16] AS minute", *(name for name in columns if name != "time")]) + more
    return _DUCKDB.replace("COLUMNS", declared).replace("CHOSEN", chosen).replace("QUERIES", repr(queries))


def _tables() -> list[str]:
    """Return a query for each kind of cell."""
    hour, client, software = "minute[:13]", ", ".join(CLIENT), ", ".join(SOFTWARE)
    times = ", ".join(f"sum({name})" for name in TIMES)
    amounts = ("request_bytes", "response_bytes", "total_us", "throttle_us")
    busy = "count(*), count(error), count_if(throttle_us > 0), " + ", ".join(f"sum({name})" for name in amounts)
    ends = "epoch_us(min(began)), epoch_us(max(began))"
    coarse = f"bucket(served_us) // {COARSE}"
    grouped = {
        f"minute, api, error, {busy}, {times}, count_if(moved = 0), sum(moved), max(total_us)": "true",
        f"minute, api, {coarse}, count(*)": "true",
        **{f"{hour}, api, bucket({name}), count(*)": "true" for name in (*TIMES, "served_us")},
        f"{hour}, node, listener, protocol, {busy}": "true",
        f"{hour}, api, version, count(*)": "true",
        f"{hour}, {software}, {busy}": "true",
        f"{hour}, principal, {busy}": "true",
        f"{hour}, {client}, {software}, api, {busy}, count_if(moved = 0), sum(moved)": "true",
        f"{hour}, {client}, api, {coarse}, count(*), sum(total_us)": "true",
        f"minute, {client}, api, count(*), sum(throttle_us)": f"api IN {tuple(STORM_APIS)} OR throttle_us > 0",
        f"minute, {client}, count(*)": "api IN ('ApiVersions', 'SaslHandshake') AND error IS NULL",
        f"{hour}, api, error, {client}, count(*)": "error IS NOT NULL",
        f"{hour}, listener, protocol, {client}, count(*)": f"protocol IN {PLAIN_PROTOCOLS}",
        f"{hour}, connection, {client}, {busy}, {ends}": "true",
    }
    served = f"total_us - throttle_us - CASE WHEN api IN {tuple(WAITS_BY_DESIGN)} THEN remote_us ELSE 0 END"
    of_topics = (
        f"SELECT {hour}, t.topic, api, count(*), sum(t.records), sum(t.bytes), max(t.partitions) FROM "
        "(SELECT minute, api, unnest(topics) AS t FROM log) GROUP BY ALL"
    )
    return [
        f"CREATE MACRO bucket(us) AS CAST(floor(ln(greatest(us, 1)) / ln({GROWTH})) AS INT)",
        f"CREATE VIEW timed AS SELECT *, {served} AS served_us, coalesce(list_sum([t.bytes FOR t IN topics]), 0) AS moved FROM log",
        *(f"SELECT {columns} FROM timed WHERE {condition} GROUP BY ALL" for columns, condition in grouped.items()),
        of_topics,
        of_topics.replace("t.topic, api", "t.topic, api, t.error").replace(") GROUP", ") WHERE t.error IS NOT NULL GROUP"),
    ]


DUCKDB_PART = _duckdb(
    _OF_PART,
    "",
    [
        "SELECT minute, api, client_id, count(*), count(error), sum(request_bytes), sum(response_bytes), "
        "quantile_cont(total_us, 0.99) FROM log GROUP BY ALL",
        "SELECT t.topic, sum(t.bytes) FROM (SELECT unnest(topics) AS t FROM log) GROUP BY ALL",
    ],
)
DUCKDB_TABLES = _duckdb(tuple(_COLUMNS), ", CAST(time AS TIMESTAMP) AS began", _tables())
POLARS_PART = """
import polars as pl, sys
log = sys.argv[1]
frame = pl.scan_parquet(f"{log}/*/*/*.parquet") if sys.argv[2] == "parquet" else pl.scan_ndjson(f"{log}/*/*/*.jsonl")
by = [pl.col("time").str.slice(0, 16).alias("minute"), "api", "client_id"]
one = frame.group_by(by).agg(pl.len(), pl.col("error").count(), pl.col("request_bytes", "response_bytes").sum(),
                             pl.col("total_us").quantile(0.99))
two = frame.select(pl.col("topics").explode()).unnest("topics").group_by("topic").agg(pl.col("bytes").sum())
pl.collect_all([one, two])
"""
