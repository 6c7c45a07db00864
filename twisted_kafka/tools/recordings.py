"""``twisted-kafka record`` and ``replay``: write clients' requests to any Kafka to a file, and send them to another one."""

import argparse
import signal
import threading
from pathlib import Path

from twisted_kafka.client.connections.addresses import parse_address
from twisted_kafka.recording.recording import MAX_FILE_BYTES
from twisted_kafka.recording.recording_proxy import RecordingProxy
from twisted_kafka.recording.replay import Replay
from twisted_kafka.timing.clock import SystemClock


def add_record(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``record`` (``commands.Command``)."""
    parser.description = (
        f"{parser.description} Clients connect to this program. It replaces brokers' addresses in responses with its own, one port "
        "for each. Both sides speak plain text. Secrets are not written. It ends on SIGINT (ctrl-C) or SIGTERM."
    )
    parser.add_argument("file", metavar="FILE", help="a new file")
    parser.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:0", help="address for clients (default: a free port)")
    parser.add_argument("--to", metavar="HOST:PORT", required=True, help="the broker")
    parser.add_argument(
        "--max-mb", metavar="MB", type=int, default=MAX_FILE_BYTES >> 20, help="largest size of the file (%(default)s)"
    )
    parser.set_defaults(run=_record)


def add_replay(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``replay`` (``commands.Command``)."""
    parser.description = f"{parser.description} It needs a plain-text listener. The exit status is 1 if an answer differs."
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("address", metavar="HOST:PORT", help="the broker")
    parser.set_defaults(run=_replay)


def _record(options: argparse.Namespace) -> int:
    from twisted.internet.error import CannotListenError

    if not 1 <= options.max_mb <= MAX_FILE_BYTES >> 20:
        raise ValueError(f"--max-mb {options.max_mb}: expected 1 to {MAX_FILE_BYTES >> 20}")
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    proxy = RecordingProxy(options.to, options.file, listen=options.listen, max_bytes=options.max_mb << 20, is_new=True)
    try:
        proxy.start()
    except CannotListenError as error:
        Path(options.file).unlink()
        raise ValueError(f"cannot listen on {options.listen}: {error.socketError}") from None
    print(f"recording {proxy.bootstrap_servers}, in front of {options.to}", flush=True)
    ended.wait()
    proxy.stop()
    recording = proxy.recording
    print(f"{recording.written} requests of {proxy.connections} connections are in {recording.path}")
    if recording.dropped:
        print(f"{recording.dropped} more did not fit into {options.max_mb} MB")
    return 0


def _replay(options: argparse.Namespace) -> int:
    report = Replay(*parse_address(options.address), SystemClock()).run(options.file)
    print(report)
    return 1 if report.differences else 0
