"""What clients without a quota notice of one that is held at its quota: their rates and latencies, with it and without, in turn.

    python -m benchmarks.quotas_others [--seconds 15] [--rounds 2]

The clients are those of ``tests.clients.steady``, one record in flight each. The one that is held is librdkafka
with a quota of 1 MB/s.
"""

import argparse
import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.scratch import scratch
from tests.clients import steady
from tests.clients.flows import command
from tests.oracle.scenarios_quotas import change
from tests.support.clients.served import BROKER_PYTHON, ServedBroker
from tests.support.oracle.talk import Talk
from tests.support.processes import start_tied
from twisted_kafka.protocol.messages.administration.quotas import OpData
from twisted_kafka.protocol.messages.administration.topics import CreatableTopic, CreateTopicsRequest

ROOT = Path(__file__).parents[1]
HELD = "held"
LIMIT = 1_000_000
BURST_S = 2.0
"""Then the quota of all windows is used up."""


@contextlib.contextmanager
def held(bootstrap: str) -> Iterator[None]:
    process: subprocess.Popen[bytes] = start_tied(command("confluent", "produce", bootstrap, HELD, HELD), cwd=ROOT)
    try:
        time.sleep(BURST_S)
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def create(talk: Talk, topic: str) -> None:
    """Create a topic of this very name."""
    answer = talk.ask(CreateTopicsRequest(topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=1)]), 4)
    assert not answer.topics[0].error_code, answer


def measure(what: str, bootstrap: str, seconds: float) -> None:
    processes = {
        client: start_tied(steady.command(client, bootstrap, client, seconds), stdout=subprocess.PIPE, cwd=ROOT, text=True)
        for client in steady.CLIENTS
    }
    for client, process in processes.items():
        seen = steady.Seen(*json.loads(process.communicate(timeout=seconds + 90)[0]))
        told = "" if seen.throttled_ms is None else f"throttled {seen.throttled_ms:.0f} ms"
        print(
            f"{what:22}{client:14}{seen.rate:8.0f}/s   p50 {seen.p50_ms:6.2f} ms   p99 {seen.p99_ms:6.2f} ms   {told}", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quotas_others", description=__doc__)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    print(f"this broker runs on {BROKER_PYTHON}; load {os.getloadavg()[0]:.1f}")
    with scratch() as directory, contextlib.ExitStack() as stack:
        broker = ServedBroker(directory / "data")
        stack.callback(broker.kill)
        broker.start()
        talk = Talk(broker.port, "quotas", b"admin")
        for topic in (HELD, *steady.CLIENTS):
            create(talk, topic)
        change(talk, 1, [("client-id", HELD)], OpData(key="producer_byte_rate", value=LIMIT))
        talk.close()
        for _ in range(options.rounds):
            measure("alone", broker.bootstrap, options.seconds)
            with held(broker.bootstrap):
                measure("beside one that waits", broker.bootstrap, options.seconds)


if __name__ == "__main__":
    main()
