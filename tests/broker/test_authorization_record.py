"""Who may do what, as Apache Kafka answered when tests/oracle was last run: every API and version, allowed and denied."""

from pathlib import Path

from tests.broker.authorization_record import guarded_broker, said
from tests.cases import case
from tests.oracle.authorization_matrix import recorded
from tests.oracle.authorization_samples import SAMPLES


def test_the_answers_are_those_that_were_written_down(tmp_path: Path) -> None:
    expected = recorded()
    assert expected.keys() == {sample.name for sample in SAMPLES}
    with guarded_broker(tmp_path) as (broker, guarded):
        for sample in SAMPLES:
            with case(sample=sample.name):
                assert said(broker, guarded, sample) == expected[sample.name]
