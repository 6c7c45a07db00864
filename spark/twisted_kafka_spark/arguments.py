"""The command-line arguments, and the parsing of times and durations in them."""

from __future__ import annotations

import argparse
import datetime
import re
from pathlib import Path

from twisted_kafka_spark.cells.kinds import GROUPABLE
from twisted_kafka_spark.choices import EVENT_FORMATS, SOURCE, TABLE_FORMATS

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def duration_s(text: str) -> int:
    """Return the seconds of a duration such as 90s, 15m, 2h or 1d; raise ValueError for an invalid one."""
    found = re.fullmatch(r"(\d+)([smhd])", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a duration such as 90s, 15m, 2h or 1d")
    return int(found[1]) * _UNITS_S[found[2]]


def moment(text: str, now: datetime.datetime | None = None) -> str:
    """Return a time in the format of the field `time`.

    `text`: a date, a date with a time in UTC (2026-11-21T08:15), or a duration before now. Raises ValueError.
    """
    if not text:
        return ""
    if re.fullmatch(r"\d+[smhd]", text):
        at = (now or datetime.datetime.now(datetime.UTC)) - datetime.timedelta(seconds=duration_s(text))
    else:
        try:
            at = datetime.datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a time such as 2026-11-21T08:15, a date, or a duration such as 2h") from None
        at = at.replace(tzinfo=datetime.UTC) if at.tzinfo is None else at.astimezone(datetime.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S")


def whole_hours(since: str, until: str) -> tuple[str, str]:
    """Return a period, in the format of the field `time`, widened to whole hours; an end that is empty stays so."""
    if since:
        since = f"{since[:13]}:00:00"
    if until and not until.endswith(":00:00"):
        hour = datetime.datetime.fromisoformat(f"{until[:13]}:00:00") + datetime.timedelta(hours=1)
        until = hour.strftime("%Y-%m-%dT%H:%M:%S")
    return since, until


def utc_offset_s(text: str) -> int:
    """Return the seconds of an offset such as +02:00 or -0330; raise ValueError for an invalid one."""
    found = re.fullmatch(r"([+-])(\d\d):?(\d\d)", text)
    if found is None:
        raise ValueError(f"{text!r} is not an offset such as +02:00")
    seconds = int(found[2]) * 3600 + int(found[3]) * 60
    return -seconds if found[1] == "-" else seconds


def _source_name(text: str) -> str:
    if not re.fullmatch(r"[\w-]+", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"invalid name {text!r}: must consist of letters, digits, _ and -")
    return text


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _group(text: str) -> list[str]:
    names = _names(text)
    for name in names:
        if name not in GROUPABLE:
            raise argparse.ArgumentTypeError(f"invalid field {name}: must be one of {', '.join(GROUPABLE)}")
    return names


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--master", default="", help="Spark master; default: the one in spark-defaults.conf, or all cores of this machine"
    )
    command.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark, such as spark.executor.memory=4g"
    )
    command.add_argument(
        "--bootstrap-servers", default="", metavar="HOST:PORT", help="read a topic of this broker instead of files"
    )
    command.add_argument("--topic", default="__access_log", help="the topic to read with --bootstrap-servers; default %(default)s")
    command.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="file with properties of Kafka's clients, for example for TLS and SASL",
    )
    command.add_argument(
        "--jars",
        default="",
        metavar="FILE,...",
        help="jars for Spark, instead of a download of its connector for Kafka",
    )
    command.add_argument("--verbose", action="store_true", help="show Spark's log")


PROGRAM = "twisted_kafka_spark"
_RULES = "a TOML file of thresholds, muted findings and owners"


def parser(program: str = PROGRAM) -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    whole = argparse.ArgumentParser(prog=program, description="Report who does what on a Kafka broker, from its request log.")
    commands = whole.add_subparsers(dest="command", required=True)
    _report(commands.add_parser("report", help="report on a period: HTML, JSON, and a summary on the terminal"))
    _follow(commands.add_parser("follow", help="follow a log while it is written: Parquet rollups, and findings as they occur"))
    _rollup(commands.add_parser("rollup", help="aggregate a log into rollups, from which report --merge makes reports"))
    _audit(commands.add_parser("audit", help="write logins, refusals and changes as OCSF or CloudEvents, without Spark"))
    commands.add_parser("prepare", help="make Spark start faster on this machine: creates a cache of 160 MB once")
    demo = commands.add_parser("demo", help="write a synthetic day with incidents")
    demo.add_argument("directory", type=Path, help="the directory for the files")
    demo.add_argument("--rows", type=int, default=300_000, help="approximate number of lines; default %(default)s")
    demo.add_argument("--topics", type=int, default=40, help="number of topics; default %(default)s")
    demo.add_argument("--seed", type=int, default=1, help="seed of the random numbers; default %(default)s")
    demo.add_argument("--quiet-day", action="store_true", help="without incidents")
    return whole


def _source(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "paths", nargs="*", metavar="PATH", help="access.log.dir, files or directories of request logs, or URLs of an object store"
    )
    command.add_argument("--since", default="", help="start: a date, a date and time in UTC, or a duration before now such as 2h")
    command.add_argument("--until", default="", help="end, in the same format")
    command.add_argument("--filter", default="", metavar="CONDITION", help="select lines with a SQL condition on the fields")
    command.add_argument(
        "--utc-offset",
        type=utc_offset_s,
        default=0,
        metavar="+HH:MM",
        help="UTC offset of the times in Apache Kafka's log; default UTC",
    )


def _report(report: argparse.ArgumentParser) -> None:
    _source(report)
    report.add_argument(
        "--out", default="report.html", help="the page to write, a path or a URL; the JSON has the same name with .json"
    )
    report.add_argument(
        "--csv", default="", metavar="DIR", help="also write each table of the page as CSV to this directory or URL"
    )
    report.add_argument("--rollup", default="", metavar="DIR", help="also write the rollup as Parquet, for --merge")
    report.add_argument("--merge", action="store_true", help="the paths are rollups: merge them into one report")
    report.add_argument(
        "--group-by", type=_group, default=[], metavar="FIELD,...", help="add a table grouped by: " + ", ".join(GROUPABLE)
    )
    report.add_argument(
        "--compare",
        action="store_true",
        help="compare with the preceding period of this length; needs --since, and reads both",
    )
    report.add_argument(
        "--fail-on",
        type=_names,
        default=[],
        metavar="FINDING,...",
        help="exit with status 3 if one of these is found: names, severities (critical, or warning and worse), or any",
    )
    report.add_argument("--rules", type=Path, metavar="FILE", help=_RULES)
    report.add_argument(
        "--baseline",
        action="append",
        default=[],
        metavar="DIR",
        help="rollups of earlier days: also find who is new, and hours unlike the same hours of other weeks",
    )
    report.add_argument("--quiet", action="store_true", help="print no summary and no progress")
    _common(report)


def _rollup(rollup: argparse.ArgumentParser) -> None:
    _source(rollup)
    rollup.add_argument("--out", default="rollups", metavar="DIR", help="the directory for the rollups; default %(default)s")
    rollup.add_argument(
        "--source",
        type=_source_name,
        default=SOURCE,
        metavar="NAME",
        help="name of this log, if several logs (for example of several brokers) go into one directory; its hours are replaced",
    )
    rollup.add_argument(
        "--format",
        choices=(*TABLE_FORMATS, "none"),
        default=TABLE_FORMATS[0],
        help="form of the tables beside the rollup; delta and iceberg need their packages; default %(default)s",
    )
    rollup.add_argument(
        "--table", default="", metavar="NAMESPACE", help="write the tables into this namespace of a catalog, such as lake.kafka"
    )
    rollup.add_argument("--quiet", action="store_true", help="print nothing")
    _common(rollup)


def _audit(command: argparse.ArgumentParser) -> None:
    command.add_argument("paths", nargs="+", help="access.log.dir, a Kafka request log, or files of them, on this machine")
    command.add_argument(
        "--as", dest="form", choices=EVENT_FORMATS, default=EVENT_FORMATS[0], help="the events' format; default %(default)s"
    )
    command.add_argument("--out", type=Path, metavar="FILE", help="the file to write; default: standard output")
    command.add_argument("--all", action="store_true", help="an event for each request, not only for logins, refusals and changes")
    command.add_argument("--since", default="", help="begin: a date, a time in UTC, or a duration before now such as 2h")
    command.add_argument("--until", default="", help="end, in the same format")
    command.add_argument(
        "--utc-offset", type=utc_offset_s, default=0, metavar="+HH:MM", help="UTC offset of the times in Apache Kafka's log"
    )


def _follow(follow: argparse.ArgumentParser) -> None:
    follow.add_argument(
        "directory",
        nargs="?",
        default="",
        help="access.log.dir, the directory of a Kafka request log, or the URL of complete files",
    )
    follow.add_argument("--out", default="rollups", help="the directory for the Parquet rollups; default %(default)s")
    follow.add_argument("--checkpoint", default="", help="the directory for the state; default: _checkpoint in --out")
    follow.add_argument("--every", default="10s", metavar="DURATION", help="interval between batches; default %(default)s")
    follow.add_argument("--late", default="1m", metavar="DURATION", help="how late lines may be for findings; default %(default)s")
    follow.add_argument("--keep", default="", metavar="DURATION", help="delete hours of this age, such as 90d; default: never")
    follow.add_argument("--findings-topic", default="", help="also send findings to this topic of --bootstrap-servers")
    follow.add_argument("--json", action="store_true", help="print each finding as a JSON object in one line")
    follow.add_argument("--webhook", default="", metavar="URL", help="also send each finding as JSON to this URL, by POST")
    follow.add_argument("--rules", type=Path, metavar="FILE", help=_RULES)
    follow.add_argument("--once", action="store_true", help="read all existing lines and exit")
    follow.add_argument(
        "--utc-offset", type=utc_offset_s, default=0, metavar="+HH:MM", help="UTC offset of the times in Apache Kafka's log"
    )
    _common(follow)
