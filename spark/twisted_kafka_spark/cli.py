"""The command line: ``twisted-kafka report DIR --out report.html``, or ``python -m twisted_kafka_spark`` instead of the first.

Exit status: 0 success, 1 failure (with the reason in one line on standard error), 2 usage error, 3 success with a finding that
`--fail-on` names.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twisted_kafka_spark.arguments import PROGRAM, duration_s, moment, parser, whole_hours
from twisted_kafka_spark.findings.finding import SEVERITIES
from twisted_kafka_spark.records.conditions import check_condition
from twisted_kafka_spark.records.read import NoAccessLogError
from twisted_kafka_spark.report.page import as_html
from twisted_kafka_spark.report.sheets import as_csv
from twisted_kafka_spark.report.terminal import as_text
from twisted_kafka_spark.runtime import output, session
from twisted_kafka_spark.runtime.spark_errors import in_one_line

if TYPE_CHECKING:
    from twisted_kafka_spark.findings.rules import Rules

DONE, NOT_POSSIBLE, WRONG_USAGE, FOUND = 0, 1, 2, 3


def _say(text: str) -> None:
    """Print the result of finished work. The reader may stop early, like `head`."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(options: argparse.Namespace) -> int:
    from twisted_kafka_spark.findings.find import NAMES

    unknown = set(options.fail_on) - {*NAMES, *SEVERITIES, "any"}
    if unknown:
        allowed = f"must be any, {', '.join((*SEVERITIES, *NAMES))}"
        print(f"{options.program}: invalid --fail-on {', '.join(sorted(unknown))}: {allowed}", file=sys.stderr)
        return WRONG_USAGE
    output.check(options.out)
    if options.compare:
        options.until = options.until or "0s"
        if not options.since:
            print(f"{options.program}: --compare needs --since", file=sys.stderr)
            return WRONG_USAGE
    more = {"is_compared": options.compare, "group_by": options.group_by, "baseline": options.baseline}
    places: list[str] = []

    def work(spark: Any, job: Any) -> dict[str, Any]:
        from twisted_kafka_spark.pipeline.job import run

        document = run(spark, job)
        document["made_by"] = _made_by(options)
        places.extend(_write(spark, options, document))
        return document

    document = _computed(options, work, rollup_out=options.rollup, is_merge=options.merge, **more)
    _tell_kept(options, document["source"]["kept_hours"])
    if not options.quiet:
        _say(as_text(document, is_unicode="utf" in (sys.stdout.encoding or "").lower()))
        _say(" and ".join(places))
    return _status(document, options.fail_on)


def _made_by(options: argparse.Namespace) -> dict[str, str]:
    """Return the version of this program and the command, without the values of settings, which may be secret."""
    said = [f"{each.split('=')[0]}=..." if before == "--conf" else each for before, each in pairwise(["", *options.arguments])]
    said = [f"{each.split('=')[0]}=..." if each.startswith("--conf=") else each for each in said]
    return {"version": _version(), "command": shlex.join([options.program, *said])}


def _version() -> str:
    try:
        return version("twisted-kafka-spark")
    except PackageNotFoundError:  # a zip of the modules, as for spark-submit
        return "of unknown version"


def _write(spark: Any, options: argparse.Namespace, document: dict[str, Any]) -> Iterator[str]:
    """Write the files of a report; yield their places."""
    yield output.write(spark, options.out, as_html(document))
    yield output.write(spark, output.with_suffix(options.out, ".json"), json.dumps(document, indent=1, default=str) + "\n")
    if options.csv:
        folder = options.csv.rstrip("/")
        if not output.is_remote(folder):
            output.local(folder).mkdir(parents=True, exist_ok=True)
        for name, text in as_csv(document).items():
            output.write(spark, f"{folder}/{name}.csv", text)
        yield f"{folder}/*.csv"


def _tell_kept(options: argparse.Namespace, hours: Sequence[str]) -> None:
    """Print which hours of a rollup were not changed."""
    if hours:
        which = hours[0] if len(hours) == 1 else f"{len(hours)} hours from {hours[0]} to {hours[-1]}"
        print(f"{options.program}: kept {which}: the rollup has other lines, and some of these", file=sys.stderr)


def _rollup(options: argparse.Namespace) -> int:
    from twisted_kafka_spark.pipeline.job import roll_up
    from twisted_kafka_spark.pipeline.tables import Target

    target = None if options.format == "none" else Target(options.format, options.table)
    rolled = _computed(options, roll_up, rollup_out=options.out, rollup_source=options.source, tables=target)
    _tell_kept(options, rolled.written.kept)
    if not options.quiet:
        _say(f"rolled {rolled.lines.get('read', 0):,} new lines up into {options.out}")
        for reason, sample in rolled.samples.items():
            print(f"{options.program}: {rolled.lines[reason]:,} {reason} lines, such as {sample}", file=sys.stderr)
    return DONE


def _computed(options: argparse.Namespace, work: Callable[[Any, Any], Any], *, is_merge: bool = False, **more: Any) -> Any:
    """Start Spark and return what `work` returns for the job; `more`: fields of the job that only one command has."""
    from twisted_kafka_spark.progress import Progress
    from twisted_kafka_spark.records.read import find_sources, is_remote

    topic = None if is_merge else _topic(options, options.topic)
    is_elsewhere = any(is_remote(path) for path in options.paths) or session.may_have_other_default(options.conf)
    if topic is None and not is_merge and not is_elsewhere:
        find_sources(None, options.paths, with_open=not more["rollup_out"])  # fails before Spark takes seconds to start
    job = _job(options, topic=topic, is_merge=is_merge, **more)  # likewise
    with _spark(options) as spark, Progress(spark, is_wanted=not options.quiet):
        return work(spark, job)


@contextmanager
def _spark(options: argparse.Namespace, **more: Any) -> Iterator[Any]:
    """Start Spark, and stop it in the end; its errors become messages of one line."""
    with in_one_line(is_verbose=options.verbose):
        spark = session.start(options.master, conf=options.conf, is_verbose=options.verbose, more=_jars(options), **more)
        try:
            yield spark
        finally:
            spark.stop()


def _job(options: argparse.Namespace, **more: Any) -> Any:
    from twisted_kafka_spark.cells.fold import Folding
    from twisted_kafka_spark.pipeline.job import Job
    from twisted_kafka_spark.pipeline.rollup import Selection

    check_condition(options.filter)
    since, until = moment(options.since), moment(options.until)
    if since and until and since >= until:
        raise ValueError(f"--since must be before --until: {since} is not before {until}")
    if more.get("rollup_out"):
        since, until = whole_hours(since, until)
    return Job(
        paths=options.paths,
        folding=Folding(since=since, until=until, utc_offset_s=options.utc_offset),
        selection=Selection(options.filter),
        rules=_rules(options),
        **more,
    )


def _rules(options: argparse.Namespace) -> Rules:
    from twisted_kafka_spark.findings import rules

    path = getattr(options, "rules", None)
    return rules.Rules() if path is None else rules.read(path)


def _status(document: dict[str, Any], fail_on: Sequence[str]) -> int:
    severities = {name: SEVERITIES.index(name) for name in SEVERITIES}
    worst = max((severities[name] for name in fail_on if name in severities), default=-1)
    is_found = any(
        "any" in fail_on or found["name"] in fail_on or severities[found["severity"]] <= worst for found in document["findings"]
    )
    return FOUND if is_found else DONE


def _demo(options: argparse.Namespace) -> int:
    from twisted_kafka_spark.synthetic.day import Day
    from twisted_kafka_spark.synthetic.incidents import INCIDENTS

    day = Day(options.rows, () if options.quiet_day else INCIDENTS, topics=options.topics, seed=options.seed)
    _say(f"wrote {day.write(options.directory):,} lines to {options.directory}")
    return DONE


def _follow(options: argparse.Namespace) -> int:
    if options.findings_topic and not options.bootstrap_servers:
        raise ValueError("--findings-topic requires --bootstrap-servers")
    if not options.directory and not options.bootstrap_servers:
        raise ValueError("follow requires a directory or --bootstrap-servers")
    from twisted_kafka_spark.stream.tell import check_webhook

    topic, findings_topic = _topic(options, options.topic), _topic(options, options.findings_topic)
    late_s, trigger_s = duration_s(options.late), duration_s(options.every)
    known = _rules(options)
    check_webhook(options.webhook)
    keep_s = duration_s(options.keep) if options.keep else 0
    with _spark(options, application="access log follow") as spark:
        from twisted_kafka_spark.stream.follow import Following, follow
        from twisted_kafka_spark.stream.source import Source

        source = Source(options.directory, None if options.directory else topic, options.utc_offset)
        following = Following(
            source,
            options.out,
            checkpoint=options.checkpoint,
            late_s=late_s,
            trigger_s=trigger_s,
            keep_s=keep_s,
            is_once=options.once,
            findings_topic=findings_topic,
            as_json=options.json,
            webhook=options.webhook,
            rules=known,
        )
        follow(spark, following)
    return DONE


def _topic(options: argparse.Namespace, name: str) -> Any:
    """Return a topic of the brokers that the options name; None if they name none, or `name` is empty."""
    from twisted_kafka_spark.records.topic import Topic, client_properties

    if not options.bootstrap_servers or not name:
        return None
    properties = client_properties(options.command_config) if options.command_config is not None else {}
    return Topic(options.bootstrap_servers, name, properties)


def _jars(options: argparse.Namespace) -> dict[str, str]:
    """Return the settings for the classes that Spark needs apart from its own: for a topic, those of its connector for Kafka."""
    from twisted_kafka_spark.records.topic import package

    if options.jars:
        return {"spark.jars": options.jars}
    return {"spark.jars.packages": package()} if options.bootstrap_servers else {}


def _prepare(options: argparse.Namespace) -> int:
    from twisted_kafka_spark.prepare import prepare

    if session.is_submitted():
        raise ValueError("prepare does not work with spark-submit, only with Spark on this machine")
    _say(f"{prepare()} was written; Spark will start faster")
    return DONE


def _replace(path: Path, lines: Iterable[str]) -> None:
    """Replace the file at ``path`` atomically, once all lines are written."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False) as new:
        try:
            new.writelines(f"{line}\n" for line in lines)
        except BaseException:
            os.unlink(new.name)
            raise
    os.chmod(new.name, 0o644)
    os.replace(new.name, path)


def _audit(options: argparse.Namespace) -> int:
    """Write events, one JSON object in each line; a reader of standard output may stop early."""
    from twisted_kafka_spark.records.pieces import Piece, file_size, local_path
    from twisted_kafka_spark.records.read import find_sources, is_remote
    from twisted_kafka_spark.report import audit

    if any(is_remote(path) for path in options.paths):
        raise ValueError("audit reads files of this machine only; copy them first")
    since, until = moment(options.since), moment(options.until)
    sources = find_sources(None, options.paths, since, until)
    files = sorted(file_size(local_path(path)) for path in (*sources.lines, *sources.parquet))
    found = audit.records((Piece(path, 0, size) for path, size in files), options.utc_offset, since, until, has_all=options.all)
    lines = (json.dumps(audit.event(record, options.form, _version()), default=str) for record in found)
    if options.out is not None:
        _replace(options.out, lines)
        return DONE
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE


_COMMANDS = {"audit": _audit, "prepare": _prepare, "report": _report, "rollup": _rollup, "demo": _demo, "follow": _follow}


def main(arguments: Sequence[str] | None = None, program: str = PROGRAM) -> int:
    """Run the command and return its exit status. Messages begin with the name of the program."""
    options = parser(program).parse_args(arguments)
    options.program = program
    options.arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _COMMANDS[options.command](options)
    except (NoAccessLogError, RuntimeError, ValueError, OSError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return NOT_POSSIBLE
    except KeyboardInterrupt:
        return NOT_POSSIBLE
