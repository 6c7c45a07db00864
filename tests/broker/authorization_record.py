"""Asks this broker what tests/oracle/test_authorization.py asks Apache Kafka, and writes down what it says.

    python -m tests.broker.authorization_record

The comparison with Apache Kafka also compares the record, so that it can be tested without Java.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.oracle.authorization_matrix import (
    RECORD,
    Guarded,
    answers,
    digest,
    make_certificates,
    prepare,
    settings,
    standings,
)
from tests.support.oracle.authorization_samples import SAMPLES, Sample
from twisted_kafka import Broker
from twisted_kafka.broker.personas import persona_of
from twisted_kafka.tools.compare.preparation import warm

SERVED = persona_of("3.9").served
"""The versions of Apache Kafka 3.9, which was asked; this broker serves later ones, too."""


@contextmanager
def guarded_broker(folder: Path) -> Iterator[tuple[Broker, Guarded]]:
    """Run a broker with an authorizer and what the samples ask for."""
    make_certificates(folder)
    own = {key: str(value) for key, value in settings(folder).items()}
    own |= {"access.log.dir": str(folder / "access"), "broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"}
    with Broker(own, data_dir=folder / "data") as broker:
        plain, tls = (end_point.port for end_point in broker.listeners)
        guarded = Guarded(plain, tls, folder)
        warm(plain)
        prepare(guarded)
        yield broker, guarded


def said(broker: Broker, guarded: Guarded, sample: Sample) -> dict[str, dict[str, list[str]]]:
    """Return what is answered to a sample, by standing."""
    low, high = broker.supported_apis[sample.key]
    high = min(high, SERVED.get(sample.key, (low, high))[1])
    first, last = max(low, sample.versions[0]), min(high, sample.versions[1])
    versions = range(first, last + 1)
    return {each.name: digest(answers(guarded, sample, each, versions), first) for each in standings(sample)}


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, guarded_broker(Path(directory)) as (broker, guarded):
        found = {sample.name: said(broker, guarded, sample) for sample in SAMPLES}
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
