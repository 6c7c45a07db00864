"""Store what Apache Kafka 3.9.2 answers to the scenarios, for `twisted-kafka compare`: python -m tests.oracle.store_answers."""

import tempfile
from pathlib import Path

from tests.oracle.versions import KRAFT_ONLY
from tests.support.oracle.apache_kafka import ApacheKafka
from tests.support.oracle.compared import BOTH_PROTOCOLS, running
from twisted_kafka.tools.compare.answers import as_stored
from twisted_kafka.tools.compare.comparison import Address, common_versions, converse
from twisted_kafka.tools.compare.preparation import SETTINGS, told_versions
from twisted_kafka.tools.compare.scenarios import scenarios_of_kafka_3
from twisted_kafka.tools.compare.stored import FILE, Answers, StoredAnswers
from twisted_kafka.tools.compare.talk import LOCAL, TIMEOUT_S


def answers_of(port: int, *, kraft: bool) -> Answers:
    """Return the answers of a running Apache Kafka to the scenarios that are compared with it."""
    told = told_versions(port)
    found: Answers = {}
    for scenario in scenarios_of_kafka_3():
        if (scenario.request.KEY in KRAFT_ONLY) == kraft:
            for version in common_versions(scenario, told):
                said = converse(scenario, version, Address(LOCAL, port), TIMEOUT_S)
                assert said.stopped is None, f"{scenario.name} v{version}: {said.stopped}"
                found[f"{scenario.name}.{version}"] = [(request, as_stored(answer)) for request, answer in said.answers]
    return found


def main() -> None:
    found: Answers = {}
    with tempfile.TemporaryDirectory() as directory:
        for kraft in (False, True):
            settings = SETTINGS | BOTH_PROTOCOLS if kraft else SETTINGS
            broker = ApacheKafka(Path(directory) / str(kraft), kraft=kraft, **settings)  # type: ignore[arg-type]
            with running(broker):
                found |= answers_of(broker.port, kraft=kraft)
    stored = StoredAnswers(found)
    stored.save()
    print(f"{len(stored):,} answers are in {FILE}, {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
