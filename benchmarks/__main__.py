"""Measure this broker, and Apache Kafka in the same run if Java and Maven are installed: ``make bench``.

    python -m benchmarks [--only 'req:*'] [--kafka | --no-kafka] [--startup] [--rounds 3] [--seconds 3]

Requires gcc for the load generators, and librdkafka's headers (librdkafka-dev) for the scenarios of rdbench. The scenarios are
listed by `beside/bench.py --list`. The brokers are measured in turn over the loopback interface, with their data in a temporary
directory.
"""

import argparse
import contextlib
import os
import shlex
import sys
import tempfile
from pathlib import Path

from benchmarks.scratch import scratch
from tests.support.clients.clients import java_class_path
from tests.support.clients.served import ServedBroker
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.processes import start_tied

HERE = Path(__file__).resolve().parent
BUILD = Path(tempfile.gettempdir()) / "kafka-bench-build"
"""The directory of the compiled load generators, which are built once."""
DEFAULT = (
    "req:apiversions3:*,req:metadata1:*,req:produce_1x100:*,req:fetch_empty:*,"
    "produce:100B:acks=1:none:1p,produce:1000B:acks=1:none:1p,consume:100B:none:1p,consume:1000B:none:1p"
)


def run_tool(name: str, directory: Path, *arguments: str) -> int:
    """Run a program of ``beside`` with its temporary files below ``directory``."""
    environment = {**os.environ, "TMPDIR": str(directory)}
    tool = start_tied([sys.executable, str(HERE / "beside" / name), *arguments], cwd=HERE / "beside", env=environment)
    try:
        return tool.wait()
    finally:
        tool.kill()  # before the brokers, because it fails when they stop


def measure(options: argparse.Namespace, directory: Path) -> int:
    """Start the brokers and run bench.py on them."""
    with contextlib.ExitStack() as stack:
        ours = ServedBroker(directory / "ours", *options.override)
        stack.callback(ours.kill)
        ours.start()
        words = []
        if options.kafka:
            (directory / "kafka").mkdir()
            kafka = ApacheKafka(directory / "kafka")
            stack.callback(kafka.stop)
            kafka.start()
            words += ["--broker", f"kafka={kafka.bootstrap}", "--pid", f"kafka={kafka.broker_pid}"]
        assert ours.process is not None
        words += ["--broker", f"ours={ours.bootstrap}", "--pid", f"ours={ours.process.pid}", "--only", options.only]
        return run_tool(
            "bench.py",
            directory,
            *words,
            *("--rounds", str(options.rounds), "--seconds", str(options.seconds), "--warm", str(options.warm)),
            *("--build", str(BUILD)),
        )


def start_up(options: argparse.Namespace, directory: Path) -> int:
    """Time the start, the stop and the restarts of this broker."""
    data = directory / "started"
    broker = ServedBroker(data, *options.override)
    reset = f"ours=rm -rf {shlex.quote(str(data))}"
    words = [
        "--cmd",
        f"ours={shlex.join(broker.command())}",
        "--port",
        str(broker.port),
        "--reset",
        reset,
        "--n",
        str(options.rounds),
        "--restarts",
        "1",
    ]
    return run_tool("startup.py", directory, *words)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=DEFAULT, help="comma-separated patterns of scenario names")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--warm", type=float, default=3)
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="a setting of this broker")
    parser.add_argument(
        "--kafka", action=argparse.BooleanOptionalAction, default=None, help="also measure Apache Kafka (default: if possible)"
    )
    parser.add_argument("--startup", action="store_true", help="measure start, stop and restart instead")
    options = parser.parse_args()
    if options.kafka is None:
        options.kafka = not options.startup and java_class_path() is not None
    with scratch() as directory:
        return (start_up if options.startup else measure)(options, directory)


if __name__ == "__main__":
    sys.exit(main())
