"""The arguments of the command line, and the times that they may name."""

from __future__ import annotations

import argparse
import datetime
import re
from pathlib import Path

from twisted_kafka_spark.cells import DAY_S, GROUPABLE, HOUR_S, MINUTE_S

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_GRAINS = {"minute": MINUTE_S, "hour": HOUR_S, "day": DAY_S}


def duration_s(text: str) -> int:
    """Return the seconds of a duration such as 90s, 15m, 2h or 1d; raise ValueError."""
    found = re.fullmatch(r"(\d+)([smhd])", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a duration such as 90s, 15m, 2h or 1d")
    return int(found[1]) * _UNITS_S[found[2]]


def moment(text: str, now: datetime.datetime | None = None) -> str:
    """Return a moment as the field `time` is written.

    `text`: a date, a date and a time of day in UTC (2026-11-21T08:15), or a duration before now. Raises ValueError.
    """
    if not text:
        return ""
    if re.fullmatch(r"\d+[smhd]", text):
        at = (now or datetime.datetime.now(datetime.UTC)) - datetime.timedelta(seconds=duration_s(text))
    else:
        at = datetime.datetime.fromisoformat(text)
        at = at.replace(tzinfo=datetime.UTC) if at.tzinfo is None else at.astimezone(datetime.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S")


def utc_offset_s(text: str) -> int:
    """Return the seconds of an offset such as +02:00 or -0330; raise ValueError."""
    found = re.fullmatch(r"([+-])(\d\d):?(\d\d)", text)
    if found is None:
        raise ValueError(f"{text!r} is not an offset such as +02:00")
    seconds = int(found[2]) * 3600 + int(found[3]) * 60
    return -seconds if found[1] == "-" else seconds


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _group(text: str) -> list[str]:
    names = _names(text)
    for name in names:
        if name not in GROUPABLE:
            raise argparse.ArgumentTypeError(f"{name}: known are {', '.join(GROUPABLE)}")
    return names


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument("--master", default="", help="Spark's master; default: all cores of this machine")
    command.add_argument("--bootstrap-servers", default="", metavar="HOST:PORT", help="read the topic of a broker instead of files")
    command.add_argument("--topic", default="__access_log", help="the topic that --bootstrap-servers reads; default %(default)s")
    command.add_argument("--verbose", action="store_true", help="show Spark's own log")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    whole = argparse.ArgumentParser(
        prog="twisted_kafka_spark", description="Say who does what on a Kafka broker, from its request log."
    )
    commands = whole.add_subparsers(dest="command", required=True)
    _report(commands.add_parser("report", help="report on a period: HTML and JSON, a summary in the terminal"))
    _follow(commands.add_parser("follow", help="follow a log while it is written: rollups into Parquet, findings as they arise"))
    commands.add_parser("prepare", help="make Spark start faster on this machine: a cache of 160 MB, made once")
    demo = commands.add_parser("demo", help="write a made-up day with incidents")
    demo.add_argument("directory", type=Path, help="where the files go")
    demo.add_argument("--rows", type=int, default=300_000, help="about how many lines; default %(default)s")
    demo.add_argument("--topics", type=int, default=40, help="default %(default)s")
    demo.add_argument("--seed", type=int, default=1, help="default %(default)s")
    demo.add_argument("--quiet-day", action="store_true", help="without incidents")
    return whole


def _report(report: argparse.ArgumentParser) -> None:
    report.add_argument(
        "paths", nargs="*", metavar="PATH", help="access.log.dir, files or directories of a request log, or URLs of an object store"
    )
    report.add_argument(
        "--out", type=Path, default=Path("report.html"), help="the page to write; the JSON gets its name with .json"
    )
    report.add_argument("--rollup", default="", metavar="DIR", help="write the cells as Parquet too, for --merge")
    report.add_argument("--merge", action="store_true", help="the paths are rollups: report on all of them as one")
    report.add_argument(
        "--grain",
        type=_GRAINS.__getitem__,
        default=0,
        metavar="minute|hour|day",
        help="with --merge; default: what fits the period",
    )
    report.add_argument("--since", default="", help="a date, a date and time in UTC, or a duration before now such as 2h")
    report.add_argument("--until", default="", help="likewise")
    report.add_argument(
        "--filter", default="", metavar="CONDITION", help="only lines that fulfil this condition, SQL over the fields"
    )
    report.add_argument("--group-by", type=_group, default=[], metavar="FIELD,...", help="a table more: " + ", ".join(GROUPABLE))
    report.add_argument(
        "--fail-on", type=_names, default=[], metavar="FINDING,...", help="exit with 3 when one of these is found; any: all"
    )
    report.add_argument(
        "--utc-offset", type=utc_offset_s, default=0, metavar="+HH:MM", help="of the clock in Apache Kafka's log; default UTC"
    )
    report.add_argument("--quiet", action="store_true", help="no summary and no progress")
    _common(report)


def _follow(follow: argparse.ArgumentParser) -> None:
    follow.add_argument("directory", nargs="?", default="", help="access.log.dir, or the directory of a Kafka request log")
    follow.add_argument("--out", default="rollups", help="where the rollups go, as Parquet; default %(default)s")
    follow.add_argument("--checkpoint", default="", help="where the state is kept; default: _checkpoint in --out")
    follow.add_argument("--every", default="10s", metavar="DURATION", help="how often what is new is read; default %(default)s")
    follow.add_argument("--late", default="1m", metavar="DURATION", help="how late a line may come; default %(default)s")
    follow.add_argument("--findings-topic", default="", help="send findings to this topic of --bootstrap-servers as well")
    follow.add_argument("--once", action="store_true", help="read what is there and end")
    follow.add_argument("--utc-offset", type=utc_offset_s, default=0, metavar="+HH:MM", help="of the clock in Apache Kafka's log")
    _common(follow)
